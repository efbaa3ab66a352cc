"""Stage prepare_questions: from a source of questions to the prompts of every rollout."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import transformers

from refork.data.files import file_sha256, read_json
from refork.data.manifest import manifest_path
from refork.data.schemas import QUESTIONS
from refork.data.tables import from_rows
from refork.errors import ReforkError, raise_if_any
from refork.study.lock import question_source
from refork.tasks.letters import choice_order, permuted
from refork.tasks.prompts import ChatTokenizer, Prompter, PromptSettings
from refork.tasks.questions import Question, load_questions, questions_digest
from refork.tasks.text import control_texts


@dataclass(frozen=True)
class Plan:
    """How often and in which order the questions are asked, and among how many shards.

    `context_length` is the model's, in tokens; a prompt must leave room for one token at least.
    """

    rollouts: int
    seed: int
    context_length: int
    permute_choices: bool = False
    shards: int = 1


def prepare_questions(stage: Mapping[str, Any], model_folder: Path, shards: int) -> list[pa.Table]:
    """Load the questions and make one table (`data.schemas.QUESTIONS`) a shard.

    Parameters
    ----------
    stage
        The record that was hashed.
    model_folder
        Hugging Face folder with the tokenizer, its manifest beside it.
    shards
        Number of tables; the questions are divided among them in their order.

    Raises
    ------
    ReforkError
        The source, the template or the tokenizer is no good, questions or examples are not those
        of the lock, a question holds a control token's text, or a prompt does not fit the context.
    """
    settings, locked = stage["settings"], stage["lock"]
    source = question_source(settings["questions"])
    questions = load_questions(source)
    _refuse_others(
        source.file or source.dataset, "questions", questions_digest(questions), locked["questions"]
    )
    examples = settings["prompt"]["examples"]
    if examples is not None:
        _refuse_others(examples, "examples", file_sha256(Path(examples)), locked["examples"])
    _refuse_control_texts(questions, control_texts(model_folder))
    tokenizer = load_tokenizer(model_folder, settings["trust_remote_code"])
    prompter = Prompter(PromptSettings(**settings["prompt"]), tokenizer)
    facts = read_json(manifest_path(model_folder))
    plan = Plan(
        rollouts=settings["rollouts"]["count"],
        seed=settings["seed"],
        # Where the model does not say, its tokenizer may, as for the engine.
        context_length=facts["context_length"] or tokenizer.model_max_length,
        permute_choices=settings["questions"]["permute_choices"],
        shards=shards,
    )
    return prompt_tables(questions, prompter, plan)


def _refuse_others(where: str | None, what: str, found: str, locked: str) -> None:
    if found != locked:
        raise ReforkError(
            f"{where}: the {what} (sha256 {found}) are not those that were locked ({locked});"
            " lock the study again"
        )


def _refuse_control_texts(questions: Sequence[Question], control: Collection[str]) -> None:
    """Refuse questions that would speak to the model as its chat template does."""
    raise_if_any(
        [
            f"{question.where}: question {question.question_id}: holds {text!r}, which the model"
            " reads as a control token, not as text"
            for question in questions
            for text in sorted(control)
            if any(text in part for part in (question.question, *(question.choices or ())))
        ]
    )


def load_tokenizer(model_folder: Path, trust_remote_code: bool) -> ChatTokenizer:
    """Load the tokenizer of a local model folder."""
    try:
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(
            model_folder, trust_remote_code=trust_remote_code, local_files_only=True
        )
    except (OSError, ValueError) as error:
        raise ReforkError(f"{model_folder}: no tokenizer can be loaded ({error})") from error
    chat_tokenizer: ChatTokenizer = tokenizer
    return chat_tokenizer


def prompt_tables(questions: Sequence[Question], prompter: Prompter, plan: Plan) -> list[pa.Table]:
    """Make the tables of questions that are loaded; shards are contiguous and may be empty.

    Raises
    ------
    ReforkError
        All prompts that do not fit the context, each with its file, line and question.
    """
    faults: list[str] = []
    bounds = [shard * len(questions) // plan.shards for shard in range(plan.shards + 1)]
    tables = []
    for start, end in pairwise(bounds):
        rows = [
            row
            for question in questions[start:end]
            for row in _rows(question, prompter, plan, faults)
        ]
        tables.append(from_rows(rows, QUESTIONS))
    raise_if_any(faults)
    return tables


def _rows(
    question: Question, prompter: Prompter, plan: Plan, faults: list[str]
) -> list[dict[str, Any]]:
    """Rows of all rollouts of one question; one prompt serves those that show the same order."""
    prompts: dict[Question, dict[str, Any]] = {}
    rows = []
    for rollout in range(plan.rollouts):
        shown = _shown(question, rollout, plan)
        if shown not in prompts:
            messages = prompter.messages(shown)
            prompts[shown] = {
                "messages": json.dumps(messages),
                "prompt_token_ids": prompter.token_ids(messages),
            }
        rows.append(
            {
                "question_id": shown.question_id,
                "rollout": rollout,
                "kind": shown.kind,
                "question": shown.question,
                "choices": None if shown.choices is None else list(shown.choices),
                "answer": shown.answer,
                **prompts[shown],
            }
        )
    longest = max(len(prompt["prompt_token_ids"]) for prompt in prompts.values())
    if longest >= plan.context_length:
        faults.append(
            f"{question.where}: question {question.question_id}: its prompt has {longest} tokens;"
            f" the model's context holds {plan.context_length}, one generated token included"
        )
    return rows


def _shown(question: Question, rollout: int, plan: Plan) -> Question:
    if question.choices is None or not plan.permute_choices:
        return question
    order = choice_order(plan.seed, question.question_id, rollout, len(question.choices))
    choices, answer = permuted(question.choices, question.answer, order)
    return replace(question, choices=choices, answer=answer)
