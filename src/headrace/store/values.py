"""Arrow values <-> SQLite values, exactly.

What a SQL client sees, and what comes back from it bit by bit:

| Spark | in SQLite |
|---|---|
| BOOLEAN, integers, intervals | INTEGER (booleans 0 and 1, intervals in microseconds) |
| FLOAT, DOUBLE | a number, in a column without declared type (a REAL one would turn -0.0 into 0.0); NaN is the text `NaN` |
| DECIMAL | plain TEXT with all digits of its scale, never an exponent |
| STRING, BINARY | TEXT, BLOB |
| DATE | TEXT `2026-01-31` |
| TIMESTAMP, TIMESTAMP_NTZ | TEXT `2026-01-31 10:00:00.000000`, in UTC, always 26 characters, so that text sorts as time |
| a column `w` of type STRUCT<start: TIMESTAMP, end: TIMESTAMP> | two columns `w_start`, `w_end` |
| ARRAY, MAP, other STRUCTs | TEXT, JSON; a map is a list of pairs |

Times outside the years 0001 to 9999 are written as a count from the lowest possible one behind a `-` (before) or as a
count behind a `~` (after): they still sort, and still come back. In JSON, decimals, integers beyond 2^53, times,
intervals and numbers that are not finite are strings, and binary is base64.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from headrace import schema

_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_EPOCH = dt.datetime(1970, 1, 1)
_DAY = dt.date(1970, 1, 1).toordinal()
_TIMES = (T.TimestampType, T.TimestampNTZType)
Array = Any
"""A `pyarrow.Array` or `ChunkedArray`, whose kind of values is known only at run time."""


def quote(name: str) -> str:
    """A name as SQL takes it, whatever is in it.

    >>> quote('count("x")')
    '"count(""x"")"'
    """
    return '"' + name.replace('"', '""') + '"'


# --- one value ---------------------------------------------------------------------------------------------------------


def time_text(us: int) -> str:
    """Microseconds since 1970 as fixed-width UTC text.

    >>> time_text(0)
    '1970-01-01 00:00:00.000000'
    """
    if us < _FIRST_US:
        return f"-{us + 2**63:020d}"
    if us > _LAST_US:
        return f"~{us:020d}"
    moment = _EPOCH + dt.timedelta(microseconds=us)
    return f"{moment.year:04d}-{moment:%m-%d %H:%M:%S}.{moment.microsecond:06d}"


def time_us(text: str) -> int:
    """The microseconds that `time_text` wrote.

    >>> time_us(time_text(-1))
    -1
    """
    if text[0] == "-":
        return int(text[1:]) - 2**63
    if text[0] == "~":
        return int(text[1:])
    return (dt.datetime.fromisoformat(text) - _EPOCH) // dt.timedelta(microseconds=1)


def _day_text(day: int) -> str:
    if day < _FIRST_DAY:
        return f"-{day + 2**31:010d}"
    if day > _LAST_DAY:
        return f"~{day:010d}"
    return dt.date.fromordinal(day + _DAY).isoformat()


def _day_number(text: str) -> int:
    if text[0] == "-":
        return int(text[1:]) - 2**31
    if text[0] == "~":
        return int(text[1:])
    return dt.date.fromisoformat(text).toordinal() - _DAY


def _plain(value: Decimal) -> str:
    return format(value, "f")


def _float_json(value: float) -> Any:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _to_json(kind: T.DataType) -> Callable[[Any], Any]:
    """A function from an Arrow value (times as integers) to what `json.dumps` takes; null is handled by its caller."""
    if isinstance(kind, T.ArrayType):
        element = _nullable(_to_json(kind.elementType))
        return lambda items: [element(item) for item in items]
    if isinstance(kind, T.MapType):
        of_key, of_value = _to_json(kind.keyType), _nullable(_to_json(kind.valueType))
        return lambda items: [[of_key(k), of_value(v)] for k, v in items]
    if isinstance(kind, T.StructType):
        fields = [(f.name, _nullable(_to_json(f.dataType))) for f in kind.fields]
        return lambda value: {name: one(value[name]) for name, one in fields}
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        return _float_json
    if isinstance(kind, T.DecimalType):
        return _plain
    if isinstance(kind, T.LongType):
        return lambda value: value if -(2**53) <= value <= 2**53 else str(value)
    if isinstance(kind, _TIMES):
        return time_text
    if isinstance(kind, T.DateType):
        return _day_text
    if isinstance(kind, T.BinaryType):
        return lambda value: base64.b64encode(value).decode("ascii")
    return lambda value: value


def _from_json(kind: T.DataType) -> Callable[[Any], Any]:
    if isinstance(kind, T.ArrayType):
        element = _nullable(_from_json(kind.elementType))
        return lambda items: [element(item) for item in items]
    if isinstance(kind, T.MapType):
        of_key, of_value = _from_json(kind.keyType), _nullable(_from_json(kind.valueType))
        return lambda items: [(of_key(k), of_value(v)) for k, v in items]
    if isinstance(kind, T.StructType):
        fields = [(f.name, _nullable(_from_json(f.dataType))) for f in kind.fields]
        return lambda value: {name: one(value[name]) for name, one in fields}
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        return float
    if isinstance(kind, T.DecimalType):
        return Decimal
    if isinstance(kind, T.LongType):
        return int
    if isinstance(kind, _TIMES):
        return time_us
    if isinstance(kind, T.DateType):
        return _day_number
    if isinstance(kind, T.BinaryType):
        return base64.b64decode
    return lambda value: value


def _nullable(one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else one(value)


# --- one column --------------------------------------------------------------------------------------------------------

Values = list[Any]


def _one_array(column: Array) -> Array:
    if isinstance(column, pa.ChunkedArray):
        return (
            column.chunk(0)
            if column.num_chunks == 1
            else pa.concat_arrays(column.chunks)
            if column.chunks
            else pa.array([], column.type)
        )
    return column


def _times_out(array: Array) -> Values:
    numbers: Any = array.cast(pa.int64())
    low: Any = pc.min_max(numbers).as_py()
    if low["min"] is None or (low["min"] >= _FIRST_US and low["max"] <= _LAST_US):
        found: Values = pc.strftime(numbers.cast(pa.timestamp("us")), format="%Y-%m-%d %H:%M:%S").to_pylist()
        return found
    return [None if v is None else time_text(v) for v in numbers.to_pylist()]


def _times_in(values: Values, kind: pa.DataType) -> Array:
    try:
        return pa.array(values, pa.string()).cast(pa.timestamp("us")).cast(kind)
    except pa.ArrowInvalid:
        return pa.array([None if v is None else time_us(v) for v in values], pa.int64()).cast(kind)


def _days_out(array: Array) -> Values:
    return [None if v is None else _day_text(v) for v in array.cast(pa.int32()).to_pylist()]


def _days_in(values: Values, kind: pa.DataType) -> Array:
    return pa.array([None if v is None else _day_number(v) for v in values], pa.int32()).cast(kind)


def _decimals_out(array: Array) -> Values:
    texts = array.cast(pa.string()).to_pylist()
    return [_plain(Decimal(t)) if t is not None and "E" in t else t for t in texts]


def _floats_out(array: Array) -> Values:
    values: Values = array.to_pylist()
    if pc.any(pc.is_nan(array)).as_py():
        return ["NaN" if v is not None and v != v else v for v in values]
    return values


def _floats_in(values: Values, kind: pa.DataType) -> Array:
    # float() reads the text 'NaN', and whatever a client may have written as an integer.
    return pa.array([None if v is None else float(v) for v in values], pa.float64()).cast(kind, safe=False)


@dataclass(frozen=True)
class Column:
    """One column of a user's table: the SQLite columns that hold it, and the way there and back."""

    name: str
    kind: T.DataType
    stored: tuple[str, ...]
    declared: tuple[str, ...]

    @property
    def is_window(self) -> bool:
        """Whether it is kept as `w_start` and `w_end`."""
        return len(self.stored) == 2

    def encode(self, column: Array) -> list[Values]:
        """The values for each SQLite column."""
        array = _one_array(column)
        if self.is_window:
            start, end = (pc.struct_field(array, i) for i in range(2))
            return [_times_out(start), _times_out(end)]
        return [self._encode(array)]

    def _encode(self, array: Array) -> Values:
        kind = self.kind
        if isinstance(kind, _TIMES):
            return _times_out(array)
        if isinstance(kind, T.DateType):
            return _days_out(array)
        if isinstance(kind, T.DecimalType):
            return _decimals_out(array)
        if isinstance(kind, (T.FloatType, T.DoubleType)):
            return _floats_out(array)
        if isinstance(kind, T.DayTimeIntervalType):
            found: Values = array.cast(pa.int64()).to_pylist()
            return found
        if isinstance(kind, (T.ArrayType, T.MapType, T.StructType)):
            one = _to_json(kind)
            plain = schema.retyped(array, schema.with_integers(array.type)).to_pylist()
            dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
            return [None if v is None else dumps(one(v)) for v in plain]
        texts: Values = array.to_pylist()
        return texts

    def decode(self, columns: Sequence[Values]) -> Array:
        """The Arrow array that `encode` was given."""
        arrow: Any = schema.arrow_type(self.kind)
        if self.is_window:
            start, end = (_times_in(values, field.type) for values, field in zip(columns, arrow, strict=True))
            mask = pc.and_(start.is_null(), end.is_null())
            return pa.StructArray.from_arrays([start, end], fields=list(arrow), mask=mask)
        return self._decode(columns[0], arrow)

    def _decode(self, values: Values, arrow: Any) -> Array:
        kind = self.kind
        if isinstance(kind, _TIMES):
            return _times_in(values, arrow)
        if isinstance(kind, T.DateType):
            return _days_in(values, arrow)
        if isinstance(kind, T.DecimalType):
            return pa.array([None if v is None else Decimal(v) for v in values], arrow)
        if isinstance(kind, (T.FloatType, T.DoubleType)):
            return _floats_in(values, arrow)
        if isinstance(kind, T.BooleanType):
            return pa.array(values, pa.int8()).cast(arrow)
        if isinstance(kind, T.DayTimeIntervalType):
            return pa.array(values, pa.int64()).cast(arrow)
        if isinstance(kind, (T.ArrayType, T.MapType, T.StructType)):
            one = _from_json(kind)
            plain = pa.array([None if v is None else one(json.loads(v)) for v in values], schema.with_integers(arrow))
            return schema.retyped(plain, arrow)
        return pa.array(values, arrow)

    def present(self, values: Sequence[Any]) -> Any:
        """One row's SQLite values as a person or JSON wants them in an answer."""
        if self.is_window:
            assert isinstance(self.kind, T.StructType)
            start, end = (present(value, f.dataType) for value, f in zip(values, self.kind.fields, strict=True))
            return None if start is None and end is None else {"start": start, "end": end}
        return present(values[0], self.kind)


