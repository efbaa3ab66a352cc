"""Pivots of several tables recognised as the same."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refork.data.schemas import PIVOT_KEY


def number_pivots(*tables: pa.Table) -> list[NDArray[np.int64]]:
    """Give every row the number of its pivot: equal where question, rollout and position are equal.

    The tables have the columns of `data.schemas.PIVOT_KEY`; one array of shape (rows,) a table.
    """
    number = np.zeros(sum(table.num_rows for table in tables), dtype=np.int64)
    for field in PIVOT_KEY:
        chunks = [chunk for table in tables for chunk in table.column(field.name).chunks]
        coded = pa.chunked_array(chunks, field.type).combine_chunks().dictionary_encode()
        number = number * len(coded.dictionary) + coded.indices.to_numpy()
    return np.split(number, np.cumsum([table.num_rows for table in tables])[:-1])


def name_pivot(table: pa.Table, row: int) -> str:
    """Name the pivot of a row in words, for messages."""
    question, rollout, position = (table.column(field.name)[row].as_py() for field in PIVOT_KEY)
    return f"question {question!r}, rollout {rollout}, position {position}"
