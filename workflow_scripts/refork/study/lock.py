"""The lock file of a study: what its config points at, frozen.

The config names a model, a questions file, an engine; the lock says which ones these are. It is
made once, by `refork lock`, before the graph is laid out; afterwards every parse reads the lock
alone, and every worker stops when what it finds is not what was locked. An entry is kept under the
keys that asked for it: variants share entries, a new variant on the same model needs no new lock.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refork import __version__
from refork.data.files import canonical_json, file_sha256, read_json, write_json
from refork.engines.model_source.source import ModelSource, source_digest
from refork.errors import ReforkError, raise_if_any
from refork.study.config import Settings
from refork.study.engine_checks import engine_faults
from refork.study.loading import Study
from refork.tasks.examples import load_examples
from refork.tasks.graders.grading import GradingSettings, grader_of
from refork.tasks.questions import Question, load_questions, questions_digest
from refork.tasks.source import QuestionSource

_QUESTION_KEYS = {
    "file",
    "dataset",
    "dataset_name",
    "dataset_revision",
    "split",
    "columns",
    "limit",
}


def lock_path(study: Study) -> Path:
    """Return the path of a study's lock file."""
    name = study.settings.study
    return Path(study.settings.results) / name / f"{name}.lock.json"


def make_lock(study: Study) -> dict[str, Any]:
    """Look at everything the config points at, and freeze it.

    Raises
    ------
    ReforkError
        Something is not there or cannot be read, or a grader does not fit the questions.
    """
    lock: dict[str, Any] = {"refork": __version__, "study": study.settings.study}
    for part in PARTS:
        entries: dict[str, Any] = {}
        for settings in study.variants.values():
            asked = canonical_json(part.ask(settings))
            if asked not in entries:
                entries[asked] = part.look(settings)
        lock[part.name] = entries
    _check_graders(study, lock)
    _check_engines(study, lock)
    return lock


def write_lock(study: Study) -> Path:
    """Make the lock of a study and write it."""
    path = lock_path(study)
    write_json(path, make_lock(study))
    return path


def make_lock_if_absent(study: Study) -> None:
    """Make the lock of a study that has none, and say so."""
    path = lock_path(study)
    if not path.exists():
        print(f"refork: making the lock {path}", file=sys.stderr)
        write_lock(study)


def read_lock(study: Study) -> dict[str, Any]:
    """Read the lock as {"variants": {name: {model, questions, examples, engine}}}.

    Raises
    ------
    ReforkError
        The lock does not fit the config any more; the message says in what. Or a grader does not
        fit the questions.
    """
    path = lock_path(study)
    lock = read_json(path)
    found = list(_unfit(study, lock))
    if found:
        words = "\n".join(f"  {line}" for line in found)
        raise ReforkError(
            f"{path}: the lock no longer fits the config:\n{words}\n"
            "  run `refork lock CONFIG` to lock the study anew; results that stay valid are kept"
        )
    _check_graders(study, lock)
    _check_engines(study, lock)
    variants = {
        name: {
            part.name: lock[part.name][canonical_json(part.ask(settings))]["locked"]
            for part in PARTS
        }
        for name, settings in study.variants.items()
    }
    return {"variants": variants}


def _unfit(study: Study, lock: Mapping[str, Any]) -> Iterator[str]:
    said = set()
    for name, settings in study.variants.items():
        for part in PARTS:
            asked = canonical_json(part.ask(settings))
            if (part.name, asked) in said:
                continue
            said.add((part.name, asked))
            entry = lock.get(part.name, {}).get(asked)
            if entry is None:
                yield f"variant {name}: {_named(part, settings)} was never locked"
            elif _touched(entry["files"]) and part.look(settings)["locked"] != entry["locked"]:
                yield f"variant {name}: {_named(part, settings)} has changed since it was locked"


def _check_graders(study: Study, lock: Mapping[str, Any]) -> None:
    """Say now, and not after the sampling, that a grader does not fit the questions."""
    for name, settings in study.variants.items():
        entry = lock["questions"][canonical_json(_ask_questions(settings))]
        grading = GradingSettings(**settings.grading.model_dump())
        for kind, first in entry.get("first_of_kind", {}).items():
            try:
                grader_of(grading, Question(first, kind, "", ""))
            except ReforkError as error:
                raise ReforkError(f"variant {name}: {error}") from error


def _named(part: "Part", settings: Settings) -> str:
    """Name a part by the keys that are set, such as `questions (file: q.jsonl, split: test)`."""
    given = [f"{key}: {value}" for key, value in part.ask(settings).items() if value]
    return f"{part.name} ({', '.join(given)})" if given else part.name


