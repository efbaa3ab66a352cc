"""`refork noise`: credit and replay noise, printed as a table or as one JSON object."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from refork.data.credits import pass_names, pool_credits
from refork.data.files import read_json
from refork.data.noise_record import ComparedPasses
from refork.data.schemas import CREDITS
from refork.data.tables import read_table
from refork.data.thaw import PASSES, read_thaw
from refork.errors import ReforkError
from refork.stages.measure_noise import compare_passes
from refork.study.config import Noise

CREDITS_FILE = "credits.parquet"
STAGE = "measure_noise"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `refork noise`."""
    parser.add_argument(
        "inputs",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="results folder of a study or variant, credits.parquet, or files of --format; several "
        "are pooled, and of a pivot that several hold the first is taken",
    )
    parser.add_argument(
        "--format", choices=("refork", "thaw"), default="refork", help="whose records they are"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--variant", help="variant of the study; default: the study's first")
    parser.add_argument(
        "--reference", help="pass that others are compared with; default: the first"
    )
    parser.add_argument("--treatment", help="pass whose effect is measured; default: refeed")
    parser.add_argument("--floor", help="pass that shows the noise alone; default: replica")
    parser.add_argument(
        "--critical",
        type=float,
        action="append",
        help="|credit| from which a token counts as critical; may be repeated; default: 0.5, 0.75",
    )
    parser.add_argument(
        "--margin-split", type=float, help="nat that tells margins apart; default: 0.3"
    )


def run(arguments: argparse.Namespace) -> int:
    """Read the credits, measure one comparison and print it."""
    if arguments.format == "thaw":
        settings, passes, credits = Noise(), list(PASSES), read_thaw(arguments.inputs)
    else:
        files = [find_credits(path, arguments.variant) for path in arguments.inputs]
        settings, passes = study_settings(files[0])
        credits = pool_credits([read_table(file, CREDITS) for file in files])
    settings = _override(settings, arguments)
    names = _choose_passes(passes or pass_names(credits), settings, arguments)
    try:
        record = compare_passes(credits, names, settings.critical, settings.margin_split)
    except ReforkError as error:
        raise ReforkError(f"{', '.join(map(str, arguments.inputs))}: {error}") from error
    if arguments.json:
        print(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        from refork.cli.noise_table import print_noise  # noqa: PLC0415

        print_noise(record, names)
    return 0


def find_credits(path: Path, variant: str | None) -> Path:
    """Find the credits table of a file, a stage's, a variant's or a study's folder.

    Raises
    ------
    ReforkError
        There is none, or not of that variant.
    """
    if not path.is_dir():
        if path.suffix == ".json":
            raise ReforkError(f"{path}: not Parquet; for records of thaw add --format thaw")
        return path
    for file in (path / CREDITS_FILE, path / STAGE / CREDITS_FILE):
        if file.exists():
            return file
    found = {file.parents[1].name: file for file in path.glob(f"*/{STAGE}/{CREDITS_FILE}")}
    if not found:
        raise ReforkError(
            f"{path}: holds no {CREDITS_FILE}; give results/STUDY, results/STUDY/VARIANT or a file"
        )
    names = _in_study_order(path, sorted(found))
    chosen = names[0] if variant is None else variant
    if chosen not in found:
        raise ReforkError(f"{path}: no variant {chosen!r}; there are: {', '.join(names)}")
    if variant is None and len(found) > 1:
        others = ", ".join(names[1:])
        print(f"refork: variant {chosen}; for another add --variant: {others}", file=sys.stderr)
    return found[chosen]


def _in_study_order(study: Path, names: list[str]) -> list[str]:
    """Put variants in the order of the study's config, as the record of its report has it."""
    record = (study / "report.html").resolve().parent / "stage.json"
    if not record.exists():
        return names
    known = list(read_json(record)["settings"]["variants"])
    return sorted(names, key=lambda name: known.index(name) if name in known else len(known))


def study_settings(credits: Path) -> tuple[Noise, list[str]]:
    """Read what was measured, and the passes, from the stage.json beside the credits.

    Without one these are the defaults and no passes.
    """
    path = credits.parent / "stage.json"
    if not path.exists():
        return Noise(), []
    try:
        settings = read_json(path)["settings"]
        return Noise.model_validate(settings["noise"]), list(settings["passes"])
    except (ValidationError, KeyError, TypeError) as error:
        raise ReforkError(f"{path}: not the record of a {STAGE} stage ({error})") from error


def _override(settings: Noise, arguments: argparse.Namespace) -> Noise:
    """Put the thresholds of the command line over the study's."""
    given: dict[str, Any] = {"critical": arguments.critical, "margin_split": arguments.margin_split}
    changed = {key: value for key, value in given.items() if value is not None}
    try:
        return Noise.model_validate(settings.model_dump() | changed)
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]).replace("_", "-")
        raise ReforkError(f"--{option} {first['input']}: {first['msg']}") from error


def _choose_passes(
    known: Sequence[str], settings: Noise, arguments: argparse.Namespace
) -> ComparedPasses:
    """Take the passes of the command line, else those of the study's first comparison."""
    first = settings.comparisons[0] if settings.comparisons else Noise().comparisons[0]
    return ComparedPasses(
        reference=arguments.reference or (known[0] if known else "exact"),
        treatment=arguments.treatment or first.treatment,
        floor=arguments.floor or first.floor,
    )
