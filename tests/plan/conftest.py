"""Empty frames as Headrace hands them to a table's function, and a planner over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructType

from headrace.definitions import TableDef
from headrace.origin import Origin
from headrace.plan.choose import Input, TablePlan, plan_table
from headrace.plan.tree import Node, parse
from headrace.schema import parse_schema

EVENTS = (
    "id BIGINT, k STRING, g INT, n INT, big BIGINT, amount DECIMAL(10,2), x DOUBLE, time TIMESTAMP, day DATE, ok BOOLEAN, "
    "tags ARRAY<STRING>, s STRUCT<a: INT, b: STRING>, m MAP<STRING, INT>, sure BIGINT NOT NULL"
)
CLICKS = "id BIGINT, k STRING, g INT, n INT, x DOUBLE, time TIMESTAMP, page STRING, sure BIGINT NOT NULL"
USERS = "id BIGINT, name STRING, team STRING, age INT, score DOUBLE, salary DECIMAL(12,2), sure BIGINT NOT NULL"
PRICES = "k STRING, price DECIMAL(10,2), label STRING, id BIGINT"

INPUTS: Mapping[str, Input] = {
    "events": Input("events", "source", parse_schema(EVENTS)),
    "clicks": Input("clicks", "source", parse_schema(CLICKS)),
    "placed": Input("placed", "source", parse_schema(EVENTS)),
    "users": Input("users", "table", parse_schema(USERS), ("id",)),
    "prices": Input("prices", "reference", parse_schema(PRICES)),
    "log": Input("log", "table", parse_schema(CLICKS), ("id",), grows=True),
}
"""`placed` shows its position, as a source does whose function names `_offset`."""


def frame(session: SparkSession, name: str) -> DataFrame:
    """An empty frame of an input: hidden columns below, the user's above."""
    user = INPUTS[name].schema
    row = LongType() if INPUTS[name].kind == "source" else BinaryType()
    hidden = StructType().add("_partition", IntegerType()).add("_offset", LongType()).add(f"_hr_row__{name}", row)
    below = StructType([*user.fields, *hidden.fields])
    empty = to_arrow_schema(below, timezone="UTC").empty_table()
    shown = [*user.names, "_partition", "_offset"] if name == "placed" else user.names
    return session.createDataFrame(empty, schema=below).select(*shown)


@pytest.fixture(scope="package")
def frames(spark: SparkSession) -> Iterator[dict[str, DataFrame]]:
    """All inputs, registered as views of a session of their own."""
    session = spark.newSession()
    found = {name: frame(session, name) for name in INPUTS}
    for name, df in found.items():
        df.createOrReplaceTempView(name)
    yield found
    for name in INPUTS:
        session.catalog.dropTempView(name)


Query = str | Callable[..., DataFrame]


def analysed(frames: Mapping[str, DataFrame], query: Query) -> Node:
    """The plan of a query: SQL, or a function whose parameters are named as the inputs."""
    if isinstance(query, str):
        df = frames["events"].sparkSession.sql(query)
    else:
        names = query.__code__.co_varnames[: query.__code__.co_argcount]
        df = query(*(frames[name] for name in names))
    return parse(df._jdf.queryExecution().analyzed().toJSON())


def table(query: Query, key: tuple[str, ...] | None = None) -> TableDef:
    """A definition of a table `t`, as the app would make it."""
    text = query if isinstance(query, str) else None
    function = None if isinstance(query, str) else query
    pairs = tuple((name, name) for name in INPUTS)
    return TableDef("t", key, pairs, function, text, "stop", "warn", None, Origin("app.py", 12))


@pytest.fixture(scope="package")
def plan(frames: dict[str, DataFrame]) -> Callable[..., TablePlan]:
    """`plan(query, key=None, unchanged=...)` plans one table."""

    def planned(query: Query, key: tuple[str, ...] | None = None, unchanged: frozenset[str] = frozenset()) -> TablePlan:
        return plan_table(analysed(frames, query), table(query, key), INPUTS, unchanged=unchanged)

    return planned
