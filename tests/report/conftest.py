"""A small study made by hand: two variants, one noisy, one in which all passes agree."""

from dataclasses import replace

import pytest

from helpers.made_variants import NOISY, QUIET, VariantMaker, Vocabulary
from refork.report.study_data import Decode, StudyData
from refork.study.config import Settings


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    return Vocabulary()


@pytest.fixture(scope="session")
def decode(vocabulary: Vocabulary) -> Decode:
    return vocabulary.decode


@pytest.fixture(scope="session")
def study(vocabulary: Vocabulary) -> StudyData:
    """Two variants, one noisy, one in which all passes agree."""
    makers = VariantMaker("stock", NOISY), VariantMaker("fp32", QUIET)
    for maker in makers:
        maker.vocabulary = vocabulary
    return StudyData(
        name="demo",
        settings=makers[0].settings,
        defaults=Settings().model_dump(),
        lock={"variants": {"stock": {"model": {"digest": "0123abcd"}}}},
        variants=tuple(maker.make() for maker in makers),
    )


@pytest.fixture(scope="session")
def empty_study(study: StudyData) -> StudyData:
    """A study without a single pivot."""
    maker = VariantMaker("stock", NOISY)
    maker._pivots = lambda rollout: []  # type: ignore[method-assign]
    return replace(study, variants=(maker.make(),))
