"""The columns in which rows are stored and read.

A source row has the user's columns, each of which may be null, then `_extra`, `_reason`, `_message`, `_raw`; a reader adds
`_partition`, `_offset`, `_appended`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from headrace import schema as schemas
from headrace.log.frame import HAS_EXTRA, HAS_REJECTS, NO_TIME

EXTRA = pa.field("_extra", pa.string())
REJECTS = (pa.field("_reason", pa.string()), pa.field("_message", pa.string()), pa.field("_raw", pa.binary()))
HIDDEN = (EXTRA, *REJECTS)
Column = Any
"""An Arrow array or chunked array: pyarrow's annotations do not follow what its functions take and give."""

PARTITION = pa.field("_partition", pa.int32())
OFFSET = pa.field("_offset", pa.int64())
APPENDED = pa.field("_appended", pa.timestamp("us", tz="UTC"))


def user_fields(schema: T.StructType) -> list[pa.Field[Any]]:
    """The user's columns as they are stored: each may be null."""
    return list(schemas.arrow_schema(schemas.nullable(schema)))


def landing_schema(schema: T.StructType) -> pa.Schema:
    """What is appended: the user's columns and the hidden ones, without a position."""
    return pa.schema([*user_fields(schema), *HIDDEN])


def storage_schema(schema: T.StructType) -> pa.Schema:
    """What `Topic.read` answers with: `landing_schema` and the position."""
    return pa.schema([*landing_schema(schema), PARTITION, OFFSET, APPENDED])


def sealed_schema(schema: T.StructType) -> pa.Schema:
    """What a sealed file holds: the partition is in its folder's name."""
    return pa.schema([*landing_schema(schema), OFFSET, APPENDED])


def frame_schema(schema: T.StructType, flags: int) -> pa.Schema:
    """The columns of a frame whose format has these flags."""
    extra = [EXTRA] if flags & HAS_EXTRA else []
    rejects = REJECTS if flags & HAS_REJECTS else ()
    return pa.schema([*user_fields(schema), *extra, *rejects])


def trimmed(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
    """The batch without the hidden columns that are null in every row, and the flags that say so."""
    extra, *rejects = (batch.column(batch.schema.get_field_index(f.name)) for f in HIDDEN)
    flags = HAS_EXTRA if extra.null_count < len(extra) else 0
    if any(column.null_count < len(column) for column in rejects):
        flags |= HAS_REJECTS
    kept = [*range(batch.num_columns - len(HIDDEN))]
    if flags & HAS_EXTRA:
        kept.append(batch.num_columns - 4)
    if flags & HAS_REJECTS:
        kept += range(batch.num_columns - 3, batch.num_columns)
    return batch.select(kept), flags


def conform(table: pa.Table, fields: Sequence[pa.Field[Any]] | pa.Schema) -> pa.Table:
    """The table with exactly these columns: those it does not have are null, those it has beyond them go."""
    if table.schema.names == [f.name for f in fields]:
        return table
    columns = [
        table.column(f.name) if f.name in table.schema.names else pa.chunked_array([pa.nulls(table.num_rows, f.type)])
        for f in fields
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(list(fields)))


def time_range(batch: pa.RecordBatch, event_time: str | None) -> tuple[int, int]:
    """The smallest and the largest event time in microseconds."""
    if event_time is None or not batch.num_rows:
        return NO_TIME
    column = batch.column(batch.schema.get_field_index(event_time))
    if column.null_count == len(column):
        return NO_TIME
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("us"))
    found = pc.min_max(column.cast(pa.int64()))
    return found["min"].as_py(), found["max"].as_py()
