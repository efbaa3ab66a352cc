"""The local Hugging Face folder of a model: what it must hold, what it says, how it is laid."""

import contextlib
import hashlib
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from refork.data.files import canonical_json, file_sha256, read_json
from refork.engines.synthetic.model import SYNTHETIC_FILE
from refork.errors import ReforkError

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


def checked_folder(folder: Path) -> Path:
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


def folder_digest(folder: Path) -> str:
    """Return the sha256 over the names and contents of all files that matter to a result."""
    named = [folder / name for name in (*_CONFIG_FILES, *_TOKENIZER_FILES)]
    patterns = ("*.safetensors", "*.index.json", "*.py")
    return _files_digest([*named, *(path for each in patterns for path in folder.glob(each))])


def touched_since(folder: Path, moment: float) -> bool:
    """Tell whether a folder or a file in it was written, replaced or removed after `moment`."""
    paths = (folder, *folder.iterdir()) if folder.exists() else ()
    return not paths or any(not path.exists() or path.stat().st_ctime > moment for path in paths)


def tokenizer_digest(folder: Path) -> str:
    """Return the sha256 over the names and contents of a model folder's tokenizer files."""
    return _files_digest(folder / name for name in _TOKENIZER_FILES)


def folder_facts(folder: Path) -> dict[str, Any]:
    """Return size, tokenizer digest, architecture, context length (tokens) and dtype, if said."""
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


@contextlib.contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
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


def link_folder(folder: Path, out: Path) -> None:
    """Make `out` a link to a folder."""
    temporary = out.with_name(f".{out.name}.partial")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove(temporary)
        temporary.symlink_to(folder.resolve(), target_is_directory=True)
        _remove(out)
        temporary.rename(out)
    except OSError as error:
        raise ReforkError(f"{out}: the model cannot be linked ({error})") from error


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


def _files_digest(paths: Iterable[Path]) -> str:
    digests = {path.name: file_sha256(path) for path in paths if path.is_file()}
    return hashlib.sha256(canonical_json(digests).encode()).hexdigest()


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
