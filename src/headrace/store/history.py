"""What is kept of the past: the newest replaced rows of each table, or those of the last days."""

from __future__ import annotations

import sqlite3
from datetime import timedelta

from headrace.store.tables import history_of
from headrace.store.values import quote, time_text

ROWS_KEPT = 2_000_000
AT_LEAST = timedelta(minutes=10)
AT_ONCE = 5_000


def trim(
    db: sqlite3.Connection,
    name: str,
    policy: timedelta | None,
    now_us: int,
    hold: int | None = None,
) -> tuple[int, int]:
    """Delete the oldest replaced rows of one table that need not be kept: (how many, the epoch up to which they go).

    Rows came in the order in which they were replaced, so their rowids count them.
    """
    past = quote(history_of(name))
    low, high = db.execute(f"SELECT (SELECT min(rowid) FROM {past}), (SELECT max(rowid) FROM {past})").fetchone()
    if low is None:
        return 0, 0
    beyond = high if policy is not None else high - ROWS_KEPT
    last = min(beyond, low + AT_ONCE - 1)
    if last < low:
        return 0, 0
    oldest = _epoch_before(db, now_us - round((policy or AT_LEAST).total_seconds() * 1_000_000))
    upto = min(oldest, oldest if hold is None else hold)
    gone = db.execute(f"DELETE FROM {past} WHERE rowid <= ? AND _to <= ? RETURNING _to", (last, upto)).fetchall()
    return len(gone), max((to for (to,) in gone), default=0)


def forget_insertions(db: sqlite3.Connection, name: str, now_us: int) -> int:
    """Drop notes on where an old epoch's rows begin: how many. Changes since then are found by looking at every row."""
    upto = _epoch_before(db, now_us - round(AT_LEAST.total_seconds() * 1_000_000))
    old = "SELECT epoch FROM _inserted WHERE name = ? AND epoch <= ? ORDER BY epoch LIMIT ?"
    epochs = [epoch for (epoch,) in db.execute(old, (name, upto, AT_ONCE))]
    if len(epochs) < AT_ONCE:
        return 0
    db.execute("DELETE FROM _inserted WHERE name = ? AND epoch <= ?", (name, epochs[-1]))
    db.execute("INSERT INTO _inserted VALUES (?, ?, 0)", (name, epochs[-1]))
    return len(epochs)


def _epoch_before(db: sqlite3.Connection, us: int) -> int:
    """The newest epoch that was committed before this moment."""
    select = "SELECT epoch FROM _ledger WHERE committed_at < ? ORDER BY epoch DESC LIMIT 1"
    row = db.execute(select, (time_text(us),)).fetchone()
    return row[0] if row else 0
