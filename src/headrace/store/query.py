"""SQL over the tables of one epoch: what SQLite would quietly get wrong is put right, or refused.

Decimals are text in the store, and NaN is, too. So, by the types of a statement's expressions (sqlglot infers them):

- `sum` and `avg` of decimals become our own, which are exact; of doubles they answer NaN where a NaN is among them;
- comparisons, ORDER BY, `min` and `max` of decimals get a collation that compares numbers;
- times are compared with literals as people write them: '2026-01-31', '2026-01-31T10:00Z';
- `+ - * /` with a decimal are refused: SQLite would compute a float.

A statement in which none of this occurs is run as it is. Result columns have the types that were inferred; a column
whose type nobody knows comes back as SQLite has it: numbers, text (times, decimals and JSON among it) or bytes.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import sqlglot
from pyspark.sql import types as T
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify

from headrace.errors import HeadraceError, UsageError
from headrace.store.values import time_text

COLLATION = "headrace_decimal"
_EXACT = Context(prec=200)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg)
_TIMES = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.DATETIME)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d(?:\.\d{1,6})?)?\s*(Z|[+-]\d\d:?\d\d)?)?")

Columns = Mapping[str, T.DataType]


@dataclass(frozen=True)
class Statement:
    """A statement that may be run. `types` are those of its columns, None for all where they could not be inferred."""

    text: str
    given: str
    types: tuple[T.DataType | None, ...] | None


# --- types -------------------------------------------------------------------------------------------------------------


def _sql_type(kind: T.DataType) -> str:
    if isinstance(kind, T.DecimalType):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if isinstance(kind, T.TimestampNTZType):
        return "TIMESTAMPNTZ"
    if isinstance(kind, (T.ArrayType, T.MapType, T.StructType)):
        return "JSON"
    simple = {"tinyint", "smallint", "int", "bigint", "boolean", "float", "double", "date", "timestamp", "binary"}
    name = kind.simpleString()
    return name.upper() if name in simple else "BIGINT" if isinstance(kind, T.DayTimeIntervalType) else "TEXT"


_SPARK: dict[Any, T.DataType] = {
    exp.DType.BOOLEAN: T.BooleanType(),
    exp.DType.TINYINT: T.ByteType(),
    exp.DType.SMALLINT: T.ShortType(),
    exp.DType.INT: T.IntegerType(),
    exp.DType.BIGINT: T.LongType(),
    exp.DType.FLOAT: T.FloatType(),
    exp.DType.DOUBLE: T.DoubleType(),
    exp.DType.DATE: T.DateType(),
    exp.DType.TIMESTAMP: T.TimestampType(),
    exp.DType.TIMESTAMPNTZ: T.TimestampNTZType(),
    exp.DType.TEXT: T.StringType(),
    exp.DType.VARCHAR: T.StringType(),
    exp.DType.BINARY: T.BinaryType(),
    # How nested the column is does not matter for presenting it.
    exp.DType.JSON: T.StructType([]),
}


def _spark_type(kind: Any) -> T.DataType | None:
    if kind is None:
        return None
    if kind.this == exp.DType.DECIMAL:
        numbers = [int(p.name) for p in kind.expressions]
        return T.DecimalType(*numbers) if len(numbers) == 2 else T.DecimalType(38, 18)
    return _SPARK.get(kind.this)


def _is(node: Any, *kinds: Any) -> bool:
    return isinstance(node, exp.Expr) and node.type is not None and node.type.this in kinds


def _is_decimal(node: Any) -> bool:
    return _is(node, exp.DType.DECIMAL)


# --- preparing a statement ---------------------------------------------------------------------------------------------


def prepare(sql: str, tables: Mapping[str, Columns]) -> Statement:
    """Read a statement, refuse what would be computed wrongly, put right what can be."""
    try:
        parsed = [one for one in sqlglot.parse(sql, read="sqlite") if one is not None]
    except SqlglotError:
        # SQLite knows more than sqlglot; where no decimal and no time is named nothing can go wrong.
        _refuse_blind(sql, tables)
        return Statement(sql, sql, None)
    if len(parsed) != 1:
        raise UsageError("one SELECT at a time", hint='"SELECT ... FROM ..."')
    if not isinstance(parsed[0], (exp.Query, exp.Values)):
        raise UsageError("only SELECT is possible here: tables are written by the app", hint='"SELECT ... FROM ..."')
    for table in parsed[0].find_all(exp.Table):
        if table.db:
            raise UsageError(f'tables are named without a database: "{table.name}", not "{table.db}.{table.name}"')
    try:
        return _typed(sql, parsed[0], tables)
    except SqlglotError:
        _refuse_blind(sql, tables)
        return Statement(sql, sql, None)


def _typed(sql: str, tree: exp.Expr, tables: Mapping[str, Columns]) -> Statement:
    schema: Any = {name: {column: _sql_type(kind) for column, kind in columns.items()} for name, columns in tables.items()}
    tree = qualify(tree, schema=schema, dialect="sqlite", validate_qualify_columns=False, identify=True)
    tree = annotate_types(tree, schema=schema, dialect="sqlite")
    _refuse_arithmetic(tree)
    changed = _put_right(tree)
    selects = tree.selects if isinstance(tree, exp.Query) else []
    types = tuple(_output_type(one) for one in selects) or None
    return Statement(tree.sql(dialect="sqlite") if changed else sql, sql, types)


def _output_type(one: exp.Expr) -> T.DataType | None:
    inner = one.unalias()
    if isinstance(inner, exp.Window):
        inner = inner.this
    if _is_own(inner):
        return _spark_type(inner.type)
    # Whether SQLite divides integers or floats is for its values to say.
    return None if isinstance(inner, exp.Div) else _spark_type(inner.type)


def _refuse_arithmetic(tree: exp.Expr) -> None:
    for node in tree.find_all(*_ARITHMETIC):
        operands = [node.args.get("this"), node.args.get("expression")]
        decimal = next((one for one in operands if _is_decimal(one)), None)
        if decimal is not None:
            raise _arithmetic(next((c.name for c in decimal.find_all(exp.Column)), decimal.sql(dialect="sqlite")))


def _arithmetic(name: str) -> UsageError:
    return UsageError(
        f'"{name}" is a DECIMAL: SQLite would compute + - * / on it in floating point',
        details=["sum, avg, min, max, comparisons and ORDER BY are exact"],
        hint="--spark, which computes decimals exactly; or CAST(... AS REAL) for a float on purpose",
    )


def _refuse_blind(sql: str, tables: Mapping[str, Columns]) -> None:
    """For a statement that cannot be read: is any decimal column named in it?"""
    if re.search(r"\b(main|temp)\W*\.", sql.lower()):
        raise UsageError("tables are named without a database")
    words = set(re.findall(r"\w+", sql.lower()))
    for name, columns in tables.items():
        for column, kind in columns.items():
            if name.lower() in words and column.lower() in words and isinstance(kind, T.DecimalType):
                raise UsageError(
                    f'this statement cannot be read well enough to keep "{column}", a DECIMAL, exact',
                    hint="--spark, or simpler SQL",
                )


def _put_right(tree: exp.Expr) -> bool:
    """Rewrite, in place, what SQLite would get wrong; whether anything was."""
    changed = False
    for aggregate in list(tree.find_all(exp.Sum, exp.Avg, exp.Min, exp.Max)):
        changed |= _aggregate(aggregate)
    for comparison in list(tree.find_all(*_COMPARISONS)):
        changed |= _compare(comparison, ["this", "expression"])
    for between in list(tree.find_all(exp.Between)):
        changed |= _compare(between, ["this", "low", "high"])
    for listed in list(tree.find_all(exp.In)):
        changed |= _in(listed)
    for ordered in list(tree.find_all(exp.Ordered)):
        if _is_decimal(ordered.this) or _is_own(ordered.this):
            ordered.set("this", _collated(ordered.this))
            changed = True
    return changed


def _is_own(node: Any) -> bool:
    return isinstance(node, exp.Anonymous) and node.name in ("hr_sum", "hr_avg")


def _aggregate(node: exp.Expr) -> bool:
    argument = node.this
    inner = argument.expressions[0] if isinstance(argument, exp.Distinct) and argument.expressions else argument
    if isinstance(node, (exp.Min, exp.Max)):
        if _is_decimal(inner) and not node.expressions:
            inner.replace(_collated(inner.copy()))
            return True
        return False
    if _is_decimal(inner):
        own = exp.Anonymous(this="hr_sum" if isinstance(node, exp.Sum) else "hr_avg", expressions=[argument.copy()])
        own.type = exp.DataType.build(_sql_type(_result_type(node, inner)))
        node.replace(own)
        return True
    if _is(inner, exp.DType.FLOAT, exp.DType.DOUBLE) and any(True for _ in inner.find_all(exp.Column)):
        return _with_nan(node, inner)
    return False


def _result_type(node: exp.Expr, inner: exp.Expr) -> T.DecimalType:
    """What Spark's sum or average of these decimals is."""
    kind = _spark_type(inner.type)
    assert isinstance(kind, T.DecimalType), "only asked for decimals"
    if isinstance(node, exp.Sum):
        return T.DecimalType(min(kind.precision + 10, 38), kind.scale)
    return T.DecimalType(min(kind.precision + 4, 38), min(kind.scale + 4, 38))


