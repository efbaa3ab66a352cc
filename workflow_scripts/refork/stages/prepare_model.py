"""Stage prepare_model: from a model's source to a local Hugging Face folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refork.engines.model_source.source import ModelSource, make_model_folder


def prepare_model(stage: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """Write the model folder `out` and return the facts for its manifest, which is written last.

    Raises
    ------
    ReforkError
        The model cannot be had, or is not the one that was locked.
    """
    source = ModelSource(**stage["settings"]["model"])
    return make_model_folder(source, out, stage["lock"]["model"]["digest"])
