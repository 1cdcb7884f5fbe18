"""Ties: where an order does not decide which row comes first, a batch answer is one of several right ones.

A checked order (`headrace.plan.orders.OrderCheck`) is looked at in the rows that the order is over: two rows with the same
partition and the same order are a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F

from headrace.definitions import TableDef
from headrace.errors import FunctionFailed
from headrace.plan.orders import OrderCheck
from headrace.schema import encode_key, encode_keys, python_values, readable_rows
from headrace.spark.expressions import jvm_expression
from headrace.spark.query import Door, Gear, Loaded, Query
from headrace.spark.surgery import Surgeon


@dataclass(frozen=True)
class Ties:
    """Ties of one order: how many rows are in some, and what they share.

    `columns` names the columns of the partition (the first `width`) and of the order, None where one is computed; `groups` are
    the encoded values that rows share.
    """

    why: str
    rows: int
    columns: tuple[str | None, ...]
    width: int
    groups: frozenset[tuple[bytes, ...]]
    example: str

    def test_of(self, names: Sequence[str]) -> Callable[[Sequence[Any]], bool] | None:
        """Whether a row of the result, whose columns are `names`, comes from a tie; None where its partition does not show."""
        places = [names.index(c) if c is not None and c in names else None for c in self.columns]
        if None in places[: self.width]:
            return None
        seen = [(i, place) for i, place in enumerate(places) if place is not None]
        tied = {tuple(group[i] for i, _ in seen) for group in self.groups}
        return lambda row: tuple(encode_key([row[place]]) for _, place in seen) in tied

    def as_error(self, table: TableDef) -> FunctionFailed:
        """What stops an app whose table says `on_tie="stop"`."""
        return FunctionFailed(
            f'table "{table.name}": rows tie in {self.why}',
            details=[f"{self.rows} rows have a twin in their order, such as {self.example}"],
            origin=table.origin,
            hint='add _partition, _offset (or a key) to the order; on_tie="warn" goes on with one of the right answers',
        )


class TieCheck:
    """Looks for ties of one order in the rows of an epoch, or of a batch."""

    def __init__(self, door: Door, table: TableDef, check: OrderCheck) -> None:
        self.door, self.check = door, check
        self.query = Query(door, table, self._recipe)

    def _recipe(self, surgeon: Surgeon, root: Any) -> Any:
        child = surgeon.node(root, (*self.check.path, 0))
        expressions = [jvm_expression(surgeon, root, e) for e in (*self.check.partition, *self.check.order)]
        columns = [surgeon.column(e.child() if e.getClass().getSimpleName() == "SortOrder" else e) for e in expressions]
        named = [column.alias(f"c{i}") for i, column in enumerate(columns)]
        counted = surgeon.frame(child).groupBy(*named).agg(F.count(F.lit(1)).alias("n"))
        return surgeon.analysed(counted.where(F.col("n") > 1))

    def find(self, loaded: Mapping[str, Loaded], gear: Gear) -> Ties | None:
        """The ties in these rows; None when there are none."""
        found = self.query.run(loaded, gear)
        if not found.num_rows:
            return None
        rows = sum(python_values(found.column(found.num_columns - 1)))
        example = ", ".join(repr(v) for v in list(readable_rows(found.slice(0, 1))[0].values())[:-1])
        encoded = [encode_keys(found, [name]) for name in found.column_names[:-1]]
        groups = frozenset(zip(*encoded, strict=True)) if encoded else frozenset({()})
        return Ties(self.check.why, rows, self._names(), len(self.check.partition), groups, example)

    def _names(self) -> tuple[str | None, ...]:
        """The columns that are what the order is by, by their names."""
        plain = [e.children[0] if e.cls == "SortOrder" else e for e in (*self.check.partition, *self.check.order)]
        return tuple(e.name if e.cls == "AttributeReference" else None for e in plain)
