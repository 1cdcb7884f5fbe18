"""Schemas in DDL, and canonical keys: equal for Spark exactly when their bytes are equal, and sorted as the values are."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from headrace.errors import DefinitionError
from headrace.schema import arrow_schema, arrow_type, ddl, encode_key, encode_keys, from_json, nullable, parse_schema, to_json

# --- DDL -----------------------------------------------------------------------------------------------------------------


def test_ddl_as_spark_writes_it():
    schema = parse_schema(
        "id BIGINT NOT NULL, `a b` string COMMENT 'it\\'s', m MAP<STRING, ARRAY<INT>>, "
        "s STRUCT<x: DOUBLE, `y z`: DECIMAL(10,2) NOT NULL>, t TIMESTAMP, n timestamp_ntz, d decimal"
    )
    assert schema.names == ["id", "a b", "m", "s", "t", "n", "d"]
    assert not schema["id"].nullable
    assert schema["d"].dataType == T.DecimalType(10, 0)
    assert schema["m"].dataType == T.MapType(T.StringType(), T.ArrayType(T.IntegerType()))
    assert parse_schema(ddl(schema)) == nullable_comments_gone(schema)
    assert from_json(to_json(schema)) == schema


def nullable_comments_gone(schema):
    return T.StructType([T.StructField(f.name, f.dataType, f.nullable) for f in schema.fields])


@pytest.mark.parametrize(
    "wrong",
    "|id|id NUMBER|id BIGINT,|id BIGINT x|a INT, A INT|_offset INT|_hr_x INT|d DECIMAL(39,0)|d DECIMAL(2,3)|a ARRAY<|§ INT".split(
        "|"
    ),
)
def test_schemas_that_are_not_understood(wrong):
    with pytest.raises(DefinitionError):
        parse_schema(wrong)


def test_arrow_types():
    schema = parse_schema("a ARRAY<INT>, m MAP<STRING, DOUBLE>, s STRUCT<x: INT NOT NULL>, t TIMESTAMP, n TIMESTAMP_NTZ")
    arrow = arrow_schema(schema)
    assert arrow.field("t").type == pa.timestamp("us", "UTC")
    assert arrow.field("n").type == pa.timestamp("us")
    assert arrow.field("s").type.field(0).nullable is False
    assert all(f.nullable for f in nullable(parse_schema("a INT NOT NULL")).fields)
    with pytest.raises(DefinitionError):
        arrow_type(T.CalendarIntervalType())


# --- keys ----------------------------------------------------------------------------------------------------------------

integers = st.integers(-(2**63), 2**63 - 1)
doubles = st.floats() | st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324])
decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20) | st.sampled_from(
    [Decimal("1.0"), Decimal("1.00"), Decimal("-1.0"), Decimal("10"), Decimal("1E1"), Decimal("0.00"), Decimal("-0")]
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["", "a", "A", "a ", "a\0", "a\0\0", "\0\xff"]
)
blobs = st.binary(max_size=6) | st.sampled_from([b"", b"\0", b"\0\0", b"\0\xff", b"\xff"])
columns = st.one_of(*(st.tuples(st.just(kind), st.lists(st.none() | values, min_size=2, max_size=2)) for kind, values in [
    ("integer", integers), ("double", doubles), ("decimal", decimals), ("text", texts), ("bytes", blobs),
    ("bool", st.booleans()), ("date", st.dates()), ("time", st.datetimes()),
]))  # fmt: skip


def equal_for_spark(one, other):
    """Spark's equality of keys: null is null, NaN is NaN, -0.0 is 0.0, decimals by value."""
    if one is None or other is None:
        return one is other
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return one == other


def before_for_spark(one, other):
    """Spark's order, nulls first, NaN last; text by its bytes."""
    if one is None or other is None:
        return one is None and other is not None
    if isinstance(one, float) and (math.isnan(one) or math.isnan(other)):
        return not math.isnan(one) and math.isnan(other)
    if isinstance(one, str):
        return one.encode() < other.encode()
    return one < other


@settings(max_examples=2000, deadline=None)
@given(columns)
def test_bytes_are_equal_and_ordered_as_values_are_for_spark(column):
    _, (one, other) = column
    assert (encode_key([one]) == encode_key([other])) == equal_for_spark(one, other)
    assert (encode_key([one]) < encode_key([other])) == before_for_spark(one, other)


@settings(max_examples=500, deadline=None)
@given(st.lists(columns, min_size=1, max_size=3))
def test_keys_of_several_columns_neither_meet_nor_change_order(found):
    one, other = [c[1][0] for c in found], [c[1][1] for c in found]
    assert (encode_key(one) == encode_key(other)) == all(map(equal_for_spark, one, other))
    wanted = next((before_for_spark(a, b) for a, b in zip(one, other, strict=True) if not equal_for_spark(a, b)), False)
    assert (encode_key(one) < encode_key(other)) == wanted


def test_neighbours_cannot_be_confused():
    assert encode_key(["a", "b"]) != encode_key(["ab", ""])
    assert encode_key([b"\0", b""]) != encode_key([b"", b"\0"])
    assert encode_key([None, 1]) != encode_key([1, None])
    assert encode_key(["1"]) != encode_key([1])
    assert encode_key([[1], [2]]) != encode_key([[1, 2], []])
    assert encode_key([[None]]) != encode_key([[]])


def test_nested_values_compare_as_spark_compares_them():
    assert encode_key([[1.0, -0.0]]) == encode_key([[1.0, 0.0]])
    assert encode_key([{"a": 1, "b": None}]) == encode_key([{"a": 1, "b": None}])
    assert encode_key([[("b", 2), ("a", 1)]]) == encode_key([[("a", 1), ("b", 2)]]), "a map has no order"
    assert encode_key([[[1], [2, None]]]) != encode_key([[[1, 2], [None]]])


def test_columns_of_arrow_give_the_keys_of_their_values():
    utc = dt.timezone.utc
    values = {
        "n": [1, None, -5], "d": [0.5, -0.0, math.nan], "word": ["a", None, ""], "blob": [b"\0", b"", None],
        "money": [Decimal("1.50"), Decimal("-2.00"), None], "yes": [True, False, None],
        "day": [dt.date(1969, 12, 31), dt.date(2026, 1, 1), None],
        "time": [dt.datetime(2026, 1, 1, tzinfo=utc), None, dt.datetime(1969, 1, 1, tzinfo=utc)],
        "tags": [["a"], [], None],
    }  # fmt: skip
    kinds = "n BIGINT, d DOUBLE, word STRING, blob BINARY, money DECIMAL(10,2), yes BOOLEAN, day DATE, time TIMESTAMP"
    table = pa.table(values, schema=arrow_schema(parse_schema(kinds + ", tags ARRAY<STRING>")))
    keys = encode_keys(table, list(values))
    assert keys == [encode_key(list(row)) for row in zip(*values.values(), strict=True)]
    assert encode_keys(table, []) == [b""] * 3
    for name in values:
        assert encode_keys(table, [name]) == [encode_key([v]) for v in values[name]]
    narrow = table.set_column(0, "n", table.column("n").cast(pa.int8()))
    assert encode_keys(narrow, ["n"]) == encode_keys(table, ["n"]), "the width of an integer is not part of its key"


def test_single_precision_keys():
    table = pa.table({"f": pa.array([0.1, -0.0, math.nan, None], pa.float32())})
    assert encode_keys(table, ["f"])[1] == encode_key([0.0])
    assert len(set(encode_keys(table, ["f"]))) == 4
