"""From a local Hugging Face folder to a model of transformers."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
)

from refork.engines.interface import EngineSettings
from refork.engines.torch.snapshots import StateKind
from refork.errors import EngineError

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
KEY_VALUE_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}
SAMPLED_WEIGHTS = 1024
LONGEST = 2**31 - 1


@dataclass(frozen=True)
class Loaded:
    """A model of transformers in evaluation mode on its device, and what is known of it."""

    model: Any  # transformers.PreTrainedModel
    config: Any  # of the text decoder
    device: torch.device
    dtype: torch.dtype
    context_length: int  # tokens
    vocabulary: int  # token ids that it can be fed
    end_tokens: frozenset[int]
    digest: str  # of configuration and weights

    def kind(self, layers: int, heads: int, width: int) -> StateKind:
        """Say what the model's states are; `heads` are key-value heads, `width` is of one."""
        name = str(self.dtype).removeprefix("torch.")
        return StateKind(self.digest, name, layers, heads, width)


def load(settings: EngineSettings, folder: Path) -> Loaded:
    """Load the model of a local Hugging Face folder.

    Raises
    ------
    EngineError
        No weights, an unknown architecture, device or dtype, or a state that is more than keys and
        values.
    """
    device = _device(settings.device)
    if settings.dtype not in DTYPES:
        raise EngineError(f"engine.dtype: {settings.dtype!r} is not one of {', '.join(DTYPES)}")
    model, tokenizer = _read(settings, folder)
    config = model.config.get_text_config(decoder=True)
    more = sorted(set(getattr(config, "layer_types", None) or ()) - KEY_VALUE_LAYERS)
    if more:
        raise EngineError(
            f"{folder}: the model keeps more state than keys and values (layers of type "
            f"{', '.join(more)}); layers can be of type {', '.join(sorted(KEY_VALUE_LAYERS))}"
        )
    return Loaded(
        model=model.to(device).eval(),
        config=config,
        device=device,
        dtype=DTYPES[settings.dtype],
        context_length=_context_length(config, tokenizer),
        vocabulary=int(config.vocab_size),
        end_tokens=_end_tokens(model, tokenizer),
        digest=_digest(model, folder),
    )


def _device(name: str) -> torch.device:
    if name not in ("cpu", "cuda"):
        raise EngineError(f"engine.device: {name!r} is not one of cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise EngineError("engine.device: cuda is asked for, but torch sees no GPU")
    return torch.device(name)


def _read(settings: EngineSettings, folder: Path) -> tuple[Any, Any]:
    """Read model and tokenizer from local files; weights from safetensors only."""
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    local = {"trust_remote_code": settings.trust_remote_code, "local_files_only": True}
    causal: Any = AutoModelForCausalLM
    try:
        config = AutoConfig.from_pretrained(folder, **local)
        _check_architecture(config, settings, folder)
        tokenizer = AutoTokenizer.from_pretrained(folder, **local)
        model, report = causal.from_pretrained(
            folder,
            dtype=DTYPES[settings.dtype],
            use_safetensors=True,
            output_loading_info=True,
            **local,
        )
    except (OSError, ValueError) as error:
        raise EngineError(f"{folder}: the model cannot be loaded: {error}") from error
    _check_weights(report, folder)
    return model, tokenizer


def _check_weights(report: Mapping[str, Any], folder: Path) -> None:
    """Refuse a folder without all weights, for transformers draws those at random."""
    shapes = {key for key, *_ in report["mismatched_keys"]}
    for fault, names in (("lacks", report["missing_keys"]), ("has other shapes of", shapes)):
        if names:
            some = ", ".join(sorted(names)[:3]) + (", …" if len(names) > 3 else "")
            raise EngineError(
                f"{folder}: the model cannot be loaded: the folder {fault} {len(names)} weights of "
                f"the model that config.json describes: {some}"
            )


def _check_architecture(config: Any, settings: EngineSettings, folder: Path) -> None:
    """Refuse what is not a causal language model; what transformers would say is a page long."""
    own = settings.trust_remote_code and "AutoModelForCausalLM" in (
        getattr(config, "auto_map", None) or {}
    )
    if not own and type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise EngineError(
            f"{folder}: the model cannot be loaded: {config.model_type!r} is not a causal language "
            f"model of transformers {transformers.__version__}"
        )


def _context_length(config: Any, tokenizer: Any) -> int:
    """Tokens that the model can hold; where it does not say, the tokenizer may.

    A longrope model changes its angles for all rows beside a row that is longer than its original
    context, and for keys that were written before: up to there a row hangs on its own tokens alone.
    """
    length = getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        length = min(length, rope["original_max_position_embeddings"])
    return min(int(length), LONGEST)


def _end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end a rollout."""
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    return frozenset({*ends, tokenizer.eos_token_id} - {None})


def _digest(model: Any, folder: Path) -> str:
    """Digest of the configuration and of a sample of every weight, cheap for models of any size."""
    digest = hashlib.blake2b((folder / "config.json").read_bytes(), digest_size=16)
    for name, weight in model.state_dict().items():
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        sample = weight.flatten()[:: max(1, weight.numel() // SAMPLED_WEIGHTS)]
        digest.update(sample.float().cpu().numpy().tobytes())
    return digest.hexdigest()
