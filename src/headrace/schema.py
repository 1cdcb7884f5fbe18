"""Types: DDL text <-> Spark <-> Arrow, and the canonical encoding of keys.

Spark's types are the model (`pyspark.sql.types`, pure Python; no session is needed). The canonical encoding turns a
tuple of values into bytes such that two tuples are equal for Spark exactly when their bytes are equal: -0.0 is 0.0,
every NaN is one NaN, null is a value, letter case and trailing blanks stay distinct. Encodings sort as the values do.

Values are what Arrow columns give when timestamps are taken as microseconds, dates as days: see `python_values`.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from headrace.errors import DefinitionError

RESERVED = frozenset("_source _partition _offset _time _appended _extra _from _to _key _epoch _pane _timing _last".split())
"""Column names that are ours; other leading underscores, except `_hr_`, are the user's."""

NOW = "_hr_now"
"""The hidden column of `hr.now()`: the clock of the row's epoch."""

# --- DDL ---------------------------------------------------------------------------------------------------------------

_SIMPLE: dict[str, T.DataType] = {
    "BOOLEAN": T.BooleanType(),
    "TINYINT": T.ByteType(),
    "BYTE": T.ByteType(),
    "SMALLINT": T.ShortType(),
    "SHORT": T.ShortType(),
    "INT": T.IntegerType(),
    "INTEGER": T.IntegerType(),
    "BIGINT": T.LongType(),
    "LONG": T.LongType(),
    "FLOAT": T.FloatType(),
    "REAL": T.FloatType(),
    "DOUBLE": T.DoubleType(),
    "STRING": T.StringType(),
    "BINARY": T.BinaryType(),
    "DATE": T.DateType(),
    "TIMESTAMP": T.TimestampType(),
    "TIMESTAMP_LTZ": T.TimestampType(),
    "TIMESTAMP_NTZ": T.TimestampNTZType(),
}
_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|'((?:[^'\\]|\\.)*)'|([A-Za-z_][\w$]*|\d+)|([<>(),:]))")


