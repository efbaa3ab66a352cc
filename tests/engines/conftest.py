"""Every engine, as the conformance suite runs it."""

from pathlib import Path

import pytest

from helpers.engines import Subject, make_subject
from helpers.tiny_model import write_tiny_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny Llama model."""
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_model(folder)
    return folder


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(("synthetic", "float32", "synthetic_model", 1e-6), id="synthetic"),
        pytest.param(("torch", "float32", "tiny_model", 1e-4), id="torch-float32"),
        pytest.param(("torch", "bfloat16", "tiny_model", 1.0), id="torch-bfloat16"),
        pytest.param(
            ("torch", "float32", "smollm2", 1e-3), id="smollm2-float32", marks=pytest.mark.model
        ),
        pytest.param(
            ("torch", "bfloat16", "smollm2", 1.0), id="smollm2-bfloat16", marks=pytest.mark.model
        ),
    ],
)
def subject(request: pytest.FixtureRequest) -> Subject:
    """Return each engine in turn."""
    kind, dtype, model, fidelity = request.param
    return make_subject(kind, dtype, request.getfixturevalue(model), fidelity)


@pytest.fixture(scope="session", params=["float32", "bfloat16"])
def tiny_subject(request: pytest.FixtureRequest, tiny_model: Path) -> Subject:
    """Return the torch engine on the tiny model, in both dtypes."""
    return make_subject("torch", request.param, tiny_model, 1.0)
