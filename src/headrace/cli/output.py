"""What commands print: data on stdout as a table or as JSON, everything else on stderr."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.table import Table


def plain(value: Any) -> Any:
    """A value as JSON: decimals and integers beyond 2^53 are text, NaN is "NaN", times ISO with Z, binary base64.

    >>> plain([Decimal("1.50"), 2**60, float("nan"), b"hi", dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)])
    ['1.50', '1152921504606846976', 'NaN', 'aGk=', '2026-01-01T00:00:00Z']
    """
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if -(2**53) <= value <= 2**53 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            return value.astimezone(dt.timezone.utc).isoformat().replace("+00:00", "Z")
        return value.isoformat()
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, Iterable):
        return [plain(inner) for inner in value]
    return str(value)


def answer(document: dict[str, Any], *, app: str | None = None, epoch: int | None = None) -> None:
    """A finite answer: one object on one line."""
    line({"headrace": 1, "app": app, "epoch": epoch, **document})


def line(document: dict[str, Any]) -> None:
    """One JSON line on stdout, at once: whoever follows reads it now."""
    sys.stdout.write(json.dumps(plain(document), ensure_ascii=False) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """A line of plain text on stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """A line for the person who waits, on stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def shown(value: Any) -> str:
    """A value in a table's cell."""
    if value is None:
        return "NULL"
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[str] = ()) -> None:
    """Rows under headings; columns named in `right` hold numbers."""
    grid = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        grid.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(shown(value) for value in row))
    # In a pipe there is no screen whose width could count: every row stays on its line.
    console = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else 100_000, soft_wrap=False)
    if sys.stdout.isatty():
        console.print(grid)
        return
    with console.capture() as captured:
        console.print(grid)
    for text in captured.get().splitlines():
        sys.stdout.write(text.rstrip() + "\n")
