"""`refork power`: what each estimator of outcome curves makes of few draws, on recorded stores."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from refork.cli.estimators import named_estimators
from refork.data.store import Store, find_stores, read_store
from refork.errors import ReforkError, raise_if_any
from refork.report.power import Measured, power_record
from refork.stats.curves.estimator import Estimator
from refork.stats.curves.fork_scores import ForkScores
from refork.stats.curves.mixture import seed_of
from refork.stats.curves.noise_law import measured_law
from refork.stats.curves.power import (
    PowerQuestion,
    Setting,
    measure,
    power_question,
    settings,
)


@dataclass(frozen=True)
class _Recorded:
    """One question, its file, the set of stores that it belongs to, and its number there."""

    path: Path
    track: str
    row: int
    question: PowerQuestion


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "stores",
        nargs="+",
        type=Path,
        metavar="STORE",
        help="recorded questions (*.json.gz), or folders that hold some",
    )
    parser.add_argument(
        "--estimators",
        default="raw,full,forkhmm",
        help="names, with commas; others are compared with the first; hyper-parameters behind "
        "colons: full:penalty=64:bandwidth=32; default: raw,full,forkhmm",
    )
    parser.add_argument(
        "--samples", default="5,30", help="draws a position, with commas; default: 5,30"
    )
    parser.add_argument(
        "--strides", default="1", help="every so many positions are observed; default: 1"
    )
    parser.add_argument(
        "--replicates", default="2", help="disjoint blocks of draws a question; default: 2"
    )
    parser.add_argument(
        "--forks",
        action="store_true",
        help="score reported forks, jump probabilities and intervals too",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Read the stores, measure every estimator in every setting and print it."""
    estimators = named_estimators(arguments.estimators)
    crossed = settings(
        _whole_numbers(arguments.strides, "--strides"),
        _whole_numbers(arguments.samples, "--samples"),
    )
    replicates = _one_whole_number(arguments.replicates, "--replicates")
    recorded = _read_all(find_stores(arguments.stores), crossed, replicates)
    measured = _measure_all(recorded, estimators, crossed, replicates, forks=arguments.forks)
    laws = {
        track: measured_law([one.question.draws for one in recorded if one.track == track])
        for track in dict.fromkeys(one.track for one in recorded)
    }
    record = power_record(measured, laws, replicates)
    if arguments.json:
        print(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        from refork.cli.power_table import print_power  # noqa: PLC0415

        print_power(record)
    return 0


def _read_all(
    paths: Sequence[Path], crossed: Sequence[Setting], replicates: int
) -> list[_Recorded]:
    """Read all stores; name all that are damaged, and refuse a question that is there twice."""
    stores: dict[Path, Store] = {}
    faults = []
    for path in paths:
        try:
            stores[path] = read_store(path)
        except ReforkError as error:
            faults.append(str(error))
    raise_if_any(faults)
    recorded: dict[tuple[str, int], _Recorded] = {}
    for path, store in stores.items():
        one = _recorded(path, store, crossed, replicates)
        first = recorded.setdefault((one.track, one.row), one)
        if first is not one:
            raise ReforkError(f"{path}: question {one.row} of {one.track} again, as {first.path}")
    return list(recorded.values())


def _recorded(path: Path, store: Store, crossed: Sequence[Setting], replicates: int) -> _Recorded:
    """Take the mixture draws of a store; refuse settings that it cannot serve."""
    recording = store.recording
    for setting in crossed:
        if 2 * setting.samples > store.s:
            raise ReforkError(
                f"--samples {setting.samples}: {path} records {store.s} draws a position, and "
                f"half of them judge the others; at most {store.s // 2}"
            )
        if replicates * setting.samples > store.s:
            raise ReforkError(
                f"--replicates {replicates}: blocks of {setting.samples} draws are disjoint, and "
                f"{path} records {store.s}; at most {store.s // setting.samples}"
            )
        if len(recording.positions) <= setting.stride:
            raise ReforkError(
                f"--strides {setting.stride}: leaves one of the {len(recording.positions)} "
                f"positions of {path}; at most {len(recording.positions) - 1}"
            )
    seed = seed_of(store.meta.track, store.meta.row_id)
    try:
        question = power_question(recording, seed, store.s)
    except ReforkError as error:
        raise ReforkError(f"{path}: {error}") from error
    return _Recorded(path, store.meta.track, store.meta.row_id, question)


def _measure_all(
    recorded: Sequence[_Recorded],
    estimators: Mapping[str, Estimator],
    crossed: Sequence[Setting],
    replicates: int,
    *,
    forks: bool,
) -> list[Measured]:
    """Measure question by question, with a line of progress; tracks are kept apart."""
    for estimator in estimators.values():  # compiled before the clock runs
        measure(recorded[0].question, estimator, crossed[0], 1)
    tracks = dict.fromkeys(one.track for one in recorded)
    found = {
        (track, setting): Measured(
            track,
            setting,
            questions={name: [] for name in estimators},
            forks={name: ForkScores() for name in estimators} if forks else {},
        )
        for track in tracks
        for setting in crossed
    }
    for one in tqdm(recorded, desc="refork power", unit="question", file=sys.stderr, ascii=True):
        for setting in crossed:
            into = found[one.track, setting]
            for name, estimator in estimators.items():
                counted = into.forks.get(name)
                try:
                    measurement = measure(one.question, estimator, setting, replicates, counted)
                except (ReforkError, ValueError) as error:
                    raise ReforkError(f"{one.path}: {name}: {error}") from error
                into.questions[name].append(measurement)
    return list(found.values())


def _whole_numbers(text: str, option: str) -> list[int]:
    """Read whole numbers from 1, with commas, each once."""
    numbers = [_one_whole_number(part, option) for part in text.split(",")]
    if len(set(numbers)) < len(numbers):
        raise ReforkError(f"{option} {text}: a number is there twice")
    return numbers


def _one_whole_number(text: str, option: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ReforkError(f"{option} {text!r}: a whole number from 1 is wanted")
    return number
