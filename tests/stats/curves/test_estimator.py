"""The registry of estimators."""

from pathlib import Path

import numpy as np
import pytest

from refork.stats.curves.estimator import ESTIMATORS, Discovered
from refork.stats.curves.sample import sample_from_counts

PLUGIN = """
class Uniform:
    name = "uniform"

ESTIMATOR = Uniform
"""


def test_a_new_file_is_all_that_an_estimator_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "smoothers"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("VALUE = 1\n")
    (package / "uniform.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    found = Discovered("smoothers")
    assert list(found) == ["uniform"]
    assert len(found) == 1
    assert found["uniform"].__name__ == "Uniform"
    with pytest.raises(KeyError):
        found["helper"]


def test_those_of_the_package() -> None:
    assert {"raw", "kernel", "segment", "full"} <= set(ESTIMATORS)
    assert all(ESTIMATORS[name]().name == name for name in ESTIMATORS)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_gives_distributions_anywhere(name: str) -> None:
    random = np.random.default_rng(0)
    curve = np.repeat(random.dirichlet([1.0, 1.0, 1.0], size=2), 20, axis=0)
    counts = np.stack([random.multinomial(200, share) for share in curve])
    counts[[3, 17]] = 0
    fit = ESTIMATORS[name]().fit(sample_from_counts(np.arange(40) * 3, counts))
    mean = fit.mean(np.arange(118))
    assert mean.shape == (118, 3)
    assert (mean >= 0).all()
    np.testing.assert_allclose(mean.sum(axis=1), 1)
    middle = fit.mean([30, 90])
    np.testing.assert_allclose(middle, curve[[10, 30]], atol=0.15)
    sd = fit.sd([30, 90])
    assert sd is None or ((sd > 0) & (sd < 0.2)).all()
    points = fit.change_points
    assert points is None or set(points) <= set(range(0, 120, 3))
