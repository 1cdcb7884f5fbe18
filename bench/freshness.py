"""Freshness: from the acknowledgement of an append to the store in which all tables contain it.

python -m bench freshness one_table
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.bench import Bench, Options
from bench.contenders import Contender, HandWritten, Headrace
from bench.events import KEYS
from bench.processes import answer, ending, start
from bench.results import Result
from bench.traffic import BATCH, PER_SECOND, Probe, Traffic, durable_file

GRACE_S = 60
"""How long rows may still take to appear after the last append."""


@dataclass(frozen=True)
class Freshness:
    """What one contender reached."""

    p50_ms: float
    p99_ms: float
    updates_ms: float
    late_ms: float

    def __str__(self) -> str:
        return (
            f"p50 {self.p50_ms:,.1f} ms, p99 {self.p99_ms:,.1f} ms, a new state every {self.updates_ms:,.0f} ms "
            f"(producer at most {self.late_ms:,.0f} ms late)"
        )


def measure(contender: Contender, traffic: Traffic) -> Freshness:
    """Start it, send rows, look, and compare what it kept with what was sent."""
    contender.folder.mkdir(parents=True)
    durable_file(contender.folder, traffic.appends, "w+")
    with ending(contender.begin()) as process:
        probe = Probe(contender.database, contender.tables)
        topic = str(contender.topic) if contender.topic else None
        sender = start("bench.traffic:produce", folder=str(contender.folder), appends=traffic.appends, topic=topic)
        with ending(sender):
            ended: list[float] = []

            def waiting() -> bool:
                if process.poll() is not None:
                    raise RuntimeError(f"{contender} ended with {process.returncode}")
                if not ended and sender.poll() is not None:
                    ended.append(time.monotonic())
                return not ended or time.monotonic() < ended[0] + GRACE_S

            probe.until(traffic.appends * BATCH, waiting=waiting)
            said = answer(sender)
    wrong = probe.wrong(traffic.appends * BATCH, contender.tables)
    if wrong:
        raise RuntimeError(f"{contender}: {wrong} do not hold what was sent")
    durable = np.array(durable_file(contender.folder, traffic.appends))
    late = probe.latencies_ms(durable)[traffic.warm_s * PER_SECOND :]
    gaps = np.diff([when for when in probe.when if when >= durable[traffic.warm_s * PER_SECOND]])
    return Freshness(
        round(float(np.percentile(late, 50)), 1),
        round(float(np.percentile(late, 99)), 1),
        round(float(np.mean(gaps)) * 1000) if len(gaps) else 0,
        said["late_ms_max"],
    )


def _traffic(options: Options) -> Traffic:
    return Traffic(8, 8) if options.quick else Traffic()


def _compare(options: Options, contenders: dict[str, Contender]) -> dict[str, Freshness]:
    found = {}
    for name, contender in contenders.items():
        found[name] = measure(contender, _traffic(options))
        options.say(f"{name}: {found[name]}")
    return found


VS_FIVE = "freshness p50, five tables, against five hand-written streaming queries"
VS_ONE = "freshness p50, five tables, against one hand-written foreachBatch query"
P99 = "freshness p99, five tables, against one hand-written foreachBatch query"
VS_QUERY = "freshness p50, one table, against one hand-written streaming query"
P99_QUERY = "freshness p99, one table, against one hand-written streaming query"


def five_tables(options: Options) -> list[Result]:
    """Five tables in one app, against five queries, and against one query for all of them."""
    tables = list(KEYS)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        found = _compare(
            options,
            {
                "Headrace": Headrace(folder / "headrace", tables),
                "one foreachBatch query": HandWritten(folder / "one", tables, "batches"),
                "five queries": HandWritten(folder / "five", tables, "queries"),
            },
        )
    ours, one, five = found["Headrace"], found["one foreachBatch query"], found["five queries"]
    return [
        Result(VS_FIVE, "ms", ours.p50_ms, five.p50_ms, 1 / 3),
        Result(VS_ONE, "ms", ours.p50_ms, one.p50_ms, 1.0),
        Result(P99, "ms", ours.p99_ms, one.p99_ms),
    ]


def one_table(options: Options) -> list[Result]:
    """One table, against one query."""
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        found = _compare(
            options,
            {
                "Headrace": Headrace(folder / "headrace", ["by_ad"], "one_table", "one"),
                "one query": HandWritten(folder / "query", ["by_ad"], "queries"),
            },
        )
    ours, query = found["Headrace"], found["one query"]
    return [
        Result(VS_QUERY, "ms", ours.p50_ms, query.p50_ms, 1 / 2),
        Result(P99_QUERY, "ms", ours.p99_ms, query.p99_ms),
    ]


STORY = """
10,000 events/s in 20 durable appends per second; each table counts and sums per key. The latency of an append runs from its
acknowledgement (fsynced) to the first snapshot of the SQLite file in which every table contains it. 30 seconds to warm up,
60 seconds measured. Headrace reads its log; the hand-written queries read a file of JSON lines per append, with Spark's
default settings and as few shuffle partitions as suit them, and write SQLite with the same durability.
"""

FIVE = Bench("freshness", (VS_FIVE, VS_ONE, P99), STORY, five_tables)
ONE = Bench("one_table", (VS_QUERY, P99_QUERY), "The same with one table.", one_table)
