"""Token ids to text, for graders and people: the only way back from the ids."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from refork.data.files import read_json
from refork.errors import ReforkError


class TextDecoder:
    """Decodes whole token lists with a model folder's tokenizer, special tokens left out.

    Parameters
    ----------
    model_folder
        Hugging Face folder with a `tokenizer.json`.
    keep
        Special tokens that stay in the text, such as a model's `</think>`.

    Raises
    ------
    ReforkError
        The folder has no `tokenizer.json`, or one that cannot be read.
    """

    def __init__(self, model_folder: Path, keep: Iterable[str] = ()) -> None:
        self._tokenizer = _load(model_folder)
        added = self._tokenizer.get_added_tokens_decoder().items()
        special = {number: token.content for number, token in added if token.special}
        kept = set(keep) & set(special.values())
        # The tokenizer leaves out all special tokens or none.
        self._skip = not kept
        self._left_out = {number for number, content in special.items() if content not in kept}

    def decode(self, token_lists: Sequence[Sequence[int]]) -> list[str]:
        """Text of each token list."""
        if not self._skip:
            token_lists = [
                [token for token in tokens if token not in self._left_out] for tokens in token_lists
            ]
        texts: list[str] = self._tokenizer.decode_batch(token_lists, skip_special_tokens=self._skip)
        return texts

    def pieces(self, token_ids: Sequence[int]) -> list[str]:
        """Text that each token adds; a token that ends inside a character adds it to a later one.

        Special tokens have a piece too, for people who look at single tokens.
        """
        stream = DecodeStream(skip_special_tokens=False)
        return [stream.step(self._tokenizer, token) or "" for token in token_ids]


def control_texts(model_folder: Path) -> frozenset[str]:
    """Texts that the tokenizer reads as special tokens, wherever they stand in a prompt."""
    added = _load(model_folder).get_added_tokens_decoder().values()
    return frozenset(token.content for token in added if token.special)


def special_token_ids(model_folder: Path) -> frozenset[int]:
    """Ids of the tokens that are no text: turns, padding, and what else ends a rollout."""
    added = _load(model_folder).get_added_tokens_decoder().items()
    return frozenset({number for number, token in added if token.special} | _ends(model_folder))


def _ends(model_folder: Path) -> set[int]:
    """Ids that the model's own settings call ends; not every tokenizer calls them special."""
    path = model_folder / "generation_config.json"
    ends = read_json(path).get("eos_token_id") if path.is_file() else None
    return set(ends if isinstance(ends, list) else [ends]) - {None}


def _load(model_folder: Path) -> Tokenizer:
    path = model_folder / "tokenizer.json"
    if not path.is_file():
        raise ReforkError(f"{path}: no such file; token ids cannot be turned into text")
    try:
        return Tokenizer.from_buffer(path.read_bytes())
    except ValueError as error:
        raise ReforkError(f"{path}: {error}") from error
