"""What tests share: models, a tokenizer, the project's reference data, a small disk."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import transformers
from hypothesis import settings

from helpers.repository import ROOT
from helpers.smollm2 import SMOLLM2
from helpers.tiny_tokenizer import write_tokenizer
from refork.data.files import file_sha256
from refork.engines.model_source.source import make_model_folder
from refork.engines.model_source.wheel import cache_folder
from refork.engines.synthetic.model import write_synthetic_model

# Two workers share two cores here: an example that waits for one is not slow.
settings.register_profile("refork", deadline=None)
settings.load_profile("refork")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark benchmarks as timed, and say which tests go to one worker; long ones come first.

    Each worker opens an engine, or runs a module's study, that no other does.
    """
    for item in items:
        if item.path.parent.name == "benchmarks":
            item.add_marker("timed")
    if not config.pluginmanager.hasplugin("xdist"):
        return
    groups = [_group(item) for item in items]
    long = {
        group
        for group, item in zip(groups, items, strict=True)
        if any(item.get_closest_marker(name) for name in ("slow", "model", "workflow"))
    }
    for item, group in zip(items, groups, strict=True):
        item.add_marker(pytest.mark.xdist_group(group))
    order = sorted(range(len(items)), key=lambda place: groups[place] not in long)
    items[:] = [items[place] for place in order]


def _group(item: pytest.Item) -> str:
    """Return the name of the tests that share costly fixtures with this one."""
    callspec = getattr(item, "callspec", None)
    for name in ("subject", "tiny_subject"):
        if callspec is not None and name in callspec.indices:
            return f"{name}-{callspec.indices[name]}"
    return str(item.path.relative_to(ROOT))


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """Return the folder of SmolLM2-135M-Instruct, expanded once and kept in the user's cache."""
    expansion = file_sha256(ROOT / "workflow_scripts/refork/engines/model_source/gguf.py")[:8]
    name = f"transformers-{transformers.__version__}-{expansion}"
    folder = cache_folder() / str(SMOLLM2.sha256) / name
    if not folder.exists():
        own = folder.with_name(f"{name}.{os.getpid()}")  # several test runs may begin at once
        make_model_folder(SMOLLM2, own)
        with contextlib.suppress(OSError):
            own.rename(folder)
        shutil.rmtree(own, ignore_errors=True)
    return folder


@pytest.fixture(scope="session")
def synthetic_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the synthetic engine's model."""
    folder = tmp_path_factory.mktemp("synthetic")
    write_synthetic_model(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny Llama model."""
    from helpers.tiny_model import write_tiny_model  # noqa: PLC0415 - torch is slow to import

    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_model(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Hugging Face folder with a tokenizer of bytes and a chat template."""
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of reference data beside the repository; without it the test is skipped."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no ../shared beside the repository")
    return folder


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Give torch one thread, as an engine does: small models gain nothing from more."""
    import torch  # noqa: PLC0415 - slow to import

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
