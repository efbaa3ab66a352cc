"""`refork questions`: arithmetic word problems made to order, and worked examples for them."""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

import yaml

from refork.data.files import write_text
from refork.errors import ReforkError
from refork.tasks.arithmetic import MOST, generate, worked_examples
from refork.tasks.examples import Example
from refork.tasks.questions import Question


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--count", type=int, default=48, help=f"questions, 1 to {MOST}; default: %(default)s"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="other questions for another; default: %(default)s"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE.jsonl", help="the questions"
    )
    parser.add_argument(
        "--examples", type=Path, metavar="FILE.yaml", help="worked examples, for prompt.examples"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the questions, and the worked examples where they are asked for."""
    if arguments.examples is not None and arguments.examples.resolve() == arguments.out.resolve():
        raise ReforkError(f"--examples: is {arguments.examples}, the file of --out; give another")
    write_text(arguments.out, questions_text(generate(arguments.count, arguments.seed)))
    if arguments.examples is not None:
        write_text(arguments.examples, examples_text(worked_examples(arguments.seed)))
    return 0


def questions_text(questions: Iterable[Question]) -> str:
    """Return questions as JSON lines."""
    rows = (
        {"id": item.question_id, "question": item.question, "answer": item.answer}
        for item in questions
    )
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def examples_text(examples: Iterable[Example]) -> str:
    """Return worked examples of number questions as YAML."""
    rows = [{"question": item.question, "answer": item.answer} for item in examples]
    return yaml.dump({"number": rows}, Dumper=_Blocks, sort_keys=False, width=200)


class _Blocks(yaml.SafeDumper):
    """Writes a text of several lines as such."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Blocks.add_representer(str, _text)
