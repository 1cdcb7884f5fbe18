"""The recompute lane: the user's own batch function over the rows of the partitions that an epoch touches.

    changed rows --> their partition tuples --> all rows with these tuples, as they were and as they are
                 --> the function on both --> the difference is the change of the table

Rows are found again through an index by tuple: copies of source rows, current rows of input tables. Where the function is
linear in the only input that changed, that input's old rows are not fetched. Without a partition, the function runs over
everything and is compared with the stored rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.errors import Bug
from headrace.lanes.base import InputChange, Lane, LaneContext, Outcome, TableChange, frame_path, refuse_twice
from headrace.lanes.difference import subtract, take
from headrace.lanes.ties import TieCheck, Ties
from headrace.lanes.tolerance import same_within
from headrace.plan.choose import Occurrence
from headrace.schema import encode_keys, readable_rows
from headrace.spark.expressions import jvm_expression
from headrace.spark.frames import Rows, Shape, StoredFiles
from headrace.spark.query import Gear, Loaded, Query
from headrace.spark.surgery import Leaf, Surgeon
from headrace.store.base import IndexChange, Registration, TableSpec


@dataclass(frozen=True)
class Tuples:
    """The partition tuples of some rows: row identities and encoded tuples, side by side; a row may have several."""

    rows: Sequence[Any]
    tuples: Sequence[bytes]

    def only(self, some: frozenset[bytes]) -> Tuples:
        """Those of some tuples."""
        kept = [(row, t) for row, t in zip(self.rows, self.tuples, strict=True) if t in some]
        return Tuples([row for row, _ in kept], [t for _, t in kept])


class OccurrenceIndex:
    """One place where an input is read: how its rows' tuples are computed, and the index that finds rows by tuple."""

    def __init__(self, context: LaneContext, number: int, occurrence: Occurrence) -> None:
        self.context, self.occurrence = context, occurrence
        self.input = occurrence.input
        self.name = f"{occurrence.input}_{context.table.name}_{number}"
        self.query = Query(context.door, context.table, self._recipe)

    def registration(self) -> Registration:
        """The index in the store."""
        layout = "; ".join(map(str, self.occurrence.tuple))
        return Registration(TableSpec(self.name, T.StructType([]), None, "index"), lane="recompute", layout=layout, hidden=True)

    def _recipe(self, surgeon: Surgeon, root: Any) -> Any:
        """The row-by-row part over this occurrence: each row's identity and its tuple."""
        part, leaf = self.occurrence.part, frame_path(self.occurrence.leaf)
        assert leaf[: len(part)] == tuple(part), "a leaf stands below its row-by-row part"
        column = f"_hr_row__{self.input}"
        under = Leaf(leaf[len(part) :], lambda s, relation: [a for a in relation if a.name() == column])
        carried, (row,) = surgeon.carry(surgeon.node(root, part), [under])
        made = [
            surgeon.alias(jvm_expression(surgeon, root, expression), f"t{i}")
            for i, expression in enumerate(self.occurrence.tuple)
        ]
        return surgeon.project([row, *made], carried)

    def tuples(self, rows: Rows, gear: Gear) -> Tuples:
        """The tuples of rows of the input; rows that a filter drops have none."""
        shapes = self.context.door.shapes
        others = {name: shapes[name].empty() for name in self.context.live_inputs}
        return self.tuples_of(self.context.door.load_all(others | {self.input: rows}, gear), gear)

    def named(self, rows: Rows) -> dict[bytes, str]:
        """The tuples of rows, with their values as messages show them."""
        shapes = self.context.door.shapes
        others = {name: shapes[name].empty() for name in self.context.live_inputs}
        answer = self.query.run(self.context.door.load_all(others | {self.input: rows}, "small"), "small")
        values = [tuple(row.values())[1:] for row in readable_rows(answer)]
        return {t: repr(v) for t, v in zip(encode_keys(answer, answer.column_names[1:]), values, strict=True)}

    def tuples_of(self, loaded: Mapping[str, Loaded], gear: Gear) -> Tuples:
        """The tuples of rows that are loaded already."""
        answer = self.query.run(loaded, gear)
        encoded = encode_keys(answer, answer.column_names[1:])
        return Tuples(answer.column(0).to_pylist(), encoded)


