"""hr.latest, hr.random and hr.now."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.errors import DefinitionError, NotAvailable
from headrace.testing import run_epochs


@pytest.fixture(autouse=True)
def shared_spark(spark: SparkSession) -> SparkSession:
    return spark


def phones() -> hr.App:
    app = hr.App("phones")
    app.topic("events", "phone STRING, n INT, state STRING, more MAP<STRING, INT>", partitions=1)
    return app


def test_the_newest_row_of_each_key_ties_decided_by_position():
    app = phones()

    @app.table
    def newest(events):
        return hr.latest(events, by="phone", order="n")

    @app.table
    def by_state(newest):
        return hr.latest(newest.select("phone", "n", "state"), by="state", order=["n"])

    epochs = [
        [{"phone": "a", "n": 1, "state": "open"}, {"phone": "b", "n": None, "state": "open"}],
        [{"phone": "a", "n": 1, "state": "shut", "more": {"x": 1}}, {"phone": "a", "n": 0, "state": "late"}],
        [{"phone": None, "n": 5, "state": "shut"}, {"phone": "b", "n": None, "state": "shut"}],
    ]
    with run_epochs(app, epochs) as out:
        plan = out._trial.engine.workshop.tables["newest"].plan
        assert (plan.lane, plan.key) == ("merge", ("phone",))
        assert [(row["phone"], row["state"]) for row in out.table("newest")] == [(None, "shut"), ("a", "shut"), ("b", "shut")]
        assert out.table("by_state") == [{"phone": None, "n": 5, "state": "shut"}]
        out.verify()


def test_a_number_from_the_rows_position_is_the_same_in_every_run():
    app = phones()

    @app.table
    def sampled(events):
        return events.select("phone", hr.random(seed=7).alias("r"), hr.random(seed=8).alias("q"))

    rows = [{"phone": str(i)} for i in range(200)]
    with run_epochs(app, [rows]) as once, run_epochs(app, [rows[:50], rows[50:]]) as twice:
        numbers = [row["r"] for row in once.table("sampled")]
        assert once.table("sampled") == twice.table("sampled")
        assert len(set(numbers)) == 200
        assert all(0 <= n < 1 for n in numbers)
        assert 0.4 < sum(numbers) / 200 < 0.6
        assert all(row["r"] != row["q"] for row in once.table("sampled"))
        twice.verify()


def test_what_is_not_there_says_so(spark: SparkSession):
    with pytest.raises(NotAvailable, match="count_window"):
        _ = hr.count_window
    with pytest.raises(DefinitionError, match="no column"):
        hr.latest(spark.range(1), by="phone", order="id")
