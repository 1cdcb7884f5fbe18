"""The door to Spark: named rows in, Arrow out.

Lanes never touch a session. They ask a `Door` for the user's function over rows, as it stands or cut and extended by
surgery, and get an Arrow table. Two gears stand behind the door; both give the same rows (the fuzzer draws the gear per epoch):

- *small*: rows travel with the plan, one partition, planned anew each time;
- *large*: executors read sealed segments, all cores, adaptive execution.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.definitions import TableDef
from headrace.errors import DefinitionError, HeadraceError
from headrace.schema import arrow_schema, nullable
from headrace.spark.frames import SOURCE_HIDDEN, Rows, Shape, frame_over, relation
from headrace.spark.session import Sessions
from headrace.spark.surgery import Surgeon

Gear = Literal["small", "large"]

_HIDDEN_NAME = re.compile(r"\b(" + "|".join(SOURCE_HIDDEN.names) + r")\b")


class Loaded:
    """Rows of one input, handed to a session once however many queries read them."""

    def __init__(self, door: Door, shape: Shape, rows: Rows, gear: Gear) -> None:
        self.shape, self.rows, self.gear = shape, rows, gear
        self._door, self._lock = door, threading.Lock()
        self._relation: DataFrame | None = None
        self._node: Any = None

    @classmethod
    def of(cls, door: Door, shape: Shape, relation: DataFrame, gear: Gear) -> Loaded:
        """Rows that are a frame already."""
        loaded = cls(door, shape, shape.empty(), gear)
        loaded._relation = relation
        return loaded

    @property
    def relation(self) -> DataFrame:
        """The rows with all their columns."""
        with self._lock:
            if self._relation is None:
                self._relation = relation(self._door.session(self.gear), self.shape, self.rows)
            return self._relation

    def node(self, surgeon: Surgeon) -> Any:
        """The analysed plan of `relation`."""
        relation = self.relation
        with self._lock:
            if self._node is None:
                self._node = surgeon.analysed(relation)
            return self._node

    def frame(self) -> DataFrame:
        """What a user's function is called with."""
        return frame_over(self.relation, self.shape, small=self.gear == "small")


