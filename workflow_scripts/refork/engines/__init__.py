"""Engines: a batch group of Arrow requests in, Arrow results out."""

from importlib import import_module
from pathlib import Path

from refork.engines.interface import Engine, EngineSettings
from refork.errors import EngineError

KINDS = {
    "torch": ("refork.engines.torch.engine", "TorchEngine"),
    "vllm": ("refork.engines.vllm.engine", "VllmEngine"),
    "synthetic": ("refork.engines.synthetic.engine", "SyntheticEngine"),
}
"""Module and class of each kind; imported only when opened, for each has its own environment."""


def open_engine(settings: EngineSettings, model_folder: Path) -> Engine:
    """Load the model in `model_folder` into the engine that `settings.kind` names.

    Raises
    ------
    EngineError
        No such kind of engine.
    """
    if settings.kind not in KINDS:
        raise EngineError(f"engine.kind: {settings.kind!r} is not one of {', '.join(KINDS)}")
    module, name = KINDS[settings.kind]
    engine: Engine = getattr(import_module(module), name)(settings, model_folder)
    return engine