def _with_nan(node: exp.Expr, inner: exp.Expr) -> bool:
    """A sum over NaN is NaN; SQLite would take the text for 0."""
    whole = node.parent if isinstance(node.parent, (exp.Window, exp.Filter)) else node
    while isinstance(whole.parent, exp.Window) and whole.parent.this is whole:
        whole = whole.parent
    seen = whole.copy()
    target = seen.find(type(node))
    assert target is not None, "it was copied"
    is_nan = exp.Max(this=exp.EQ(this=inner.copy(), expression=exp.Literal.string("NaN")))
    seen = is_nan if target is seen else seen
    if target is not seen:
        target.replace(is_nan)
    case = exp.Case().when(seen, exp.Literal.string("NaN")).else_(whole.copy())
    case.type = node.type
    whole.replace(case)
    return True


def _collated(node: exp.Expr) -> exp.Expr:
    out = exp.Collate(this=node.copy(), expression=exp.Var(this=COLLATION))
    out.type = node.type
    return exp.Paren(this=out)


def _compare(node: exp.Expr, names: Sequence[str]) -> bool:
    sides = {name: node.args.get(name) for name in names}
    if any(isinstance(side, (exp.Null, exp.Boolean)) for side in sides.values()):
        return False
    if any(_is_decimal(side) or _is_own(side) for side in sides.values()):
        for name, side in sides.items():
            if isinstance(side, exp.Expr):
                node.set(name, _collated(_decimal_side(side)))
        return True
    return _moments(node, list(sides.values()))


