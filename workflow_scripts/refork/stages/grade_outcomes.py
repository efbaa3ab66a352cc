"""Stage grade_outcomes: from base rollouts and continuations to outcomes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from refork.data.schemas import OUTCOMES, RolloutKey
from refork.data.tables import from_rows
from refork.errors import ReforkError
from refork.stages.forced import places
from refork.tasks.graders import GradingSettings, grade
from refork.tasks.graders.thinking import opening
from refork.tasks.questions import Question
from refork.tasks.text import TextDecoder

BATCH = 4096
"""Completions that are decoded at once."""
TAIL = 16
"""Tokens at the end of a prompt in which an opened think part is looked for."""


class Completion(NamedTuple):
    """Everything generated behind one prompt; a base rollout has neither pivot, pass nor draw."""

    key: RolloutKey
    position: int | None
    pass_name: str | None
    arm: str | None
    draw: int | None
    token_ids: list[int]
    finish_reason: str


@dataclass(frozen=True)
class _Asked:
    """A question as one rollout showed it."""

    question: Question
    opened: bool  # the prompt ends inside a think part


def grade_outcomes(
    stage: Mapping[str, Any],
    questions: pa.Table,
    rollouts: pa.Table,
    forced: pa.Table,
    continuations: Iterable[pa.Table],
    *,
    model_folder: Path,
) -> pa.Table:
    """Grade the base rollouts of one shard, then its continuations in the order given.

    What is graded is the whole completion: the rollout up to a position, the forced token and the
    continuation. Greedy probes are not graded.

    Parameters
    ----------
    stage
        The record that was hashed.
    questions, rollouts
        Tables of `data.schemas`, of the shard.
    forced
        Its pivots, or the grid of its curves.
    continuations
        The shard's tables of all passes and draw blocks (`data.schemas.CONTINUATIONS`).
    model_folder
        Hugging Face folder with the tokenizer.

    Returns
    -------
    pyarrow.Table
        `data.schemas.OUTCOMES`; `correct` compares with the answer in the order
        that the rollout showed.

    Raises
    ------
    ReforkError
        A grader does not fit its question, or a rollout, position or question is missing.
    """
    settings = GradingSettings(**stage["settings"]["grading"])
    marks = {settings.think_end, opening(settings.think_end)} - {""}
    decoder = TextDecoder(model_folder, keep=marks)
    asked = _asked(questions, decoder, settings)
    completions = chain(_base_rollouts(rollouts), _continued(continuations, rollouts, forced))
    tables = [OUTCOMES.empty_table()]
    while batch := list(islice(completions, BATCH)):
        texts = decoder.decode([completion.token_ids for completion in batch])
        outcomes = [
            _outcome(completion, text, asked, settings)
            for completion, text in zip(batch, texts, strict=True)
        ]
        tables.append(_table(batch, outcomes))
    return pa.concat_tables(tables)


def _asked(
    questions: pa.Table, decoder: TextDecoder, settings: GradingSettings
) -> dict[RolloutKey, _Asked]:
    rows = questions.drop_columns(["messages"]).to_pylist()
    tails = decoder.decode([row["prompt_token_ids"][-TAIL:] for row in rows])
    start = opening(settings.think_end)
    asked = {}
    for row, tail in zip(rows, tails, strict=True):
        choices = None if row["choices"] is None else tuple(row["choices"])
        question = Question(
            row["question_id"], row["kind"], row["question"], row["answer"], choices
        )
        opened = bool(start) and tail.rstrip().endswith(start)
        asked[row["question_id"], row["rollout"]] = _Asked(question, opened)
    return asked


def _outcome(
    completion: Completion, text: str, asked: dict[RolloutKey, _Asked], settings: GradingSettings
) -> tuple[str, bool]:
    """Outcome of a completion, and whether it is the right one."""
    if completion.key not in asked:
        raise ReforkError(f"question {completion.key[0]}, rollout {completion.key[1]}: no such row")
    question, opened = asked[completion.key].question, asked[completion.key].opened
    outcome = grade(text, question, settings, finish_reason=completion.finish_reason, opened=opened)
    return outcome, outcome == question.answer


def _base_rollouts(rollouts: pa.Table) -> Iterator[Completion]:
    columns = ["question_id", "rollout", "token_ids", "finish_reason"]
    for batch in rollouts.select(columns).to_batches(max_chunksize=BATCH):
        for row in batch.to_pylist():
            key = (row["question_id"], row["rollout"])
            yield Completion(key, None, None, None, None, row["token_ids"], row["finish_reason"])


def _continued(
    continuations: Iterable[pa.Table], rollouts: pa.Table, forced: pa.Table
) -> Iterator[Completion]:
    heads = _heads(rollouts, forced)
    columns = [
        "question_id",
        "rollout",
        "position",
        "pass",
        "arm",
        "draw",
        "token_ids",
        "finish_reason",
    ]
    for table in continuations:
        for batch in table.select(columns).to_batches(max_chunksize=BATCH):
            for row in batch.to_pylist():
                if row["draw"] is None:
                    continue
                key = (row["question_id"], row["rollout"])
                place = (*key, row["position"], row["arm"])
                if place not in heads:
                    raise ReforkError(
                        f"question {key[0]}, rollout {key[1]}: a continuation of arm"
                        f" {row['arm']!r} at position {row['position']}, where none is forced"
                    )
                yield Completion(
                    key,
                    row["position"],
                    row["pass"],
                    row["arm"],
                    row["draw"],
                    heads[place] + row["token_ids"],
                    row["finish_reason"],
                )


def _heads(rollouts: pa.Table, forced: pa.Table) -> dict[tuple[str, int, int, str], list[int]]:
    """Collect the generated tokens up to and with the forced one, for each position and arm."""
    columns = ["question_id", "rollout", "prompt_token_ids", "token_ids"]
    generated = {
        (row["question_id"], row["rollout"]): (len(row["prompt_token_ids"]), row["token_ids"])
        for row in rollouts.select(columns).to_pylist()
    }
    heads = {}
    for place in places(forced):
        key = (place.question_id, place.rollout)
        if key not in generated:
            raise ReforkError(
                f"question {key[0]}, rollout {key[1]}: position {place.position} "
                "without its rollout"
            )
        prompt_length, token_ids = generated[key]
        kept = token_ids[: place.position - prompt_length]
        for arm, token in place.arms.items():
            heads[*key, place.position, arm] = [*kept, token]
    return heads


def _table(batch: list[Completion], outcomes: list[tuple[str, bool]]) -> pa.Table:
    rows = [
        {
            "question_id": completion.key[0],
            "rollout": completion.key[1],
            "position": completion.position,
            "pass": completion.pass_name,
            "arm": completion.arm,
            "draw": completion.draw,
            "outcome": outcome,
            "correct": correct,
        }
        for completion, (outcome, correct) in zip(batch, outcomes, strict=True)
    ]
    return from_rows(rows, OUTCOMES)