class RecomputeLane(Lane):
    """Keeps indexes `_x_<input>_<table>_<n>`, and copies of the sources' rows."""

    def __init__(self, context: LaneContext) -> None:
        super().__init__(context)
        self.function = Query(context.door, context.table, lambda surgeon, root: root)
        self.indexes: list[OccurrenceIndex] = []
        if not context.plan.whole:
            self.indexes = [OccurrenceIndex(context, i, o) for i, o in enumerate(context.plan.occurrences)]
        self.checks = [TieCheck(context.door, context.table, check) for check in context.plan.orders if not check.proved]

    def registrations(self) -> list[Registration]:
        return [index.registration() for index in self.indexes]

    @property
    def copies(self) -> frozenset[str]:
        shapes = self.context.door.shapes
        return frozenset(index.input for index in self.indexes if shapes[index.input].kind == "source")

    def row_queries(self, name: str) -> list[Query]:
        door, table = self.context.door, self.context.table
        found: list[Query] = []
        for number, occurrence in enumerate(self.context.plan.occurrences):
            if occurrence.input == name:
                found.append(Query(door, table, partial(_row_by_row, occurrence.part)))
                found += [self.indexes[number].query] if self.indexes else []
        return found

    def touched(self, changes: Mapping[str, InputChange]) -> dict[bytes, str]:
        names = {}
        for index in self.indexes:
            if index.input in changes:
                for side in (changes[index.input].before, changes[index.input].after):
                    names.update(index.named(side))
        return names

    def run_only(self, changes: Mapping[str, InputChange], keys: frozenset[bytes]) -> None:
        self.run(changes, "small", only=keys)

    # --- an epoch

    def run(self, changes: Mapping[str, InputChange], gear: Gear, only: frozenset[bytes] | None = None) -> Outcome:
        changes = {name: change for name, change in changes.items() if name in self.context.live_inputs}
        if self.context.plan.whole or not changes:
            return self._whole(changes, gear)
        found = {index.name: self._tuples(index, changes[index.input], gear) for index in self.indexes if index.input in changes}
        if only is not None:
            found = {name: (before.only(only), after.only(only)) for name, (before, after) in found.items()}
        touched = list({t for before, after in found.values() for t in (*before.tuples, *after.tuples)})
        linear = self._linear_in(changes)
        before: dict[str, Rows] = {}
        after: dict[str, Rows] = {}
        for name in self.context.live_inputs:
            old = self._old_rows(name, touched) if name != linear else self._shape(name).empty()
            before[name], after[name] = self._overlay(name, old, changes.get(name), found, linear=name == linear)
        change, ties = self._difference(before, after, gear)
        index = {
            name: IndexChange(removed_rows=list(dict.fromkeys(gone.rows)), tuples=come.tuples, rows=come.rows)
            for name, (gone, come) in found.items()
        }
        return Outcome(change, index=index, ties=ties)

    def _tuples(self, index: OccurrenceIndex, change: InputChange, gear: Gear) -> tuple[Tuples, Tuples]:
        before = index.tuples(change.before, gear) if change.before.num_rows else Tuples([], [])
        return before, index.tuples(change.after, gear)

    def _linear_in(self, changes: Mapping[str, InputChange]) -> str | None:
        """The only input that changed, if the function is linear in it."""
        names = list(changes)
        return names[0] if len(names) == 1 and names[0] in self.context.plan.linear else None

    def _shape(self, name: str) -> Shape:
        return self.context.door.shapes[name]

    def _old_rows(self, name: str, touched: Sequence[bytes]) -> pa.Table:
        """The input's rows with these tuples, as they were before the epoch."""
        rows: dict[Any, None] = {}
        for index in self.indexes:
            if index.input == name:
                rows.update(dict.fromkeys(self.context.store.lookup(index.name, touched)))
        if not rows:
            return self._shape(name).empty()
        return self.context.rows_of.by_identity(name, list(rows))

    def _overlay(
        self,
        name: str,
        old: pa.Table,
        change: InputChange | None,
        found: Mapping[str, tuple[Tuples, Tuples]],
        *,
        linear: bool,
    ) -> tuple[Rows, Rows]:
        """The input as it was and as it is, from its old rows and this epoch's change."""
        if change is None:
            return old, old
        assert isinstance(change.after, pa.Table), "a recompute is handed rows, not files"
        column = self._shape(name).row_column
        gone = set(change.before.column(column).to_pylist())
        with_tuple = {row for index in self.indexes if index.input == name for row in found[index.name][1].rows}
        came = change.after.filter(pa.array([row in with_tuple for row in change.after.column(column).to_pylist()], pa.bool_()))
        if linear:
            return change.before, came
        if not gone:
            return old, pa.concat_tables([old, came])
        before, missing = old, gone - set(old.column(column).to_pylist())
        if missing:
            lost = change.before.filter(
                pa.array([row in missing for row in change.before.column(column).to_pylist()], pa.bool_())
            )
            before = pa.concat_tables([old, lost])
        kept = old.filter(pa.array([row not in gone for row in old.column(column).to_pylist()], pa.bool_()))
        return before, pa.concat_tables([kept, came])

    def _ties(self, rows: Mapping[str, Rows], gear: Gear) -> list[Ties]:
        """Ties of checked orders in the rows that are computed over."""
        if not self.checks:
            return []
        loaded = self.context.door.load_all(rows, gear)
        found = [ties for check in self.checks if (ties := check.find(loaded, gear)) is not None]
        if found and self.context.table.on_tie == "stop":
            raise found[0].as_error(self.context.table)
        return found

    def _difference(self, before: Mapping[str, Rows], after: Mapping[str, Rows], gear: Gear) -> tuple[TableChange, list[Ties]]:
        """Both answers, side by side, subtracted as bags."""
        with ThreadPoolExecutor(2) as pool:
            old = pool.submit(self._answer, before, gear)
            new = self._answer(after, gear)
            gone, come = subtract(new, old.result())
        gone_rows, come_rows = take(old.result(), gone), take(new, come)
        gone_keys, come_keys = self._keys(gone_rows), self._keys(come_rows)
        refuse_twice(self.context.table, self.context.key, come_keys, come_rows)
        return self._settled(TableChange(gone_keys, gone_rows, come_keys, come_rows)), self._ties(after, gear)

    def _whole(self, changes: Mapping[str, InputChange], gear: Gear) -> Outcome:
        """The function over everything, against everything that is stored."""
        rows_of, linear = self.context.rows_of, self._linear_in(changes)
        everything: dict[str, Rows] = {}
        for name in self.context.live_inputs:
            if name == linear:
                continue
            everything[name] = rows_of.all_rows(name, changes.get(name), self.context.table.name)
        if linear is not None:
            change = changes[linear]
            settled, ties = self._difference({**everything, linear: change.before}, {**everything, linear: change.after}, "large")
            return Outcome(settled, ties=ties)
        new = self._answer(everything, "large")
        chunks = list(self.context.store.fetch_all(self.context.table.name))
        stored_keys = [key for keys, _ in chunks for key in keys]
        stored = pa.concat_tables([rows for _, rows in chunks]) if chunks else self.context.no_rows()
        gone, come = subtract(new, stored)
        come_rows = take(new, come)
        come_keys = self._keys(come_rows)
        refuse_twice(self.context.table, self.context.key, come_keys, come_rows)
        whole = TableChange([stored_keys[i] for i in gone], take(stored, gone), come_keys, come_rows)
        return Outcome(self._settled(whole), ties=self._ties(everything, "large"))

    def _settled(self, change: TableChange) -> TableChange:
        """Rows whose sums of doubles moved by less than a tenth of the tolerance stay as they are stored."""
        approximate = self.context.plan.approximate
        if not approximate or not change.before_keys:
            return change
        keys, stored = self.context.store.fetch(self.context.table.name, change.before_keys)
        place = {key: i for i, key in enumerate(keys)}
        come = {key: i for i, key in enumerate(change.after_keys)}
        same = {
            key
            for key in place.keys() & come.keys()
            if same_within(stored.slice(place[key], 1), change.after.slice(come[key], 1), approximate, 0.1)
        }
        gone = [key for key in change.before_keys if key not in same]
        kept = [i for i, key in enumerate(change.after_keys) if key not in same]
        if missing := [key for key in gone if key not in place]:
            raise Bug(f'table "{self.context.table.name}": {len(missing)} rows went that are not stored')
        return TableChange(
            gone, take(stored, [place[k] for k in gone]), [change.after_keys[i] for i in kept], take(change.after, kept)
        )

    def _answer(self, rows: Mapping[str, Rows], gear: Gear) -> pa.Table:
        big = any(isinstance(r, StoredFiles) or r.num_rows > 50_000 for r in rows.values())
        gear = "large" if big else gear
        return self.function.run(self.context.door.load_all(rows, gear), gear)

    def _keys(self, rows: pa.Table) -> list[bytes]:
        assert self.context.key is not None, "a recomputed table has a key"
        return encode_keys(rows, self.context.key)


def _row_by_row(part: Sequence[Any], surgeon: Surgeon, root: Any) -> Any:
    """The row-by-row part, with what an aggregate directly over it computes of each row.

    The aggregates are Spark's own, over one row as over many: whether a FILTER clause keeps a failing argument from being
    computed is for Spark to say (with DISTINCT it does not). What is computed of the aggregates belongs to a key, not to a row.
    """
    node = surgeon.node(root, part)
    above = surgeon.node(root, part[:-1]) if part and isinstance(part[-1], int) else None
    if above is None or above.getClass().getSimpleName() != "Aggregate":
        return node
    groups = [surgeon.column(g).alias(f"g{i}") for i, g in enumerate(surgeon.items(above.groupingExpressions()))]
    calls = [call for e in surgeon.items(above.aggregateExpressions()) for call in surgeon.aggregates_in(e)]
    made = [surgeon.column(call).alias(f"e{i}") for i, call in enumerate(calls)]
    return surgeon.analysed(surgeon.frame(node).groupBy(*groups).agg(*(made or [F.count(F.lit(1))])))
