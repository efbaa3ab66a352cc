"""100,000 completions of 200 tokens are decoded and graded in 20 seconds on one core."""

import time
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from refork.tasks.graders import GradingSettings, grade
from refork.tasks.questions import Question
from refork.tasks.text import TextDecoder

BATCHES = 100
BATCH = 1000
TOKENS = 200
SECONDS = 20
WORDS = (
    "So Paul has 5 coins and finds 7 more, which is the best way to get to 12 coins in the end. "
    "Option A is wrong because **bees** do not bake bread, and (B) is not right. "
    "We know that x = 3,400. "
    "If the answer is A, then $2 \\times 6 = 12$, so it is the right choice to go on.\n"
) * 20
QUESTIONS = {
    "choice": Question("bees", "choice", "What?", "C", ("milk", "bread", "honey", "wax")),
    "number": Question("sum", "number", "What?", "12"),
}
ENDINGS = {"choice": " The answer is (C)", "number": " Answer: 12"}


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE tokenizer whose tokens are as long as a real one's, about 4 bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|end|>"],
    )
    tokenizer.train_from_iterator([WORDS, *ENDINGS.values()], trainer)
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_hundred_thousand_completions_are_graded_in_time(
    tokenizer_folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    tokenizer = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    ending = tokenizer.encode(ENDINGS[kind]).ids
    completion = tokenizer.encode(WORDS).ids[: TOKENS - len(ending)] + ending
    batch = [completion] * BATCH
    decoder = TextDecoder(tokenizer_folder)
    start = time.process_time()
    for _ in range(BATCHES):
        for text in decoder.decode(batch):
            outcome = grade(text, QUESTIONS[kind], GradingSettings())
    seconds = time.process_time() - start
    assert len(completion) == TOKENS
    assert outcome == QUESTIONS[kind].answer
    assert seconds < SECONDS
