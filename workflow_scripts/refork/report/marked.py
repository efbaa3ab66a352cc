"""One rollout in its own text, with its pivots marked."""

import difflib
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from refork.data.schemas import RolloutKey
from refork.data.tables import Row
from refork.errors import ReforkError
from refork.report.frames import CROSSING, KEPT, REVERSAL, CreditFrames, credit_frames
from refork.report.study_data import Decode, Look, StudyData, VariantData
from refork.report.visible import clipped, token_label, token_text
from refork.report.wording import decimal, signed


@dataclass(frozen=True)
class PassCredit:
    """Credit of one pivot in one pass, and what became of its sign."""

    name: str
    credit: float
    fate: str


@dataclass(frozen=True)
class Mark:
    """One pivot: its number in the text, its two tokens and its credit in every pass."""

    number: int
    position: int
    token: str
    alternative: str
    margin: float
    credits: tuple[PassCredit, ...]

    @property
    def fate(self) -> str:
        """The strongest thing that happened to its sign in any pass."""
        fates = {item.fate for item in self.credits}
        return next((fate for fate in (REVERSAL, CROSSING) if fate in fates), KEPT)

    @property
    def words(self) -> str:
        """All of it in one line, for a pointer that rests on it and for screen readers."""
        credits = ", ".join(f"{item.name} {signed(item.credit)}" for item in self.credits)
        return (
            f"Pivot {self.number} at position {self.position}: “{self.token}” or "
            f"“{self.alternative}”, margin {decimal(self.margin)} nat. Credit: {credits or 'none'}."
        )


@dataclass(frozen=True)
class Piece:
    """A stretch of the rollout's text: a pivot's token, or what stands between."""

    text: str
    mark: Mark | None = None


@dataclass(frozen=True)
class MarkedRollout:
    """A rollout ready to be shown; `choices` in the order in which they were."""

    variant: str
    question_id: str
    rollout: int
    question: str
    choices: tuple[str, ...]
    answer: str
    outcome: str | None
    correct: bool | None
    cut: bool
    passes: tuple[str, ...]
    pieces: tuple[Piece, ...]

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Every pivot, in the order of the text."""
        return tuple(piece.mark for piece in self.pieces if piece.mark)


def mark_rollout(study: StudyData, look: Look, decode: Decode) -> MarkedRollout | None:
    """Mark the pivots of the rollout that `look` names, or of the one with most flips.

    Raises
    ------
    ReforkError
        `look.rollout` is no question of the study.
    """
    found = _choose(study, look)
    if found is None:
        return None
    variant, key = found
    rollout = _rows(variant.rollouts, key)[0]
    question = _rows(variant.questions, key)[0]
    base = [row for row in _rows(variant.outcomes, key) if row["position"] is None]
    frames = credit_frames(variant)
    marks = _marks(variant, key, frames, decode)
    return MarkedRollout(
        variant=variant.name,
        question_id=key[0],
        rollout=key[1],
        question=clipped(question["question"]),
        choices=tuple(clipped(choice) for choice in question["choices"] or ()),
        answer=question["answer"],
        outcome=base[0]["outcome"] if base else None,
        correct=base[0]["correct"] if base else None,
        cut=rollout["finish_reason"] == "length",
        passes=tuple(frames.credit.columns),
        pieces=tuple(_pieces(rollout, marks, decode)),
    )


def _choose(study: StudyData, look: Look) -> tuple[VariantData, RolloutKey] | None:
    """Find the rollout with most flips; among equals, with most pivots; then the first."""
    candidates: list[tuple[tuple[int, int], VariantData, RolloutKey]] = []
    known: set[str] = set()
    for variant in study.variants:
        flips, pivots = _flips(variant), Counter(_keys(variant.pivots))
        keys = _keys(variant.rollouts)
        known.update(question_id for question_id, _ in keys)
        wanted = [key for key in keys if look.rollout in (None, key[0])]
        candidates += [((flips[key], pivots[key]), variant, key) for key in wanted]
    if look.rollout is not None and look.rollout not in known:
        near = difflib.get_close_matches(look.rollout, sorted(known), n=3, cutoff=0)
        raise ReforkError(
            f"report.rollout: no question has the id `{look.rollout}`; "
            f"the study has for example {', '.join(near) or 'none at all'}"
        )
    if not candidates:
        return None
    _, variant, key = max(candidates, key=lambda candidate: candidate[0])
    return variant, key


def _flips(variant: VariantData) -> Counter[RolloutKey]:
    frames, counted = credit_frames(variant), Counter[RolloutKey]()
    for summary in variant.comparisons:
        names = summary.names
        if {names.reference, names.treatment} <= set(frames.sign.columns):
            fates = frames.fates(names.reference, names.treatment)
            counted.update((row[0], row[1]) for row in fates.index[fates != KEPT])
    return counted


def _keys(table: pa.Table) -> list[RolloutKey]:
    columns = (table[name].to_pylist() for name in ("question_id", "rollout"))
    return list(zip(*columns, strict=True))


def _rows(table: pa.Table, key: RolloutKey) -> list[Row]:
    of_question = pc.equal(table["question_id"], key[0])
    found = table.filter(pc.and_(of_question, pc.equal(table["rollout"], key[1])))
    rows: list[Row] = found.to_pylist()
    return rows


def _marks(
    variant: VariantData, key: RolloutKey, frames: CreditFrames, decode: Decode
) -> dict[int, Mark]:
    """Return the marks of a rollout by position."""
    pivots = sorted(_rows(variant.pivots, key), key=lambda pivot: int(pivot["position"]))
    credits = _credits(key, variant.reference, frames)
    return {
        pivot["position"]: Mark(
            number=number,
            position=pivot["position"],
            token=token_label(*decode([pivot["actual_token"]])),
            alternative=token_label(*decode([pivot["alt_token"]])),
            margin=pivot["margin"],
            credits=credits.get(pivot["position"], ()),
        )
        for number, pivot in enumerate(pivots, start=1)
    }


def _credits(
    key: RolloutKey, reference: str, frames: CreditFrames
) -> dict[int, tuple[PassCredit, ...]]:
    """Return the credits of a rollout's pivots by position."""
    pivots = frames.credit.index
    here = (pivots.get_level_values(0) == key[0]) & (pivots.get_level_values(1) == key[1])
    own = CreditFrames(frames.credit[here], frames.sign[here])
    columns = [
        [
            PassCredit(name, float(credit), str(fate))
            for credit, fate in zip(own.credit[name], own.fates(reference, name), strict=True)
        ]
        for name in own.credit.columns
    ]
    positions = pivots[here].get_level_values(2)
    return dict(zip(positions, zip(*columns, strict=True), strict=bool(columns)))


def _pieces(rollout: Row, marks: dict[int, Mark], decode: Decode) -> list[Piece]:
    """Cut the generated text at its pivots; line ends inside a marked token stay visible."""
    start = len(rollout["prompt_token_ids"])
    pieces: list[Piece] = []
    between: list[str] = []
    for position, text in enumerate(decode(rollout["token_ids"]), start=start):
        mark = marks.get(position)
        if mark is None:
            between.append(text)
            continue
        pieces += [Piece(clipped("".join(between))), Piece(token_text(text), mark)]
        between = []
    return [piece for piece in [*pieces, Piece(clipped("".join(between)))] if piece.text]
