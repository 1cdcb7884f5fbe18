"""The fast way for JSON lines: whole columns of lines that are provably clean.

msgspec decodes each line into a struct of exactly the schema's fields, strictly. What it does not see is a name given
twice, the last of which it takes. Quotes tell: in text without a backslash each name and each text value has exactly two,
so a chunk of lines has none to spare exactly when no name is given twice. Whatever is not clean by these rules raises
`NotClean` and is judged line by line by the exact way, so that this one can only be fast, not different.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, Meta, Raw, UnsetType
from pyspark.sql import types as T

from headrace import schema as schemas
from headrace.log import json_text
from headrace.log.columns import Column
from headrace.log.values import MICROS_MAX, MICROS_MIN, Judge, Wrong, judge_of

_INTS: dict[type[T.DataType], int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
_TEXT = (T.StringType, T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType)
_COLUMN_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, Wrong)

_Column = Callable[[Sequence[Any]], tuple[Column, int]]
"""Values of one field, UNSET where it is missing, to an Arrow column and the quotes that its values had."""


class NotClean(Exception):
    """These lines need the exact way."""


class CleanJson:
    """The fast way for one schema."""

    def __init__(self, schema: T.StructType) -> None:
        fields: list[Any] = []
        renamed = {}
        for n, field in enumerate(schema.fields):
            kind = _kind(field.dataType)
            name = f"c{n}"
            renamed[name] = field.name
            if not field.nullable:
                fields.append((name, kind))
            else:
                fields.append((name, kind | UnsetType if kind is Raw else kind | None | UnsetType, UNSET))
        fields.sort(key=len)  # those without a default come first
        struct = msgspec.defstruct("Row", fields, forbid_unknown_fields=True, rename=renamed, gc=False)
        self._decode = msgspec.json.Decoder(struct).decode
        names = [f"c{n}" for n in range(len(schema.fields))]
        get = operator.attrgetter(*names)
        self._row: Callable[[Any], tuple[Any, ...]] = get if len(names) > 1 else lambda row: (get(row),)
        self._columns = [_column(f.dataType, f.name, f.nullable) for f in schema.fields]

    def columns(self, lines: Sequence[bytes]) -> list[Column]:
        """The columns of these lines, none of which has a backslash; `NotClean` where one of them is not clean."""
        decode, row = self._decode, self._row
        try:
            values = list(zip(*[row(decode(line)) for line in lines], strict=True))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
            raise NotClean from error
        quotes = 0
        out: list[Column] = []
        try:
            for column, found in zip(self._columns, values, strict=True):
                array, used = column(found)
                quotes += used
                out.append(array)
        except _COLUMN_ERRORS as error:
            raise NotClean from error
        if quotes != sum(line.count(b'"') for line in lines):
            raise NotClean
        return out


def _kind(kind: T.DataType) -> Any:
    if type(kind) in _INTS:
        limit = 1 << (_INTS[type(kind)] - 1)
        return Annotated[int, Meta(ge=-limit, le=limit - 1)]
    if isinstance(kind, (T.DoubleType, T.FloatType)):
        return float
    if isinstance(kind, T.BooleanType):
        return bool
    return str if isinstance(kind, _TEXT) else Raw


def _column(kind: T.DataType, name: str, nullable: bool) -> _Column:
    if _kind(kind) is Raw:
        return _raw_column(kind, name, nullable)
    arrow = pa.string() if isinstance(kind, _TEXT) else schemas.arrow_type(kind)
    finish = _finish(kind, name)
    text = isinstance(kind, _TEXT)

    def column(values: Sequence[Any]) -> tuple[Column, int]:
        present = len(values) - values.count(UNSET)
        if present < len(values):
            values = [None if v is UNSET else v for v in values]
        array = pa.array(values, arrow)
        quotes = 2 * present + (2 * (len(array) - array.null_count) if text else 0)
        return finish(array), quotes

    return column


def _raw_column(kind: T.DataType, name: str, nullable: bool) -> _Column:
    judge, arrow = judge_of(kind, name), schemas.arrow_type(kind)

    def column(values: Sequence[Any]) -> tuple[Column, int]:
        quotes = 0
        out: list[Any] = []
        for value in values:
            if value is UNSET:
                out.append(None)
                continue
            text = bytes(value)
            quotes += 2 + text.count(b'"')
            parsed = json_text.parse(text)
            if parsed is None and not nullable:
                raise NotClean
            out.append(None if parsed is None else judge(parsed))
        return pa.array(out, arrow), quotes

    return column


def _finish(kind: T.DataType, name: str) -> Callable[[Column], Column]:
    if isinstance(kind, T.FloatType):
        return _finite
    if isinstance(kind, T.TimestampType):
        return _timestamps
    if isinstance(kind, T.TimestampNTZType):
        return lambda array: _in_range(array.cast(pa.timestamp("us")))
    if isinstance(kind, T.DateType):
        return _dates
    if isinstance(kind, T.BinaryType):
        return _binary(judge_of(kind, name))
    return lambda array: array


def _finite(array: Column) -> Column:
    if pc.any(pc.is_inf(array)).as_py():
        raise NotClean
    return array


def _timestamps(array: Column) -> Column:
    try:
        return _in_range(array.cast(pa.timestamp("us", tz="UTC")))
    except pa.ArrowInvalid:
        return _in_range(array.cast(pa.timestamp("us"))).cast(pa.timestamp("us", tz="UTC"))


def _in_range(array: Column) -> Column:
    """Arrow knows the year 0; the law begins with the year 1."""
    found = pc.min_max(array.cast(pa.int64()))
    low, high = found["min"].as_py(), found["max"].as_py()
    if low is not None and (low < MICROS_MIN or high > MICROS_MAX):
        raise NotClean
    return array


def _dates(array: Column) -> Column:
    dates = array.cast(pa.date32())
    _in_range(dates.cast(pa.timestamp("us")))
    return dates


def _binary(judge: Judge) -> Callable[[Column], Column]:
    return lambda array: pa.array([None if v is None else judge(v) for v in array.to_pylist()], pa.binary())
