"""Sentences of a rollout, counted in tokens."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from refork.errors import ReforkError
from refork.tasks.sentences import SentenceFinder
from refork.tasks.text import special_token_ids

SENTENCES = [
    "Dr. Lee has 3.5 kg of rice. ",
    "She eats 0.5 kg, i.e. one seventh! ",
    "What is left?\n\n",
    "1. First, 3.5 - 0.5 = 3.\n",
    "2. So 3 kg are left.\n",
    "Yes.\n",
    "Yes.\n\n",
    "The answer is 3.",
]
WIDE = ["Es kostet 5 €. ", "Öl ist teuer. ", "你好，世界。", "这是第二句。", "🙂 is done. ", "End."]


def ids(folder: Path, text: str) -> list[int]:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


def byte_starts(sentences: Sequence[str]) -> list[int]:
    """Where sentences start in a text of so many bytes, the token of the tiny tokenizer."""
    return list(accumulate((len(sentence.encode()) for sentence in sentences[:-1]), initial=0))


@pytest.mark.parametrize("sentences", [SENTENCES, WIDE], ids=["reasoning", "wide"])
def test_a_sentence_starts_at_the_first_byte_of_its_first_character(
    tokenizer_folder: Path, sentences: list[str]
) -> None:
    token_ids = ids(tokenizer_folder, "".join(sentences))
    assert SentenceFinder(tokenizer_folder).starts(token_ids) == byte_starts(sentences)


def test_white_space_before_a_sentence_is_no_part_of_it(tokenizer_folder: Path) -> None:
    finder = SentenceFinder(tokenizer_folder)
    assert finder.starts(ids(tokenizer_folder, "\n\nSo 3.  \n\n  It is 4.")) == [0, 13]
    assert finder.starts(ids(tokenizer_folder, "   \n ")) == [0]
    assert finder.starts([]) == []


def test_special_tokens_start_no_sentence_and_hide_none(tokenizer_folder: Path) -> None:
    text = "<think>It is 3. Is it?</think>\n\nIt is 4.<|end|>"
    token_ids = ids(tokenizer_folder, text)
    assert len(token_ids) == len("It is 3. Is it?\n\nIt is 4.") + 3
    starts = SentenceFinder(tokenizer_folder).starts(token_ids)
    assert starts == [0, 1 + len("It is 3. "), 2 + len("It is 3. Is it?\n\n")]


def test_a_rollout_that_was_cut_inside_a_character(tokenizer_folder: Path) -> None:
    token_ids = ids(tokenizer_folder, "It is 4. €")[:-1]
    assert SentenceFinder(tokenizer_folder).starts(token_ids) == [0]


@pytest.fixture(scope="module")
def merged_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer whose tokens are parts of words, spaces and ends of sentences."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=alphabet, max_token_length=5, show_progress=False
    )
    tokenizer.train_from_iterator(["".join(SENTENCES), "".join(WIDE)] * 20, trainer)
    folder = tmp_path_factory.mktemp("merged")
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.parametrize("sentences", [SENTENCES, WIDE], ids=["reasoning", "wide"])
def test_a_sentence_starts_at_the_token_that_holds_its_first_character(
    merged_folder: Path, sentences: list[str]
) -> None:
    text = "".join(sentences)
    tokenizer = Tokenizer.from_file(str(merged_folder / "tokenizer.json"))
    encoding = tokenizer.encode(text)
    assert len(encoding.ids) < 0.8 * len(text.encode())
    places = accumulate(map(len, sentences[:-1]), initial=0)
    first_token = {
        place: next(
            token for token, (first, end) in enumerate(encoding.offsets) if first <= place < end
        )
        for place in places
    }
    starts = SentenceFinder(merged_folder).starts(encoding.ids)
    assert starts == sorted(set(first_token.values()))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 259), min_size=1, max_size=80))
def test_whatever_the_tokens_are_the_starts_are_some_of_them(
    tokenizer_folder: Path, token_ids: list[int]
) -> None:
    starts = SentenceFinder(tokenizer_folder).starts(token_ids)
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    assert starts[-1] < len(token_ids)
    special = special_token_ids(tokenizer_folder)
    assert not any(token_ids[start] in special for start in starts[1:])


def test_importing_it_warns_of_nothing_even_where_pysbd_was_not_compiled_yet(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-W", "error", "-X", f"pycache_prefix={tmp_path}", "-c"]
    module = "import refork.tasks.text; import warnings; import refork.tasks.sentences"
    done = subprocess.run([*command, module], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_folder_without_tokenizer_is_named(tokenizer_folder: Path, tmp_path: Path) -> None:
    shutil.copy(tokenizer_folder / "tokenizer_config.json", tmp_path)
    with pytest.raises(ReforkError, match=r"tokenizer\.json: no such file"):
        SentenceFinder(tmp_path)
