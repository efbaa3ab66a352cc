"""Tables on disk: what comes back, and what is refused."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from refork.data.schemas import OUTCOMES, PIVOTS
from refork.data.tables import from_rows, read_shards, read_table, write_csv, write_table
from refork.errors import ReforkError


def pivot(position: int, **changes: Any) -> dict[str, Any]:
    row = {
        "question_id": "q",
        "rollout": 0,
        "position": position,
        "margin": 0.5,
        "actual_token": 1,
        "alt_token": 2,
        "actual_logprob": -0.5,
        "alt_logprob": -1.0,
    }
    return row | changes


def test_a_table_comes_back_as_it_was(tmp_path: Path) -> None:
    table = from_rows([pivot(1), pivot(2)], PIVOTS)
    write_table(table, tmp_path / "shard-0000.parquet", PIVOTS)
    assert read_table(tmp_path / "shard-0000.parquet", PIVOTS).equals(table)


def test_the_same_table_is_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_table(from_rows([pivot(1)], PIVOTS), tmp_path / name, PIVOTS)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_columns_of_another_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ReforkError, match=r"columns missing: \['arm'.*not known: \['actual_logprob'"
    ):
        write_table(from_rows([pivot(1)], PIVOTS), tmp_path / "t", OUTCOMES)
    assert list(tmp_path.iterdir()) == []


def test_a_null_where_none_may_be_is_refused(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([pivot(1, margin=None)], schema=pa.schema(list(PIVOTS)))
    with pytest.raises(ReforkError, match=r"margin.* with null values"):
        write_table(table, tmp_path / "t", PIVOTS)


def test_a_truncated_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "shard-0000.parquet"
    write_table(from_rows([pivot(1)], PIVOTS), path, PIVOTS)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ReforkError, match="not a whole Parquet file"):
        read_table(path, PIVOTS)
    with pytest.raises(ReforkError, match="no such file"):
        read_table(tmp_path / "absent.parquet", PIVOTS)


def test_shards_are_read_in_order(tmp_path: Path) -> None:
    for shard, position in (("0001", 5), ("0000", 4)):
        write_table(
            from_rows([pivot(position)], PIVOTS), tmp_path / f"shard-{shard}.parquet", PIVOTS
        )
    table = read_shards([tmp_path], PIVOTS)
    assert table.column("position").to_pylist() == [4, 5]
    with pytest.raises(ReforkError, match="holds no shard"):
        read_shards([tmp_path / "absent"], PIVOTS)


def test_null_is_an_empty_cell_of_a_csv(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("name", pa.string()), pa.field("value", pa.float64())])
    write_csv(pa.Table.from_pylist([{"name": "a", "value": None}], schema), tmp_path / "t", schema)
    assert (tmp_path / "t").read_text() == '"name","value"\n"a",\n'
