"""The synthetic engine's model folder: its chain, and a real tokenizer with a chat template.

Text goes in byte by byte; what comes out are words, so that the same text has other token ids when
it is encoded again, as with any model. A rollout reads like `consider length width around
therefore. We get 2. The answer is (B).`, which graders of choices and of numbers understand.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from refork.data.files import read_json, write_text
from refork.engines.synthetic.chain import Chain
from refork.errors import EngineError

SYNTHETIC_FILE = "synthetic.json"

_CONTEXT_LENGTH = 16384
_SPECIAL = ("<|pad|>", "<|start|>", "<|end|>")
_NEUTRAL = ("perhaps", "consider", "now", "next", "maybe")
_LEANING = {
    "A": ("count", "pairs", "evenly", "twice", "hence"),
    "B": ("length", "width", "around", "sides", "therefore"),
    "C": ("heat", "metal", "warms", "quickly", "thus"),
    "D": ("stone", "weighs", "sinks", "slowly", "so"),
}
_LAST = 4  # place of the last word of a group, which mostly concludes
_CHAT_TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def write_synthetic_model(folder: Path) -> None:
    """Write `synthetic.json`, `tokenizer.json`, `tokenizer_config.json` and the chat template."""
    for name, content in _files().items():
        write_text(folder / name, content)


def synthetic_digest() -> str:
    """Return the sha256 over all files of the model."""
    return hashlib.sha256(json.dumps(_files(), sort_keys=True).encode()).hexdigest()


def read_chain(folder: Path) -> tuple[Chain, Mapping[str, Any]]:
    """Return the chain of a model folder and its whole description.

    Raises
    ------
    EngineError
        The folder holds another kind of model.
    """
    path = folder / SYNTHETIC_FILE
    if not path.is_file():
        raise EngineError(
            f"{folder}: has no {SYNTHETIC_FILE}; the synthetic engine runs its own model only"
        )
    model = read_json(path)
    weights = np.array(model["weights"], dtype=np.float64)
    token_ids = np.array(model["token_ids"], dtype=np.int32)
    chain = Chain(
        token_ids=token_ids,
        transitions=weights / weights.sum(axis=1, keepdims=True),
        end=model["token_ids"].index(model["end_token"]),
        conclusions={
            model["token_ids"].index(token): label
            for label, token in model["conclusion_tokens"].items()
        },
    )
    return chain, model


def _files() -> dict[str, str]:
    tokenizer = _tokenizer()
    start, end = _SPECIAL[1:]
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": start,
        "eos_token": end,
        "pad_token": _SPECIAL[0],
        "model_max_length": _CONTEXT_LENGTH,
        "clean_up_tokenization_spaces": False,
    }
    return {
        SYNTHETIC_FILE: json.dumps(_model(tokenizer), indent=1) + "\n",
        "tokenizer.json": tokenizer.to_str(pretty=True) + "\n",
        "tokenizer_config.json": json.dumps(settings, indent=2) + "\n",
        "chat_template.jinja": _CHAT_TEMPLATE,
    }


def _tokenizer() -> Tokenizer:
    # No merges: no text is ever encoded into the ids of words.
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    spoken = [_spelled(token.text) for token in _GENERATED[1:]]
    vocabulary = {token: index for index, token in enumerate([*_SPECIAL, *letters, *spoken])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in _SPECIAL])
    return tokenizer


def _spelled(text: str) -> str:
    return text.replace(" ", "Ġ")  # as byte-level tokenizers write a space


def _model(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the description; weights are whole numbers, a row a state, a column a token."""
    ids = [tokenizer.token_to_id(_spelled(token.text)) for token in _GENERATED]
    concluding = {
        token.label: token_id
        for token, token_id in zip(_GENERATED, ids, strict=True)
        if token.role == "conclusion"
    }
    return {
        "architectures": ["SyntheticChain"],
        "max_position_embeddings": _CONTEXT_LENGTH,
        "dtype": "float64",
        "end_token": ids[0],
        "special_tokens": [tokenizer.token_to_id(text) for text in _SPECIAL],
        "conclusion_tokens": concluding,
        "token_ids": ids,
        "weights": [
            [_weight(state, token) for token in _GENERATED] for state in (*_GENERATED, *_STARTS)
        ],
    }


@dataclass(frozen=True)
class _State:
    """A token or a start: its role, the label it leans to or concludes on, its place in a group."""

    text: str
    role: str
    label: str = ""
    place: int = 0


_GENERATED = (
    _State(_SPECIAL[2], "end"),
    *(_State(f" {word}", "neutral") for word in _NEUTRAL),
    *(
        _State(f" {word}", "word", label, place)
        for label, words in _LEANING.items()
        for place, word in enumerate(words)
    ),
    *(
        _State(f". We get {number}. The answer is ({label}).", "conclusion", label)
        for number, label in enumerate(_LEANING, start=1)
    ),
)
_STARTS = tuple(
    _State(f"start {label}{index}", "start", label) for index in range(4) for label in _LEANING
)


def _weight(state: _State, token: _State) -> int:
    """Return the weight of `token` behind `state`: the chain's shape times the pair's number."""
    pair = f"{state.text}>{token.text}".encode()
    return _shape(state, token) * (64 + hashlib.blake2b(pair, digest_size=1).digest()[0])


def _shape(state: _State, token: _State) -> int:
    """Return the weight without the pair's number.

    Words stay in the group that leans to their label and lead to its conclusion; neutral words lead
    everywhere, and so do starts, though each prefers a group: there the answer forks.
    """
    if token.role == "end":
        return 900 if state.role == "conclusion" else 0
    if state.role == "conclusion":
        return 4
    leans = state.label != "" and state.label == token.label
    if state.role != "word":
        return 1 if token.role == "conclusion" else 160 if leans else 40
    if not leans:
        return 24 if token.role == "neutral" else 5
    if token.role == "conclusion":
        return 500 if state.place == _LAST else 60
    return 300 if token.place == state.place + 1 else 90
