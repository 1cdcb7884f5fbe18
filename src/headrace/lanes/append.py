"""The append lane: functions that treat rows one by one. No memory; an epoch's work is the function over its rows.

A table without a key is keyed by where its rows come from: the branch of a union, the input row's identity, and an ordinal
where one input row gives several rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from headrace.lanes.base import InputChange, Lane, LaneContext, Outcome, TableChange, complete, frame_path, refuse_twice
from headrace.lanes.difference import subtract, take
from headrace.schema import encode_key, encode_keys, python_values
from headrace.spark.frames import OFFSET_MASK, POSITION_BITS
from headrace.spark.query import Gear, Query
from headrace.spark.surgery import Leaf, Surgeon
from headrace.store.base import Registration


class AppendLane(Lane):
    """Runs the function over what came, and over what went where inputs are tables."""

    def __init__(self, context: LaneContext) -> None:
        super().__init__(context)
        self.query = Query(context.door, context.table, self._recipe)

    def registrations(self) -> list[Registration]:
        return []

    def run(self, changes: Mapping[str, InputChange], gear: Gear) -> Outcome:
        after_keys, after = self._answer(changes, "after", gear)
        refuse_twice(self.context.table, self.context.key, after_keys, after)
        before_keys: Sequence[bytes] = []
        before = self.context.no_rows()
        if any(change.before.num_rows for change in changes.values()):
            before_keys, before = self._answer(changes, "before", gear)
            gone, come = subtract(_keyed(after_keys, after), _keyed(before_keys, before))
            before_keys, before = [before_keys[i] for i in gone], take(before, gone)
            after_keys, after = [after_keys[i] for i in come], take(after, come)
        return Outcome(TableChange(before_keys, before, after_keys, after))

    def row_queries(self, name: str) -> list[Query]:
        return [self.query]

    def _answer(self, changes: Mapping[str, InputChange], side: str, gear: Gear) -> tuple[list[bytes], pa.Table]:
        door = self.context.door
        rows = self.query.run(door.load_all(complete(self.context, changes, side), gear), gear)
        if self.context.key is not None:
            return encode_keys(rows, self.context.key), rows
        *shown, branches, positions, keys = rows.columns
        origins = zip(*map(python_values, (branches, positions, keys)), strict=True)
        return position_keys(origins), pa.Table.from_arrays(shown, names=self.context.columns.names)

    def _recipe(self, surgeon: Surgeon, root: Any) -> Any:
        if self.context.key is not None:
            return root
        leaves = [
            Leaf(frame_path(position.leaf), _origin(position.branch, position.input)) for position in self.context.plan.positions
        ]
        shown = surgeon.items(root.output())
        carried, origin = surgeon.carry(root, leaves)
        return surgeon.project([*shown, *origin], carried)


def _origin(branch: int, name: str) -> Any:
    def columns(surgeon: Surgeon, relation: list[Any]) -> list[Any]:
        (row,) = [a for a in relation if a.name() == f"_hr_row__{name}"]
        nothing = F.lit(None)
        is_key = row.dataType().sql() == "BINARY"
        made = {
            "_hr_branch": F.lit(branch),
            "_hr_position": nothing.cast("bigint") if is_key else surgeon.column(row),
            "_hr_key": surgeon.column(row) if is_key else nothing.cast("binary"),
        }
        return [surgeon.alias(surgeon.expression(column), name) for name, column in made.items()]

    return columns


def _keyed(keys: Sequence[bytes], rows: pa.Table) -> pa.Table:
    return rows.append_column("_key", pa.array(keys, pa.binary()))


def position_keys(origins: Iterable[tuple[int, int | None, bytes | None]]) -> list[bytes]:
    """Keys by position; rows of one origin are counted in the order in which they come."""
    seen: dict[bytes, int] = {}
    keys = []
    for branch, position, key in origins:
        origin = encode_key([branch, key] if position is None else [branch, position >> POSITION_BITS, position & OFFSET_MASK])
        seen[origin] = ordinal = seen.get(origin, -1) + 1
        keys.append(origin + encode_key([ordinal]))
    return keys
