"""What is kept of the past: the newest replaced rows of each table, or those of the last days."""

from __future__ import annotations

import re
import sqlite3
from datetime import timedelta

from headrace.errors import DefinitionError
from headrace.origin import Origin
from headrace.store.tables import history_of
from headrace.store.values import quote, time_text

ROWS_KEPT = 2_000_000
AT_LEAST = timedelta(minutes=10)
AT_ONCE = 5_000
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


def parse_policy(text: str, origin: Origin | None = None) -> timedelta:
    """How long history is kept.

    >>> parse_policy("7 days")
    datetime.timedelta(days=7)
    """
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]+?)s?\s*", text.lower())
    if not match or match[2] not in _UNITS:
        raise DefinitionError(f'history="{text}" is not a duration', origin=origin, hint='history="7 days"')
    return timedelta(seconds=int(match[1]) * _UNITS[match[2]])


def trim(
    db: sqlite3.Connection,
    name: str,
    policy: timedelta | None,
    now_us: int,
    hold: int | None = None,
    rows_kept: int | None = None,
) -> tuple[int, int]:
    """Delete the oldest replaced rows of one table that need not be kept: (how many, the epoch up to which they go).

    Rows came in the order in which they were replaced, so their rowids count them.
    """
    past = quote(history_of(name))
    low, high = db.execute(f"SELECT (SELECT min(rowid) FROM {past}), (SELECT max(rowid) FROM {past})").fetchone()
    if low is None:
        return 0, 0
    beyond = high if policy is not None else high - rows_kept
    last = min(beyond, low + AT_ONCE - 1)
    if last < low:
        return 0, 0
    oldest = _epoch_before(db, now_us - round((policy or AT_LEAST).total_seconds() * 1_000_000))
    upto = min(oldest, oldest if hold is None else hold)
    gone = db.execute(f"DELETE FROM {past} WHERE rowid <= ? AND _to <= ? RETURNING _to", (last, upto)).fetchall()
    return len(gone), max((to for (to,) in gone), default=0)


def _epoch_before(db: sqlite3.Connection, us: int) -> int:
    """The newest epoch that was committed before this moment."""
    select = "SELECT epoch FROM _ledger WHERE committed_at < ? ORDER BY epoch DESC LIMIT 1"
    row = db.execute(select, (time_text(us),)).fetchone()
    return row[0] if row else 0
