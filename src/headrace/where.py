"""Conditions on the rows that one reads: Spark SQL, of which as much is taken as can be judged exactly outside Spark.

Comparisons of a column with a literal of its own kind, IN, BETWEEN, IS NULL, AND, OR, NOT. Everything else is refused: a
condition that means something else here than in Spark would answer with wrong rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from pyspark.sql import types as T
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headrace.errors import UsageError
from headrace.schema import arrow_type

Keep = Callable[[pa.Table], pa.Table]
_Mask = Callable[[pa.Table], Any]

_COMPARE: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}
_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def condition(text: str, columns: T.StructType) -> Keep:
    """A filter for Arrow tables with these columns.

    >>> from headrace.schema import parse_schema
    >>> keep = condition("n > 1 AND action IN ('open', 'close')", parse_schema("n INT, action STRING"))
    >>> keep(pa.table({"n": pa.array([1, 2, 3], pa.int32()), "action": ["open", "open", None]})).to_pylist()
    [{'n': 2, 'action': 'open'}]
    """
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except SqlglotError as problem:
        raise UsageError(f'cannot read the condition "{text}"', details=[str(problem).splitlines()[0]]) from None
    mask = _mask(tree, {field.name.lower(): field for field in columns.fields}, text)
    return lambda rows: rows.filter(mask(rows), null_selection_behavior="drop")


def _mask(node: exp.Expr, fields: dict[str, T.StructField], text: str) -> _Mask:
    if isinstance(node, exp.Paren):
        return _mask(node.this, fields, text)
    if isinstance(node, exp.Not):
        inner = _mask(node.this, fields, text)
        return lambda rows: pc.invert(inner(rows))
    if isinstance(node, (exp.And, exp.Or)):
        left, right = _mask(node.this, fields, text), _mask(node.expression, fields, text)
        join = pc.and_kleene if isinstance(node, exp.And) else pc.or_kleene
        return lambda rows: join(left(rows), right(rows))
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        field = _field(node.this, fields, text)
        return lambda rows: pc.is_null(rows[field.name])
    if isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
        masks = [_compared(exp.EQ, node.this, item, fields, text) for item in node.expressions]
        return _any(masks)
    if isinstance(node, exp.Between):
        low = _compared(exp.GTE, node.this, node.args["low"], fields, text)
        high = _compared(exp.LTE, node.this, node.args["high"], fields, text)
        return lambda rows: pc.and_kleene(low(rows), high(rows))
    if type(node) in _COMPARE:
        if isinstance(node.this, exp.Column):
            return _compared(type(node), node.this, node.expression, fields, text)
        return _compared(_TURNED[type(node)], node.expression, node.this, fields, text)
    if isinstance(node, exp.Column) and isinstance(_field(node, fields, text).dataType, T.BooleanType):
        name = _field(node, fields, text).name
        return lambda rows: rows[name]
    raise _refused(text, node)


def _any(masks: list[_Mask]) -> _Mask:
    def joined(rows: pa.Table) -> Any:
        found = masks[0](rows)
        for mask in masks[1:]:
            found = pc.or_kleene(found, mask(rows))
        return found

    return joined


def _compared(sign: type[exp.Expr], column: exp.Expr, literal: exp.Expr, fields: dict[str, T.StructField], text: str) -> _Mask:
    field = _field(column, fields, text)
    value = _value(literal, field.dataType, text)
    compare = _COMPARE[sign]
    if isinstance(field.dataType, (T.FloatType, T.DoubleType)) and sign in (exp.GT, exp.GTE):
        # In Spark NaN is greater than every number.
        return lambda rows: pc.or_kleene(compare(rows[field.name], value), pc.is_nan(rows[field.name]))
    return lambda rows: compare(rows[field.name], value)


def _field(node: exp.Expr, fields: dict[str, T.StructField], text: str) -> T.StructField:
    if not isinstance(node, exp.Column) or node.table:
        raise _refused(text, node)
    field = fields.get(node.name.lower())
    if field is None:
        raise UsageError(f'there is no column "{node.name}"', hint=f"one of {', '.join(f.name for f in fields.values())}")
    return field


def _value(node: exp.Expr, kind: T.DataType, text: str) -> Any:
    """A literal as a value of the column's type; where Spark would cast the column instead, we refuse."""
    negative = isinstance(node, exp.Neg)
    inner = node.this if negative else node
    if isinstance(inner, exp.Boolean) and isinstance(kind, T.BooleanType) and not negative:
        return pa.scalar(bool(inner.this), pa.bool_())
    if not isinstance(inner, exp.Literal) or (inner.is_string and negative):
        raise _refused(text, node)
    try:
        if inner.is_string:
            return _of_text(str(inner.this), kind)
        number = -Decimal(inner.this) if negative else Decimal(inner.this)
        if isinstance(kind, _INTEGERS) and number == number.to_integral_value():
            return pa.scalar(int(number), arrow_type(kind))
        if isinstance(kind, T.DecimalType):
            return pa.scalar(number, arrow_type(kind))
        if isinstance(kind, T.DoubleType):
            return pa.scalar(float(number), arrow_type(kind))
    except (ValueError, InvalidOperation, pa.ArrowInvalid, OverflowError):
        raise _refused(text, node) from None
    raise _refused(text, node)


def _of_text(value: str, kind: T.DataType) -> Any:
    if isinstance(kind, T.StringType):
        return pa.scalar(value, pa.string())
    if isinstance(kind, T.DateType):
        return pa.scalar(dt.date.fromisoformat(value), pa.date32())
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        moment = dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
        if isinstance(kind, T.TimestampType) and moment.tzinfo is not None:
            return pa.scalar(moment, arrow_type(kind))
        if isinstance(kind, T.TimestampNTZType) and moment.tzinfo is None:
            return pa.scalar(moment, arrow_type(kind))
    raise ValueError(value)


def _refused(text: str, node: exp.Expr) -> UsageError:
    return UsageError(
        f'cannot judge the condition "{text}" exactly',
        details=[
            f"{node.sql(dialect='spark')}: a column and a literal of its type, IN, BETWEEN, IS NULL, AND, OR, NOT are taken"
        ],
        hint="read without where= and filter the rows",
    )
