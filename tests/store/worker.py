"""A process that moves money between two tables, one epoch after the other, until something ends it.

`python worker.py FOLDER MODE`: `steady` commits for ever; `stop_inside` stops itself inside its third transaction;
`stop_between` stops itself before it begins its third transaction.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pyarrow as pa

from headrace.clock import SystemClock
from headrace.errors import WorldError
from headrace.schema import arrow_schema, encode_key, parse_schema
from headrace.store.base import Change, Registration, TableSpec, Writes
from headrace.store.fence import Holder, RunFolder, take_over
from headrace.store.ledger import LedgerRow
from headrace.store.marks import Marks
from headrace.store.sqlite import SqliteStore

ACCOUNT = parse_schema("k STRING, n BIGINT")
START = 1_000


class StopsInside(SqliteStore):
    """A store that is stopped within a transaction."""

    left = 3

    def _commit(self) -> None:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGSTOP)
        super()._commit()


def balance(n: int) -> Change:
    """The one row of an account."""
    return Change([], [encode_key(["k"])], pa.table({"k": ["k"], "n": [n]}, schema=arrow_schema(ACCOUNT)), upsert=True)


def entry(holder: Holder) -> LedgerRow:
    """The next epoch, of one row."""
    g, now, at = holder.generation, SystemClock().now_us(), holder.store.offsets().get("events", {}).get(0, 0)
    return LedgerRow(holder.head.epoch + 1, "epoch", g.number, g.lineage, now, now, {"events": {0: (at, at + 1)}})


def move(holder: Holder) -> None:
    """One epoch: what leaves one account comes to the other."""
    names = ("left", "right")
    create = [Registration(TableSpec(name, ACCOUNT, ("k",))) for name in names] if not holder.head.epoch else []
    moved = holder.head.epoch + 1
    holder.commit(entry(holder), Writes(create=create, tables={"left": balance(START - moved), "right": balance(moved)}))


def main(folder: Path, mode: str) -> None:
    """Take over, then move and say so."""
    marks, run = Marks(folder, "app", [folder / "log" / "events"]), RunFolder(folder / "run")
    holder = take_over(folder / "store.db", marks, run, opened=StopsInside if mode == "stop_inside" else None)
    for n in range(sys.maxsize):
        if mode == "stop_between" and n == 2:
            os.kill(os.getpid(), signal.SIGSTOP)
        move(holder)
        print(holder.head.epoch, flush=True)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2])
    except WorldError as error:
        print(error.code, flush=True)
        sys.exit(error.exit_code)
