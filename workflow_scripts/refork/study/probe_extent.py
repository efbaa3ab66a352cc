"""How much a probe of an engine runs, known before it runs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProbeExtent:
    """How much a probe runs: questions, rollouts that are compared, tokens of each at most.

    Half a minute of a small model on one core.
    """

    questions: int = 4
    rollouts: int = 16
    max_tokens: int = 24

    def each(self, questions: int) -> int:
        """Count the rollouts that are compared of each of so many questions."""
        return max(1, self.rollouts // questions)

    def filled(self, questions: int, batch_rows: int) -> int:
        """Count the rollouts of each question, with those that fill the batch."""
        return max(self.each(questions), -(-batch_rows // questions))

    def demand(self, questions: int, batch_rows: int, keeps_states: bool) -> tuple[int, int]:
        """Bound what a probe asks of an engine: requests, and generated tokens.

        Parameters
        ----------
        questions
            Of the study.
        batch_rows
            Rows of the engine.
        keeps_states
            Whether its decode-time states are snapshots, from which it resumes too.
        """
        chosen = min(self.questions, questions)
        if not chosen:
            return 0, 0
        compared, group = chosen * self.each(chosen), chosen * self.filled(chosen, batch_rows)
        half, quarter = -(-compared // 2), -(-compared // 4)
        whole = group + quarter + group + half  # at first, alone, in another order, among fewer
        middle = half + half + (compared if keeps_states else 0)  # replayed, re-fed, resumed
        left = self.max_tokens - self.max_tokens // 2 - 1  # behind the middle and a forced token
        return whole + middle, whole * self.max_tokens + middle * left