def _decimal_side(side: exp.Expr) -> exp.Expr:
    """One side of a comparison with a decimal, as text."""
    if _is_decimal(side) or _is_own(side):
        return side
    if isinstance(side, exp.Literal):
        return exp.Literal.string(side.name)
    if isinstance(side, exp.Neg) and isinstance(side.this, exp.Literal):
        return exp.Literal.string("-" + side.this.name)
    return exp.Cast(this=side.copy(), to=exp.DataType.build("TEXT"))


def _in(node: exp.In) -> bool:
    if not node.expressions:
        return False
    if _is_decimal(node.this):
        node.set("this", _collated(node.this))
        node.set("expressions", [_decimal_side(one) for one in node.expressions])
        return True
    return _moments(node, [node.this, *node.expressions])


def _moments(node: exp.Expr, sides: Sequence[Any]) -> bool:
    """Write times in literals as the store does, where they are compared with times."""
    if not any(_is(side, *_TIMES) for side in sides):
        return False
    changed = False
    for side in sides:
        literal = side.this if isinstance(side, exp.Cast) else side
        if isinstance(literal, exp.Literal) and literal.is_string:
            text = moment_text(literal.name)
            if text is not None and text != literal.name:
                side.replace(exp.Literal.string(text))
                changed = True
    return changed


def moment_text(text: str) -> str | None:
    """A time as people write it, as the store writes it; None when it is no time.

    >>> moment_text("2026-01-31T10:00+01:00")
    '2026-01-31 09:00:00.000000'
    """
    match = _MOMENT.fullmatch(text.strip())
    if not match:
        return None
    day, minute, second, zone = match.groups()
    fraction = (second or ":00").partition(".")
    full = f"{day} {minute or '00:00'}{fraction[0]}.{fraction[2] or '0':0<6}"
    if zone and zone != "Z":
        full += zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
    with suppress(ValueError):
        moment = dt.datetime.fromisoformat(full)
        naive = moment.astimezone(dt.timezone.utc).replace(tzinfo=None) if moment.tzinfo else moment
        return time_text((naive - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1))
    return None


# --- what SQLite is taught ---------------------------------------------------------------------------------------------


def _number(text: Any) -> Decimal | None:
    try:
        return Decimal(text)
    except (InvalidOperation, TypeError, ValueError):
        return None


