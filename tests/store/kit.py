"""A store that a test can drive: epochs in one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.clock import ManualClock
from headrace.schema import arrow_schema, encode_keys, parse_schema
from headrace.store.base import Change, Generation, Head, Registration, TableSpec, Writes
from headrace.store.ledger import LedgerRow
from headrace.store.process import Process
from headrace.store.reader import Reader
from headrace.store.sqlite import SqliteStore

COUNTS = parse_schema("k STRING, n BIGINT")


class Driver:
    """A store with its generation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock()
        self.store = SqliteStore(path, clock=self.clock)
        self.fence: Generation = self.store.take_over(self.store.generation(), Process.mine(), lambda *_: ("lineage", 1))
        self.head: Head = self.store.head()
        self.position = self.store.offsets().get("events", {}).get(0, 0)

    def entry(self, *, rows: int = 1, kind: Any = "epoch", **more: Any) -> LedgerRow:
        """The next epoch, which takes some rows of the one source."""
        ranges = {"events": {0: (self.position, self.position + rows)}} if rows else {}
        now = self.clock.now_us()
        return LedgerRow(self.head.epoch + 1, kind, self.fence.number, self.fence.lineage, now, now, **{"ranges": ranges, **more})

    def commit(self, writes: Writes | None = None, **more: Any) -> Head:
        """Commit an epoch."""
        entry = self.entry(**more)
        self.head = self.store.commit(self.fence, self.head, entry, writes or Writes())
        self.position = entry.ranges.get("events", {}).get(0, (0, self.position))[1]
        return self.head

    def create(self, *specs: TableSpec, **more: Any) -> Head:
        """Create tables."""
        return self.commit(Writes(create=[Registration(spec, **more) for spec in specs]), rows=0, kind="create")

    def counts(self) -> Head:
        """Create the table `counts` (k, n)."""
        return self.create(TableSpec("counts", COUNTS, ("k",)))

    def put(self, rows: Mapping[str, int], removed: Sequence[str] = (), *, upsert: bool = True) -> Head:
        """An epoch that sets and removes counts."""
        return self.commit(Writes(tables={"counts": counts_change(rows, removed, upsert=upsert)}))

    def reader(self) -> Reader:
        """A reader of the same file."""
        return Reader(self.path)

    def rows(self, as_of: int | None = None) -> dict[str, int]:
        """The table `counts`."""
        with self.reader() as reader:
            return {row["k"]: row["n"] for row in reader.table("counts", as_of=as_of).to_dicts()}

    def reopen(self) -> Driver:
        """Another generation of the same store."""
        self.store.close()
        return Driver(self.path)


def keys(*names: str) -> list[bytes]:
    """Keys of `counts`."""
    return encode_keys(pa.table({"k": pa.array(names, pa.string())}), ["k"])


def counts_table(rows: Mapping[str, int]) -> pa.Table:
    """Rows of `counts`."""
    return pa.table({"k": list(rows), "n": list(rows.values())}, schema=arrow_schema(COUNTS))


def counts_change(rows: Mapping[str, int], removed: Sequence[str] = (), *, upsert: bool = True) -> Change:
    """A change of `counts`."""
    return Change(keys(*removed), keys(*rows), counts_table(rows), upsert=upsert)
