"""The core of everything on a master of choice: `python -m tests.crash.on_cluster MASTER FOLDER`.

Lanes of every kind, tables over tables, a Python function, both gears, sealed and unsealed segments, and processes of Spark
that are ended in the middle of an epoch. Says the tables' rows, which do not depend on the master.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

import headrace as hr
from headrace.log.topic import Topic
from headrace.settings import Settings
from headrace.testing.trial import Trial

WORDS = ("ant", "bee", "cat", "dog", "eel")
ROWS = 3_000
SEGMENT_BYTES = 4_000


def build(flags: str) -> hr.App:
    """The app; strikes are counted in a folder that every process sees."""
    app = hr.App("cluster")
    app.topic("words", schema="word STRING, n INT, strike STRING", partitions=2)

    def parent(pid: int) -> int:
        stat = Path(f"/proc/{pid}/stat").read_text()
        return int(stat[stat.rindex(")") + 2 :].split()[1])

    @F.udf(T.StringType())
    def upper(word: str, strike: str | None) -> str:
        """The word in capitals; a row with a strike ends the JVM that computes it, once."""
        if strike and not Path(flags, strike).exists():
            Path(flags, strike).touch()
            os.kill(parent(parent(os.getpid())), signal.SIGKILL)
            signal.pause()
        return word.upper()

    @app.table(key=["capitals"])
    def counts(words: DataFrame) -> DataFrame:
        """Merge, behind a Python function."""
        return words.groupBy(upper("word", "strike").alias("capitals")).agg(F.count("*").alias("n"), F.sum("n").alias("total"))

    @app.table
    def even(words: DataFrame) -> DataFrame:
        """Append."""
        return words.where("n % 2 = 0").select("word", "n")

    # Recompute, by a partition; and a table over a table.
    app.sql(
        "widest",
        key=["word"],
        query="SELECT word, count(DISTINCT n) AS n, array_sort(collect_set(n % 5)) AS seen FROM words GROUP BY word",
    )
    app.sql("most", key=["n"], query="SELECT n, count(*) AS words FROM counts GROUP BY n")
    return app


def rows(first: int, count: int) -> list[dict[str, object]]:
    """Numbered rows."""
    return [{"word": WORDS[n % len(WORDS)], "n": n} for n in range(first, first + count)]


def main(master: str, folder: Path) -> None:
    """Epochs in both gears, and what came of them."""
    flags = folder / "flags"
    flags.mkdir(parents=True)
    settings = Settings(spark_master=master, spark_memory="1g")
    with Trial(build(str(flags)).definition(), folder / "data", settings=settings) as trial:
        trial.append("words", rows(0, 20))
        trial.epoch(gear="small")
        log = Topic.open(trial.place.folder / "log" / "words", segment_bytes=SEGMENT_BYTES)
        for first in range(20, ROWS, 500):
            log.producer("many").append(rows(first, min(500, ROWS - first)), sequence=first)
        log.seal()
        if "cluster" in master:
            trial.append("words", [{"word": "fox", "n": ROWS, "strike": "large"}])
        trial.epoch(gear="large")
        if "cluster" in master:
            trial.append("words", [{"word": "fox", "n": ROWS + 1, "strike": "small"}])
        trial.epoch(gear="small")
        report = trial.verify()
        print(
            json.dumps(
                {
                    "sealed": len(list((trial.place.folder / "log").rglob("*.parquet"))),
                    "strikes": sorted(flag.name for flag in flags.iterdir()),
                    "ok": report.ok,
                    "report": report.as_json(),
                    "counts": trial.rows("counts"),
                    "even": len(trial.rows("even")),
                    "widest": trial.rows("widest"),
                    "most": trial.rows("most"),
                },
                default=str,
            ),
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
