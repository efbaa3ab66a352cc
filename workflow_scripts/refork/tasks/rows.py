"""The rows of a question source, each with the place where it stands."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from refork.errors import ReforkError, allowed_names
from refork.tasks.source import QuestionSource, SourceRow


def read_rows(source: QuestionSource, faults: list[str]) -> list[SourceRow]:
    """Read the first `limit` rows of a source; rows that cannot be read are added to `faults`.

    Raises
    ------
    ReforkError
        The source as a whole cannot be read.
    """
    if (source.file is None) == (source.dataset is None):
        raise ReforkError("questions: give either `file` or `dataset`")
    if source.file is not None:
        rows = _read_file(Path(source.file), faults)
    else:
        # Loaded where it is needed: a file of questions takes no second to import.
        from refork.tasks.dataset import read_dataset  # noqa: PLC0415

        rows = read_dataset(source)
    return rows[: source.limit]


def _read_file(path: Path, faults: list[str]) -> list[SourceRow]:
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ReforkError(
            f"questions.file: {path}: unknown file ending {path.suffix!r}; "
            + allowed_names(path.suffix, READERS)
        )
    if not path.is_file():
        here = "" if path.is_absolute() else f" in {Path.cwd()}"
        raise ReforkError(f"questions.file: {path}: no such file{here}")
    return list(reader(path, faults))


def _text_lines(path: Path, faults: list[str]) -> Iterator[str]:
    """Lines with their ends; one that is not UTF-8 is a fault and comes out empty."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                faults.append(f"{path}:{number}: not UTF-8 ({error.reason})")
                yield ""


def _read_jsonl(path: Path, faults: list[str]) -> Iterator[SourceRow]:
    count = 0
    for number, line in enumerate(_text_lines(path, faults), 1):
        if not line.strip():
            continue
        count += 1
        try:
            fields = json.loads(line)
            json.dumps(fields, ensure_ascii=False).encode()
        # A lone surrogate is valid JSON and no text: encoding finds it.
        except (ValueError, RecursionError) as error:
            # JSON's own line number counts within this line.
            said = str(error)
            if isinstance(error, json.JSONDecodeError):
                said = f"{error.msg}, column {error.pos + 1}"
            faults.append(f"{path}:{number}: not JSON ({said})")
            continue
        if isinstance(fields, dict):
            yield SourceRow(f"{path}:{number}", count, fields)
        else:
            faults.append(f"{path}:{number}: not a JSON object, but {line.strip()[:40]!r}")


def _read_csv(path: Path, faults: list[str]) -> Iterator[SourceRow]:
    reader = csv.DictReader(_text_lines(path, faults), strict=True)
    try:
        for count, cells in enumerate(reader, 1):
            where = f"{path}:{reader.line_num}"
            surplus = cells.pop(None, None)
            if surplus is not None or None in cells.values():
                faults.append(f"{where}: not as many cells as the header has columns")
            else:
                yield SourceRow(where, count, {name: cell or None for name, cell in cells.items()})
    except csv.Error as error:
        faults.append(f"{path}:{reader.reader.line_num}: not CSV ({error})")


def _read_parquet(path: Path, faults: list[str]) -> Iterator[SourceRow]:
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        faults.append(f"{path}: not a whole Parquet file ({error})")
        return
    for count, fields in enumerate(table.to_pylist(), 1):
        yield SourceRow(f"{path}: row {count}", count, fields)


READERS: Mapping[str, Callable[[Path, list[str]], Iterator[SourceRow]]] = {
    ".jsonl": _read_jsonl,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}
