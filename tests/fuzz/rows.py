"""Random rows: nulls, NaN, -0.0, infinities, ties, extremes, duplicates, empty strings, nested values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from random import Random
from typing import Any

A = (
    "id BIGINT, k STRING, g INT, n INT, b BIGINT, d DECIMAL(12,2), x DOUBLE, t TIMESTAMP, u TIMESTAMP_NTZ, day DATE, ok BOOLEAN, "
    "bin BINARY, tags ARRAY<STRING>, s STRUCT<p: INT, q: STRING>, m MAP<STRING, INT>"
)
C = "id BIGINT, k STRING, g INT, n INT, d DECIMAL(10,2), x DOUBLE, t TIMESTAMP, ok BOOLEAN"
R = "k STRING, g INT, label STRING, w INT"
SCHEMAS = {"a": A, "c": C}
UTC = dt.timezone.utc
NAN, INF = float("nan"), float("inf")

TIMES = [dt.datetime(2026, 1, 1, hour, minute) for hour in (0, 1, 23) for minute in (0, 30, 59)]
TIMES += [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]

VALUES: dict[str, list[Any]] = {
    "k": ["a", "b", "c", "", "A", "a ", "é", None],
    "g": [0, 1, 2, 3, None],
    "n": [0, 1, -1, 2, 5, 5, 2**31 - 1, -(2**31), None],
    "b": [0, 1, -1, 7, 2**63 - 1, -(2**63), 2**53 + 1, None],
    "d": [Decimal("0.00"), Decimal("1.10"), Decimal("-1.10"), Decimal("0.01"), Decimal("99999999.99"), None],
    "x": [0.0, -0.0, 1.5, -2.25, 1000.75, 0.25, 0.1, 0.7, -0.3, 1e16, -1e16, 5e-324, NAN, INF, -INF, None],
    "t": [*[t.replace(tzinfo=UTC) for t in TIMES], None],
    "u": [*TIMES, None],
    "day": [dt.date(2026, 1, 1), dt.date(2026, 1, 2), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 15), None],
    "ok": [True, False, None],
    "bin": [b"", b"\x00", b"\xff\x00a", b"a", None],
    "tags": [[], ["x"], ["x", "y", "x"], [None, "z"], None],
    "s": [{"p": 1, "q": "one"}, {"p": None, "q": None}, {"p": 2, "q": ""}, None],
    "m": [[], [("x", 1)], [("y", None), ("x", 2)], None],
    "label": ["red", "blue", None],
    "w": [1, 2, 3, None],
}


def names(schema: str) -> list[str]:
    """The columns of a schema of ours."""
    return list(A_COLUMNS if schema is A else C_COLUMNS if schema is C else R_COLUMNS)


A_COLUMNS = ["id", "k", "g", "n", "b", "d", "x", "t", "u", "day", "ok", "bin", "tags", "s", "m"]
C_COLUMNS = ["id", "k", "g", "n", "d", "x", "t", "ok"]
R_COLUMNS = ["k", "g", "label", "w"]


MALFORMED = [
    b'{"id": "many"}',
    b"\xff\xfe",
    b'{"id": 1, "id": 2}',
    b"[1]",
    b'{"id": 1e400}',
    b'{"id": 5, "k": "a"',
    b'{"k": 7, "g": 2147483648}',
]


def malformed(rng: Random) -> tuple[bytes, ...]:
    """Lines of JSON of which none is a row."""
    return tuple(rng.choice(MALFORMED) for _ in range(rng.choice([1, 3])))


def row(rng: Random, schema: str, number: int | None) -> dict[str, Any]:
    """One row; `number` is its id, which no other row of its topic has."""
    found = {name: rng.choice(VALUES[name]) for name in names(schema) if name != "id"}
    return found if number is None else {"id": number, **found}
