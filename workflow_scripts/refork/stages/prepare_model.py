"""The model of a study, as a local Hugging Face folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refork.engines import model_source


def prepare_model(stage: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """Write the model folder `out` and return the facts for its manifest, which is written last.

    Raises
    ------
    ReforkError
        The model cannot be had, or is not the one that was locked.
    """
    source = model_source.ModelSource(**stage["settings"]["model"])
    return model_source.prepare_model(source, out, stage["lock"]["model"]["digest"])
