"""Prompts: a question becomes messages, and messages become token ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from refork.errors import ReforkError
from refork.tasks.examples import Examples, load_examples
from refork.tasks.letters import LETTERS
from refork.tasks.questions import Question

_CHOICE_TEMPLATE = """\
{{ question }}
{% for choice in choices %}
({{ letters[loop.index0] }}) {{ choice }}
{%- endfor %}"""
TEMPLATES: Mapping[str, str] = {
    "choice": _CHOICE_TEMPLATE,
    "number": "{{ question }}",
    "expression": "{{ question }}",
    "text": "{{ question }}",
}
"""User turn of each kind where `prompt.template` is null."""
INSTRUCTIONS: Mapping[str, str] = {
    "choice": 'Think step by step, then end with "The answer is (X)", where X is a letter.',
    "number": 'Think step by step, then end with "Answer: " and the number.',
    "expression": "Think step by step, and put your final answer within \\boxed{}.",
}
"""What follows it where no worked examples show the form of an answer."""


class Message(TypedDict):
    """One turn of a conversation."""

    role: str
    content: str


class ChatTokenizer(Protocol):
    """What is used of a tokenizer of transformers; `model_max_length` in tokens."""

    model_max_length: int

    def apply_chat_template(self, conversation: list[Message], **options: Any) -> list[int]:
        """Token ids of a conversation."""
        ...

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, the model's own beginning included."""
        ...


@dataclass(frozen=True)
class PromptSettings:
    """Config section `prompt`."""

    template: str | None = None
    system: str | None = None
    examples: str | None = None
    chat_template: bool = True
    thinking: bool | None = None


class Prompter:
    """Makes prompts by the settings; the worked examples are read once.

    Raises
    ------
    ReforkError
        The template or the file of examples is no good.
    """

    def __init__(self, settings: PromptSettings, tokenizer: ChatTokenizer) -> None:
        self._settings = settings
        self._tokenizer = tokenizer
        self._examples = load_examples(settings.examples) if settings.examples else Examples()
        environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined)
        self._templates = {
            kind: _compiled(environment, settings.template or template)
            for kind, template in TEMPLATES.items()
        }

    def messages(self, question: Question) -> list[Message]:
        """Messages of a question: system turn, worked examples, user turn."""
        turns = []
        if self._settings.system is not None:
            turns.append(Message(role="system", content=self._settings.system))
        for example in self._examples.of_kind(question.kind):
            shown = self._user_turn(question.kind, example.question, example.choices)
            turns += [shown, Message(role="assistant", content=example.answer)]
        return [*turns, self._user_turn(question.kind, question.question, question.choices)]

    def token_ids(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a prompt, up to where the model begins its turn.

        Without a chat template the turns are joined by blank lines, and one more stands at the end.

        Raises
        ------
        ReforkError
            The model has no chat template, or it does not take these turns.
        """
        if not self._settings.chat_template:
            return list(
                self._tokenizer.encode("".join(f"{turn['content']}\n\n" for turn in messages))
            )
        thinking = self._settings.thinking
        options = {} if thinking is None else {"enable_thinking": thinking}
        try:
            return list(
                self._tokenizer.apply_chat_template(
                    list(messages),
                    tokenize=True,
                    add_generation_prompt=True,
                    return_dict=False,
                    **options,
                )
            )
        # ValueError: there is no template; Jinja's errors are a template's own.
        except (ValueError, jinja2.TemplateError) as error:
            raise ReforkError(
                f"prompt.chat_template: the model's chat template does not serve ({error});"
                " false joins the turns without one"
            ) from error

    def _user_turn(self, kind: str, question: str, choices: Sequence[str] | None) -> Message:
        shown = list(choices or ())
        try:
            content = self._templates[kind].render(
                question=question, choices=shown, letters=list(LETTERS[: len(shown)])
            )
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise ReforkError(
                f"prompt.template: {error}; its variables are question, choices and letters"
            ) from error
        alone = self._settings.template is None and not self._examples.of_kind(kind)
        if alone and kind in INSTRUCTIONS:
            content = f"{content}\n\n{INSTRUCTIONS[kind]}"
        return Message(role="user", content=content)


def _compiled(environment: jinja2.Environment, template: str) -> jinja2.Template:
    try:
        return environment.from_string(template)
    except jinja2.TemplateSyntaxError as error:
        raise ReforkError(f"prompt.template: line {error.lineno}: {error.message}") from error
