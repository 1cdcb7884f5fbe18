"""Orders that the rows do not decide: said when they show, and counted apart by verify, row by row."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

import headrace as hr
from headrace.errors import FunctionFailed
from headrace.testing import Trial

ROWS = [("x", 1, 10), ("x", 2, 20), ("y", 5, 50), ("y", 5, 51)]


def newest_app(on_tie: str) -> hr.App:
    app = hr.App("ties")
    app.topic("events", schema="k STRING, a BIGINT, b BIGINT")

    @app.table(key=["k"], on_tie=on_tie)
    def newest(events: DataFrame) -> DataFrame:
        ordered = Window.partitionBy("k").orderBy(F.desc("a"))
        return events.withColumn("r", F.row_number().over(ordered)).where("r = 1").select("k", "a", "b")

    return app


def test_a_tie_is_counted_apart_and_nothing_else_is(spark: object, tmp_path: Path) -> None:
    with Trial(newest_app("warn").definition(), tmp_path) as trial:
        trial.append("events", [dict(zip("kab", row, strict=True)) for row in ROWS])
        trial.epoch()
        (ties,) = trial.engine.ties.values()
        assert (ties.rows, ties.example) == (2, "'y', 5")
        store = trial.place.store
        trial.abandon()
        with sqlite3.connect(store) as db:
            ((shown,),) = db.execute("SELECT b FROM newest WHERE k = 'y'").fetchall()
            db.execute("UPDATE newest SET b = ? WHERE k = 'y'", (101 - shown,))
        trial.restart()
        (report,) = trial.verify().tables
        assert (report.different, report.tied) == (0, 1)
        trial.abandon()
        with sqlite3.connect(store) as db:
            db.execute("UPDATE newest SET b = 21 WHERE k = 'x'")
        trial.restart()
        (report,) = trial.verify().tables
        assert (report.different, report.tied, [d.key for d in report.first]) == (1, 1, ["k='x'"])


def test_on_tie_stop_stops_and_names_the_tie(spark: object, tmp_path: Path) -> None:
    with Trial(newest_app("stop").definition(), tmp_path) as trial:
        trial.append("events", [dict(zip("kab", row, strict=True)) for row in ROWS])
        with pytest.raises(FunctionFailed, match="rows tie in row_number"):
            trial.epoch()
        assert trial.head.epoch == 1