def present(value: Any, kind: T.DataType | None) -> Any:
    """A SQLite value by its Spark type: bool, Decimal, datetime, date, nested lists and dicts; unknown types stay.

    >>> present("12.50", T.DecimalType(10, 2)), present(1, T.BooleanType())
    (Decimal('12.50'), True)
    """
    if value is None or kind is None:
        return value
    if isinstance(kind, T.BooleanType):
        return bool(value) if isinstance(value, int) else value
    if isinstance(kind, T.DecimalType):
        return Decimal(str(value))
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        return float(value)
    if isinstance(kind, T.DateType) and isinstance(value, str):
        return dt.date.fromisoformat(value) if value[0].isdigit() else value
    if isinstance(kind, _TIMES) and isinstance(value, str):
        if not value[0].isdigit():
            return value
        moment = dt.datetime.fromisoformat(value)
        return moment.replace(tzinfo=dt.timezone.utc) if isinstance(kind, T.TimestampType) else moment
    if isinstance(kind, (T.ArrayType, T.MapType, T.StructType)) and isinstance(value, str):
        return _present_nested(json.loads(value), kind)
    return value


def _present_nested(value: Any, kind: T.DataType) -> Any:
    """A value out of JSON; a struct whose fields nobody knows stays as it is, and so does a map, as pairs."""
    if value is None:
        return None
    if isinstance(kind, T.ArrayType):
        return [_present_nested(item, kind.elementType) for item in value]
    if isinstance(kind, T.MapType):
        return [[_present_nested(k, kind.keyType), _present_nested(v, kind.valueType)] for k, v in value]
    if isinstance(kind, T.StructType):
        return {f.name: _present_nested(value[f.name], f.dataType) for f in kind.fields} if kind.fields else value
    if isinstance(kind, T.LongType):
        return int(value)
    if isinstance(kind, T.BinaryType):
        return base64.b64decode(value)
    return present(value, kind)


