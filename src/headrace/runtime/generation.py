"""What one generation of an app works with: its topics, references, plans and lanes, made once at start.

`Workshop` needs no store: `plan`, `batch` and `verify` use it too. `Generation` adds the lanes over a store.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as attribute
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import types as T

from headrace.definitions import AppDef, TableDef
from headrace.errors import DefinitionError, NotKeptUp
from headrace.lanes.append import AppendLane
from headrace.lanes.base import Lane, LaneContext
from headrace.lanes.merge import MergeLane
from headrace.lanes.recompute import RecomputeLane
from headrace.log.topic import Topic
from headrace.place import Place
from headrace.plan.choose import Input, TablePlan, plan_table
from headrace.plan.fingerprint import normalised, source_fingerprint
from headrace.plan.tree import Node, parse
from headrace.runtime.clocks import Clocks
from headrace.runtime.references import Reference, load_reference
from headrace.runtime.rows import SourceReader, StoredRows
from headrace.schema import NOW, RESERVED, arrow_type, nullable
from headrace.settings import Settings
from headrace.spark.actions import no_actions
from headrace.spark.errors import spark_errors
from headrace.spark.frames import Shape
from headrace.spark.query import Door
from headrace.spark.session import Sessions
from headrace.store.base import Store
from headrace.store.ledger import LedgerRow
from headrace.topics import open_topic

LANES: dict[str, type[Lane]] = {"append": AppendLane, "merge": MergeLane, "recompute": RecomputeLane}


@dataclass(frozen=True)
class Planned:
    """A table with everything that follows from its function."""

    table: TableDef
    plan: TablePlan
    columns: T.StructType
    fingerprint: str
    asks_now: bool


@dataclass
class Workshop:
    """An app's functions, ready to be called: the door, the shapes of its inputs, and the plan of every table."""

    app: AppDef
    place: Place
    door: Door
    topics: Mapping[str, Topic]
    readers: Mapping[str, SourceReader]
    references: Mapping[str, Reference]
    tables: dict[str, Planned] = attribute(default_factory=dict)

    @classmethod
    def open(cls, app: AppDef, place: Place, settings: Settings, sessions: Sessions) -> Workshop:
        """Open topics (made where they are missing), read references, and plan every table."""
        beside = Path(app.file).parent if app.file else None
        topics = {name: open_topic(place, topic) for name, topic in app.topics.items()}
        references = {name: load_reference(r, place, beside=beside) for name, r in app.references.items()}
        shapes = {name: Shape(name, "source", topic.schema) for name, topic in app.topics.items()}
        shapes |= {name: Shape(name, "reference", r.columns) for name, r in references.items()}
        door = Door(sessions, shapes, {name: reference_rows(r, shapes[name]) for name, r in references.items()})
        readers = {name: SourceReader(topic, shapes[name], app.topics[name].event_time) for name, topic in topics.items()}
        workshop = cls(app, place, door, topics, readers, references)
        for table in app.in_order():
            workshop._plan(table, shapes)
        return workshop

    def _plan(self, table: TableDef, shapes: dict[str, Shape]) -> None:
        with spark_errors(table):
            with no_actions(table):
                frame = self.door.empty_call(table)
            root = self.door.surgeon("small").analysed(frame)
            text, columns = root.toJSON(), nullable(frame.schema)
        inputs = {name: self._input(name) for name in table.reads}
        tree = parse(text)
        plan = plan_table(tree, table, inputs)
        _check_columns(table, columns)
        fingerprint = source_fingerprint(table, inputs, self.app.timezone)
        self.tables[table.name] = Planned(table, plan, columns, fingerprint, asks_now(tree, table))
        shapes[table.name] = Shape(table.name, "table", columns)

    def set_clocks(self, ledger: Callable[[], Iterable[LedgerRow]]) -> Clocks | None:
        """Give `hr.now()` its readings, where a function asks for it."""
        if not any(planned.asks_now for planned in self.tables.values()):
            return None
        clocks = Clocks.of(ledger())
        for reader in self.readers.values():
            reader.clocks = clocks
        return clocks

    def check_purity(self) -> None:
        """Call every function again: a plan that is another one than at the start would make stream and batch differ."""
        for planned in self.tables.values():
            if planned.plan.normalised != self._normalised(planned.table):
                raise NotKeptUp(
                    f'table "{planned.table.name}" cannot be kept up to date',
                    details=["its function was called twice and gave two plans: it reads something besides its inputs"],
                    origin=planned.table.origin,
                    hint="no clock, file, random number or changing global in it; hr.now() is the clock of a row's epoch",
                )

    def _normalised(self, table: TableDef) -> str:
        with spark_errors(table):
            return normalised(parse(self.door.surgeon("small").analysed(self.door.empty_call(table)).toJSON()))

    def made_by(self, name: str) -> dict[str, str]:
        """What a table is made by, as the ledger records it: only another `source` rebuilds it."""
        planned = self.tables[name]
        versions = {"spark": pyspark.__version__, "python": platform.python_version()}
        return {"source": planned.fingerprint, "plan": planned.plan.normalised, **versions}

    def _input(self, name: str) -> Input:
        if name in self.tables:
            planned = self.tables[name]
            return Input(name, "table", planned.columns, planned.plan.key, self.grows(name), frozenset(planned.plan.approximate))
        kind = "source" if name in self.topics else "reference"
        return Input(name, kind, self.door.shapes[name].columns)  # type: ignore[arg-type]

    def grows(self, name: str) -> bool:
        """Whether a table's rows never change or vanish: append lanes over what only grows."""
        planned = self.tables[name]
        return planned.plan.lane == "append" and all(self.grows(n) for n in planned.table.reads if n in self.tables)


