"""Frames: rows as DataFrames that a user's function can be called with.

Every frame has the same shape in both gears, so that a path into an analysed plan means the same node in each:

    Project [the user's columns]        hidden columns are attached: `_offset` can be named, `*` does not show it
    +- Repartition 1 (small) | SubqueryAlias _hr (large)
       +- the rows, with `_hr_row__<input>`, the identity of each row
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import pandas_udf

from headrace.schema import NOW, arrow_schema, nullable

POSITION_BITS = 48
"""A source row's identity is partition * 2**48 + offset."""
OFFSET_MASK = (1 << POSITION_BITS) - 1

SOURCE_HIDDEN = T.StructType(
    [
        T.StructField("_source", T.StringType()),
        T.StructField("_partition", T.IntegerType()),
        T.StructField("_offset", T.LongType()),
        T.StructField("_time", T.TimestampType()),
        T.StructField("_appended", T.TimestampType()),
        T.StructField("_extra", T.StringType()),
        T.StructField(NOW, T.TimestampType()),
    ]
)
"""The hidden columns of a source's rows, in the order in which frames have them."""


@dataclass(frozen=True)
class Shape:
    """What a frame of one input looks like."""

    name: str
    kind: str
    columns: T.StructType

    @property
    def row_column(self) -> str:
        """The column of the rows' identities, by which a leaf is known as this input's."""
        return f"_hr_row__{self.name}"

    @property
    def row_type(self) -> T.DataType:
        """Sources and references number their rows, tables have keys."""
        return T.BinaryType() if self.kind == "table" else T.LongType()

    @property
    def hidden(self) -> T.StructType:
        """The columns that functions do not see unless they name them."""
        own = list(SOURCE_HIDDEN.fields) if self.kind == "source" else []
        return T.StructType([*own, T.StructField(self.row_column, self.row_type)])

    @property
    def full(self) -> T.StructType:
        """User columns, then hidden ones. All nullable: what a topic promises is judged when rows come in."""
        return T.StructType([*nullable(self.columns).fields, *self.hidden.fields])

    def empty(self) -> pa.Table:
        """No rows of this shape."""
        return arrow_schema(self.full).empty_table()


@dataclass(frozen=True)
class StoredFiles:
    """Rows that executors read: sealed segments as (path, partition, start, stop), and the rest as Arrow."""

    shape: Shape
    sealed: Sequence[tuple[str, int, int, int]]
    rest: pa.Table
    event_time: str | None
    epochs: Mapping[int, EpochClocks] = field(default_factory=dict)
    """Per partition, where epochs begin and what their clocks say; empty where no function asks."""
    limits: Mapping[int, tuple[int | None, int | None]] = field(default_factory=dict)
    """Per partition the first offset and the one after the last, where the files hold rows beyond them. An offset in the
    plan is a number in the code that Spark generates, which is compiled, and slow at first, whenever the number changes."""
    without: Sequence[int] = ()
    """Row identities that the table being computed leaves out (its own rejects)."""


EpochClocks = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
Rows = pa.Table | StoredFiles


def relation(spark: SparkSession, shape: Shape, rows: Rows) -> DataFrame:
    """The rows with all their columns: a local relation, or what executors read."""
    return _stored(spark, rows) if isinstance(rows, StoredFiles) else _local(spark, shape, rows)


def frame_over(rows: DataFrame, shape: Shape, *, small: bool) -> DataFrame:
    """What a user's function is called with, over the rows of `relation`."""
    return _finish(rows.coalesce(1) if small else rows.alias("_hr"), shape)


def _local(spark: SparkSession, shape: Shape, rows: pa.Table) -> DataFrame:
    names = [f.name for f in shape.full.fields]
    assert rows.column_names == names, f"frame of {shape.name}: {rows.column_names} is not {names}"
    return spark.createDataFrame(_in_one_chunk(rows), schema=shape.full)