_DECLARED: dict[type[T.DataType], str] = {
    T.BooleanType: "INTEGER /* BOOLEAN */",
    T.ByteType: "INTEGER",
    T.ShortType: "INTEGER",
    T.IntegerType: "INTEGER",
    T.LongType: "INTEGER",
    T.DayTimeIntervalType: "INTEGER /* microseconds */",
    # Without a declared type: see the table above.
    T.FloatType: "/* FLOAT */",
    T.DoubleType: "/* DOUBLE */",
    T.StringType: "TEXT",
    T.BinaryType: "BLOB",
    T.DateType: "TEXT /* DATE */",
    T.TimestampType: "TEXT /* TIMESTAMP */",
    T.TimestampNTZType: "TEXT /* TIMESTAMP_NTZ */",
    T.NullType: "/* VOID */",
}


def _declared(kind: T.DataType) -> str:
    if isinstance(kind, T.DecimalType):
        return f"TEXT /* {kind.simpleString().upper()} */"
    for spark, text in _DECLARED.items():
        if isinstance(kind, spark):
            return text
    return "TEXT /* JSON */"


def _is_window(kind: T.DataType) -> bool:
    return (
        isinstance(kind, T.StructType)
        and kind.names == ["start", "end"]
        and all(isinstance(f.dataType, _TIMES) for f in kind.fields)
    )


