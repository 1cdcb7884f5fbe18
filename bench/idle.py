"""Idle: what a minute without rows costs, runner and JVM together, and how soon an appended row is noticed.

python -m bench idle
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from bench.bench import Bench, Options
from bench.contenders import wait_until
from bench.events import events
from bench.log import Backlog
from bench.processes import app_in, ending, run_app
from bench.results import Result
from bench.store import has_epoch
from headrace.log import Topic
from headrace.store.reader import Reader

COST = "idle: 60 s without rows, share of one core, runner and JVM together"
NOTICED = "noticed: append acknowledged to its epoch planned, p99 of 100 appends"
WARM_S = 20
TICKS = os.sysconf("SC_CLK_TCK")


def answer(options: Options) -> list[Result]:
    """Run a new app, let it settle, and look at its clock ticks; then append a row at a time."""
    seconds = 10 if options.quick else 60
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        backlog = Backlog(app_in(Path(name), "one_table"), "one")
        with ending(run_app(Path(name))) as process:
            wait_until(lambda: has_epoch(backlog.store, 1), process, "the first epoch", 600)
            topic, rows = Topic.open(backlog.topic), events(200)
            topic.producer().append(rows.slice(0, 10))
            wait_until(lambda: has_epoch(backlog.store, 2), process, "the first rows", 600)
            time.sleep(WARM_S)
            before, began = ticks_of(process.pid), time.monotonic()
            time.sleep(seconds)
            spent, lasted = ticks_of(process.pid) - before, time.monotonic() - began
            for thread, count in spent.most_common(8):
                options.say(f"  {thread}: {100 * count / TICKS / lasted:.2f} %")
            noticed = [_notice(backlog, topic, rows.slice(10 + n, 1), n + 3) for n in range(20 if options.quick else 100)]
    share = round(100 * sum(spent.values()) / TICKS / lasted, 2)
    options.say(f"noticed after {statistics.median(noticed):.1f} ms, p50")
    late = round(statistics.quantiles(noticed, n=100)[98], 1)
    return [Result(COST, "% of a core", share, limit=2), Result(NOTICED, "ms", late, limit=20)]


def _notice(backlog: Backlog, topic: Topic, row: pa.Table, epoch: int) -> float:
    """Append a row; milliseconds until the epoch that takes it read its clock, which is the first thing that an epoch does."""
    topic.producer().append(row)
    acknowledged = time.time()
    with Reader(backlog.store) as reader:
        reader.wait_newer(epoch - 1, timeout_s=60)
        (entry,) = reader.ledger(after=epoch - 1, upto=epoch)
    return entry.clock / 1000 - acknowledged * 1000


def ticks_of(root: int) -> Counter[str]:
    """Clock ticks of a process and all below it, by kind of process and thread."""
    spent: Counter[str] = Counter()
    for pid in _family(root):
        kind = "runner" if pid == root else "below"
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                name, (*_, user, system) = _stat(task, 13)
                spent[f"{kind} {name.rstrip('0123456789-')}"] += int(user) + int(system)
    return spent


def _family(root: int) -> Iterator[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            parents.setdefault(int(_stat(entry, 2)[1][-1]), []).append(int(entry.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += parents.get(pid, [])


def _stat(folder: Path, upto: int) -> tuple[str, list[str]]:
    """A task's name, and its fields from the state to the one before number `upto`+2 of proc(5)."""
    text = (folder / "stat").read_text()
    name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :]
    return name, rest.split()[:upto]


BENCH = Bench(
    "idle",
    (COST, NOTICED),
    "A new app that has taken ten rows is left alone: the ticks that the kernel counts for its processes are what waiting costs. "
    "Then a row comes at a time; an epoch's clock in the ledger says when it was noticed.",
    answer,
)