def _in_one_chunk(rows: pa.Table) -> pa.Table:
    """The rows with one chunk in every column.

    PySpark fails on nested columns without one, as a filter that keeps nothing leaves them, and silently loses rows behind
    empty chunks where columns are cut at different rows, as they are once filtered and made columns stand side by side.
    """
    if all(column.num_chunks == 1 for column in rows.columns):
        return rows
    columns = [column if column.num_chunks else pa.chunked_array([pa.array([], column.type)]) for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema).combine_chunks()


def _stored(spark: SparkSession, rows: StoredFiles) -> DataFrame:
    shape, frames = rows.shape, []
    by_partition: dict[int, list[str]] = {}
    for path, partition, _, _ in rows.sealed:
        by_partition.setdefault(partition, []).append(path)
    stored = T.StructType(
        [
            *nullable(shape.columns).fields,
            T.StructField("_extra", T.StringType()),
            T.StructField("_reason", T.StringType()),
            T.StructField("_offset", T.LongType()),
            T.StructField("_appended", T.TimestampType()),
        ]
    )
    for partition, files in by_partition.items():
        first, last = rows.limits.get(partition, (None, None))
        read = spark.read.schema(stored).parquet(*files).where(F.col("_reason").isNull())
        if first is not None:
            read = read.where(F.col("_offset") >= first)
        if last is not None:
            read = read.where(F.col("_offset") < last)
        row = (F.lit(partition << POSITION_BITS) + F.col("_offset")).alias(shape.row_column)
        frames.append(
            read.select(
                *[F.col(_quoted(f.name)) for f in shape.columns.fields],
                F.lit(shape.name).alias("_source"),
                F.lit(partition).alias("_partition"),
                "_offset",
                (F.col(_quoted(rows.event_time)).cast("timestamp") if rows.event_time else F.lit(None).cast("timestamp")).alias(
                    "_time"
                ),
                "_appended",
                "_extra",
                _clock(rows.epochs.get(partition)).alias(NOW),
                row,
            )
        )
    if rows.rest.num_rows or not frames:
        frames.append(_local(spark, shape, rows.rest))
    frame = frames[0]
    for other in frames[1:]:
        frame = frame.unionAll(other)
    if rows.without:
        frame = frame.where(~F.col(shape.row_column).isin(list(rows.without)))
    return frame


def _clock(epochs: EpochClocks | None) -> Column:
    """The clock of the epoch of each offset."""
    if epochs is None:
        return F.lit(None).cast("timestamp")
    starts, clocks = epochs

    def reading(offsets: pd.Series) -> pd.Series:
        return pd.Series(clocks[np.searchsorted(starts, offsets.to_numpy(), side="right") - 1])

    reading.__annotations__ = {"offsets": pd.Series, "return": pd.Series}
    make: Any = pandas_udf
    return F.timestamp_micros(make(reading, "bigint")(F.col("_offset")))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _finish(frame: DataFrame, shape: Shape) -> DataFrame:
    """The user's columns on top, the hidden ones attached for whoever names them."""
    visible = frame.select(*[F.col(_quoted(f.name)) for f in shape.columns.fields])
    spark = visible.sparkSession
    jvm: Any = spark._jvm
    project = visible._jdf.queryExecution().analyzed()
    hidden = jvm.java.util.ArrayList()
    attributes = project.child().output()
    for i in range(len(shape.columns.fields), attributes.size()):
        attribute = attributes.apply(i)
        if attribute.name() == NOW or not attribute.name().startswith("_hr_"):
            marked = jvm.org.apache.spark.sql.types.MetadataBuilder().putString("__metadata_col", attribute.name()).build()
            hidden.add(attribute.withMetadata(marked))
    if hidden.size():
        project.setTagValue(
            jvm.org.apache.spark.sql.catalyst.plans.logical.Project.hiddenOutputTag(),
            jvm.scala.jdk.javaapi.CollectionConverters.asScala(hidden).toSeq(),
        )
        visible = DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, project), spark)
    return visible