class _Ddl:
    """A recursive reader of `name TYPE [NOT NULL] [COMMENT '...'], ...`."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.tokens = self._tokens(text)

    def _tokens(self, text: str) -> list[tuple[str, str]]:
        found, at, stripped = [], 0, text.rstrip()
        while at < len(stripped):
            match = _TOKEN.match(stripped, at)
            if not match:
                raise self._wrong(f"cannot read {stripped[at : at + 20]!r}")
            quoted, comment, word, sign = match.groups()
            if quoted is not None:
                found.append(("name", quoted.replace("``", "`")))
            elif comment is not None:
                found.append(("text", comment))
            else:
                found.append(("word", word) if word else ("sign", sign))
            at = match.end()
        return found

    def _wrong(self, why: str) -> DefinitionError:
        return DefinitionError(
            f"schema {self.text!r} is not understood",
            details=[why],
            hint='"phone_id STRING, time TIMESTAMP, amount DECIMAL(10,2) NOT NULL"',
        )

    def _peek(self, value: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at][1].upper() == value and self.tokens[self.at][0] != "name"

    def _accept(self, value: str) -> bool:
        if self._peek(value):
            self.at += 1
            return True
        return False

    def _expect(self, value: str) -> None:
        if not self._accept(value):
            got = self.tokens[self.at][1] if self.at < len(self.tokens) else "the end"
            raise self._wrong(f"expected {value!r}, found {got!r}")

    def _next(self, what: str) -> str:
        if self.at >= len(self.tokens) or self.tokens[self.at][0] == "sign":
            raise self._wrong(f"a {what} is missing")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def fields(self, end: str | None) -> list[T.StructField]:
        out: list[T.StructField] = []
        while True:
            name = self._next("column name")
            self._accept(":")
            kind = self.type()
            nullable, metadata = True, {}
            while self._peek("NOT") or self._peek("COMMENT"):
                if self._accept("NOT"):
                    self._expect("NULL")
                    nullable = False
                elif self._accept("COMMENT"):
                    metadata = {"comment": self._next("comment")}
            out.append(T.StructField(name, kind, nullable, metadata))
            if not self._accept(","):
                break
        if end is None and self.at < len(self.tokens):
            raise self._wrong(f"{self.tokens[self.at][1]!r} is too much")
        return out

    def type(self) -> T.DataType:
        word = self._next("type").upper()
        if word in _SIMPLE:
            return _SIMPLE[word]
        if word in ("DECIMAL", "NUMERIC", "DEC"):
            precision, scale = 10, 0
            if self._accept("("):
                precision = int(self._next("precision"))
                scale = int(self._next("scale")) if self._accept(",") else 0
                self._expect(")")
            if not 1 <= precision <= 38 or not 0 <= scale <= precision:
                raise self._wrong(f"DECIMAL({precision},{scale}) does not exist; at most DECIMAL(38,38)")
            return T.DecimalType(precision, scale)
        if word == "ARRAY":
            self._expect("<")
            element = self.type()
            self._expect(">")
            return T.ArrayType(element)
        if word == "MAP":
            self._expect("<")
            key = self.type()
            self._expect(",")
            value = self.type()
            self._expect(">")
            return T.MapType(key, value)
        if word == "STRUCT":
            self._expect("<")
            fields = [] if self._peek(">") else self.fields(">")
            self._expect(">")
            return T.StructType(fields)
        raise self._wrong(
            f"{word} is not a type that a topic can hold ({', '.join(sorted(set(_SIMPLE)))}, DECIMAL, ARRAY, MAP, STRUCT)"
        )


def parse_schema(ddl: str | T.StructType) -> T.StructType:
    """Read a schema as Spark writes it in DDL, without Spark.

    >>> parse_schema("id BIGINT NOT NULL, tags ARRAY<STRING>").simpleString()
    'struct<id:bigint,tags:array<string>>'
    """
    if isinstance(ddl, T.StructType):
        return ddl
    reader = _Ddl(ddl)
    if not reader.tokens:
        raise reader._wrong("it is empty")
    fields = reader.fields(None)
    seen: set[str] = set()
    for field in fields:
        if field.name.lower() in seen:
            raise reader._wrong(f"column {field.name!r} is given twice (letter case does not count)")
        if field.name in RESERVED or field.name.startswith("_hr_"):
            raise reader._wrong(f"{field.name!r} is a name that Headrace uses itself")
        seen.add(field.name.lower())
    return T.StructType(fields)


def ddl(schema: T.StructType) -> str:
    """The schema as DDL, for messages and `topic show`.

    >>> ddl(parse_schema("a int not null, b array<string>"))
    'a INT NOT NULL, b ARRAY<STRING>'
    """
    return ", ".join(f"{_quoted(f.name)} {_ddl_type(f.dataType)}{'' if f.nullable else ' NOT NULL'}" for f in schema.fields)


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"


def _ddl_type(kind: T.DataType) -> str:
    """A type as `parse_schema` reads it: the names of nested fields keep their letter case, and NOT NULL is kept."""
    if isinstance(kind, T.ArrayType):
        return f"ARRAY<{_ddl_type(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"MAP<{_ddl_type(kind.keyType)}, {_ddl_type(kind.valueType)}>"
    if isinstance(kind, T.StructType):
        fields = (f"{_quoted(f.name)}: {_ddl_type(f.dataType)}{'' if f.nullable else ' NOT NULL'}" for f in kind.fields)
        return f"STRUCT<{', '.join(fields)}>"
    return kind.simpleString().upper()


def to_json(schema: T.StructType) -> dict[str, Any]:
    """Spark's own JSON form of a schema, for files."""
    loaded: dict[str, Any] = json.loads(schema.json())
    return loaded


def from_json(value: dict[str, Any]) -> T.StructType:
    """The schema that `to_json` wrote."""
    return T.StructType.fromJson(value)


Column = Any
"""An Arrow array, chunked or not; the stubs' generic types say nothing that helps here."""

# --- Arrow -------------------------------------------------------------------------------------------------------------

