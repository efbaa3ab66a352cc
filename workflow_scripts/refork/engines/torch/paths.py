"""Which path runs a model: the fast one where it knows the model, else the model's own forward."""

from pathlib import Path

from refork.engines.interface import EngineSettings
from refork.engines.torch.decoder import Decoder
from refork.engines.torch.dynamic.model import DynamicDecoder
from refork.engines.torch.llama.architecture import Architecture, read_architecture
from refork.engines.torch.llama.decoder import LlamaDecoder
from refork.engines.torch.loading import Loaded, load
from refork.errors import EngineError

KERNELS = ("stock", "batch_invariant")


def open_decoder(settings: EngineSettings, folder: Path) -> Decoder:
    """Load the model of a local Hugging Face folder, to be fed.

    Raises
    ------
    EngineError
        What `load` refuses; a model that neither path can run; kernels that its path has not.
    """
    if settings.kernels not in KERNELS:
        raise EngineError(
            f"engine.kernels: {settings.kernels!r} is not one of {', '.join(KERNELS)}"
        )
    loaded = load(settings, folder)
    architecture = _architecture(loaded)
    if isinstance(architecture, Architecture):
        return LlamaDecoder(loaded, architecture, settings.kernels)
    if settings.kernels != "stock":
        raise EngineError(
            f"engine.kernels: {settings.kernels} needs the fast path, which cannot run "
            f"{type(loaded.model).__name__}: {architecture}; stock kernels can run it"
        )
    return DynamicDecoder(loaded)


def _architecture(loaded: Loaded) -> Architecture | str:
    """Read the architecture, or say why the fast path cannot run the model."""
    if loaded.model.config is not loaded.config:
        return "it is more than a text decoder"
    if not type(loaded.model).__module__.startswith("transformers.models."):
        return "its code came with it and is not that of transformers"
    return read_architecture(loaded.config)
