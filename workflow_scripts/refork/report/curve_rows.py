"""What the report says of outcome curves in numbers: sizes, scores, and the curves it shows."""

from dataclasses import dataclass

from refork.data.schemas import RolloutKey
from refork.report.curve_data import CurveData
from refork.report.curve_forks import ShownFork, shown_forks
from refork.report.study_data import Decode, Look, StudyData, VariantData
from refork.report.visible import clipped, token_text
from refork.tasks.graders import OTHER, TRUNCATED

SHOWN_CURVES = 4
"""So many curves of a variant are drawn on the page; the tables have all."""
SHOWN_OUTCOMES = 6


@dataclass(frozen=True)
class CurveSize:
    """What the curve of one rollout took, in counts; `tokens` are those that draws generated."""

    variant: str
    question_id: str
    rollout: int
    length: int
    positions: int
    positions_drawn: int
    draws: int
    tokens: int


@dataclass(frozen=True)
class Score:
    """One candidate estimator; nats a draw are null with a reason."""

    variant: str
    estimator: str
    in_use: bool
    nats_per_draw: float | None
    reason: str | None


@dataclass(frozen=True)
class CurvePiece:
    """A stretch of a rollout's text: the tokens of a fork, or what stands between."""

    text: str
    fork: ShownFork | None = None


@dataclass(frozen=True)
class ShownCurve:
    """A curve on the page: its rollout's text with forks marked, and the outcomes drawn."""

    variant: str
    key: RolloutKey
    outcomes: tuple[str, ...]
    outcomes_left: int
    forks: tuple[ShownFork, ...]
    pieces: tuple[CurvePiece, ...]


def curve_sizes(variant: VariantData) -> list[CurveSize]:
    """Count positions, draws and tokens of every rollout with a curve."""
    curves = _curves(variant)
    sizes = []
    for key in curves.keys:
        grid, draws = curves.of("grid", key), curves.of("draws", key)
        sizes.append(
            CurveSize(
                variant=variant.name,
                question_id=key[0],
                rollout=key[1],
                length=len(grid),
                positions=int(grid["on_grid"].sum()),
                positions_drawn=int(draws["position"].nunique()),
                draws=len(draws),
                tokens=int(draws["length"].sum()),
            )
        )
    return sizes


def scores(variant: VariantData) -> list[Score]:
    """Return every candidate in the order of the config; the one in use also where unscored."""
    tuning = _curves(variant).tuning
    rows = [
        Score(
            variant.name,
            item.estimator,
            item.estimator == tuning.estimator,
            item.nats_per_draw,
            item.reason,
        )
        for item in tuning.candidates
    ]
    if not any(row.in_use for row in rows):
        reason = "not among the candidates"
        rows.append(Score(variant.name, tuning.estimator, True, None, reason))
    return rows


def shown_curves(study: StudyData, look: Look, decode: Decode) -> dict[str, list[ShownCurve]]:
    """Choose the curves of each variant: the question that `look` names, then most forks."""
    return {
        variant.name: _shown(variant, look, decode) for variant in study.variants if variant.curves
    }


def _shown(variant: VariantData, look: Look, decode: Decode) -> list[ShownCurve]:
    curves = _curves(variant)

    def wanted(key: RolloutKey) -> tuple[bool, int]:
        return key[0] != look.rollout, -len(curves.of("forks", key))

    chosen = sorted(curves.keys, key=wanted)[:SHOWN_CURVES]
    return [_shown_curve(variant, key, decode) for key in chosen]


def _shown_curve(variant: VariantData, key: RolloutKey, decode: Decode) -> ShownCurve:
    curves = _curves(variant)
    forks = shown_forks(curves, key, decode)
    highest = curves.of("curves", key).groupby("outcome", sort=False)["share"].max()
    drawn = set(highest.sort_values(ascending=False, kind="stable").index[:SHOWN_OUTCOMES])
    return ShownCurve(
        variant=variant.name,
        key=key,
        outcomes=tuple(sorted((str(one) for one in drawn), key=_last)),
        outcomes_left=len(highest) - len(drawn),
        forks=tuple(forks),
        pieces=tuple(_pieces(curves, key, forks, decode)),
    )


def _pieces(
    curves: CurveData, key: RolloutKey, forks: list[ShownFork], decode: Decode
) -> list[CurvePiece]:
    """Cut the text at the forks; the rollout's own token is the first branch everywhere."""
    grid = curves.of("grid", key).sort_values("position")
    texts = decode([int(tokens[0]) for tokens in grid["tokens"]])
    start, cut = int(grid["position"].iloc[0]), 0
    pieces = []
    for fork in forks:
        first, last = fork.first - start, fork.last - start
        pieces.append(CurvePiece(clipped("".join(texts[cut:first]))))
        pieces.append(CurvePiece("".join(token_text(text) for text in texts[first:last]), fork))
        cut = last
    pieces.append(CurvePiece(clipped("".join(texts[cut:]))))
    return [piece for piece in pieces if piece.text]


def _last(outcome: str) -> tuple[int, str]:
    return (OTHER, TRUNCATED).index(outcome) + 1 if outcome in (OTHER, TRUNCATED) else 0, outcome


def _curves(variant: VariantData) -> CurveData:
    if variant.curves is None:
        raise TypeError(f"variant {variant.name} has no curves")
    return variant.curves
