"""Graders: completion → outcome, pure functions with timeouts."""

from refork.tasks.graders.grading import GradingSettings, grade
from refork.tasks.questions import OTHER, TRUNCATED

__all__ = ["OTHER", "TRUNCATED", "GradingSettings", "grade"]
