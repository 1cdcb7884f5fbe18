"""The merge lane: row by row, then one aggregate whose parts unite; then row by row again.

    new rows --Spark--> their parts per group --+
    stored parts of those groups ---------------+--unite--> parts of the touched groups --Spark--> rows of the table

The parts are kept to the last bit. What the function does after its aggregate runs over the touched groups as they were
and as they are; the difference is the change of the table, so a group that HAVING hides, or whose answer stayed the same,
changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.errors import FunctionFailed
from headrace.lanes.base import InputChange, Lane, LaneContext, Outcome, TableChange, complete, refuse_twice
from headrace.lanes.difference import subtract, take
from headrace.lanes.magnitudes import EPSILON, largest, magnitude
from headrace.lanes.parts import MomentPart, Part, Values, part_of
from headrace.schema import arrow_schema, encode_key, encode_keys, nullable, python_values
from headrace.spark.frames import Shape
from headrace.spark.query import Gear, Loaded, Query, Template
from headrace.spark.surgery import Leaf, Surgeon
from headrace.store.base import Change, Registration, TableSpec

ROWS = "_hr_rows"
"""The column of parts that counts a group's rows: a group goes when it reaches 0."""


StraightColumn = str | int
"""A column of the answer that is a group's column, by name, or the value of a part, by number."""


