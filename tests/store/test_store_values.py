"""Values survive the way into SQLite and back, bit by bit, and sort there as they should."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.schema import arrow_type, parse_schema
from headrace.store.base import Change, TableSpec, Writes
from headrace.store.values import layout, time_text, time_us

I64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf]))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
CASES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "BIGINT": I64,
    "DOUBLE": FLOATS,
    "FLOAT": st.one_of(st.floats(width=32), st.just(-0.0)),
    "DECIMAL(38,18)": st.decimals(-(10**19), 10**19, places=18),
    "DECIMAL(5,0)": st.integers(-99999, 99999).map(Decimal),
    "STRING": TEXT,
    "BINARY": st.binary(max_size=8),
    "DATE": st.integers(-(2**31), 2**31 - 1),
    "TIMESTAMP": I64,
    "TIMESTAMP_NTZ": I64,
    "ARRAY<BIGINT>": st.lists(st.none() | I64, max_size=3),
    "ARRAY<DOUBLE>": st.lists(st.none() | FLOATS, max_size=3),
    "ARRAY<ARRAY<DECIMAL(20,2)>>": st.lists(st.lists(st.decimals(-(10**17), 10**17, places=2), max_size=2), max_size=2),
    "ARRAY<TIMESTAMP>": st.lists(st.none() | I64, max_size=3),
    "MAP<STRING, BINARY>": st.dictionaries(TEXT, st.none() | st.binary(max_size=4), max_size=3).map(lambda d: list(d.items())),
    "MAP<BIGINT, DATE>": st.dictionaries(I64, st.integers(-1000, 100000), max_size=3).map(lambda d: list(d.items())),
    "STRUCT<a: INT, b: STRUCT<c: DOUBLE, d: ARRAY<STRING>>>": st.fixed_dictionaries(
        {
            "a": st.none() | st.integers(0, 9),
            "b": st.none() | st.fixed_dictionaries({"c": FLOATS, "d": st.lists(TEXT, max_size=2)}),
        }
    ),
    "STRUCT<start: STRING, end: STRING>": st.fixed_dictionaries({"start": TEXT, "end": TEXT}),
}


def exact(value: Any) -> Any:
    """A value in a form in which -0.0 is not 0.0, and NaN equals itself."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, dict):
        return {k: exact(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [exact(v) for v in value]
    return value


def arrow(values: list[Any], ddl: str) -> Any:
    """An Arrow column; times are given as numbers, so that no Python type limits them."""
    kind: Any = arrow_type(parse_schema(f"c {ddl}").fields[0].dataType)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_list(kind) and pa.types.is_timestamp(kind.value_type):
        return pa.array(values, pa.list_(pa.int64())).cast(kind)
    if pa.types.is_map(kind) and pa.types.is_date32(kind.item_type):
        return pa.array(values, pa.map_(pa.int64(), pa.int32())).cast(kind)
    return pa.array(values, kind)


def comparable(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_list(column.type) and pa.types.is_timestamp(column.type.value_type):
        column = column.cast(pa.list_(pa.int64()))
    return [exact(v) for v in column.to_pylist()]


@pytest.mark.parametrize("ddl", CASES)
def test_every_type_survives(ddl: str, driver: Any) -> None:
    schema = parse_schema(f"c {ddl}")
    driver.create(TableSpec("t", schema, None), TableSpec("t", schema, None, "parts"))
    seen = 0

    @settings(max_examples=15, deadline=None)
    @given(st.lists(st.none() | CASES[ddl], min_size=1, max_size=6))
    def check(values: list[Any]) -> None:
        nonlocal seen
        column = arrow(values, ddl)
        rows = pa.table({"c": column})
        keys = [f"{seen}-{i:02d}".encode() for i in range(len(values))]
        seen += 1
        driver.commit(Writes(tables={"t": Change([], keys, rows)}, parts={"t": Change([], keys, rows)}))
        for kind in ("table", "parts"):
            found, back = driver.store.fetch("t", keys, kind)
            order = sorted(range(len(found)), key=lambda i: found[i])
            assert back.schema.field("c").type == column.type
            assert comparable(back.column("c").take(order)) == comparable(column)

    check()


def test_a_window_becomes_two_columns_and_a_struct_again(driver: Any) -> None:
    schema = parse_schema("w STRUCT<start: TIMESTAMP, end: TIMESTAMP>, n INT")
    assert layout(schema).stored == ("w_start", "w_end", "n")
    driver.create(TableSpec("t", schema, ("w",)))
    kind: Any = arrow_type(schema.fields[0].dataType)
    rows = pa.table({"w": pa.array([{"start": 0, "end": 3_600_000_000}, None], kind), "n": pa.array([1, 2], pa.int32())})
    driver.commit(Writes(tables={"t": Change([], [b"a", b"b"], rows)}))
    _, back = driver.store.fetch("t", [b"a", b"b"])
    assert back.equals(rows)
    with driver.reader() as reader:
        assert (
            reader.query("SELECT w_start FROM t WHERE w_end = '1970-01-01 01:00'").rows[0][0].isoformat()
            == "1970-01-01T00:00:00+00:00"
        )


def test_a_window_whose_columns_are_taken_is_json() -> None:
    assert layout(parse_schema("w STRUCT<start: TIMESTAMP, end: TIMESTAMP>, W_END INT")).stored == ("w", "W_END")


@given(st.lists(I64, min_size=2, max_size=20))
def test_times_sort_as_text(moments: list[int]) -> None:
    assert [time_us(text) for text in sorted(map(time_text, moments))] == sorted(moments)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "1970-01-01 00:00:00.000000"),
        (-62_135_596_800_000_000, "0001-01-01 00:00:00.000000"),
        (253_402_300_799_999_999, "9999-12-31 23:59:59.999999"),
        (253_402_300_800_000_000, "~00253402300800000000"),
        (-(2**63), "-00000000000000000000"),
    ],
)
def test_the_text_of_a_time(us: int, text: str) -> None:
    assert time_text(us) == text
    assert time_us(text) == us