def _check_engines(study: Study, lock: Mapping[str, Any]) -> None:
    """Say now what the engines that the lock has settled cannot do of what is asked."""
    faults = []
    for name, settings in study.variants.items():
        engine = lock["engine"][canonical_json(_ask_engine(settings))]["locked"]
        found = engine_faults(settings, engine["kind"], engine["device"])
        where = "" if name == "base" else f"variants.{name}."
        faults += [f"{where}{path}: {words}" for path, words in found]
    raise_if_any(faults)


def _seen(*paths: Path) -> list[dict[str, Any]]:
    """Return what tells at a glance whether files were touched.

    It is taken before they are read: what is written meanwhile counts as touched.
    """
    status = [(path, path.stat()) for path in paths if path.exists()]
    return [
        {"path": str(path), "size": seen.st_size, "mtime_ns": seen.st_mtime_ns}
        for path, seen in status
    ]


def _beneath(name: str | None, pattern: str) -> list[Path]:
    """Return a folder and what lies in it: a folder's own time tells that a file came or went."""
    folder = Path(name or "")
    if name is None or not folder.is_dir():
        return []
    return [folder, *sorted(folder.glob(pattern))]


def _touched(files: Sequence[Mapping[str, Any]]) -> bool:
    return _seen(*(Path(file["path"]) for file in files)) != list(files)


def model_source(settings: Mapping[str, Any]) -> ModelSource:
    """Return the source of a model from the config section `model`."""
    return ModelSource(**settings)


def question_source(settings: Mapping[str, Any]) -> QuestionSource:
    """Return the source of questions from the config section `questions`."""
    return QuestionSource(**{name: settings[name] for name in sorted(_QUESTION_KEYS)})


def _ask_model(settings: Settings) -> dict[str, Any]:
    return settings.model.model_dump(exclude={"trust_remote_code"})


def _ask_questions(settings: Settings) -> dict[str, Any]:
    return settings.questions.model_dump(include=_QUESTION_KEYS)


def _ask_examples(settings: Settings) -> dict[str, Any]:
    return {"file": settings.prompt.examples}


def _ask_engine(settings: Settings) -> dict[str, Any]:
    engine = settings.engine
    asked = engine.model_dump(include={"kind", "device", "python"})
    if engine.kind in ("auto", "vllm") and engine.vllm.block_size is not None:
        asked["block_size"] = engine.vllm.block_size
    if engine.kind in ("auto", "vllm") and engine.vllm.snapshots:
        asked["snapshots"] = True
    return asked


def _look_at_model(settings: Settings) -> dict[str, Any]:
    files = _seen(*_beneath(settings.model.folder, "*"))
    digest = source_digest(model_source(settings.model.model_dump()))
    return {"locked": {"digest": digest}, "files": files}


def _look_at_questions(settings: Settings) -> dict[str, Any]:
    file, dataset = settings.questions.file, settings.questions.dataset
    files = _seen(Path(file)) if file else _seen(*_beneath(dataset, "**/*"))
    questions = load_questions(question_source(settings.questions.model_dump()))
    locked = {"digest": questions_digest(questions), "count": len(questions)}
    first_of_kind = {item.kind: item.question_id for item in reversed(questions)}
    return {"locked": locked, "files": files, "first_of_kind": first_of_kind}


def _look_at_examples(settings: Settings) -> dict[str, Any]:
    file = settings.prompt.examples
    if file is None:
        return {"locked": None, "files": []}
    if not Path(file).exists():
        raise ReforkError(f"prompt.examples: {file}: no such file")
    load_examples(file)  # what is wrong with it is said now, not by a job
    files = _seen(Path(file))
    return {"locked": file_sha256(Path(file)), "files": files}


def _look_at_engine(settings: Settings) -> dict[str, Any]:
    engine = settings.engine
    python = engine.python or sys.executable
    command = [python, "-m", "refork.engines.describe"]
    command += ["--kind", engine.kind, "--device", engine.device]
    if engine.vllm.block_size is not None:
        command += ["--block-size", str(engine.vllm.block_size)]
    if engine.vllm.snapshots:
        command.append("--snapshots")
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True)
    except OSError as error:
        raise ReforkError(f"engine.python: {python}: cannot be run ({error.strerror})") from error
    except subprocess.CalledProcessError as error:
        raise ReforkError(error.stderr.strip().removeprefix("refork: ")) from error
    # What it settled by itself is for people; libraries say other things.
    said = [line for line in told.stderr.splitlines() if line.startswith("refork: ")]
    print(*said, sep="\n", end="\n" if said else "", file=sys.stderr)
    return {"locked": json.loads(told.stdout), "files": []}


@dataclass(frozen=True)
class Part:
    """One part of a lock: which config keys ask for it, and how it is looked at."""

    name: str
    ask: Callable[[Settings], dict[str, Any]]
    look: Callable[[Settings], dict[str, Any]]


PARTS = (
    Part("model", _ask_model, _look_at_model),
    Part("questions", _ask_questions, _look_at_questions),
    Part("examples", _ask_examples, _look_at_examples),
    Part("engine", _ask_engine, _look_at_engine),
)