def compare_decimals(left: str, right: str) -> int:
    """The collation: by number; text that is none comes after, by itself."""
    a, b = _number(left), _number(right)
    if a is None or b is None:
        return (a is None) - (b is None) or (left > right) - (left < right)
    return (a > b) - (a < b)


class _DecimalSum:
    """An exact sum of decimals; null over nothing."""

    def __init__(self) -> None:
        self.total: Decimal | None = None
        self.count = 0

    def step(self, value: Any) -> None:
        if value is not None:
            self.total = _EXACT.add(self.total or Decimal(0), Decimal(str(value)))
            self.count += 1

    def inverse(self, value: Any) -> None:
        if value is not None and self.total is not None:
            self.total = _EXACT.subtract(self.total, Decimal(str(value)))
            self.count -= 1

    def value(self) -> str | None:
        return None if self.total is None or not self.count else format(self.total, "f")

    finalize = value


class _DecimalAverage(_DecimalSum):
    """An average of decimals with four digits more than they have, as Spark rounds it."""

    def value(self) -> str | None:
        if self.total is None or not self.count:
            return None
        exponent = self.total.as_tuple().exponent
        assert isinstance(exponent, int), "stored decimals are finite"
        digits = Decimal(1).scaleb(min(exponent, 0) - 4)
        return format(_EXACT.divide(self.total, Decimal(self.count)).quantize(digits, ROUND_HALF_UP, _EXACT), "f")

    finalize = value


def teach(db: sqlite3.Connection) -> None:
    """Give a connection the collation and the aggregates that prepared statements use."""
    db.create_collation(COLLATION, compare_decimals)
    for name in _TABLE_FUNCTIONS:
        # Made here once, since to SQLite's authorizer their first use looks like a CREATE TABLE.
        db.execute(f"SELECT 1 FROM {name}('[]')").fetchall()
    own: dict[str, Any] = {"hr_sum": _DecimalSum, "hr_avg": _DecimalAverage}
    for name, aggregate in own.items():
        if hasattr(db, "create_window_function") and sqlite3.sqlite_version_info >= (3, 25):
            db.create_window_function(name, 1, aggregate)
        else:  # Python 3.10 knows no window functions of its own
            db.create_aggregate(name, 1, aggregate)


_HARMLESS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE}
_TABLE_FUNCTIONS = ("json_each", "json_tree")


def allow_reading(hidden: Collection[str]) -> Callable[..., int]:
    """SQLite's authorizer: only SELECT, and tables only through our views. `hidden`: names in the database that are none."""
    secret = {name.lower() for name in hidden}

    def authorize(action: int, first: str | None, second: str | None, database: str | None, view: str | None) -> int:
        if action in _HARMLESS:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            return sqlite3.SQLITE_DENY if second == "load_extension" else sqlite3.SQLITE_OK
        if action != sqlite3.SQLITE_READ:
            return sqlite3.SQLITE_DENY
        if second == "":
            # A count(*) reads no column, and then the name is the one in the statement: a CTE's, or a table's.
            name = (first or "").lower()
            return sqlite3.SQLITE_DENY if name in secret or name.startswith(("sqlite_", "pragma_")) else sqlite3.SQLITE_OK
        through_view = database == "temp" or view is not None or first in _TABLE_FUNCTIONS
        return sqlite3.SQLITE_OK if through_view else sqlite3.SQLITE_DENY

    return authorize


def explain(error: sqlite3.Error, tables: Mapping[str, Columns]) -> HeadraceError:
    """SQLite's complaint in the user's words."""
    text = str(error)
    if text.startswith("no such table:"):
        name = text.partition(":")[2].strip()
        return UsageError(
            f'there is no table "{name}"', details=[f"there are: {', '.join(sorted(tables)) or 'none'}"], hint=_near(name, tables)
        )
    if text.startswith("no such column:"):
        name = text.partition(":")[2].strip()
        columns = {column for one in tables.values() for column in one}
        known = [f"{table}: {', '.join(one)}" for table, one in sorted(tables.items())]
        return UsageError(f'there is no column "{name}"', details=known[:10], hint=_near(name.rpartition(".")[2], columns))
    if "not authorized" in text or "prohibited" in text:
        return UsageError("only SELECT from the app's tables is possible here", details=[text], hint="headrace table list")
    return UsageError("the statement cannot be run", details=[text])


def _near(name: str, known: Any) -> str | None:
    found = difflib.get_close_matches(name, list(known), n=1)
    return found[0] if found else None
