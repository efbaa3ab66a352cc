"""How the estimator of a study's outcome curves was chosen, with the scores of all candidates."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from refork.errors import ReforkError, listed

Count = Annotated[int, Field(ge=0)]
Nats = Annotated[float, Field(allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class _Score(_Part):
    """A held-out log-likelihood, or why there is none."""

    nats_per_draw: Nats | None
    reason: str | None

    @model_validator(mode="after")
    def _one_of_both(self) -> "_Score":
        if (self.nats_per_draw is None) == (self.reason is None):
            raise ValueError("a score or the reason why there is none is wanted, and one of them")
        return self


class RolloutScore(_Score):
    """A candidate on one rollout.

    `draws` counts those that were held out once each, `chosen` are the hyper-parameters of the fit
    to all of them; null where there is no such fit.
    """

    question_id: str
    rollout: Count
    draws: Count
    chosen: dict[str, float | str] | None


class CandidateScore(_Score):
    """A candidate over all rollouts, each weighted by its draws."""

    estimator: str
    rollouts: list[RolloutScore]


class LeftOut(_Part):
    """A rollout that has a grid but no curve."""

    question_id: str
    rollout: Count
    reason: str


class TuningRecord(_Part):
    """The choice of a study.

    Attributes
    ----------
    estimator
        The one in use, as the config names estimators.
    why
        `given` by the config, or `auto`: the best of the candidates.
    how
        The choice in words.
    folds
        Of the cross-validation; fewer where a rollout has fewer draws a position.
    candidates
        In the order of the config.
    left_out
        Rollouts without a curve.
    """

    estimator: str
    why: Literal["given", "auto"]
    how: str
    folds: Annotated[int, Field(ge=2)]
    candidates: list[CandidateScore]
    left_out: list[LeftOut]

    def document(self) -> dict[str, Any]:
        """Give the JSON object."""
        return self.model_dump(mode="json")


def read_tuning(path: Path) -> TuningRecord:
    """Read a `tuning.json`.

    Raises
    ------
    ReforkError
        The file is absent or is no such record; the message lists every fault.
    """
    try:
        return TuningRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise ReforkError(f"{path}: no such file") from error
    except ValidationError as error:
        raise listed(
            [f"{path}: {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        ) from error
