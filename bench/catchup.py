"""Catch-up: ten million events behind, until the table is committed.

python -m bench catchup
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.bench import Bench, Options
from bench.events import Campaigns, views_in
from bench.log import Backlog, fill
from bench.processes import app_in, call
from bench.results import Result
from headrace.cli.loading import import_app
from headrace.cli.target import Target

FILES = 20


def write_files(folder: Path, rows: int) -> int:
    """The events as Parquet files, and the ads; returns how many views there are."""
    campaigns, views = Campaigns(), 0
    (folder / "events").mkdir(parents=True)
    campaigns.write_ads(folder / "ads.parquet")
    for number in range(FILES):
        part = campaigns.rows(number * rows // FILES, rows // FILES)
        views += views_in(part)
        pq.write_table(part, folder / "events" / f"part-{number:02}.parquet")
    return views


def drain(folder: str, rounds: int) -> dict[str, Any]:
    """The app over the whole log, several times in one process, each with a new store: seconds of each round.

    A round begins when the tables are planned and the store is open, and ends when the last epoch is committed.
    """
    here, seconds = Path(folder), []
    os.environ["BENCH_ADS"] = str(here / "ads.parquet")
    app = import_app(Target(here / "app.py", None))
    place = app.place()
    for _ in range(rounds):
        for file in place.folder.glob("store.db*"):
            file.unlink()
        said: dict[str, float] = {}

        def note(event: Any, said: dict[str, float] = said) -> None:
            said[event.message] = time.monotonic()

        app.run(once=True, report=note)
        seconds.append(said["committed"] - said["running"])
    with closing(sqlite3.connect(place.store)) as db:
        rows, views = db.execute("SELECT count(*), sum(n) FROM views").fetchone()
    return {"seconds": seconds, "rows": rows, "views": views}


QUESTION = "catch-up, 10 M events of the Yahoo benchmark behind, typed, to the committed table"


def answer(options: Options) -> list[Result]:
    """Headrace over its log, Structured Streaming over Parquet files with the same rows."""
    rows, rounds = (2_000_000, 2) if options.quick else (10_000_000, 4)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        views = write_files(folder, rows)
        backlog = Backlog(app_in(folder, "campaigns"), "campaigns")
        fill(backlog, sorted((folder / "events").glob("*.parquet")))
        options.say(f"{rows:,} events written, {views:,} of them views; the log: {backlog.sealed()}")
        found = {}
        for contender, role in (("Headrace", "bench.catchup:drain"), ("Structured Streaming", "bench.streaming:count_views")):
            found[contender] = call(role, folder=str(folder), rounds=rounds)
            options.say(f"{contender}: {', '.join(f'{s:.2f} s' for s in found[contender]['seconds'])}")
    ours, theirs = found["Headrace"], found["Structured Streaming"]
    if not views == ours["views"] == theirs["views"] or ours["rows"] != theirs["rows"]:
        raise RuntimeError(f"the answers differ: {views}, {ours}, {theirs}")
    # The first round in a process warms the JVM up; of the others the best counts, for both.
    speed, baseline = (round(rows / min(each["seconds"][1:])) for each in (ours, theirs))
    return [Result(QUESTION, "events/s", speed, baseline, 1.0, "more")]


STORY = """
Views joined with 1,000 ads, counted per campaign and ten seconds of event time, committed to SQLite. Headrace reads its log
as its producer has left it, and begins with an empty store; the baseline is one hand-written streaming query over 20 Parquet
files with the same rows, ten files per batch, `availableNow`. In each process the first round warms the JVM up; of the
others the best counts. Starting Spark, planning and starting the query are counted for neither. Where the target is missed:
ten million rows are at least four epochs here (one million first, then four at most), each with its own listing, plan and
commit, and two batches there.
"""

BENCH = Bench("catchup", (QUESTION,), STORY, answer)
