"""A causal language model of transformers: load, prefill, decode step."""

import hashlib
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from refork.engines.interface import EngineSettings
from refork.engines.torch.attention import GROUPED
from refork.engines.torch.cache import RowCache
from refork.engines.torch.sampling import log_probabilities
from refork.engines.torch.snapshots import StateKind
from refork.errors import EngineError

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
KEY_VALUE_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}
SAMPLED_WEIGHTS = 1024
LONGEST = 2**31 - 1


@dataclass(frozen=True)
class Prefill:
    """A sequence fed at once."""

    state: torch.Tensor  # [layers, 2, heads, tokens, head_dim]
    logits: torch.Tensor  # float32 [vocabulary], of the token behind the sequence
    logprobs: list[float]  # of the tokens behind the prompt


class TorchModel:
    """A loaded model; every call gives the same numbers for the same arguments."""

    def __init__(self, settings: EngineSettings, folder: Path) -> None:
        """Load the model of a local Hugging Face folder.

        Raises
        ------
        EngineError
            No weights, an unknown architecture, device or dtype, or a state that is more than keys
            and values.
        """
        self.device = _device(settings.device)
        model, tokenizer = _load(settings, folder)
        self.model = model.to(self.device).eval()
        self.config = self.model.config.get_text_config(decoder=True)
        if not set(getattr(self.config, "layer_types", None) or ()) <= KEY_VALUE_LAYERS:
            raise EngineError(f"{folder}: the model keeps more state than keys and values")
        if self.model.config._attn_implementation == "sdpa":
            self.model.set_attn_implementation(GROUPED)
        self._accepted = frozenset(inspect.signature(self.model.forward).parameters)
        self.context_length = _context_length(self.config, tokenizer)
        self.end_tokens = _end_tokens(self.model, tokenizer)
        layers, _, heads, _, width = self.prefill([0], 1).state.shape
        self.kind = StateKind(_digest(self.model, folder), settings.dtype, layers, heads, width)

    def prefill(self, tokens: list[int], prompt_length: int) -> Prefill:
        """Feed a whole sequence, one at a time and without padding."""
        cache: Any = DynamicCache()
        kept = len(tokens) - prompt_length + 1
        ids = torch.tensor([tokens], device=self.device)
        logits = self._forward(input_ids=ids, past_key_values=cache, logits_to_keep=kept)
        logits = logits[0, -kept:].float()
        behind = torch.tensor(tokens[prompt_length:], dtype=torch.int64, device=self.device)
        logprobs = log_probabilities(logits[:-1], behind[:, None])[:, 0]
        states = [torch.cat([layer.keys, layer.values]) for layer in cache.layers]
        if len({state.shape for state in states}) > 1:
            raise EngineError("the layers of this model keep keys and values of different shapes")
        return Prefill(torch.stack(states), logits[-1].clone(), logprobs.tolist())

    def step(self, tokens: list[int], cache: RowCache) -> torch.Tensor:
        """Feed one token a row; gives the logits of the next, float32 [rows, vocabulary]."""
        step = cache.step()
        logits = self._forward(
            input_ids=torch.tensor(tokens, device=self.device)[:, None],
            past_key_values=step.cache,
            attention_mask=step.attention_mask,
            position_ids=step.position_ids,
            logits_to_keep=1,
        )
        return logits[:, -1].float()

    @torch.no_grad()
    def _forward(self, **arguments: Any) -> torch.Tensor:
        known = {name: value for name, value in arguments.items() if name in self._accepted}
        logits: torch.Tensor = self.model(**known, use_cache=True).logits
        return logits


def _device(name: str) -> torch.device:
    if name not in ("cpu", "cuda"):
        raise EngineError(f"engine.device: {name!r} is not one of cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise EngineError("engine.device: cuda is asked for, but torch sees no GPU")
    return torch.device(name)


def _load(settings: EngineSettings, folder: Path) -> tuple[Any, Any]:
    """Load model and tokenizer from local files; weights from safetensors only."""
    if settings.dtype not in DTYPES:
        raise EngineError(f"engine.dtype: {settings.dtype!r} is not one of {', '.join(DTYPES)}")
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    local = {"trust_remote_code": settings.trust_remote_code, "local_files_only": True}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **local)
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=DTYPES[settings.dtype], use_safetensors=True, **local
        )
    except (OSError, ValueError) as error:
        raise EngineError(f"{folder}: the model cannot be loaded: {error}") from error
    return model, tokenizer


def _context_length(config: Any, tokenizer: Any) -> int:
    """Tokens that the model can hold; where it does not say, the tokenizer may."""
    length = getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length
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
