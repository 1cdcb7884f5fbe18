"""Judging single values by the law of rows: what a column takes, as what, and why it refuses the rest.

A judge takes a value as JSON, CSV text or Python gives it and returns what `pyarrow.array` takes for the column's type
(times as integers), or raises `Wrong`. It is exact: decimals never pass through a float, 1.0 is no BIGINT, true is no INT.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import math
import operator
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from pyspark.sql import types as T

Judge = Callable[[Any], Any]


class Wrong(Exception):
    """A value that the schema does not take. `reason` is one of the codes of the law, `message` names the column."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


class Number(str):
    """A number of a JSON text, digit by digit as it was written."""

    __slots__ = ()


class JsonObject(dict[str, Any]):
    """An object of a JSON text, its names all different."""

    __slots__ = ()


_INTEGER = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[T ]([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2})(?:\.([0-9]{1,9}))?)?)?"
    r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
MICROS_MIN = (dt.datetime.min - _EPOCH) // _MICROSECOND
MICROS_MAX = (dt.datetime.max - _EPOCH) // _MICROSECOND
_INTEGERS: dict[type[T.DataType], int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
_EXACT = decimal.Context(prec=2000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_FLOAT32 = struct.Struct("<f")


def kind_of(value: Any) -> str:
    """What a person calls a value of this type."""
    if value is None:
        return "null"
    if isinstance(value, Number):
        return f"the number {_short(value)}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {_short(repr(str(value)))}"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    return f"{type(value).__name__} {_short(repr(value))}"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _type(name: str, what: str, value: Any) -> Wrong:
    return Wrong("type", f"column {name!r} is {what}, not {kind_of(value)}")


def _range(name: str, what: str, value: Any) -> Wrong:
    return Wrong("range", f"column {name!r} is {what}, which {_short(str(value))} does not fit")


def judge_of(kind: T.DataType, name: str, *, text: bool = False, python: bool = False) -> Judge:
    """The judge of a column or a nested value; `text` for CSV, where everything is text, `python` for Python's own values."""
    if isinstance(kind, T.StringType):
        return _string(name)
    if type(kind) in _INTEGERS:
        return _integer(name, kind, text, python)
    if isinstance(kind, (T.DoubleType, T.FloatType)):
        return _double(name, kind, text, python)
    if isinstance(kind, T.BooleanType):
        return _boolean(name, text, python)
    if isinstance(kind, T.DecimalType):
        return _decimal(name, kind, python)
    if isinstance(kind, T.BinaryType):
        return _binary(name, python)
    if isinstance(kind, T.DateType):
        return _date(name, python)
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        return _timestamp(name, kind, python)
    if isinstance(kind, T.ArrayType):
        return _array(name, kind, python)
    if isinstance(kind, T.MapType):
        return _map(name, kind, python)
    if isinstance(kind, T.StructType):
        return _struct(name, kind, python)
    raise AssertionError(f"no column is {kind.simpleString()}")


def _string(name: str) -> Judge:
    def judge(value: Any) -> Any:
        if type(value) is not str:
            if isinstance(value, str) and not isinstance(value, Number):
                return judge(str(value))
            raise _type(name, "STRING", value)
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Wrong("not_utf8", f"column {name!r} holds half a character (a lone surrogate)") from None
        return value

    return judge


def _integer(name: str, kind: T.DataType, text: bool, python: bool) -> Judge:
    what = kind.simpleString().upper()
    limit = 1 << (_INTEGERS[type(kind)] - 1)

    def judge(value: Any) -> Any:
        if isinstance(value, Number) or (text and isinstance(value, str)):
            if not _INTEGER.fullmatch(value):
                raise _type(name, what, value)
            if len(value) > 30:
                raise _range(name, what, value)
            found = int(value)
        elif python and not isinstance(value, (bool, float, str)) and hasattr(value, "__index__") and not _is_bool(value):
            found = operator.index(value)
        else:
            raise _type(name, what, value)
        if not -limit <= found < limit:
            raise _range(name, what, value)
        return found

    return judge


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def _double(name: str, kind: T.DataType, text: bool, python: bool) -> Judge:
    what = kind.simpleString().upper()
    single = isinstance(kind, T.FloatType)

    def judge(value: Any) -> Any:
        if isinstance(value, Number) or (text and isinstance(value, str) and _NUMBER.fullmatch(value)):
            found = float(value)
            if not found and value.lstrip("-").isdigit():
                found = 0.0  # an integer has no -0
            if math.isinf(found):
                raise _range(name, what, value)
        elif isinstance(value, str):
            if value not in _FLOATS:
                raise _type(name, what, value)
            return _FLOATS[value]
        elif python and not _is_bool(value) and (isinstance(value, (int, float)) or hasattr(value, "__float__")):
            if isinstance(value, Decimal):
                raise _type(name, what, value)
            try:
                found = float(value)
            except OverflowError:
                raise _range(name, what, value) from None
        else:
            raise _type(name, what, value)
        if single and math.isfinite(found):
            try:
                _FLOAT32.pack(found)
            except OverflowError:
                raise _range(name, what, value) from None
        return found

    return judge


def _boolean(name: str, text: bool, python: bool) -> Judge:
    def judge(value: Any) -> Any:
        if isinstance(value, bool):
            return value
        if text and value in ("true", "false"):
            return value == "true"
        if python and _is_bool(value):
            return bool(value)
        raise _type(name, "BOOLEAN", value)

    return judge


def _decimal(name: str, kind: T.DecimalType, python: bool) -> Judge:
    what = kind.simpleString().upper()
    limit = Decimal(10) ** (kind.precision - kind.scale)
    step = Decimal(1).scaleb(-kind.scale)

    def judge(value: Any) -> Any:
        if isinstance(value, str):
            if not _DECIMAL.fullmatch(value):
                exponent = isinstance(value, Number) and "e" in value.lower()
                raise _range(name, what, value) if exponent else _type(name, what, value)
            if len(value) > 1000:
                raise _range(name, what, value)
            found = Decimal(value)
        elif python and isinstance(value, Decimal) and value.is_finite():
            found = value
        elif python and isinstance(value, int) and not isinstance(value, bool):
            found = Decimal(value)
        else:
            raise _type(name, what, value)
        if not found:
            return Decimal(0).scaleb(-kind.scale)
        if found.adjusted() > 38 or found.adjusted() < -38 or found.copy_abs() >= limit:
            raise _range(name, what, value)
        exact = found.quantize(step, context=_EXACT)
        if exact != found:
            raise _range(name, what, value)
        return exact

    return judge


def _binary(name: str, python: bool) -> Judge:
    def judge(value: Any) -> Any:
        if python and isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        if isinstance(value, str) and not isinstance(value, Number):
            try:
                return base64.b64decode(value.encode(), validate=True)
            except (binascii.Error, ValueError):
                raise Wrong("type", f"column {name!r} is BINARY in base64, which {_short(repr(str(value)))} is not") from None
        raise _type(name, "BINARY", value)

    return judge


def _date(name: str, python: bool) -> Judge:
    def judge(value: Any) -> Any:
        if isinstance(value, str) and not isinstance(value, Number):
            match = _DATE.fullmatch(value)
            if not match:
                raise _type(name, "DATE", value)
            try:
                found = dt.date(*map(int, match.groups()))
            except ValueError:
                raise _range(name, "DATE", value) from None
        elif python and isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            found = value
        else:
            raise _type(name, "DATE", value)
        return found.toordinal() - 719_163

    return judge


def _timestamp(name: str, kind: T.DataType, python: bool) -> Judge:
    what = "TIMESTAMP_NTZ" if isinstance(kind, T.TimestampNTZType) else "TIMESTAMP"
    zoneless = what == "TIMESTAMP_NTZ"

    def of_datetime(value: dt.datetime) -> int:
        if value.tzinfo is not None:
            if zoneless:
                raise Wrong("type", f"column {name!r} is {what}: {value.isoformat()} has a zone")
            offset = value.utcoffset() or dt.timedelta()
            return (value.replace(tzinfo=None) - _EPOCH - offset) // _MICROSECOND
        return (value - _EPOCH) // _MICROSECOND

    def of_text(value: str) -> int:
        match = _TIMESTAMP.fullmatch(value)
        if not match:
            raise _type(name, what, value)
        year, month, day, hour, minute, second, fraction, zone = match.groups()
        if zone and zoneless:
            raise Wrong("type", f"column {name!r} is {what}: {value} has a zone")
        try:
            found = dt.datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
        except ValueError:
            raise _range(name, what, value) from None
        micros = (found - _EPOCH) // _MICROSECOND + (int(fraction[:6].ljust(6, "0")) if fraction else 0)
        if zone and zone != "Z":
            hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
            if hours > 23 or minutes > 59:
                raise _range(name, what, value)
            micros -= (1 if zone[0] == "+" else -1) * (hours * 60 + minutes) * 60_000_000
        return micros

    def judge(value: Any) -> Any:
        if isinstance(value, str) and not isinstance(value, Number):
            micros = of_text(value)
        elif python and isinstance(value, dt.datetime):
            micros = of_datetime(value)
        else:
            raise _type(name, what, value)
        if not MICROS_MIN <= micros <= MICROS_MAX:
            raise _range(name, what, value)
        return micros

    return judge


def _array(name: str, kind: T.ArrayType, python: bool) -> Judge:
    element = judge_of(kind.elementType, f"{name}[]", python=python)

    def judge(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _type(name, "an ARRAY", value)
        return [None if item is None else element(item) for item in value]

    return judge


def _map(name: str, kind: T.MapType, python: bool) -> Judge:
    # The names of a JSON object are text, whatever the keys are.
    key_of = judge_of(kind.keyType, f"{name} (key)", text=True, python=python)
    value_of = judge_of(kind.valueType, f"{name}{{}}", python=python)

    def judge(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _type(name, "a MAP", value)
        out = [(key_of(k), None if v is None else value_of(v)) for k, v in value.items()]
        if len({repr(k) for k, _ in out}) < len(out):
            raise Wrong("duplicate_field", f"column {name!r} is a MAP with one key given twice")
        return out

    return judge


def _struct(name: str, kind: T.StructType, python: bool) -> Judge:
    judges = {f.name: (judge_of(f.dataType, f"{name}.{f.name}", python=python), f.nullable) for f in kind.fields}

    def judge(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _type(name, "a STRUCT", value)
        unknown = next((field for field in value if field not in judges), None)
        if unknown is not None:
            raise Wrong("type", f"column {name!r} is a STRUCT without a field {_short(str(unknown))!r}")
        out = {}
        for field, (judge_field, nullable) in judges.items():
            item = value.get(field)
            if item is None and not nullable:
                raise Wrong("missing", f"column {name!r} needs its field {field!r}")
            out[field] = None if item is None else judge_field(item)
        return out

    return judge
