"""The law of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from headrace.log import columns


class RowReader:
    """Rows of many shapes into landing columns."""

    def __init__(self, schema: T.StructType) -> None:
        self.schema = schema
        self.landing = columns.landing_schema(schema)

    def from_dicts(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist([dict(r) for r in rows], schema=self.landing)

    def from_arrow(self, rows: pa.Table | pa.RecordBatch, *, refuse: bool = False) -> pa.Table:
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        return columns.conform(table, self.landing).cast(self.landing)
