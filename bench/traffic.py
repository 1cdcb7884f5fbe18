"""Ten thousand events per second, twenty durable appends per second: who sends them, and who looks when they can be read.

The latency of an append runs from its acknowledgement (it is fsynced) to the first snapshot of the SQLite file in which all
tables hold at least as many events as were durable with it. The probe looks every two milliseconds.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.events import events, expected
from headrace.log import Topic

RATE = 10_000
PER_SECOND = 20
BATCH = RATE // PER_SECOND
LOOK_S = 0.002


@dataclass(frozen=True)
class Traffic:
    """How long; what comes in the first seconds is not measured."""

    warm_s: int = 30
    measured_s: int = 60

    @property
    def appends(self) -> int:
        """How many appends in all."""
        return (self.warm_s + self.measured_s) * PER_SECOND


def durable_file(folder: Path, appends: int, mode: Any = "r+") -> np.memmap:
    """When each append was acknowledged: shared between the producer's process and ours."""
    return np.memmap(folder / "durable", np.float64, mode, shape=(appends,))


def produce(folder: str, appends: int, topic: str | None) -> dict[str, float]:
    """Send the rows on time, into a topic or as JSON files into `in/`; returns how late it ever was."""
    here, rows = Path(folder), events(appends * BATCH)
    batches = [rows.slice(i * BATCH, BATCH).combine_chunks() for i in range(appends)]
    send = _into_topic(Path(topic), batches) if topic else _into_files(here, batches)
    durable, late = durable_file(here, appends), 0.0
    began = time.monotonic() + 0.1
    for i in range(appends):
        time.sleep(max(0.0, began + i / PER_SECOND - time.monotonic()))
        send(i)
        durable[i] = time.monotonic()
        late = max(late, durable[i] - began - i / PER_SECOND)
    return {"late_ms_max": round(late * 1000, 1)}


def _into_topic(topic: Path, batches: Sequence[pa.Table]) -> Callable[[int], object]:
    producer = Topic.open(topic).producer("bench")
    return lambda i: producer.append(batches[i], sequence=i + 1)


def _into_files(folder: Path, batches: Sequence[pa.Table]) -> Callable[[int], object]:
    """Each append a file: written beside, fsynced, renamed, and the folder fsynced."""
    lines = ["".join(json.dumps(row) + "\n" for row in batch.to_pylist()).encode() for batch in batches]
    target = os.open(folder / "in", os.O_RDONLY)

    def send(i: int) -> None:
        beside = folder / "beside.json"
        with beside.open("wb") as file:
            file.write(lines[i])
            file.flush()
            os.fsync(file.fileno())
        beside.rename(folder / "in" / f"{i:06}.json")
        os.fsync(target)

    return send


class Probe:
    """Looks at the tables until they hold everything, and remembers when they held how much."""

    def __init__(self, file: Path, tables: Sequence[str]) -> None:
        self._db = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=60)
        sums = ", ".join(f"(SELECT coalesce(sum(n), 0) FROM {table})" for table in tables)
        # `min` of one value would be an aggregate.
        self._query = f"SELECT min({sums})" if len(tables) > 1 else f"SELECT {sums}"
        self._version: int | None = None
        self.when: list[float] = []
        self.total: list[int] = []

    def look(self) -> int:
        """How many events every table holds now."""
        version = self._db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:
            self._version = version
            total = self._db.execute(self._query).fetchone()[0]
            if not self.total or total > self.total[-1]:
                self.when.append(time.monotonic())
                self.total.append(total)
        return self.total[-1]

    def until(self, rows: int, *, waiting: Callable[[], bool]) -> None:
        """Look until there are so many rows, or nobody waits any more."""
        while self.look() < rows and waiting():
            time.sleep(LOOK_S)

    def latencies_ms(self, durable: np.ndarray) -> np.ndarray:
        """Of each append; infinite where its rows never came."""
        seen = np.searchsorted(self.total, (np.arange(len(durable)) + 1) * BATCH)
        when = np.append(self.when, np.inf)
        late: np.ndarray = (when[np.minimum(seen, len(self.when))] - durable) * 1000
        return late

    def wrong(self, rows: int, tables: Sequence[str]) -> list[str]:
        """The tables that do not hold what was sent."""
        sent = events(rows)
        held = {table: sorted(self._db.execute(f"SELECT k, n, s FROM {table}").fetchall()) for table in tables}
        return [table for table in tables if held[table] != expected(sent, table)]
