"""Ties: where an order does not decide which row comes first, a batch answer is one of several right ones.

A checked order (`headrace.plan.orders.OrderCheck`) is looked at in the rows that the order is over: two rows with the same
partition and the same order are a tie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F

from headrace.definitions import TableDef
from headrace.errors import FunctionFailed
from headrace.plan.orders import OrderCheck
from headrace.schema import encode_keys, python_values, readable_rows
from headrace.spark.expressions import jvm_expression
from headrace.spark.query import Door, Gear, Loaded, Query
from headrace.spark.surgery import Surgeon


@dataclass(frozen=True)
class Ties:
    """Ties of one order: how many rows are in some, and the partitions in which they are."""

    why: str
    rows: int
    partitions: frozenset[bytes]
    example: str

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
        width = len(self.check.partition)
        rows = sum(python_values(found.column(found.num_columns - 1)))
        example = ", ".join(repr(v) for v in list(readable_rows(found.slice(0, 1))[0].values())[:-1])
        return Ties(self.check.why, rows, frozenset(encode_keys(found, found.column_names[:width])), example)
