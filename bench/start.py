"""Start: how long until the first epoch is committed, and until the next one after kill -9, ten million events in the log.

python -m bench start
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.bench import Bench, Options
from bench.catchup import write_files
from bench.contenders import wait_until
from bench.events import Campaigns
from bench.log import Backlog, fill
from bench.processes import app_in, ending, kill, run_app
from bench.results import Result
from bench.store import has_epoch, newest_epoch, rows_used
from headrace.log import Topic

FIRST = "start: headrace run to the first committed epoch with rows, 10 M events in the log"
AGAIN = "start: kill -9 to the next committed epoch, 10 M events in the log"


def answer(options: Options) -> list[Result]:
    """Start it, let it catch up, kill it, give it one more row, start it again."""
    rows = 1_000_000 if options.quick else 10_000_000
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        write_files(folder, rows)
        os.environ["BENCH_ADS"] = str(folder / "ads.parquet")
        backlog = Backlog(app_in(folder, "campaigns"), "campaigns")
        fill(backlog, sorted((folder / "events").glob("*.parquet")))
        options.say(f"{rows:,} events in the log")
        began = time.monotonic()
        with ending(run_app(folder)) as process:
            # Epoch 1 creates the tables; it holds no rows.
            first = _seconds_until(backlog, 2, process, began)
            options.say(f"first epoch with rows after {first} s")
            wait_until(lambda: rows_used(backlog.store) >= rows, process, "end of the backlog", 600)
            Topic.open(backlog.topic).producer().append(Campaigns().rows(rows, 1000))
            wait_until(lambda: rows_used(backlog.store) >= rows + 1000, process, "newest rows")
            began = time.monotonic()
            kill(process)
        Topic.open(backlog.topic).producer().append(Campaigns().rows(rows + 1000, 1000))
        epoch = newest_epoch(backlog.store)
        with ending(run_app(folder)) as process:
            again = _seconds_until(backlog, epoch + 1, process, began)
            options.say(f"next epoch after kill -9: {again} s")
    return [Result(FIRST, "s", first, limit=10), Result(AGAIN, "s", again, limit=10)]


def _seconds_until(backlog: Backlog, epoch: int, process: Any, began: float) -> float:
    wait_until(lambda: has_epoch(backlog.store, epoch), process, f"epoch {epoch}")
    return round(time.monotonic() - began, 2)


STORY = """
The app of the catch-up, as a command of its own, JVM included. The first epoch with rows is the second one: the first creates
the tables. Then, with all of the backlog taken, the app is killed with -9 and started again at once; meanwhile rows came.
"""

BENCH = Bench("start", (FIRST, AGAIN), STORY, answer)
