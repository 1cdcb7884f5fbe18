"""The contract of lanes: an epoch's changes of a table's inputs in, the table's changes and its memory's changes out.

A lane computes; it writes nothing. What it returns is committed with everything else of the epoch in one transaction, or
not at all. It may read the store as of the head: nobody else writes while an epoch is computed.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import types as T
from typing_extensions import Self

from headrace.definitions import TableDef
from headrace.errors import FunctionFailed
from headrace.lanes.ties import Ties
from headrace.plan.choose import TablePlan
from headrace.schema import arrow_schema, nullable, readable_rows
from headrace.spark.frames import Rows, Shape
from headrace.spark.query import Door, Gear, Query
from headrace.store.base import Change, IndexChange, Registration, Reject, TableKind


@dataclass(frozen=True)
class InputChange:
    """What happened to one input in an epoch: rows as they were, rows as they are. A source's rows have no before."""

    before: pa.Table
    after: Rows


@dataclass(frozen=True)
class TableChange:
    """What happened to one table: rows that went or were replaced, rows that came, each with its key."""

    before_keys: Sequence[bytes]
    before: pa.Table
    after_keys: Sequence[bytes]
    after: pa.Table

    def __bool__(self) -> bool:
        return bool(self.before_keys or self.after_keys)

    def as_write(self) -> Change:
        """What the store is told."""
        return Change(removed=self.before_keys, keys=self.after_keys, rows=self.after)

    def as_input(self, shape: Shape) -> InputChange:
        """What tables over this one are told."""
        return InputChange(with_identity(self.before, self.before_keys, shape), with_identity(self.after, self.after_keys, shape))


def with_identity(rows: pa.Table, keys: Sequence[bytes], shape: Shape) -> pa.Table:
    """A table's rows in the shape of a frame: the user's columns and the row's key."""
    identity = pa.array(keys, pa.binary())
    return pa.Table.from_arrays([*rows.columns, identity], schema=arrow_schema(shape.full))


@dataclass(frozen=True)
class Outcome:
    """Everything that a lane wants written."""

    change: TableChange
    parts: Change | None = None
    index: Mapping[str, IndexChange] = field(default_factory=dict)
    rejects: Sequence[Reject] = ()
    ties: Sequence[Ties] = ()


class Memory(Protocol):
    """What lanes ask of a store (`headrace.store.base.Store` says what each means)."""

    def fetch(self, table: str, keys: Sequence[bytes], kind: TableKind = "table") -> tuple[list[bytes], pa.Table]: ...
    def fetch_all(self, table: str, kind: TableKind = "table") -> Iterator[tuple[list[Any], pa.Table]]: ...
    def lookup(self, index: str, tuples: Sequence[bytes]) -> list[Any]: ...


class NothingStored:
    """The memory of a table that is made anew."""

    def fetch(self, table: str, keys: Sequence[bytes], kind: TableKind = "table") -> tuple[list[bytes], pa.Table]:
        """None of the keys is there."""
        return [], pa.table({})

    def fetch_all(self, table: str, kind: TableKind = "table") -> Iterator[tuple[list[Any], pa.Table]]:
        """No rows."""
        return iter(())

    def lookup(self, index: str, tuples: Sequence[bytes]) -> list[Any]:
        """No row stands under any tuple."""
        return []


@dataclass(frozen=True)
class LaneContext:
    """What a lane works with, fixed for one generation."""

    door: Door
    store: Memory
    table: TableDef
    plan: TablePlan
    columns: T.StructType
    rows_of: RowsOfInputs

    @property
    def key(self) -> tuple[str, ...] | None:
        """The table's key columns; None where rows are keyed by position."""
        return self.plan.key

    def no_rows(self) -> pa.Table:
        """No rows of the table."""
        return arrow_schema(nullable(self.columns)).empty_table()

    @property
    def live_inputs(self) -> list[str]:
        """The inputs that can change."""
        return [name for name in self.table.reads if name not in self.door.references]


class RowsOfInputs(ABC):
    """Rows of inputs that are stored: copies and segments of sources, current rows of tables."""

    @abstractmethod
    def by_identity(self, name: str, rows: Sequence[Any]) -> pa.Table:
        """These rows of an input as they were before the epoch, in the shape of its frame."""

    @abstractmethod
    def all_rows(self, name: str, change: InputChange | None, table: str) -> Rows:
        """Every row of an input as it is after the epoch, which changes it so, without those that `table` rejected."""


class Lane(ABC):
    """The way one table is kept."""

    def __init__(self, context: LaneContext) -> None:
        self.context = context

    def afresh(self) -> Self:
        """This lane with nothing stored: what it returns is the table made anew."""
        lane = copy.copy(self)
        lane.context = replace(self.context, store=NothingStored())
        return lane

    @abstractmethod
    def registrations(self) -> list[Registration]:
        """The hidden tables that this lane keeps."""

    @abstractmethod
    def run(self, changes: Mapping[str, InputChange], gear: Gear) -> Outcome:
        """Take the changes of the inputs that changed; return the change of the table.

        Called once per epoch, in any thread, and again with the same changes when the epoch is computed again. Running it
        over no changes at all gives what the table holds over no rows (one row for `SELECT count(*)`), if it is not stored yet.
        """

    def row_queries(self, name: str) -> list[Query]:
        """The row-by-row part of the function over one input: what a single row can make fail."""
        raise NotImplementedError

    def touched(self, changes: Mapping[str, InputChange]) -> dict[bytes, str]:
        """The keys (groups, partitions) that an epoch touches, with what they are called in messages."""
        return {}

    def run_only(self, changes: Mapping[str, InputChange], keys: frozenset[bytes]) -> None:
        """Compute only these of the touched keys, to see whether they fail."""
        raise NotImplementedError

    @property
    def copies(self) -> frozenset[str]:
        """Sources whose rows this lane needs to find again."""
        return frozenset()


def frame_path(leaf: Sequence[Any]) -> tuple[Any, ...]:
    """The path of a frame's Project, from that of the relation below it (`headrace.spark.frames` draws the two)."""
    return tuple(leaf[:-2])


def complete(context: LaneContext, changes: Mapping[str, InputChange], side: str) -> dict[str, Rows]:
    """Rows before or after of every live input; inputs that did not change have none."""
    empty = {name: context.door.shapes[name].empty() for name in context.live_inputs}
    return empty | {name: getattr(change, side) for name, change in changes.items() if name in empty}


def refuse_twice(table: TableDef, key: tuple[str, ...] | None, keys: Sequence[bytes], rows: pa.Table) -> None:
    """Two rows with one key in one answer are an error that shows both."""
    if len(set(keys)) == len(keys):
        return
    seen: dict[bytes, int] = {}
    for i, k in enumerate(keys):
        if k in seen:
            raise FunctionFailed(
                f'table "{table.name}" has two rows with one key',
                details=[f"key {', '.join(key or ())}", f"one row:   {_shown(rows, seen[k])}", f"the other: {_shown(rows, i)}"],
                origin=table.origin,
                hint='a key that tells them apart, or hr.latest(rows, by="...", order="...") for the newest row per key',
            )
        seen[k] = i


def _shown(rows: pa.Table, i: int) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in readable_rows(rows.slice(i, 1))[0].items())
