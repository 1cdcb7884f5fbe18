"""The baselines: the same answers by Structured Streaming queries as one writes them by hand, with default settings.

Each writes into SQLite (WAL, synchronous=FULL), as Headrace does. They replay safely: absolute values are upserted, sums are
added together with the number of the batch, in one transaction.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.events import CAMPAIGN_COLUMNS, EVENT_COLUMNS, KEYS

SET = "INSERT INTO {} VALUES (?, ?, ?) ON CONFLICT (k) DO UPDATE SET n = excluded.n, s = excluded.s"
ADD = "INSERT INTO {} VALUES (?, ?, ?) ON CONFLICT (k) DO UPDATE SET n = n + excluded.n, s = s + excluded.s"

Writes = Sequence[tuple[str, Sequence[Sequence[Any]]]]


def session(partitions: int) -> SparkSession:
    """Spark as one starts it, with as many shuffle partitions as suit a small machine."""
    builder = SparkSession.builder.master("local[*]").config("spark.driver.memory", "4g").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.sql.shuffle.partitions", partitions).config("spark.sql.session.timeZone", "UTC")
    spark = builder.config("spark.pyspark.python", sys.executable).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Tables:
    """The SQLite file that the queries keep, with one writer at a time."""

    def __init__(self, file: Path, create: Sequence[str]) -> None:
        self.db = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=60)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        self._lock = Lock()
        for statement in create:
            self.db.execute(statement)

    def write(self, writes: Writes) -> None:
        """All of it in one transaction."""
        with self._lock:
            self.db.execute("BEGIN IMMEDIATE")
            for statement, rows in writes:
                self.db.executemany(statement, rows)
            self.db.execute("COMMIT")


def keep_counts(folder: str, how: str, tables: list[str]) -> None:
    """Keep tables of `bench.events.KEYS` up to date from the files in `in/`, until somebody ends us.

    `queries`: a streaming query per table, its state in Spark. `batches`: one streaming query without state, which aggregates
    each of its batches for every table, side by side, and adds all of that to the tables in one transaction.
    """
    spark, here = session(2 if how == "batches" else 1), Path(folder)
    types = {name: "TEXT" if name == "by_type" else "INTEGER" for name in tables}
    create = [f"CREATE TABLE {name} (k {types[name]} PRIMARY KEY, n INTEGER, s INTEGER)" for name in tables]
    kept = Tables(here / "tables.db", [*create, "CREATE TABLE done (batch INTEGER PRIMARY KEY)"])
    rows = spark.readStream.schema(EVENT_COLUMNS).json(str(here / "in"))
    if how == "queries":
        queries = [_start(_counts(rows, name), "update", _setting(kept, name), here / "checkpoint" / name) for name in tables]
    else:
        queries = [_start(rows, "append", _adding(kept, tables), here / "checkpoint" / "one")]
    (here / "ready").touch()
    while all(query.isActive for query in queries):
        time.sleep(0.5)
    raise RuntimeError(str([query.exception() for query in queries]))


def _start(frame: DataFrame, mode: str, write: Any, checkpoint: Path) -> Any:
    stream = frame.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint))
    return stream.trigger(processingTime="0 seconds").foreachBatch(write).start()


def _counts(rows: DataFrame, table: str) -> DataFrame:
    return rows.groupBy(F.expr(KEYS[table]).alias("k")).agg(F.count("*"), F.sum("value"))


def _setting(kept: Tables, table: str) -> Any:
    return lambda batch, _: kept.write([(SET.format(table), [tuple(row) for row in batch.collect()])])


def _adding(kept: Tables, tables: Sequence[str]) -> Any:
    def one(batch: DataFrame, number: int) -> None:
        if kept.db.execute("SELECT 1 FROM done WHERE batch = ?", (number,)).fetchone():
            return
        batch = batch.persist()
        with ThreadPoolExecutor(len(tables)) as pool:
            sums = pool.map(lambda table: (ADD.format(table), [tuple(r) for r in _counts(batch, table).collect()]), tables)
            writes = list(sums)
        batch.unpersist()
        kept.write([*writes, ("INSERT INTO done VALUES (?)", [(number,)])])

    return one


def count_views(folder: str, rounds: int) -> dict[str, Any]:
    """Views per campaign and ten seconds over all files of `events/`, ten files per batch: seconds of each round.

    A round begins with its first batch and ends when the query does; starting the query is not counted.
    """
    spark, here, seconds = session(2), Path(folder), []
    columns = "campaign_id TEXT, start TEXT, n INTEGER, PRIMARY KEY (campaign_id, start)"
    upsert = "INSERT INTO views VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = excluded.n"
    for number in range(rounds):
        kept = Tables(here / f"streaming-{number}.db", [f"CREATE TABLE views ({columns}) WITHOUT ROWID"])
        events = spark.readStream.schema(CAMPAIGN_COLUMNS).option("maxFilesPerTrigger", 10).parquet(str(here / "events"))
        ads = spark.read.parquet(str(here / "ads.parquet"))
        seen = events.where("event_type = 'view'").select("ad_id", "event_time").join(F.broadcast(ads), "ad_id")
        window = F.window("event_time", "10 seconds")
        counts = seen.withWatermark("event_time", "10 seconds").groupBy("campaign_id", window).count()
        shown = counts.select("campaign_id", F.date_format("window.start", "yyyy-MM-dd HH:mm:ss"), "count")

        def write(batch: DataFrame, _: int, kept: Tables = kept) -> None:
            kept.write([(upsert, [tuple(row) for row in batch.collect()])])

        stream = shown.writeStream.outputMode("update").trigger(availableNow=True).foreachBatch(write)
        query = stream.option("checkpointLocation", str(here / f"checkpoint-{number}")).start()
        query.awaitTermination()
        ended = time.time()
        first = datetime.fromisoformat(query.recentProgress[0]["timestamp"].replace("Z", "+00:00"))
        seconds.append(ended - first.timestamp())
    answer = kept.db.execute("SELECT count(*), sum(n) FROM views").fetchone()
    spark.stop()
    return {"seconds": seconds, "rows": answer[0], "views": answer[1]}
