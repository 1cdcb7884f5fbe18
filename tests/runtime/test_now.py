"""hr.now(): the clock of the row's epoch, in every gear, after a restart, in a rebuild and in batch."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import headrace as hr
from headrace.errors import NotKeptUp
from headrace.testing import run_epochs


def test_rows_have_the_clock_of_their_epoch_in_live_and_in_batch(spark: object) -> None:
    app = hr.App("clocks")
    app.topic("events", schema="k STRING, n BIGINT", partitions=2, partition_by="k")

    @app.table
    def seen(events: DataFrame) -> DataFrame:
        return events.select("k", "n", hr.now().alias("at"))

    @app.table(key=["k"])
    def first(events: DataFrame) -> DataFrame:
        return (
            events.select("k", hr.now().alias("at"))
            .groupBy("k")
            .agg(F.min("at").alias("first"), F.countDistinct("at").alias("times"))
        )

    out = run_epochs(app, [[{"k": "a", "n": 1}, {"k": "b", "n": 2}], [{"k": "a", "n": 3}]])
    at = {row["n"]: row["at"] for row in out.table("seen")}
    assert at[1] == at[2]
    assert at[3] > at[1]
    assert {(row["k"], row["first"], row["times"]) for row in out.table("first")} == {("a", at[1], 2), ("b", at[1], 1)}
    out.verify()


def test_a_condition_with_now_is_refused(spark: object) -> None:
    app = hr.App("expiring")
    app.topic("events", schema="k STRING, time TIMESTAMP")

    @app.table
    def fresh(events: DataFrame) -> DataFrame:
        return events.where(F.col("time") > hr.now())

    with pytest.raises(NotKeptUp, match="rows do not expire"):
        run_epochs(app, [[{"k": "a"}]])
