"""Worked examples that are shown before a question."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from refork.errors import ReforkError, allowed_names, raise_if_any
from refork.tasks.questions import KINDS

KEYS = ("question", "choices", "answer")
EVERY_KIND = "every kind"


@dataclass(frozen=True)
class Example:
    """A question with the text of a good completion."""

    question: str
    answer: str
    choices: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Examples:
    """Worked examples: one list for every kind of question, or one for each kind named."""

    by_kind: Mapping[str, tuple[Example, ...]] = field(default_factory=dict)

    def of_kind(self, kind: str) -> tuple[Example, ...]:
        """Examples that are shown before questions of a kind."""
        return self.by_kind.get(EVERY_KIND, self.by_kind.get(kind, ()))


def load_examples(path: str | Path) -> Examples:
    """Load a YAML file: a list of {question, choices (optional), answer}, or {kind: such a list}.

    Raises
    ------
    ReforkError
        Everything that is wrong with the file.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ReforkError(f"prompt.examples: {path}: {error}") from error
    lists = content if isinstance(content, dict) else {EVERY_KIND: content}
    faults: list[str] = []
    by_kind = {}
    for kind, entries in lists.items():
        if kind not in (EVERY_KIND, *KINDS):
            faults.append(
                f"{path}: {kind}: not a kind of question; {allowed_names(str(kind), KINDS)}"
            )
            continue
        if not isinstance(entries, list):
            faults.append(f"{path}: {kind}: not a list of worked examples")
            continue
        read = [_example(entry, f"{path}: {kind}[{n}]", faults) for n, entry in enumerate(entries)]
        by_kind[str(kind)] = tuple(example for example in read if example is not None)
    raise_if_any(faults)
    return Examples(by_kind)


def _example(entry: Any, where: str, faults: list[str]) -> Example | None:
    if not isinstance(entry, dict):
        faults.append(f"{where}: not a worked example with keys {', '.join(KEYS)}")
        return None
    bad = [f"{where}.{key}: {allowed_names(str(key), KEYS)}" for key in entry if key not in KEYS]
    bad += [
        f"{where}.{key}: missing, or not a text; quote it"
        for key in ("question", "answer")
        if not isinstance(entry.get(key), str)
    ]
    choices = entry.get("choices")
    if not (choices is None or isinstance(choices, list)):
        bad.append(f"{where}.choices: not a list")
    faults += bad
    if bad:
        return None
    shown = None if choices is None else tuple(map(str, choices))
    return Example(entry["question"].strip(), entry["answer"].strip(), shown)
