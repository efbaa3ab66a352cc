"""Where the sentences of a rollout start, counted in tokens."""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from refork.tasks.text import TextDecoder, special_token_ids

with warnings.catch_warnings():
    # Compiling it warns of its escape sequences.
    warnings.simplefilter("ignore")
    import pysbd


class SentenceFinder:
    """Finds the sentences in token lists of a model.

    Token ids are never encoded again: sentences are found in the text (pysbd, English), and each
    place in it is known by the tokens that wrote it. Special tokens write nothing here.

    Parameters
    ----------
    model_folder
        Hugging Face folder with a `tokenizer.json`.

    Raises
    ------
    ReforkError
        The folder has no `tokenizer.json`, or one that cannot be read.
    """

    def __init__(self, model_folder: Path) -> None:
        self._decoder = TextDecoder(model_folder)
        self._special = special_token_ids(model_folder)
        self._segmenter = pysbd.Segmenter(language="en", clean=False)

    def starts(self, token_ids: Sequence[int]) -> list[int]:
        """Index of the first token of every sentence, ascending; the first sentence starts at 0.

        A token that ends one sentence and starts the next is the first of the next. Where several
        tokens write a character together, the first of them counts.
        """
        if not token_ids:
            return []
        pieces = self._decoder.pieces(token_ids)
        # A token that only starts a character has no piece: its text is in that of a later one.
        groups = np.cumsum([False, *(bool(piece) for piece in pieces[:-1])])
        firsts = np.searchsorted(groups, groups)
        shown = [
            "" if token in self._special else piece
            for token, piece in zip(token_ids, pieces, strict=True)
        ]
        ends = np.cumsum([len(piece) for piece in shown])
        places = list(self._sentence_places("".join(shown)))[1:]
        writers = np.searchsorted(ends, places, side="right")
        return sorted({0, *firsts[writers].tolist()})

    def _sentence_places(self, text: str) -> Iterator[int]:
        """Index of the first character of every sentence that is not white space.

        What pysbd has not kept as it was is part of the sentence before it.
        """
        end = 0
        for sentence in self._segmenter.segment(text):
            core = sentence.strip()
            place = text.find(core, end) if core else -1
            if place >= 0:
                end = place + len(core)
                yield place