def reference_rows(reference: Reference, shape: Shape) -> pa.Table:
    """A reference's rows in the shape of a frame; its rows are numbered."""
    return reference.rows.append_column(shape.row_column, pa.array(range(reference.rows.num_rows), pa.int64()))


def asks_now(root: Node, table: TableDef) -> bool:
    """Whether a function asks for the clock of its rows' epochs."""
    asks = False
    for node in root.everything():
        found = any(e.name == NOW for top in node.all_exprs() for e in top.walk()) if node.children else False
        if found and node.cls in ("Filter", "Join"):
            raise NotKeptUp(
                f'table "{table.name}" cannot be kept up to date',
                details=["a condition uses hr.now(), the clock of the row's own epoch: rows do not expire by it"],
                origin=table.origin,
                hint="keep hr.now() as a column; tables whose rows expire come in a later version",
            )
        asks = asks or found
    return asks


def _check_columns(table: TableDef, columns: T.StructType) -> None:
    """Names must be a table's own, each once, and types must be ones that can be kept."""
    seen: set[str] = set()
    for field in columns.fields:
        names = [field.name]
        if is_window(field.dataType):
            names = [f"{field.name}_start", f"{field.name}_end"]
        for name in names:
            if name.lower() in seen:
                raise DefinitionError(
                    f'table "{table.name}" has two columns "{name}"',
                    details=["a window w is kept as w_start and w_end"] if len(names) > 1 else [],
                    origin=table.origin,
                    hint='.alias("another_name"), or AS another_name in SQL',
                )
            seen.add(name.lower())
        if field.name.lower() in RESERVED or field.name.lower().startswith("_hr_"):
            other, of_star = field.name.lstrip("_"), "*" in (table.query or "")
            raise DefinitionError(
                f'table "{table.name}" has a column "{field.name}", a name that Headrace uses itself',
                details=["in SQL, * shows the hidden columns that the text names"] if of_star else [],
                origin=table.origin,
                hint=f"* EXCEPT ({field.name}), or AS {other}" if of_star else f'.alias("{other}")',
            )
        _check_type(table, field)


def _check_type(table: TableDef, field: T.StructField) -> None:
    try:
        kept = not isinstance(field.dataType, T.NullType) and arrow_type(field.dataType) is not None
    except DefinitionError:
        kept = False
    if not kept:
        raise DefinitionError(
            f'table "{table.name}": column "{field.name}" of type {field.dataType.simpleString()} cannot be kept',
            origin=table.origin,
            hint="cast it to STRING, a number or a time",
        )


def is_window(kind: T.DataType) -> bool:
    """Whether a column is a window: a struct of two times."""
    return isinstance(kind, T.StructType) and kind.names == ["start", "end"]


class Generation:
    """The lanes of one generation over its store."""

    def __init__(self, workshop: Workshop, store: Store) -> None:
        self.workshop, self.store = workshop, store
        self.rows_of = StoredRows(store, workshop.door.shapes, workshop.readers)
        self.rows_of.leave_out(store.rejects())
        self.clocks = workshop.set_clocks(store.ledger)
        self.lanes: dict[str, Lane] = {}
        for name, planned in workshop.tables.items():
            self.lanes[name] = self.lane(planned, store)
        self.copied = frozenset(source for lane in self.lanes.values() for source in lane.copies)

    def lane(self, planned: Planned, store: Store) -> Lane:
        """A lane for one table; `store` is where it finds its memory."""
        context = LaneContext(self.workshop.door, store, planned.table, planned.plan, planned.columns, self.rows_of)
        with spark_errors(planned.table):
            return LANES[planned.plan.lane](context)

    def with_copies(self, sources: frozenset[str]) -> frozenset[str]:
        """Of these sources, those whose rows are kept."""
        return self.copied & sources
