"""Functions for the functions of tables: what Spark's own would answer differently from run to run."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.errors import DefinitionError
from headrace.origin import Origin
from headrace.schema import NOW

POSITION = ("_partition", "_offset")
_NEWEST = "_hr_newest"
_DOUBLE_BITS = 53


def latest(rows: DataFrame, *, by: str | Sequence[str], order: str | Sequence[str]) -> DataFrame:
    """The newest row of each key: the one with the greatest `order`, a null being the least of all.

    Rows of one key that share their `order` are told apart by their position in the log, the later one being newer; over a table,
    which has no positions, by their other columns. So there is one answer, whatever order the rows come in.

        @app.table
        def phones(events):
            return hr.latest(events, by="phone_id", order="time")
    """
    keys, orders = _columns(rows, by, "by"), _columns(rows, order, "order")
    last = list(POSITION) if _has_positions(rows) else _orderable(rows, {*keys, *orders})
    everything = F.struct(*[_column(name) for name in rows.columns])
    newest = F.max_by(everything, F.struct(*[_column(name) for name in (*orders, *last)]))
    grouped = rows.groupBy(*[_column(name) for name in keys]).agg(newest.alias(_NEWEST))
    return grouped.select(*[_column(n) if n in keys else F.col(_NEWEST).getField(n).alias(n) for n in rows.columns])


def random(seed: int) -> Column:
    """A number in [0, 1) for each row of a source: the same one in every run, epoch and batch, for it depends on the row's
    position in the log and on the seed alone. To be used on a source's rows, before any group-by or join.

        @app.table
        def sample(events):
            return events.where(hr.random(seed=7) < 0.01)
    """
    bits = F.xxhash64(F.lit(seed), *[F.col(name) for name in POSITION])
    return F.shiftrightunsigned(bits, 64 - _DOUBLE_BITS) * F.lit(2.0**-_DOUBLE_BITS)


def now() -> Column:
    """The clock of the row's epoch, as the ledger has it: the same in every replay; in `batch`, rows beyond the ledger get the
    batch's one reading. A column of a source's rows, to be used before any group-by or join; not in conditions, since rows do
    not expire by it.

        @app.table
        def seen(events):
            return events.select("phone_id", hr.now().alias("at"))
    """
    return F.col(NOW)


def _columns(rows: DataFrame, given: str | Sequence[str], what: str) -> list[str]:
    """Names as the rows spell them."""
    spelled = {name.lower(): name for name in rows.columns}
    wanted = [given] if isinstance(given, str) else list(given)
    for name in wanted:
        if name.lower() not in spelled:
            raise DefinitionError(
                f'hr.latest: {what}= names "{name}", which is no column of the rows',
                origin=Origin.of_caller(),
                hint="one of " + ", ".join(rows.columns),
            )
    if not wanted:
        raise DefinitionError(f"hr.latest: {what}= names no column", origin=Origin.of_caller())
    return [spelled[name.lower()] for name in wanted]


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _has_positions(rows: DataFrame) -> bool:
    """Whether the rows still know where they stand in the log, as hidden columns or as plain ones."""
    hidden = rows._jdf.queryExecution().analyzed().metadataOutput()
    names = {*rows.columns, *(hidden.apply(i).name() for i in range(hidden.size()))}
    return names.issuperset(POSITION)


def _orderable(rows: DataFrame, without: set[str]) -> list[str]:
    return [f.name for f in rows.schema.fields if f.name not in without and not _holds_map(f.dataType)]


def _holds_map(kind: T.DataType) -> bool:
    if isinstance(kind, T.StructType):
        return any(_holds_map(f.dataType) for f in kind.fields)
    return isinstance(kind, T.MapType) or (isinstance(kind, T.ArrayType) and _holds_map(kind.elementType))
