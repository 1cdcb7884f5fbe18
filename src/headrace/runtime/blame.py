"""Which row, or which key, makes a function fail.

First the row-by-row part of the function (below its first aggregate, join or window) runs alone over the epoch's rows: where
that fails, halving finds the row. Otherwise the failure belongs to a key, and the touched keys are halved. Everything is
tried in the small gear, on parts of what failed; nothing is guessed from messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from headrace.errors import FunctionFailed
from headrace.lanes.base import InputChange, Lane
from headrace.runtime.rows import SourceReader
from headrace.schema import python_values, readable_rows
from headrace.spark.errors import SparkFailed, spark_errors
from headrace.spark.frames import OFFSET_MASK, POSITION_BITS, StoredFiles
from headrace.store.base import Reject

T = TypeVar("T")
SHOWN = 300
"""Characters of a row's content that an error shows."""
RAW_BYTES = 4096


@dataclass(frozen=True)
class BadRow:
    """One row of a source that a table's function cannot take."""

    source: str
    row: int
    content: str
    error: SparkFailed

    @property
    def partition(self) -> int:
        """The partition of its source."""
        return self.row >> POSITION_BITS

    @property
    def offset(self) -> int:
        """Its place in that partition."""
        return self.row & OFFSET_MASK

    def as_reject(self, table: str) -> Reject:
        """The row put aside for this table."""
        reason = "; ".join(self.error.details)
        raw = self.content.encode()[:RAW_BYTES]
        return Reject(self.source, self.partition, self.offset, table, "compute", "function_failed", reason, raw)

    def as_error(self, lane: Lane) -> FunctionFailed:
        """What stops the app."""
        table = lane.context.table
        return FunctionFailed(
            f'table "{table.name}": its function fails on a row',
            details=[
                *self.error.details,
                f'row: source "{self.source}", partition {self.partition}, offset {self.offset}',
                f"content: {self.content[:SHOWN]}",
            ],
            origin=table.origin,
            hint=f'{self.error.hint or "a function that takes this row"}; or on_error="reject", which goes on without such rows',
        )


class Blame:
    """Looks for what made one lane fail in one epoch."""

    def __init__(self, lane: Lane, changes: Mapping[str, InputChange], readers: Mapping[str, SourceReader]) -> None:
        self.lane, self.changes, self.readers = lane, changes, readers
        with spark_errors(lane.context.table):
            self._queries = {name: lane.row_queries(name) for name in changes if name in readers}

    def bad_rows(self, every: bool) -> list[BadRow]:
        """The rows on which the row-by-row part fails: all of them, or the first one that is found."""
        found: list[BadRow] = []
        for name in self.changes:
            if name not in self.readers:
                continue
            rows = as_rows(self.changes[name], self.readers[name])
            column = self.lane.context.door.shapes[name].row_column
            places = python_values(rows.column(column))
            for at, error in halve(range(rows.num_rows), lambda some, n=name, r=rows: self._try(n, r, some), every):  # type: ignore[misc]
                found.append(BadRow(name, places[at], self._content(name, rows, at), error))
                if not every:
                    return found
        return found

    def _try(self, name: str, rows: pa.Table, some: Sequence[int]) -> SparkFailed | None:
        door = self.lane.context.door
        others = {other: door.shapes[other].empty() for other in self.lane.context.live_inputs}
        loaded = door.load_all(others | {name: rows.take(pa.array(some, pa.int64()))}, "small")
        for query in self._queries[name]:
            try:
                with spark_errors(self.lane.context.table):
                    query.run(loaded, "small")
            except SparkFailed as error:
                return error
        return None

    def _content(self, name: str, rows: pa.Table, at: int) -> str:
        columns = self.lane.context.door.shapes[name].columns.names
        (row,) = readable_rows(rows.select(columns).slice(at, 1))
        return ", ".join(f"{k}={v!r}" for k, v in row.items())

    def key_error(self, error: SparkFailed) -> FunctionFailed:
        """The failure belongs to a key: halve the touched ones until it has a name."""
        table = self.lane.context.table
        with spark_errors(table):
            keys = self.lane.touched(self.changes)

        def attempt(some: Sequence[bytes]) -> SparkFailed | None:
            try:
                with spark_errors(table):
                    self.lane.run_only(self.changes, frozenset(some))
            except SparkFailed as failed:
                return failed
            return None

        blamed = next(iter(halve(list(keys), attempt, every=False)), None)
        named = [f"key: {keys[blamed[0]]}"] if blamed else []
        return FunctionFailed(
            f'table "{table.name}": its function fails' + (" on a key" if named else ""),
            details=[*error.details, *named],
            origin=table.origin,
            hint=error.hint or "a function that takes every key",
        )


def as_rows(change: InputChange, reader: SourceReader) -> pa.Table:
    """An epoch's rows of a source as one table."""
    if isinstance(change.after, StoredFiles):
        ranges: dict[int, tuple[int, int]] = {}
        tables = [change.after.rest]
        for _, partition, start, stop in change.after.sealed:
            first, last = ranges.get(partition, (start, stop))
            ranges[partition] = (min(first, start), max(last, stop))
        if ranges:
            rows = reader.read(ranges).rows
            assert isinstance(rows, pa.Table), "a range read by the driver is a table"
            tables.append(rows)
        return pa.concat_tables(tables)
    return change.after


def halve(items: Sequence[T], attempt: Callable[[Sequence[T]], SparkFailed | None], every: bool) -> list[tuple[T, SparkFailed]]:
    """The items that fail by themselves. Items that fail only together are nobody's fault alone: none is named."""
    failed = attempt(items) if items else None
    if failed is None:
        return []
    if len(items) == 1:
        return [(items[0], failed)]
    middle = len(items) // 2
    found = halve(items[:middle], attempt, every)
    if found and not every:
        return found
    return found + halve(items[middle:], attempt, every)


def without_rows(change: InputChange, column: str, bad: frozenset[int], reader: SourceReader) -> InputChange:
    """The change without rows that were put aside."""
    rows = as_rows(change, reader)
    keep: Any = pa.array([row not in bad for row in python_values(rows.column(column))], pa.bool_())
    return InputChange(change.before, rows.filter(keep))
