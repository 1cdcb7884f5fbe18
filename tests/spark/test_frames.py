"""Rows on their way into Spark: none is lost, however their columns are cut into chunks."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.schema import arrow_schema, parse_schema
from headrace.spark.frames import Shape, relation

SHAPE = Shape("t", "table", parse_schema("n INT, tags ARRAY<STRING>"))
N, TAGS, ROW = pa.int32(), pa.list_(pa.string()), pa.binary()


@pytest.mark.parametrize(
    ("numbers", "tags", "keys", "expected"),
    [
        ([[], [7]], [[], [], [["x"]]], [[b"k"]], [7]),
        ([[], [7], [8, 9]], [[["x"], None], [], [[]]], [[], [b"k", b"l", b"m"]], [7, 8, 9]),
        ([], [], [], []),
        ([[]], [[], []], [], []),
    ],
    ids=["empty chunks first", "cut at different rows", "no chunks", "empty chunks"],
)
def test_no_row_is_lost(spark: SparkSession, numbers: list[list[int]], tags: list, keys: list, expected: list[int]):
    columns = [
        pa.chunked_array([pa.array(chunk, kind) for chunk in chunks], kind)
        for chunks, kind in ((numbers, N), (tags, TAGS), (keys, ROW))
    ]
    rows = pa.Table.from_arrays(columns, schema=arrow_schema(SHAPE.full))
    found = relation(spark, SHAPE, rows)
    assert found.count() == len(expected)
    assert sorted(row["n"] for row in found.collect()) == expected
