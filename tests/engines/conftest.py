"""Every engine, as the conformance suite runs it."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.engines import VLLM, Subject, make_subject
from helpers.tiny_model import write_tiny_neox, write_wide_model
from refork.engines.interface import VllmSettings

DEVICES = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
DTYPES = {"float32": 1e-4, "bfloat16": 1.0}
"""With the bound of |Δ log-probability| of a state that is made another way."""
MODELS = {
    "tiny_neox": (("stock",), ()),
    "tiny_model": (("stock", "batch_invariant"), ()),
    "smollm2": (("stock", "batch_invariant"), (pytest.mark.model,)),
}
"""Fixture of each model, with the kernels that can run it."""

ON_GPU = {"gpu_memory_utilization": 0.1, "enforce_eager": True}
"""Arguments of vLLM, of which several share a GPU while the tests run."""


def torch_subjects(*models: str) -> Iterator[Any]:
    """Give the parameters of `subject` for the torch engine."""
    for device in DEVICES:
        for model in models:
            kernels, marks = MODELS[model]
            for kernel in kernels:
                for dtype, fidelity in DTYPES.items():
                    settings = {"kernels": kernel, "device": device}
                    bound = 10 * fidelity if (model, dtype) == ("smollm2", "float32") else fidelity
                    yield pytest.param(
                        ("torch", dtype, model, bound, settings),
                        id=f"{model}-{device}-{kernel}-{dtype}",
                        marks=marks,
                    )


def vllm_subjects() -> Iterator[Any]:
    """Give the parameters of `subject` for the vLLM engine on its device, where it is installed."""
    if find_spec("vllm") is None:
        return
    gpu = torch.cuda.is_available()
    small = (("wide_model", "float32", 0.25, ()), ("wide_model", "bfloat16", 0.25, ()))
    models = (*small, ("smollm2", "bfloat16", 0.5, (pytest.mark.model,)))
    # All engines stay in memory to the end.
    for name, tail, known in (
        ("prefill", "prefill", models),
        ("decode", "decode", models),
        ("snapshots", "prefill", small),
    ):
        for model, dtype, gib, marks in known:
            room = {"cache_gib": 1.0, "arguments": ON_GPU} if gpu else {"cache_gib": gib}
            vllm = VllmSettings(tail=tail, snapshots=name == "snapshots", **room)
            settings = {"device": "cuda" if gpu else "cpu", "vllm": vllm}
            yield pytest.param(
                ("vllm", dtype, model, DTYPES[dtype], settings),
                id=f"vllm-{model}-{name}-{dtype}",
                marks=(*VLLM, *marks),
            )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the states that an engine lacks; that it refuses them has a test of its own."""
    items[:] = [item for item in items if _has_state(item)]


def _has_state(item: pytest.Item) -> bool:
    params = getattr(getattr(item, "callspec", None), "params", {})
    if params.get("state") != "snapshot" or "subject" not in params:
        return True
    kind, *_, settings = params["subject"]
    return kind != "vllm" or bool(settings["vllm"].snapshots)


@pytest.fixture(scope="session")
def wide_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny Llama model that vLLM can run."""
    folder = tmp_path_factory.mktemp("wide")
    write_wide_model(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_neox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny GPT-NeoX model."""
    folder = tmp_path_factory.mktemp("neox")
    write_tiny_neox(folder)
    return folder


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(("synthetic", "float32", "synthetic_model", 1e-6, {}), id="synthetic"),
        *torch_subjects("tiny_neox", "tiny_model", "smollm2"),
        *vllm_subjects(),
    ],
)
def subject(request: pytest.FixtureRequest) -> Subject:
    """Return each engine in turn."""
    kind, dtype, model, fidelity, settings = request.param
    return make_subject(kind, dtype, request.getfixturevalue(model), fidelity, **settings)


@pytest.fixture(scope="session", params=list(torch_subjects("tiny_neox", "tiny_model")))
def tiny_subject(request: pytest.FixtureRequest) -> Subject:
    """Return the torch engine on the tiny models."""
    kind, dtype, model, fidelity, settings = request.param
    return make_subject(kind, dtype, request.getfixturevalue(model), fidelity, **settings)
