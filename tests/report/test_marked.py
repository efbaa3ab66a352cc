"""The rollout that the report shows, and its marks."""

from dataclasses import replace

import pytest

from refork.errors import ReforkError
from refork.report.frames import KEPT
from refork.report.marked import MarkedRollout, mark_rollout
from refork.report.study_data import Decode, Look, StudyData

WITH_MOST_FLIPS = Look()


def marked(study: StudyData, decode: Decode, look: Look = WITH_MOST_FLIPS) -> MarkedRollout:
    found = mark_rollout(study, look, decode)
    assert found is not None
    return found


def test_the_pieces_are_the_rollout(study: StudyData, decode: Decode) -> None:
    shown = marked(study, decode)
    variant = next(item for item in study.variants if item.name == shown.variant)
    row = next(
        row
        for row in variant.rollouts.to_pylist()
        if (row["question_id"], row["rollout"]) == (shown.question_id, shown.rollout)
    )
    text = "".join(piece.text for piece in shown.pieces)
    assert text.replace("↵\n", "\n") == "".join(decode(row["token_ids"]))
    for mark in shown.marks:
        token = row["token_ids"][mark.position - len(row["prompt_token_ids"])]
        assert mark.token.strip("␣↵") == decode([token])[0].strip()


def test_the_rollout_with_most_flips_is_chosen(study: StudyData, decode: Decode) -> None:
    shown = marked(study, decode)
    assert shown.variant == "stock"
    assert all(mark.fate != KEPT for mark in shown.marks)
    assert [mark.number for mark in shown.marks] == [1, 2, 3]
    assert [item.name for item in shown.marks[0].credits] == list(shown.passes)


def test_a_question_may_be_named(study: StudyData, decode: Decode) -> None:
    assert marked(study, decode, Look(rollout="q04")).question_id == "q04"


def test_an_unknown_question_is_refused_with_near_names(study: StudyData, decode: Decode) -> None:
    with pytest.raises(ReforkError, match=r"report\.rollout: .*`q99`.*q0"):
        marked(study, decode, Look(rollout="q99"))


def test_a_mark_says_all_in_words(study: StudyData, decode: Decode) -> None:
    mark = marked(study, decode).marks[0]
    assert f"Pivot 1 at position {mark.position}" in mark.words
    assert "margin" in mark.words
    assert "exact" in mark.words
    assert "refeed_shuffled" in mark.words


def test_a_study_without_pivots_or_rollouts(empty_study: StudyData, decode: Decode) -> None:
    assert marked(empty_study, decode).marks == ()
    bare = replace(empty_study.variants[0], rollouts=empty_study.variants[0].rollouts.slice(0, 0))
    assert mark_rollout(replace(empty_study, variants=(bare,)), Look(), decode) is None
