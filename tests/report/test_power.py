"""The power study as one JSON object."""

import json

import pytest

from refork.report.power import Measured, power_record
from refork.stats.curves.fork_scores import ForkScores
from refork.stats.curves.power import Measurement, Setting
from refork.stats.missing import Missing

NAN = float("nan")
REASON = "blocks of 5 draws are wanted, two at least"


def measurement(tvd: float, l2: float = 0.01, jump: float = NAN) -> Measurement:
    """Scores of a question that jumps only for ε = .10, if at all."""
    scores = {
        **{"tvd": tvd, "tvd_jump_0.10": jump, "tvd_jump_0.15": NAN, "tvd_jump_0.20": NAN},
        **{"tvd_flat_0.10": tvd, "l2": l2, "loglik": -1.0, "noise": 0.5, "seconds": 0.25},
    }
    return Measurement(scores, ("given", "by hand"))


@pytest.fixture
def measured() -> Measured:
    """Two questions and two estimators."""
    return Measured(
        "made",
        Setting(stride=4, samples=5),
        {
            "raw": [measurement(0.4, l2=0.1, jump=0.5), measurement(0.2, l2=0.1)],
            "other": [measurement(0.3), measurement(0.1)],
        },
        {"raw": ForkScores(), "other": ForkScores(fits=4)},
    )


def test_a_cell_is_the_mean_of_its_questions(measured: Measured) -> None:
    record = power_record([measured], {"made": Missing(REASON)}, replicates=2)
    raw, other = record["cells"]
    assert (raw["track"], raw["stride"], raw["samples"], raw["estimator"]) == ("made", 4, 5, "raw")
    assert raw["tvd"] == pytest.approx(0.3)
    assert raw["tvd_jump_0.10"] == 0.5
    assert raw["ess"] == pytest.approx(0.5 / 0.1 / 5)
    assert other["ess"] == pytest.approx(0.5 / 0.01 / 5)
    assert other["seconds"] == 0.25
    assert record["questions"] == {"made": 2}
    assert record["selection"][0]["fits"] == {"given": 2, "by hand": 2}


def test_a_null_has_its_reason(measured: Measured) -> None:
    record = power_record([measured], {"made": Missing(REASON)}, replicates=2)
    assert record["cells"][0]["tvd_jump_0.20"] is None
    assert record["reasons"]["cells[0].tvd_jump_0.20"] == "no question has such a position"
    assert record["noise_law"] == {"made": None}
    assert record["reasons"]["noise_law.made"] == REASON
    assert record["forks"][0]["estimator"] == "other"
    assert record["forks"][0]["precision"] is None
    assert record["reasons"]["forks[0].precision"] == "no fork reported"
    json.dumps(record, allow_nan=False)


def test_estimators_are_compared_with_the_first(measured: Measured) -> None:
    record = power_record([measured], {}, replicates=2)
    [paired] = record["paired"]
    assert (paired["estimator"], paired["against"]) == ("other", "raw")
    assert paired["tvd"]["mean"] == pytest.approx(-0.1)
    assert paired["tvd"]["low"] == pytest.approx(-0.1)
    assert paired["tvd_jump_0.10"]["questions"] == 0
