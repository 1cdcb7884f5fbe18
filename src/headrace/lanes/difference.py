"""The difference of two answers: bags of rows, subtracted bit by bit."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.schema import python_values


def exact(value: Any) -> Any:
    """A hashable stand-in that is equal only for equal bits: 0.0 is not -0.0, and every NaN is one NaN."""
    if isinstance(value, float):
        return b"nan" if value != value else struct.pack(">d", value)
    if isinstance(value, dict):
        return tuple((k, exact(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(exact, value))
    return value


_PLAIN = (pa.types.is_integer, pa.types.is_string, pa.types.is_boolean, pa.types.is_binary, pa.types.is_decimal)


def exact_rows(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Each row as a hashable tuple."""
    columns = []
    for column in rows.columns:
        values = python_values(column)
        plain = pa.types.is_temporal(column.type) or any(test(column.type) for test in _PLAIN)
        columns.append(values if plain else list(map(exact, values)))
    return list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows


def subtract(after: pa.Table, before: pa.Table) -> tuple[list[int], list[int]]:
    """Which rows of `before` are not in `after`, and which of `after` are not in `before`: (gone, come), as bags."""
    old, new = exact_rows(before), exact_rows(after)
    left = Counter(old)
    come = []
    for i, row in enumerate(new):
        if left.get(row, 0):
            left[row] -= 1
        else:
            come.append(i)
    gone = []
    for i, row in enumerate(old):
        if left.get(row, 0):
            left[row] -= 1
            gone.append(i)
    return gone, come


def take(rows: pa.Table, indices: Sequence[int]) -> pa.Table:
    """These rows."""
    return rows.take(pa.array(indices, pa.int64()))