@dataclass(frozen=True)
class Layout:
    """How the columns of one table lie in SQLite."""

    columns: tuple[Column, ...]

    @property
    def stored(self) -> tuple[str, ...]:
        """The names of the SQLite columns, in order."""
        return tuple(name for column in self.columns for name in column.stored)

    @property
    def names(self) -> str:
        """The SQLite columns, quoted, for a SELECT."""
        return ", ".join(map(quote, self.stored))

    @property
    def declarations(self) -> str:
        """The SQLite columns with their types, for a CREATE TABLE."""
        pairs = ((n, d) for column in self.columns for n, d in zip(column.stored, column.declared, strict=True))
        return ", ".join(f"{quote(name)} {declared}" for name, declared in pairs)

    def encode(self, rows: pa.Table) -> list[Values]:
        """One list per SQLite column."""
        return [values for column in self.columns for values in column.encode(rows.column(column.name))]

    def decode(self, rows: Sequence[Sequence[Any]], skip: int = 0) -> pa.Table:
        """The Arrow table of rows that a SELECT gave, leaving out the first `skip` values of each."""
        transposed = list(zip(*rows, strict=True)) if rows else [()] * (skip + len(self.stored))
        return self.decode_columns(transposed[skip : skip + len(self.stored)])

    def decode_columns(self, values: Sequence[Iterable[Any]]) -> pa.Table:
        """The Arrow table of SQLite columns."""
        at, arrays = 0, []
        for column in self.columns:
            width = len(column.stored)
            arrays.append(column.decode([list(v) for v in values[at : at + width]]))
            at += width
        fields = [pa.field(c.name, schema.arrow_type(c.kind)) for c in self.columns]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def kinds(self) -> Iterator[tuple[str, T.DataType]]:
        """The SQLite columns and the Spark types of what they hold."""
        for column in self.columns:
            if column.is_window:
                assert isinstance(column.kind, T.StructType)
                yield from zip(column.stored, (f.dataType for f in column.kind.fields), strict=True)
            else:
                yield column.stored[0], column.kind


@lru_cache(maxsize=4096)
def _layout_of(text: str) -> Layout:
    columns, taken = [], {f.name.lower() for f in T.StructType.fromJson(json.loads(text)).fields}
    for field in T.StructType.fromJson(json.loads(text)).fields:
        pair = (f"{field.name}_start", f"{field.name}_end")
        if _is_window(field.dataType) and not taken & {name.lower() for name in pair}:
            assert isinstance(field.dataType, T.StructType)
            declared = tuple(_declared(f.dataType) for f in field.dataType.fields)
            columns.append(Column(field.name, field.dataType, pair, declared))
        else:
            columns.append(Column(field.name, field.dataType, (field.name,), (_declared(field.dataType),)))
    return Layout(tuple(columns))


def layout(columns: T.StructType) -> Layout:
    """How a table with these columns lies in SQLite.

    >>> layout(schema.parse_schema("w STRUCT<start: TIMESTAMP, end: TIMESTAMP>, n BIGINT")).stored
    ('w_start', 'w_end', 'n')
    """
    return _layout_of(columns.json())