class MergeLane(Lane):
    """Keeps the parts of each group in `_m_<table>`."""

    def __init__(self, context: LaneContext) -> None:
        super().__init__(context)
        assert context.plan.merge is not None, "the planner chose merge"
        self._aggregate = tuple(context.plan.merge.aggregate)
        self._parts: list[Part] = []
        self._groups = 0
        self.partial = Query(context.door, context.table, self._partial_recipe)
        fields = self.partial.schema.fields
        self.columns = nullable(T.StructType([*fields[: self._groups], *self._part_fields(), fields[-1]]))
        self._shape = Shape("_parts", "table", self.columns)
        self._finish = self._finish_template()
        self._straight = self._straight_columns()

    def _part_fields(self) -> list[T.StructField]:
        return [T.StructField(f"p{i}_{j}", kind) for i, part in enumerate(self._parts) for j, kind in enumerate(part.types)]

    def registrations(self) -> list[Registration]:
        spec = TableSpec(self.context.table.name, self.columns, None, "parts")
        return [Registration(spec, lane="merge", layout=self.columns.simpleString(), hidden=True)]

    # --- what is cut out of the function

    def _aggregate_functions(self, surgeon: Surgeon, aggregate: Any) -> Iterator[Any]:
        """The aggregate expressions in the order in which they stand."""
        if aggregate.getClass().getSimpleName() == "Aggregate":
            for named in surgeon.items(aggregate.aggregateExpressions()):
                yield from surgeon.aggregates_in(named)

    @staticmethod
    def _grouping(surgeon: Surgeon, aggregate: Any) -> list[Any]:
        if aggregate.getClass().getSimpleName() == "Aggregate":
            return surgeon.items(aggregate.groupingExpressions())
        return surgeon.items(aggregate.child().output())

    def _partial_recipe(self, surgeon: Surgeon, root: Any) -> Any:
        """The parts of each group of new rows."""
        aggregate = surgeon.node(root, self._aggregate)
        grouping = self._grouping(surgeon, aggregate)
        kept, parts = [], []
        for i, expression in enumerate(self._aggregate_functions(surgeon, aggregate)):
            function = expression.aggregateFunction()
            arguments = [surgeon.column(child) for child in surgeon.items(function.children())]
            kinds = tuple(spark_type(child) for child in surgeon.items(function.children()))
            name = function.getClass().getSimpleName()
            if name == "CountIf":
                arguments = [F.when(arguments[0], F.lit(True))]
            if name == "Count":  # count(1) has a child that is never null
                arguments = [
                    a for a, child in zip(arguments, surgeon.items(function.children()), strict=True) if child.nullable()
                ]
            if expression.filter().isDefined():
                only = surgeon.column(expression.filter().get())
                arguments = [F.when(only, a) for a in arguments] or [F.when(only, F.lit(True))]
            part = part_of(name, kinds, spark_type(expression))
            parts.append(part)
            kept += [
                column.cast(kind).alias(f"p{i}_{j}")
                for j, (column, kind) in enumerate(zip(part.build(arguments), part.types, strict=True))
            ]
        self._parts, self._groups = parts, len(grouping)
        groups = [surgeon.column(g).alias(f"g{i}") for i, g in enumerate(grouping)]
        below = surgeon.frame(aggregate.child())
        return surgeon.analysed(below.groupBy(*groups).agg(*kept, F.count(F.lit(1)).alias(ROWS)))

    def _finish_template(self) -> Template:
        """What the function does from its aggregate on, over parts; each row with the key of its group."""
        door, surgeon = self.context.door, self.context.door.surgeon("small")
        root = surgeon.analysed(door.empty_call(self.context.table))
        aggregate = surgeon.node(root, self._aggregate)
        parts = door.local_frame(self._shape)
        relation = surgeon.analysed(parts).child()
        attributes = {a.name(): a for a in surgeon.items(relation.child().output())}
        replaced = surgeon.replace(root, self._aggregate, self._finish_node(surgeon, aggregate, attributes, relation))
        leaf = Leaf(self._aggregate, lambda s, relation: [a for a in relation if a.name() == self._shape.row_column])
        shown = surgeon.items(root.output())
        carried, group = surgeon.carry(replaced, [leaf])
        return Template(door, surgeon.project([*shown, *group], carried), {self._shape.row_column: self._shape.name})

    def _finish_node(self, surgeon: Surgeon, aggregate: Any, attributes: Mapping[str, Any], relation: Any) -> Any:
        """A Project in the aggregate's place: its output, computed from groups and parts."""
        groups = [attributes[f"g{i}"] for i in range(self._groups)]
        grouping = self._grouping(surgeon, aggregate)
        if aggregate.getClass().getSimpleName() != "Aggregate":
            made = [surgeon.alias(g, a.name(), like=a) for g, a in zip(groups, surgeon.items(aggregate.output()), strict=True)]
            return surgeon.project(made, relation)
        numbers = iter(range(len(self._parts)))

        def value(expression: Any) -> Any | None:
            for group, original in zip(groups, grouping, strict=True):
                if expression.semanticEquals(original):
                    return group
            if expression.getClass().getSimpleName() != "AggregateExpression":
                return None
            number = next(numbers)
            part = self._parts[number]
            kept = [surgeon.column(attributes[f"p{number}_{j}"]) for j in range(len(part.types))]
            final = part.final(surgeon, expression.aggregateFunction(), kept)
            return surgeon.expression(final) if isinstance(final, Column) else final

        made = []
        for named in surgeon.items(aggregate.aggregateExpressions()):
            inner = named.child() if named.getClass().getSimpleName() == "Alias" else named
            made.append(surgeon.alias(surgeon.rewrite(inner, value), named.name(), like=named))
        return surgeon.project(made, relation)

    def _straight_columns(self) -> list[StraightColumn] | None:
        """Where the function ends at its aggregate, columns renamed and reordered at most: what each of its columns is.

        Then groups and parts are the answer as they stand, and Spark need not be asked a second time in each epoch.
        """
        surgeon = self.context.door.surgeon("small")
        root = surgeon.analysed(self.context.door.empty_call(self.context.table))
        aggregate = surgeon.node(root, self._aggregate)
        made = self._straight_outputs(surgeon, aggregate)
        above = [surgeon.node(root, self._aggregate[:depth]) for depth in range(len(self._aggregate))]
        for node in reversed(above):
            made = made and straight_above(surgeon, node, made)
        if not made:
            return None
        return [made[a.exprId().toString()] for a in surgeon.items(root.output())]

    def _straight_outputs(self, surgeon: Surgeon, aggregate: Any) -> dict[str, StraightColumn] | None:
        """What the aggregate's own columns are, by expression id; None where one of them computes something."""
        if aggregate.getClass().getSimpleName() != "Aggregate":
            return {a.exprId().toString(): f"g{i}" for i, a in enumerate(surgeon.items(aggregate.output()))}
        grouping, numbers = self._grouping(surgeon, aggregate), iter(range(len(self._parts)))
        made: dict[str, StraightColumn] = {}
        for named in surgeon.items(aggregate.aggregateExpressions()):
            inner = named.child() if named.getClass().getSimpleName() == "Alias" else named
            group = next((f"g{i}" for i, original in enumerate(grouping) if inner.semanticEquals(original)), None)
            if group is None and inner.getClass().getSimpleName() != "AggregateExpression":
                return None
            column = group if group is not None else next(numbers)
            if isinstance(column, int) and not self._parts[column].plain:
                return None
            made[named.exprId().toString()] = column
        return made

    # --- an epoch

    def run(self, changes: Mapping[str, InputChange], gear: Gear) -> Outcome:
        new = self.groups_of(self._partial(changes, "after", gear))
        gone: dict[bytes, list[Values]] = {}
        if any(change.before.num_rows for change in changes.values()):
            gone = self.groups_of(self._partial(changes, "before", gear))
        touched = list(dict.fromkeys([*new, *gone]))
        stored = self._stored(touched)
        united = {key: self._unite(stored.get(key), new.get(key), gone.get(key)) for key in touched}
        if not self._groups and stored and not new and not gone:
            return Outcome(TableChange([], self.context.no_rows(), [], self.context.no_rows()))
        alive = {key: row for key, row in united.items() if row[-1][0] or not self._groups}
        parts = Change([k for k in touched if k in stored], list(alive), self._table(alive.values()))
        return Outcome(self._finished(stored, alive, gear), parts=parts)

    def row_queries(self, name: str) -> list[Query]:
        return [self.partial]

    def touched(self, changes: Mapping[str, InputChange]) -> dict[bytes, str]:
        return {key: repr(row[0]) for key, row in self._after(changes).items()}

    def run_only(self, changes: Mapping[str, InputChange], keys: frozenset[bytes]) -> None:
        groups = {key: row for key, row in self._after(changes).items() if key in keys}
        self._answer_over([*groups.values()], list(groups), "small")

    def _after(self, changes: Mapping[str, InputChange]) -> dict[bytes, list[Values]]:
        """The touched groups as they are after the epoch."""
        new, gone = self.groups_of(self._partial(changes, "after", "small")), dict[bytes, list[Values]]()
        if any(change.before.num_rows for change in changes.values()):
            gone = self.groups_of(self._partial(changes, "before", "small"))
        touched = list(dict.fromkeys([*new, *gone]))
        stored = self._stored(touched)
        united = {key: self._unite(stored.get(key), new.get(key), gone.get(key)) for key in touched}
        return {key: row for key, row in united.items() if row[-1][0] or not self._groups}

    def _partial(self, changes: Mapping[str, InputChange], side: str, gear: Gear) -> pa.Table:
        rows = complete(self.context, changes, side)
        return self.partial.run(self.context.door.load_all(rows, gear), gear)

    def groups_of(self, rows: pa.Table) -> dict[bytes, list[Values]]:
        """Per group key: the group's values, then each part's values, then the row count."""
        if not rows.num_columns:
            return {}
        names = [f"g{i}" for i in range(self._groups)]
        keys = encode_keys(rows, names)
        columns = iter([python_values(column) for column in rows.columns])

        def values(count: int) -> list[Values]:
            taken = [next(columns) for _ in range(count)]
            return list(zip(*taken, strict=True)) if taken else [()] * rows.num_rows

        fields = [values(count) for count in (self._groups, *(len(part.types) for part in self._parts), 1)]
        return {key: list(row) for key, row in zip(keys, zip(*fields, strict=True), strict=True)}

    def _stored(self, keys: Sequence[bytes]) -> dict[bytes, list[Values]]:
        if not keys:
            return {}
        found, rows = self.context.store.fetch(self.context.table.name, keys, "parts")
        if not found:
            return {}
        return self.groups_of(rows.select(self.columns.names))

    def _unite(self, stored: list[Values] | None, new: list[Values] | None, gone: list[Values] | None) -> list[Values]:
        """The parts of one group after the epoch. What came is added first, so that what goes is always there."""
        if stored is None or new is None:
            total = stored if new is None else new
        else:
            parts = [part.unite(a, b) for part, a, b in zip(self._parts, stored[1:-1], new[1:-1], strict=True)]
            total = [stored[0], *parts, (stored[-1][0] + new[-1][0],)]
        if gone is None:
            assert total is not None
            return total
        assert total is not None, "a row went that never came"
        parts = [part.subtract(a, b) for part, a, b in zip(self._parts, total[1:-1], gone[1:-1], strict=True)]
        return [total[0], *parts, (total[-1][0] - gone[-1][0],)]

    def _table(self, groups: Any) -> pa.Table:
        flat = [[value for values in row for value in values] for row in groups]
        schema = arrow_schema(self.columns)
        columns = list(zip(*flat, strict=True)) if flat else [()] * len(schema)
        try:
            return pa.Table.from_arrays([_array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
        except pa.ArrowInvalid as error:
            raise self._overflow(groups, str(error)) from error

    def _overflow(self, groups: Any, why: str) -> FunctionFailed:
        for row in groups:
            try:
                [
                    _array([v], f.type)
                    for v, f in zip([v for values in row for v in values], arrow_schema(self.columns), strict=True)
                ]
            except pa.ArrowInvalid:
                return FunctionFailed(
                    f'table "{self.context.table.name}": a sum is beyond 38 digits',
                    details=[f"group {row[0]!r}", why],
                    origin=self.context.table.origin,
                    hint="a sum over DOUBLE, or a smaller scale",
                )
        raise AssertionError("no group overflows by itself")

    def _finished(self, stored: Mapping[bytes, list[Values]], alive: Mapping[bytes, list[Values]], gear: Gear) -> TableChange:
        """The rows of the touched groups as they were and as they are, subtracted."""
        rows = [*stored.values(), *alive.values()]
        marks = [b"0" + key for key in stored] + [b"1" + key for key in alive]
        answer = self._answer_over(rows, marks, gear)
        is_new = [mark[:1] == b"1" for mark in python_values(answer.column(answer.num_columns - 1))]
        rows_only = answer.select(list(range(answer.num_columns - 1)))
        after = rows_only.filter(pa.array(is_new, pa.bool_()))
        before = rows_only.filter(pa.array([not n for n in is_new], pa.bool_()))
        after_keys, before_keys = self._keys(after), self._keys(before)
        refuse_twice(self.context.table, self.context.key, after_keys, after)
        gone, come = subtract(after, before)
        return TableChange([before_keys[i] for i in gone], take(before, gone), [after_keys[i] for i in come], take(after, come))

    def _answer_over(self, rows: Sequence[list[Values]], marks: Sequence[bytes], gear: Gear) -> pa.Table:
        """What the function makes of groups from its aggregate on; the last column is the group's mark."""
        parts = self._table(rows)
        straight = self._straight_answer(parts) if self._straight is not None else None
        if straight is not None:
            return straight.append_column("_hr_mark", pa.array(marks, pa.binary()))
        columns: list[Any] = [*parts.columns, pa.array(marks, pa.binary())]
        table = pa.Table.from_arrays(columns, schema=arrow_schema(self._shape.full))
        return self._finish.run({self._shape.name: Loaded(self.context.door, self._shape, table, gear)}, gear)

    def _straight_answer(self, parts: pa.Table) -> pa.Table | None:
        """The answer as groups and parts hold it; None where a value is beyond its type, of which Spark says what follows."""
        assert self._straight is not None
        columns = []
        for column in self._straight:
            if isinstance(column, str):
                columns.append(parts.column(column))
                continue
            part = self._parts[column]
            value = part.value([parts.column(f"p{column}_{j}") for j in range(len(part.types))])
            if value is None:
                return None
            columns.append(value)
        wanted = pa.schema(list(arrow_schema(nullable(self._finish.schema)))[: len(columns)])
        return pa.Table.from_arrays(columns, schema=wanted)

    # --- for verify

    def batch_groups(self, loaded: Mapping[str, Loaded], gear: Gear) -> tuple[dict[bytes, list[Values]], dict[bytes, float]]:
        """The parts over all rows, computed at once; and per group how far sums of doubles may be apart."""
        groups = self.groups_of(self.partial.run(loaded, gear))
        alive = {key: row for key, row in groups.items() if row[-1][0] or not self._groups}
        if not any(part.approximate for part in self._parts):
            return alive, {}
        rows = Query(self.context.door, self.context.table, self._magnitude_recipe).run(loaded, gear)
        keys = encode_keys(rows, [f"g{i}" for i in range(self._groups)])
        counts, sums = python_values(rows.column(rows.num_columns - 2)), python_values(rows.column(rows.num_columns - 1))
        return alive, {k: max(n, 1) * EPSILON * (m or 0.0) for k, n, m in zip(keys, counts, sums, strict=True)}

    def _magnitude_recipe(self, surgeon: Surgeon, root: Any) -> Any:
        """Per group: how many rows, and the largest sum of magnitudes of what is added in double."""
        aggregate = surgeon.node(root, self._aggregate)
        sums = []
        for part, expression in zip(self._parts, self._aggregate_functions(surgeon, aggregate), strict=True):
            if part.approximate:
                value = surgeon.column(expression.aggregateFunction().children().apply(0))
                if expression.filter().isDefined():
                    value = F.when(surgeon.column(expression.filter().get()), value)
                sums.append(magnitude(value, squares=isinstance(part, MomentPart)))
        groups = [surgeon.column(g).alias(f"g{i}") for i, g in enumerate(self._grouping(surgeon, aggregate))]
        below = surgeon.frame(aggregate.child())
        return surgeon.analysed(below.groupBy(*groups).agg(F.count(F.lit(1)).alias("n"), largest(sums).alias("m")))

    def same_parts(self, stored: list[Values] | None, wanted: list[Values] | None, bound: float | None) -> bool:
        """Whether stored parts are those of a batch job."""
        if stored is None or wanted is None:
            return False
        if encode_key(stored[0]) != encode_key(wanted[0]) or stored[-1] != wanted[-1]:
            return False
        given = bool(self.context.plan.approximate)  # then what a minimum picks may have been added in double by an input table
        return all(part.same(a, b, bound, given) for part, a, b in zip(self._parts, stored[1:-1], wanted[1:-1], strict=True))

    def bounds_by_key(
        self, groups: Mapping[bytes, list[Values]], bounds: Mapping[bytes, float], gear: Gear
    ) -> dict[bytes, float]:
        """The bounds of groups, by the key of the table's row that is made of the group."""
        answer = self._answer_over([*groups.values()], list(groups), gear)
        keys = self._keys(answer.select(list(range(answer.num_columns - 1))))
        marks = python_values(answer.column(answer.num_columns - 1))
        return {key: bounds.get(mark, 0.0) for key, mark in zip(keys, marks, strict=True)}

    def _keys(self, rows: pa.Table) -> list[bytes]:
        key = self.context.key
        assert key is not None, "a table that groups has a key"
        return encode_keys(rows, key) if key else [encode_key([])] * rows.num_rows


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Python values as `python_values` gave them, as an array."""
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, kind)


def straight_above(surgeon: Surgeon, node: Any, made: Mapping[str, StraightColumn]) -> dict[str, StraightColumn] | None:
    """What the columns of a node are, given those of its child; None where the node does more than rename and reorder."""
    kind = node.getClass().getSimpleName()
    if kind == "SubqueryAlias":
        return dict(made)
    if kind != "Project":
        return None
    above: dict[str, StraightColumn] = {}
    for named in surgeon.items(node.projectList()):
        inner = named.child() if named.getClass().getSimpleName() == "Alias" else named
        if inner.getClass().getSimpleName() != "AttributeReference":
            return None
        above[named.exprId().toString()] = made[inner.exprId().toString()]
    return above


def spark_type(expression: Any) -> T.DataType:
    """The Python type of a JVM expression."""
    kind: T.DataType = T._parse_datatype_json_string(expression.dataType().json())
    return kind
