"""Prompts: examples, templates, the chat template, and the order of choices."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.tiny_tokenizer import write_tokenizer
from refork.errors import ReforkError
from refork.stages.prepare_questions import load_tokenizer
from refork.tasks.examples import load_examples
from refork.tasks.letters import LETTERS, choice_order, permuted
from refork.tasks.prompts import INSTRUCTIONS, ChatTokenizer, Prompter, PromptSettings
from refork.tasks.questions import Question

BEES = Question("bees", "choice", "What do bees make?", "B", ("milk", "honey"))
SUM = Question("sum", "number", "What is 5 + 7?", "12")
EXAMPLES = """\
number:
  - {question: "1 + 1?", answer: "Answer: 2"}
choice:
  - {question: "Hot?", choices: [ice, 7], answer: "The answer is (B)"}
"""


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder: Path) -> ChatTokenizer:
    return load_tokenizer(tokenizer_folder, trust_remote_code=False)


def _text(tokenizer: ChatTokenizer, token_ids: list[int]) -> str:
    return str(tokenizer.decode(token_ids))  # type: ignore[attr-defined]


def test_system_examples_and_template_by_kind(tmp_path: Path, tokenizer: ChatTokenizer) -> None:
    path = tmp_path / "examples.yaml"
    path.write_text(EXAMPLES, encoding="utf-8")
    choices = "{% for choice in choices %} {{ letters[loop.index0] }}={{ choice }}{% endfor %}"
    template = "{{ question }}" + choices
    settings = PromptSettings(template=template, system="Be brief.", examples=str(path))
    prompter = Prompter(settings, tokenizer)
    assert prompter.messages(BEES) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hot? A=ice B=7"},
        {"role": "assistant", "content": "The answer is (B)"},
        {"role": "user", "content": "What do bees make? A=milk B=honey"},
    ]
    assert [turn["content"] for turn in prompter.messages(SUM)][1:3] == ["1 + 1?", "Answer: 2"]


def test_a_prompt_ends_where_the_model_begins_its_turn(tokenizer: ChatTokenizer) -> None:
    prompter = Prompter(PromptSettings(template="{{ question }}"), tokenizer)
    token_ids = prompter.token_ids(prompter.messages(SUM))
    expected = "<|start|>user\nWhat is 5 + 7?<|end|>\n<|start|>assistant\n"
    assert _text(tokenizer, token_ids) == expected


@pytest.mark.parametrize(
    ("thinking", "end"), [(None, "nt\n"), (False, "nt\n"), (True, "<think>\n")]
)
def test_thinking_goes_to_the_chat_template(
    tokenizer: ChatTokenizer, thinking: bool | None, end: str
) -> None:
    prompter = Prompter(PromptSettings(thinking=thinking), tokenizer)
    assert _text(tokenizer, prompter.token_ids(prompter.messages(SUM))).endswith(end)


def test_without_chat_template_turns_are_joined_by_blank_lines(tokenizer: ChatTokenizer) -> None:
    settings = PromptSettings(template="Q: {{ question }}", system="Sums.", chat_template=False)
    prompter = Prompter(settings, tokenizer)
    token_ids = prompter.token_ids(prompter.messages(SUM))
    assert _text(tokenizer, token_ids) == "Sums.\n\nQ: What is 5 + 7?\n\n"


@pytest.mark.parametrize("kind", ["choice", "number", "expression", "text"])
def test_default_templates_show_the_question(tokenizer: ChatTokenizer, kind: str) -> None:
    question = Question("q", kind, "Why?", "B", ("milk", "honey") if kind == "choice" else None)
    (message,) = Prompter(PromptSettings(), tokenizer).messages(question)
    assert message["content"].startswith("Why?")
    assert ("\n\n(A) milk\n(B) honey\n" in message["content"]) == (kind == "choice")


def test_an_instruction_stands_only_where_no_example_shows_the_form(
    tmp_path: Path, tokenizer: ChatTokenizer
) -> None:
    path = tmp_path / "examples.yaml"
    path.write_text(EXAMPLES, encoding="utf-8")
    (message,) = Prompter(PromptSettings(), tokenizer).messages(SUM)
    assert message["content"] == f"{SUM.question}\n\n{INSTRUCTIONS['number']}"
    shown = Prompter(PromptSettings(examples=str(path)), tokenizer).messages(SUM)
    assert shown[-1]["content"] == SUM.question


def test_a_model_without_chat_template_is_named(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, chat_template=None)
    prompter = Prompter(PromptSettings(), load_tokenizer(tmp_path, trust_remote_code=False))
    with pytest.raises(ReforkError, match=r"prompt\.chat_template: .*false joins the turns"):
        prompter.token_ids(prompter.messages(SUM))


@pytest.mark.parametrize(
    "template",
    [
        "{{ question",
        "{{ qestion }}",
        "{{ question.__class__.__mro__ }}",
        "{{ 1 / 0 }}",
        "{{ letters[3] }}",
    ],
)
def test_a_bad_template_is_named(tokenizer: ChatTokenizer, template: str) -> None:
    with pytest.raises(ReforkError, match=r"prompt\.template"):
        Prompter(PromptSettings(template=template), tokenizer).messages(SUM)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "prompt.examples"),
        ("3", "every kind: not a list"),
        ("numbr: []", "numbr: not a kind of question; allowed: .*did you mean 'number'"),
        ("number: 3", "number: not a list"),
        ("- 3", r"every kind\[0\]: not a worked example"),
        ("- {question: x}", r"every kind\[0\].answer: missing"),
        ("- {question: x, answer: 5}", "answer: missing, or not a text; quote it"),
        ("- {question: x, answer: y, choice: [a]}", "choice: allowed: .*did you mean 'choices'"),
        ("- {question: x, answer: y, choices: a}", "choices: not a list"),
    ],
)
def test_bad_examples_are_named(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "examples.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ReforkError, match=words):
        load_examples(path)


def test_missing_examples_are_named() -> None:
    with pytest.raises(ReforkError, match=r"prompt\.examples: nowhere\.yaml"):
        load_examples("nowhere.yaml")


@given(st.integers(0, 2**40), st.text(), st.integers(0, 99), st.integers(2, 26), st.data())
def test_the_answer_follows_its_choice(
    seed: int, question_id: str, rollout: int, count: int, data: st.DataObject
) -> None:
    choices = [f"choice {number}" for number in range(count)]
    answer = data.draw(st.sampled_from(LETTERS[:count]))
    order = choice_order(seed, question_id, rollout, count)
    shown, letter = permuted(choices, answer, order)
    assert sorted(shown) == sorted(choices)
    assert shown[LETTERS.index(letter)] == choices[LETTERS.index(answer)]
    assert order == choice_order(seed, question_id, rollout, count)


def test_every_order_is_as_likely() -> None:
    orders = Counter(tuple(choice_order(0, "bees", rollout, 3)) for rollout in range(6000))
    assert len(orders) == 6
    # Five standard deviations of a binomial count with p = 1/6.
    assert all(abs(count - 1000) < 5 * (6000 * 5 / 36) ** 0.5 for count in orders.values())


def test_orders_are_golden() -> None:
    assert [choice_order(0, "bees", rollout, 4) for rollout in range(3)] == [
        [2, 3, 0, 1],
        [3, 0, 1, 2],
        [2, 0, 3, 1],
    ]