@dataclass
class Door:
    """Calls the functions of one app's tables over rows and runs what comes back."""

    sessions: Sessions
    shapes: Mapping[str, Shape]
    references: Mapping[str, pa.Table]
    _views: threading.Lock = field(default_factory=threading.Lock)
    _references: dict[tuple[Gear, str], Loaded] = field(default_factory=dict)
    _surgeons: dict[Gear, Surgeon] = field(default_factory=dict)
    _newest: dict[tuple[Gear, str], Loaded] = field(default_factory=dict)

    def session(self, gear: Gear) -> SparkSession:
        """The session of a gear."""
        return self.sessions.small if gear == "small" else self.sessions.large

    def surgeon(self, gear: Gear) -> Surgeon:
        """The surgeon for plans of a gear."""
        if gear not in self._surgeons:
            self._surgeons[gear] = Surgeon(self.session(gear))
        return self._surgeons[gear]

    def load(self, name: str, rows: Rows, gear: Gear) -> Loaded:
        """Rows of an input, for any number of queries; the tables of an epoch that read the same rows share them."""
        newest = self._newest.get((gear, name))
        if newest is None or newest.rows is not rows:
            newest = self._newest[gear, name] = Loaded(self, self.shapes[name], rows, gear)
        return newest

    def load_all(self, rows: Mapping[str, Rows], gear: Gear) -> dict[str, Loaded]:
        """Rows of several inputs."""
        return {name: self.load(name, each, gear) for name, each in rows.items()}

    def call(self, table: TableDef, loaded: Mapping[str, Loaded], gear: Gear) -> DataFrame:
        """The user's function over these rows of its inputs (references come by themselves)."""
        frames = {argument: self._loaded(name, loaded, gear).frame() for argument, name in table.inputs}
        if table.query is not None:
            return self._sql(table.query, frames, gear)
        assert table.function is not None
        try:
            answer = table.function(**frames)
        except (HeadraceError, PySparkException, Py4JError):
            raise
        except Exception as error:
            raise DefinitionError(
                f'table "{table.name}": its function raises {type(error).__name__}', details=[str(error)], origin=table.origin
            ) from error
        if not isinstance(answer, DataFrame):
            raise DefinitionError(
                f'table "{table.name}" returns {type(answer).__name__}, not a DataFrame',
                origin=table.origin,
                hint="return the DataFrame",
            )
        return answer

    def _loaded(self, name: str, loaded: Mapping[str, Loaded], gear: Gear) -> Loaded:
        if name not in self.references:
            return loaded[name]
        if (gear, name) not in self._references:
            self._references[gear, name] = self.load(name, self.references[name], gear)
        return self._references[gear, name]

    def _sql(self, query: str, frames: Mapping[str, DataFrame], gear: Gear) -> DataFrame:
        """SQL sees its inputs as temporary views. A view shows hidden columns only where the text names them."""
        named = list(dict.fromkeys(_HIDDEN_NAME.findall(query)))
        with self._views:
            for name, frame in frames.items():
                has = [h for h in named if h not in frame.columns and self._hides(frame, h)]
                (frame.select("*", *has) if has else frame).createOrReplaceTempView(f"`{name}`")
            return self.session(gear).sql(query)

    @staticmethod
    def _hides(frame: DataFrame, name: str) -> bool:
        attributes = frame._jdf.queryExecution().analyzed().metadataOutput()
        return any(attributes.apply(i).name() == name for i in range(attributes.size()))

    def empty_call(self, table: TableDef) -> DataFrame:
        """The function over frames without rows: what the planner looks at."""
        rows = {name: self.shapes[name].empty() for name in table.reads if name not in self.references}
        return self.call(table, self.load_all(rows, "small"), "small")

    def local_frame(self, shape: Shape) -> DataFrame:
        """A frame without rows in the small gear: a leaf for templates that are not over an app's inputs."""
        return Loaded(self, shape, shape.empty(), "small").frame()

    def run(self, frame: DataFrame) -> pa.Table:
        """Run a frame and take its rows, in the types of `schema.arrow_type`."""
        return collected(frame)


def collected(frame: DataFrame) -> pa.Table:
    """A frame's rows, in our Arrow types; whatever stands in a column may be null."""
    wanted = nullable(frame.schema)
    if any(f.dataType != w.dataType for f, w in zip(frame.schema.fields, wanted.fields, strict=True)):
        numbered = frame.toDF(*[f"c{i}" for i in range(len(wanted))])
        frame = numbered.select(*[F.col(f"c{i}").cast(f.dataType) for i, f in enumerate(wanted.fields)])
    return conform(frame.toArrow(), wanted)


