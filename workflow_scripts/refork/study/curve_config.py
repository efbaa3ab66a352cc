"""The config sections of outcome curves: where they are sampled, and how they are smoothed."""

from typing import Annotated, Literal

from pydantic import Field

from refork.study.keys import Positive, Probability, Section, Temperature, Whole, key


class Curves(Section):
    """Where outcome curves are sampled."""

    questions: Whole | None = key(
        0, "the first so many questions get outcome curves; 0: none, null: all"
    )
    rollouts: Positive = key(1, "rollouts of each that get one, the first ones")
    grid: Literal["tokens", "sentences"] = key(
        "tokens", "tokens: every `stride` tokens; sentences: the first token of each"
    )
    stride: Positive = key(1, "tokens from one position of the grid to the next")
    branches: Literal["mixture", "each"] = key(
        "mixture",
        "mixture: a draw's branch is drawn by its probability; each: every branch has its draws",
    )
    continuations: Positive = key(30, "S, draws a position (mixture) or a branch (each)")
    draw_block: Positive = key(10, "draws in one job; raising S samples only new blocks")
    min_probability: Annotated[float, Field(gt=0, lt=1)] = key(
        0.05, "a token less probable is no branch, unless it is the rollout's own"
    )
    max_branches: Annotated[int, Field(ge=1, le=20)] = key(
        10, "branches of a position at most, of those that rollouts.top_logprobs recorded"
    )
    skip: bool = key(
        True, "no draws where only the rollout's own token may come and the next one is sampled"
    )
    state: Literal["exact", "snapshot", "decode_replay", "prefill"] = key(
        "exact", "how the state at a position is reached, as of a pass"
    )
    temperature: Temperature = key(0.7, "of sampling; 0: greedy")
    top_p: Probability = key(0.95, "draw from the fewest tokens that hold this mass; 1: all")
    top_k: Whole = key(0, "draw from this many of the most probable tokens; 0: all")
    max_tokens: Positive = key(400, "generated tokens at most")


class Smoothing(Section):
    """How outcome curves are smoothed."""

    estimator: str = key(
        "forkhmm", "estimator, its hyper-parameters behind colons; auto: the best of `candidates`"
    )
    candidates: list[str] = key(
        ["forkhmm", "full", "kernel", "segment", "raw"], "estimators scored by held-out draws"
    )
    folds: Annotated[int, Field(ge=2)] = key(5, "of the cross-validation")
    level: Annotated[float, Field(gt=0, lt=1)] = key(0.8, "of the intervals")
    epsilon: list[Annotated[float, Field(gt=0, lt=1)]] = key(
        [0.1, 0.15, 0.2], "total variation over which a step is a fork"
    )
    fork_probability: Annotated[float, Field(gt=0, le=1)] = key(
        0.5, "from which a fork is reported"
    )
    curves_drawn: Annotated[int, Field(ge=10)] = key(
        400, "curves drawn from the posterior, for intervals and forks"
    )