_ARROW: dict[type[T.DataType], pa.DataType] = {
    T.BooleanType: pa.bool_(),
    T.ByteType: pa.int8(),
    T.ShortType: pa.int16(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(),
    T.StringType: pa.string(),
    T.BinaryType: pa.binary(),
    T.DateType: pa.date32(),
    T.TimestampType: pa.timestamp("us", tz="UTC"),
    T.TimestampNTZType: pa.timestamp("us"),
    T.DayTimeIntervalType: pa.duration("us"),
    T.NullType: pa.null(),
}


def arrow_type(kind: T.DataType) -> pa.DataType:
    """The one Arrow type in which values of a Spark type travel."""
    if isinstance(kind, T.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, T.ArrayType):
        return pa.list_(pa.field("element", arrow_type(kind.elementType), kind.containsNull))
    if isinstance(kind, T.MapType):
        value: Any = pa.field("value", arrow_type(kind.valueType), kind.valueContainsNull)
        mapped: pa.DataType = pa.map_(arrow_type(kind.keyType), value)
        return mapped
    if isinstance(kind, T.StructType):
        return pa.struct([pa.field(f.name, arrow_type(f.dataType), f.nullable) for f in kind.fields])
    for spark, arrow in _ARROW.items():
        if isinstance(kind, spark):
            return arrow
    raise DefinitionError(f"columns of type {kind.simpleString()} cannot be kept", hint="cast it to STRING, a number or a time")


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema.

    >>> arrow_schema(parse_schema("n INT, at TIMESTAMP")).types
    [DataType(int32), TimestampType(timestamp[us, tz=UTC])]
    """
    return pa.schema([pa.field(f.name, arrow_type(f.dataType), f.nullable) for f in schema.fields])


def nullable(schema: T.StructType) -> T.StructType:
    """The same columns, each of which may be null, and everything in them too.

    Arrow cannot hold a null struct whose fields may not be null, which Spark has wherever an outer join or CASE makes one.
    """
    return T.StructType([T.StructField(f.name, _nullable_within(f.dataType), True, f.metadata) for f in schema.fields])


def _nullable_within(kind: T.DataType) -> T.DataType:
    if isinstance(kind, T.StructType):
        return nullable(kind)
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_nullable_within(kind.elementType), True)
    if isinstance(kind, T.MapType):
        return T.MapType(_nullable_within(kind.keyType), _nullable_within(kind.valueType), True)
    return kind


def with_integers(kind: Any) -> Any:
    """The same nested type, with times, days and intervals as the integers that they are.

    Python's own times end at the year 9999; Spark's do not.
    """
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", with_integers(kind.value_type), kind.value_field.nullable))
    if pa.types.is_map(kind):
        value = pa.field("value", with_integers(kind.item_type), kind.item_field.nullable)
        return pa.map_(with_integers(kind.key_type), value)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, with_integers(f.type), f.nullable) for f in kind])
    return kind


def retyped(array: Column, kind: Any) -> Column:
    """The same buffers under another type of the same shape."""
    if array.type.equals(kind):
        return array
    if pa.types.is_list(kind):
        child = retyped(array.values, kind.value_type)
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], null_count=-1, offset=array.offset, children=[child])
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays(
            [retyped(array.keys, kind.key_type), retyped(array.items, kind.item_type)],
            fields=[kind.key_field, kind.item_field],
        )
        return pa.Array.from_buffers(
            kind, len(array), array.buffers()[:2], null_count=-1, offset=array.offset, children=[entries]
        )
    if pa.types.is_struct(kind):
        children = [retyped(array.field(i), kind.field(i).type) for i in range(kind.num_fields)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask) if children else array
    return array.view(kind)


def python_values(column: Column) -> list[Any]:
    """A column as Python values: times as integers (microseconds, days), wherever they stand; all else as Arrow gives it.

    >>> python_values(pa.array([{"day": 1}], pa.struct([("day", pa.date32())])))
    [{'day': 1}]
    """
    kind = with_integers(column.type)
    if column.type.equals(kind):
        pass
    elif not pa.types.is_nested(kind):
        column = column.cast(kind)
    else:
        whole: Any = (
            pa.concat_arrays(column.chunks or [pa.array([], column.type)]) if isinstance(column, pa.ChunkedArray) else column
        )
        column = retyped(whole, kind)
    values: list[Any] = column.to_pylist()
    return values


def readable_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows for people: times as Python's own, or as integers where one is beyond the year 9999, at which Python's end."""
    try:
        return rows.to_pylist()
    except (OverflowError, ValueError):
        return [dict(zip(rows.column_names, row, strict=True)) for row in zip(*map(python_values, rows.columns), strict=True)]


# --- canonical keys ----------------------------------------------------------------------------------------------------

_EPOCH = dt.datetime(1970, 1, 1)
_NAN = b"\xff\xf8\x00\x00\x00\x00\x00\x00"


def _double(value: float) -> bytes:
    if math.isnan(value):
        return _NAN
    bits = struct.unpack(">Q", struct.pack(">d", value + 0.0))[0]
    return struct.pack(">Q", bits ^ 0xFFFFFFFFFFFFFFFF if bits >> 63 else bits | 1 << 63)


def _decimal(value: Decimal) -> bytes:
    """Sortable: sign, count of integer digits, digits; equal numbers of any scale give equal bytes."""
    if not value:
        return b"\x80"
    sign, digits, exponent = value.normalize().as_tuple()
    assert isinstance(exponent, int), "Arrow decimals are finite"
    body = struct.pack(">B", 128 + len(digits) + exponent) + bytes(d + 1 for d in digits) + b"\x00"
    return b"\x81" + body if not sign else b"\x7f" + bytes(255 - b for b in body)


def _micros(value: dt.datetime) -> int:
    naive = value.astimezone(dt.timezone.utc).replace(tzinfo=None) if value.tzinfo else value
    return (naive - _EPOCH) // dt.timedelta(microseconds=1)


def _encode(value: Any) -> bytes:
    if value is None:
        return b"\x00"
    if isinstance(value, str):
        return b"\x02" + value.encode("utf-8", "surrogatepass").replace(b"\x00", b"\x00\xff") + b"\x00\x00"
    if isinstance(value, bool):
        return b"\x27" if value else b"\x26"
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            return b"\x21" + _decimal(Decimal(value))
        return b"\x15" + struct.pack(">Q", value + (1 << 63))
    if isinstance(value, float):
        return b"\x20" + _double(value)
    if isinstance(value, Decimal):
        return b"\x21" + _decimal(value)
    if isinstance(value, bytes):
        return b"\x01" + value.replace(b"\x00", b"\x00\xff") + b"\x00\x00"
    if isinstance(value, dt.datetime):
        return _encode(_micros(value))
    if isinstance(value, dt.date):
        return _encode((value - dt.date(1970, 1, 1)).days)
    if isinstance(value, dt.timedelta):
        return _encode(value // dt.timedelta(microseconds=1))
    if isinstance(value, dict):
        return b"\x05" + b"".join(b"\x06" + _encode(v) for v in value.values()) + b"\x00"
    if isinstance(value, (list, tuple)):
        items = value
        if items and isinstance(items, list) and isinstance(items[0], tuple) and len(items[0]) == 2:  # a map
            items = sorted(items, key=lambda item: _encode(item[0]))
        return b"\x05" + b"".join(b"\x06" + _encode(v) for v in items) + b"\x00"
    raise AssertionError(f"no canonical encoding for {type(value).__name__}")


def encode_key(values: Sequence[Any]) -> bytes:
    """The canonical, type-tagged encoding of one key.

    >>> encode_key([1.0, -0.0]) == encode_key([1.0, 0.0])
    True
    >>> encode_key(["a"]) < encode_key(["a "]) < encode_key(["b"])
    True
    """
    return b"".join(map(_encode, values))


def encode_keys(table: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> list[bytes]:
    """The canonical key of every row.

    >>> encode_keys(pa.table({"k": [1, 1]}), ["k"])[0] == encode_key([1])
    True
    """
    if not columns:
        return [b""] * table.num_rows
    parts = [_encode_column(table.column(name)) for name in columns]
    return parts[0] if len(parts) == 1 else [b"".join(row) for row in zip(*parts, strict=True)]


def _encode_column(column: Column) -> list[bytes]:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind) or pa.types.is_duration(kind):
        pack = struct.Struct(">cQ").pack
        return [b"\x00" if v is None else pack(b"\x15", v + (1 << 63)) for v in python_values(column)]
    if pa.types.is_struct(kind):
        whole: Any = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if isinstance(whole, pa.ChunkedArray):
            whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], kind)
        fields = [_encode_column(child) for child in whole.flatten()]
        rows = zip(*fields, strict=True) if fields else [()] * len(whole)
        valid = whole.is_valid().to_pylist()
        return [
            b"\x05" + b"".join(b"\x06" + f for f in row) + b"\x00" if ok else b"\x00" for row, ok in zip(rows, valid, strict=True)
        ]
    return list(map(_encode, python_values(column)))
