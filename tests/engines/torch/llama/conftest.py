"""Every test of the fast path has one thread."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def in_one_thread(one_thread: None) -> None: ...
