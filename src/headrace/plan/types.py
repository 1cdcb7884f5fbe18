"""What Spark's types mean to the planner, and the types of expressions where the plan's JSON does not say them."""

from __future__ import annotations

import json

from headrace.plan.tree import Expr

_BOOLEAN = frozenset(
    "EqualTo EqualNullSafe GreaterThan GreaterThanOrEqual LessThan LessThanOrEqual And Or Not IsNull IsNotNull In InSet "
    "Like RLike "
    "StartsWith EndsWith Contains IsNaN InSubquery Exists".split()
)
_STRING = frozenset(
    "Upper Lower Concat ConcatWs Substring StringTrim StringTrimLeft StringTrimRight Hex Md5 Sha2 DateFormatClass".split()
)
_INTEGER = frozenset(
    "Year Month DayOfMonth DayOfWeek WeekDay DayOfYear WeekOfYear Quarter Hour Minute Second Length Size DateDiff RowNumber Rank "
    "DenseRank NTile Ascii StringInstr StringLocate".split()
)
_LIKE_FIRST = frozenset(
    "Alias AggregateExpression Min Max First Last AnyValue Add Subtract Multiply Remainder Pmod UnaryMinus UnaryPositive "
    "Abs Greatest "
    "Least Coalesce NullIf KnownNotNull KnownNullable KnownFloatingPointNormalized NormalizeNaNAndZero MaxBy MinBy Lag "
    "Lead NthValue "
    "BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitAndAgg BitOrAgg BitXorAgg Mode NaNvl WindowExpression ArraySort SortArray "
    "ArrayDistinct Nvl Nvl2".split()
)
_DOUBLE = frozenset(
    "StddevSamp StddevPop VarianceSamp VariancePop Corr CovPopulation CovSample Skewness Kurtosis Percentile Sqrt Exp Log "
    "Log10 Log2 "
    "Log1p Pow Sin Cos Tan Rand PercentRank CumeDist Cbrt Atan2 Asin Acos Atan".split()
)


def type_of(expr: Expr) -> str | None:
    """The type as the JSON names it (`long`, `decimal(10,2)`), or None where it cannot be told."""
    if expr.type is not None:
        return expr.type
    if expr.cls in _BOOLEAN or expr.cls in ("BoolAnd", "BoolOr"):
        return "boolean"
    if expr.cls in _INTEGER:
        return "integer"
    if expr.cls == "Count":
        return "long"
    if expr.cls in _DOUBLE:
        return "double"
    if not expr.children:
        return None
    if expr.cls in _STRING:
        return "string" if not collated(expr) else None
    if expr.cls == "Sum":
        return _sum(type_of(expr.children[0]))
    if expr.cls in ("Average", "Divide"):
        inner = type_of(expr.children[0])
        return None if inner is None or inner.startswith("decimal") else "double"
    if expr.cls in ("If", "CaseWhen"):
        return type_of(expr.children[1])
    if expr.cls == "GetStructField":
        return _field(expr)
    if expr.cls == "Cast":
        return expr.type
    if expr.cls in _LIKE_FIRST:
        inner = type_of(expr.children[0])
        exact = expr.cls not in ("Add", "Subtract", "Multiply", "Remainder", "Pmod", "Abs")
        return inner if inner is None or exact or not inner.startswith("decimal") else "decimal"
    return None


def _sum(inner: str | None) -> str | None:
    if inner in ("byte", "short", "integer", "long"):
        return "long"
    if inner in ("float", "double"):
        return "double"
    if inner is not None and inner.startswith("decimal("):
        precision, scale = inner[8:-1].split(",")
        return f"decimal({min(38, int(precision) + 10)},{scale})"
    return "decimal" if inner == "decimal" else None


def _field(expr: Expr) -> str | None:
    inner = type_of(expr.children[0])
    if inner is None or not inner.startswith("{"):
        return None
    fields, ordinal = json.loads(inner).get("fields") or [], expr.raw.get("ordinal")
    if not isinstance(ordinal, int) or ordinal >= len(fields):
        return None
    kind = fields[ordinal]["type"]
    return kind if isinstance(kind, str) else json.dumps(kind, sort_keys=True)


def floating(kind: str | None) -> bool:
    """Whether values may hold -0.0 beside 0.0. What is not known may."""
    return kind is None or "float" in kind or "double" in kind or "variant" in kind


def integral(kind: str | None) -> bool:
    """Whether it is an integer type."""
    return kind in ("byte", "short", "integer", "long")


def exact(kind: str | None) -> bool:
    """Whether sums of it are exact: integers and decimals."""
    return integral(kind) or (kind is not None and kind.startswith("decimal"))


def collated(expr: Expr) -> bool:
    """Whether two strings that differ may be equal in it."""
    return any("collate" in (e.type or "").lower() or e.cls == "Collate" for e in expr.walk())
