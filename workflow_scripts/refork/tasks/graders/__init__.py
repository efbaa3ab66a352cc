"""Graders: completion → outcome, pure functions with timeouts."""

from refork.tasks.graders.grading import OTHER, TRUNCATED, GradingSettings, grade

__all__ = ["OTHER", "TRUNCATED", "GradingSettings", "grade"]
