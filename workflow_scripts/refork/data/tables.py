"""The one reader and the one writer of tables."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from refork.data.files import atomic_path
from refork.errors import ReforkError

Row: TypeAlias = dict[str, Any]
"""One record of a table, by column."""


def write_table(table: pa.Table, path: Path, schema: pa.Schema) -> None:
    """Write a table as Parquet, atomically, in exactly the columns and types of `schema`."""
    conformed = _conform(table, schema, str(path))
    with atomic_path(path) as temporary:
        pq.write_table(conformed, temporary, compression="zstd")


def write_csv(table: pa.Table, path: Path, schema: pa.Schema) -> None:
    """Write a table of plain columns as CSV, atomically, for people and spreadsheets."""
    conformed = _conform(table, schema, str(path))
    with atomic_path(path) as temporary:
        csv.write_csv(conformed, temporary)


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a Parquet table and hold it against its schema.

    Raises
    ------
    ReforkError
        The file is absent, truncated or of another schema.
    """
    try:
        table = pq.read_table(path)
    except FileNotFoundError as error:
        raise ReforkError(f"{path}: no such file") from error
    except (pa.ArrowInvalid, OSError) as error:
        raise ReforkError(
            f"{path}: not a whole Parquet file ({error}); "
            "if a stage made it, delete it and run again"
        ) from error
    return _conform(table, schema, str(path))


def read_shards(folders: Iterable[Path], schema: pa.Schema) -> pa.Table:
    """Read all shards in folders as one table, folder by folder in the order given.

    Raises
    ------
    ReforkError
        A folder holds no shard.
    """
    tables = [schema.empty_table()]
    for folder in folders:
        shards = sorted(folder.glob("shard-*.parquet"))
        if not shards:
            raise ReforkError(f"{folder}: holds no shard-*.parquet")
        tables += [read_table(shard, schema) for shard in shards]
    return pa.concat_tables(tables)


def from_rows(rows: list[Row], schema: pa.Schema) -> pa.Table:
    """Make a table of a schema from records; no records make an empty table."""
    return pa.Table.from_pylist(rows, schema=schema)


def _conform(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    if set(table.column_names) != set(schema.names):
        missing = sorted(set(schema.names) - set(table.column_names))
        surplus = sorted(set(table.column_names) - set(schema.names))
        raise ReforkError(
            f"{where}: columns missing: {missing or 'none'}, not known: {surplus or 'none'}"
        )
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise ReforkError(f"{where}: a column is not what its schema says ({error})") from error