def conform(rows: pa.Table, schema: StructType) -> pa.Table:
    """Rows as Spark sent them, in our Arrow types (Spark names the session's zone in timestamps, ours say UTC)."""
    wanted = pa.schema([f.with_nullable(True) for f in arrow_schema(schema)])
    columns = [
        column if column.type.equals(f.type) else column.cast(f.type) for column, f in zip(rows.columns, wanted, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=wanted)


@dataclass(frozen=True)
class TemplateLeaf:
    """A leaf of a template: the Repartition over a relation, the name of its rows, the relation's columns."""

    node: Any
    name: str
    output: Any
    leaves: int = 1

    def over(self, surgeon: Surgeon, rows: Loaded, gear: Gear) -> Any:
        """These rows under the expression ids of this leaf, in one partition where the gear is small."""
        new = rows.node(surgeon)
        if new.getClass().getSimpleName() == "LocalRelation":
            leaf = surgeon.local_relation(self.output, new)
        else:
            pairs = zip(surgeon.items(new.output()), surgeon.items(self.output), strict=True)
            leaf = surgeon.project([surgeon.alias(a, a.name(), like=o) for a, o in pairs], new)
        return self.node.withNewChildren(surgeon.seq([leaf])) if gear == "small" else leaf

    def with_leaves(self, surgeon: Surgeon, make: Callable[[TemplateLeaf], Any]) -> Any:
        """What takes this leaf's place."""
        return make(self)


@dataclass(frozen=True)
class Spot:
    """A node of a template with its children, remembered here: each look into the JVM costs more than making a node."""

    node: Any
    children: Sequence[Spot | TemplateLeaf]

    @property
    def leaves(self) -> int:
        """How many leaves of ours are below."""
        return sum(child.leaves for child in self.children)

    def with_leaves(self, surgeon: Surgeon, make: Callable[[TemplateLeaf], Any]) -> Any:
        """The node with new leaves; what has none below stays the very node."""
        if not self.leaves:
            return self.node
        return self.node.withNewChildren(surgeon.seq([child.with_leaves(surgeon, make) for child in self.children]))


class Template:
    """An analysed plan over frames without rows, run with other rows by exchanging its leaves.

    `row_columns` maps the identity column of each leaf to the name under which rows are handed in.
    """

    def __init__(self, door: Door, plan: Any, row_columns: Mapping[str, str]) -> None:
        self.door, self.plan, self._row_columns = door, plan, row_columns
        surgeon = door.surgeon("small")
        self._made = self._spot(surgeon, plan)
        self.schema = surgeon.frame(plan).schema

    @property
    def whole(self) -> bool:
        """Whether every leaf is reached by children alone; one inside a subquery expression is not."""
        text = self.plan.treeString()
        return sum(len(re.findall(rf"LocalRelation .*\b{column}#", text)) for column in self._row_columns) == self._made.leaves

    def _spot(self, surgeon: Surgeon, node: Any) -> Spot | TemplateLeaf:
        """The node with its leaves found; a leaf of ours is the Repartition over a relation."""
        children = surgeon.items(node.children())
        if node.getClass().getSimpleName() == "Repartition" and not surgeon.items(children[0].children()):
            output = children[0].output()
            last = output.apply(output.size() - 1).name() if output.size() else ""
            if last in self._row_columns:
                return TemplateLeaf(node, self._row_columns[last], output)
        return Spot(node, [self._spot(surgeon, child) for child in children])

    def frame(self, loaded: Mapping[str, Loaded], gear: Gear) -> DataFrame:
        """The plan over these rows, not yet run."""
        surgeon = self.door.surgeon(gear)
        return surgeon.frame(self._made.with_leaves(surgeon, lambda leaf: leaf.over(surgeon, loaded[leaf.name], gear)))

    def run(self, loaded: Mapping[str, Loaded], gear: Gear) -> pa.Table:
        """The plan's answer over these rows."""
        return collected(self.frame(loaded, gear))


Recipe = Callable[[Surgeon, Any], Any]
"""Makes the plan that a lane wants out of the analysed plan of the user's function."""


class Query:
    """A recipe over one table's function, made once per generation and run with other rows each epoch.

    The function is called over frames without rows, the recipe cuts and extends its analysed plan, and what stands there is
    a template. Where a leaf stands inside a subquery expression, the function is called again for every run instead
    (`again`), which is slower and gives the same rows.
    """

    def __init__(self, door: Door, table: TableDef, recipe: Recipe) -> None:
        self.door, self.table, self.recipe = door, table, recipe
        surgeon = door.surgeon("small")
        plan = recipe(surgeon, surgeon.analysed(door.empty_call(table)))
        self._template = Template(door, plan, {f"_hr_row__{name}": name for name in table.reads if name not in door.references})
        self.again = not self._template.whole
        self.schema = self._template.schema

    def frame(self, loaded: Mapping[str, Loaded], gear: Gear) -> DataFrame:
        """The query over these rows, not yet run."""
        if not self.again:
            return self._template.frame(loaded, gear)
        surgeon = self.door.surgeon(gear)
        return surgeon.frame(self.recipe(surgeon, surgeon.analysed(self.door.call(self.table, loaded, gear))))

    def run(self, loaded: Mapping[str, Loaded], gear: Gear) -> pa.Table:
        """The query's answer over these rows."""
        return collected(self.frame(loaded, gear))
