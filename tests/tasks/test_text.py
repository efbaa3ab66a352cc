"""Token ids to text and back to what a grader needs."""

import shutil
from pathlib import Path

import pytest
import transformers

from refork.errors import ReforkError
from refork.tasks.text import TextDecoder, special_token_ids


def _ids(folder: Path, text: str) -> list[int]:
    return list(transformers.AutoTokenizer.from_pretrained(folder).encode(text))


def test_special_tokens_are_left_out(tokenizer_folder: Path) -> None:
    ids = _ids(tokenizer_folder, "<think>2 €</think> ölig<|end|>")
    assert TextDecoder(tokenizer_folder).decode([ids, []]) == ["2 € ölig", ""]


def test_kept_marks_stay(tokenizer_folder: Path) -> None:
    ids = _ids(tokenizer_folder, "<think>2</think> 3<|end|>")
    decoder = TextDecoder(tokenizer_folder, keep=["<think>", "</think>", "no token"])
    assert decoder.decode([ids]) == ["<think>2</think> 3"]


@pytest.mark.parametrize(("ends", "more"), [("[65, 66]", {65, 66}), ("65", {65}), ("null", set())])
def test_what_ends_a_rollout_is_special(
    tokenizer_folder: Path, tmp_path: Path, ends: str, more: set[int]
) -> None:
    known = special_token_ids(tokenizer_folder)
    folder = Path(shutil.copytree(tokenizer_folder, tmp_path / "model"))
    (folder / "generation_config.json").write_text(f'{{"eos_token_id": {ends}}}')
    assert special_token_ids(folder) - known == more


def test_a_folder_without_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReforkError, match=r"tokenizer\.json: no such file"):
        TextDecoder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ReforkError, match=r"tokenizer\.json: "):
        TextDecoder(tmp_path)
