"""The Arrow schema of every table: the one place where a column is named.

A position is the absolute index of a token in prompt + generated tokens, counted from 0. Token ids
are int32 and never re-encoded from text. Log-probabilities are raw: natural logarithms of the
model's own distribution at temperature 1, before top-p and top-k.
"""

from typing import TypeAlias

import pyarrow as pa

TOKENS = pa.list_(pa.int32())
LOGPROBS = pa.list_(pa.float32())

ARMS = ("actual", "alt")
"""What is forced at a pivot: the token that the rollout drew, or the alternative."""
CURVE = "curve"
"""Pass whose continuations are the draws of outcome curves."""
BRANCH = "branch-"
"""What the arm of such a continuation starts with; the number of its branch follows."""
RolloutKey: TypeAlias = tuple[str, int]
"""Question id and number of a rollout."""


def _column(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _optional(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=True)


ROLLOUT_KEY = (_column("question_id", pa.string()), _column("rollout", pa.int32()))
PIVOT_KEY = (*ROLLOUT_KEY, _column("position", pa.int32()))

QUESTIONS = pa.schema(
    [
        *ROLLOUT_KEY,  # one row a rollout, for choices may be permuted per rollout
        _column("kind", pa.string()),  # choice, number, expression or text
        _column("question", pa.string()),
        _optional("choices", pa.list_(pa.string())),  # in the order shown
        _column("answer", pa.string()),  # the right outcome's label; a letter for a choice
        _column("messages", pa.string()),  # JSON list of {role, content}
        _column("prompt_token_ids", TOKENS),
    ]
)

ROLLOUTS = pa.schema(
    [
        *ROLLOUT_KEY,
        _column("seed", pa.uint64()),
        _column("prompt_token_ids", TOKENS),
        _column("token_ids", TOKENS),  # generated, the end token included
        _column("logprobs", LOGPROBS),  # of the generated tokens
        _column("top_token_ids", pa.list_(TOKENS)),  # per generated token, best first
        _column("top_logprobs", pa.list_(LOGPROBS)),
        _column("finish_reason", pa.string()),  # stop or length
    ]
)

PIVOTS = pa.schema(
    [
        *PIVOT_KEY,  # the position of the token that is forced
        _column("margin", pa.float32()),  # nat between the two most probable tokens
        _column("actual_token", pa.int32()),
        _column("alt_token", pa.int32()),
        _column("actual_logprob", pa.float32()),
        _column("alt_logprob", pa.float32()),
    ]
)

GRID = pa.schema(
    [
        *PIVOT_KEY,  # every generated token of a rollout that gets a curve, whether sampled or not
        _column("on_grid", pa.bool_()),  # the curve is estimated there
        _column("drawn", pa.bool_()),  # it has draws of its own
        _column("tokens", TOKENS),  # of its branches, the rollout's own first, then the best first
        _column("probabilities", pa.list_(pa.float64())),  # of the branches; they add to 1
        _column("dropped", pa.float64()),  # probability of all tokens that are no branch
    ]
)

CONTINUATIONS = pa.schema(
    [
        *PIVOT_KEY,
        _column("pass", pa.string()),
        _column("arm", pa.string()),  # actual or alt; of a curve branch-0, branch-1, …
        _optional("draw", pa.int32()),  # null for the greedy probe
        _column("seed", pa.uint64()),
        _column("state", pa.string()),  # snapshot, decode_replay or prefill
        _column("token_ids", TOKENS),  # behind the forced token
        _column("finish_reason", pa.string()),
        _optional("first_logprob", pa.float32()),  # of the first token behind the forced one
        _column("cached_tokens", pa.int32()),  # taken over from the decode-time state
        _column("recomputed_tokens", pa.int32()),  # fed again, the forced token not counted
        _optional("fidelity", pa.float32()),  # largest |Δ log-probability| against the recording
    ]
)

OUTCOMES = pa.schema(
    [
        *ROLLOUT_KEY,
        _optional("position", pa.int32()),  # null: the base rollout itself
        _optional("pass", pa.string()),
        _optional("arm", pa.string()),
        _optional("draw", pa.int32()),
        _column("outcome", pa.string()),  # a label, other or truncated
        _column("correct", pa.bool_()),
    ]
)

DRAWS = pa.schema(
    [
        *PIVOT_KEY,  # a position of the grid
        _column("branch", pa.int32()),  # its place among the branches of the position
        _column("draw", pa.int32()),
        _column("outcome", pa.string()),
        _column("weight", pa.float64()),  # 1 for mixture draws, see stats.curves.sample
        _column("length", pa.int32()),  # generated tokens of the continuation
    ]
)

CURVES = pa.schema(
    [
        *PIVOT_KEY,  # a position of the grid
        _column("outcome", pa.string()),
        _column("draws", pa.int32()),  # of the position, whatever their outcome
        _optional("raw", pa.float64()),  # weighted share of the draws; null without any
        _column("share", pa.float64()),  # o_t, smoothed
        _optional("sd", pa.float64()),  # null where the estimator has no error bars
        _optional("low", pa.float64()),  # of the interval of level smoothing.level
        _optional("high", pa.float64()),
    ]
)

STEPS = pa.schema(
    [
        *PIVOT_KEY,  # the earlier of two neighbouring positions of the grid
        _column("next_position", pa.int32()),
        _column("epsilon", pa.float64()),
        _optional("probability", pa.float64()),  # that o_t moves by more than ε over the step
        _optional("first", pa.float64()),  # that the first such step of the rollout is this one
    ]
)

FORKS = pa.schema(
    [
        *ROLLOUT_KEY,
        _column("source", pa.string()),  # posterior or change_point
        _optional("epsilon", pa.float64()),  # of the posterior's
        _column("first", pa.int32()),  # the fork is the choice of a token at this position …
        _column("last", pa.int32()),  # … or later, but before this one
        _optional("probability", pa.float64()),  # of the posterior's
        _column("distance", pa.float64()),  # total variation between the curve before and behind
    ]
)

CREDITS = pa.schema(
    [
        *PIVOT_KEY,
        _column("margin", pa.float32()),
        _column("pass", pa.string()),
        _column("credit", pa.float64()),  # mean R(actual) - mean R(alt)
        _optional("right_actual", pa.int32()),  # whole counts; null where only credits are known
        _optional("draws_actual", pa.int32()),
        _optional("right_alt", pa.int32()),
        _optional("draws_alt", pa.int32()),
        _optional("cached", pa.bool_()),  # every request was served from the decode-time state
        _optional("probe_diverged", pa.bool_()),  # an arm's greedy tokens are not the reference's
        _optional("probe_delta", pa.float64()),  # largest |Δ first log-probability| over the arms
    ]
)

NOISE = pa.schema(
    [
        _column("comparison", pa.string()),  # treatment/floor
        _column("quantity", pa.string()),  # path in the noise record, keys joined by /
        _optional("value", pa.float64()),
        _optional("reason", pa.string()),  # why there is no value
    ]
)

REQUESTS = pa.schema(
    [
        _column("request", pa.int32()),  # its place in the batch group
        *ROLLOUT_KEY,
        _column("state", pa.string()),  # fresh, snapshot, decode_replay or prefill
        _column("prompt_length", pa.int32()),
        _column("token_ids", TOKENS),  # prompt and generated prefix, the forced token not included
        _optional("logprobs", LOGPROBS),  # recorded, of the generated part of the prefix
        _optional("forced_token", pa.int32()),
        _column("seed", pa.uint64()),
        _column("temperature", pa.float32()),  # 0: greedy
        _column("top_p", pa.float32()),
        _column("top_k", pa.int32()),  # 0: all
        _column("max_tokens", pa.int32()),  # generated behind the forced token
        _column("top_logprobs", pa.int32()),  # how many to return a token
        _column("keep_snapshot", pa.bool_()),
    ]
)

RESULTS = pa.schema(
    [
        _column("request", pa.int32()),
        _column("token_ids", TOKENS),
        _column("logprobs", LOGPROBS),
        _column("top_token_ids", pa.list_(TOKENS)),
        _column("top_logprobs", pa.list_(LOGPROBS)),
        _column("finish_reason", pa.string()),
        _column("cached_tokens", pa.int32()),
        _column("recomputed_tokens", pa.int32()),
        _optional("fidelity", pa.float32()),
    ]
)
