"""Looking at an app's store from outside, as any SQLite client can."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path


def newest_epoch(file: Path) -> int:
    """The number of the newest committed epoch; 0 before there is one."""
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=60)) as db:
            return int(db.execute("SELECT coalesce(max(epoch), 0) FROM _ledger").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def has_epoch(file: Path, epoch: int) -> bool:
    """Whether this epoch is committed."""
    return file.exists() and newest_epoch(file) >= epoch


def rows_used(file: Path) -> int:
    """How many offsets of all sources are in the committed prefix."""
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=60)) as db:
        newest: dict[tuple[str, str], int] = {}
        for (ranges,) in db.execute("SELECT ranges FROM _ledger ORDER BY epoch"):
            for source, partitions in json.loads(ranges or "{}").items():
                newest |= {(source, partition): stop for partition, (_, stop) in partitions.items()}
    return sum(newest.values())
