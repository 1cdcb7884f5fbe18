"""Sums of doubles: live and batch add them in different orders, and tables over them follow."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace import App
from headrace.lanes.tolerance import close
from headrace.testing import Trial
from tests.lanes.kit import run


def test_tables_over_sums_of_doubles_agree_within_the_tolerance(tmp_path: Path):
    app = App("doubles")
    app.topic("events", "k STRING, g INT, x DOUBLE")
    app.sql("sums", "SELECT k, max(g) AS g, sum(x) AS s, stddev(x) AS sd FROM events GROUP BY k")
    app.sql("twice", "SELECT k, s * 2 AS s2, struct(s, k) AS both FROM sums")
    app.sql("keyless", "SELECT s / 3 AS third FROM sums")
    app.sql("best", "SELECT g, max(s) AS best, count(*) AS n FROM sums GROUP BY g")
    app.sql("joined", "SELECT e.k, count(*) AS n, max(t.s2) AS s2 FROM events e JOIN twice t ON e.k = t.k GROUP BY e.k")
    app.sql("alone", "SELECT k, sum(x) OVER (PARTITION BY k) AS s, g, x FROM events", key=["k", "g", "x"])
    epochs = [[{"k": "ab"[i % 2], "g": i % 3, "x": 0.1 * (i + n)} for i in range(3)] for n in (1, 10, 1000)]
    with run(app, tmp_path, epochs) as running:
        assert {row["k"]: row["n"] for row in running.rows("joined")} == {"a": 6, "b": 3}


def test_structs_and_lists_are_compared_part_by_part():
    assert close({"s": 0.1 + 0.2, "k": "a"}, {"s": 0.3, "k": "a"})
    assert not close({"s": 0.1, "k": "a"}, {"s": 0.1, "k": "b"})
    assert close([0.3, None], [0.1 + 0.2, None])
    assert not close([0.3], [0.3, 0.3])


def test_whole_numbers_beside_a_sum_are_exact():
    assert not close({"s": 0.3, "id": 10**15}, {"s": 0.3, "id": 10**15 + 1})
    assert not close([10**15], [10**15 + 1], bound=1e9)


@pytest.mark.parametrize(("one", "other"), [(float("nan"), 0.0), (float("inf"), 1e308), (None, 0.0), (1.0, 1.0 + 1e-9)])
def test_what_is_apart_is_apart(one: float | None, other: float | None):
    assert not close(one, other)


@pytest.mark.parametrize("table", ["merged", "windowed", "grouped", "over", "renamed"])
def test_sums_that_cancel_may_be_as_far_apart_as_their_magnitudes_say(cancelling: Trial, table: str):
    """Sums near 0 of values near 1e16, whose last digit is worth 2: a hair's breadth of the magnitudes, and no more."""
    with moved(cancelling, table, by=2.0):
        report = cancelling.verify()
        assert report.ok, report
        assert {t.name: t.tolerance_used for t in report.tables}[table] == 1
    with moved(cancelling, table, by=2e6):
        assert {t.name: t.different for t in cancelling.verify().tables}[table] == 1


def test_what_is_infinite_makes_nothing_else_uncertain(cancelling: Trial):
    cancelling.append("events", [{"k": "b", "x": float("inf")}, {"k": "c", "x": 0.1}])
    cancelling.epoch()
    assert cancelling.verify().ok
    for table in ("merged", "windowed", "grouped"):
        with moved(cancelling, table, by=1e6, k="c"):
            assert {t.name: t.different for t in cancelling.verify().tables}[table] == 1


@pytest.fixture(scope="module")
def cancelling(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    app = App("cancelling")
    app.topic("events", "k STRING, x DOUBLE")
    app.sql("merged", "SELECT k, sum(x) AS s FROM events GROUP BY k")
    app.sql(
        "windowed", "SELECT k, max(s) AS s FROM (SELECT k, sum(x) OVER (PARTITION BY k) AS s FROM events) GROUP BY k", key="k"
    )
    app.sql("grouped", "SELECT k, sum(x) FILTER (WHERE x <> 0) AS s, count(DISTINCT x) AS n FROM events GROUP BY k")
    app.sql("over", "SELECT substr(k, 1, 1) AS k, sum(s) AS s FROM merged GROUP BY substr(k, 1, 1)")
    app.sql("renamed", "SELECT k, -s AS s FROM merged")
    with Trial(app.definition(), tmp_path_factory.mktemp("cancelling")) as trial:
        for x in (1e16, 1.0, -1e16, 3.0):
            trial.append("events", [{"k": "a", "x": x}])
            trial.epoch()
        yield trial


@contextmanager
def moved(trial: Trial, table: str, *, by: float, k: str = "a") -> Iterator[None]:
    """A stored value that is not what it was."""
    for distance in (by, -by):
        with closing(sqlite3.connect(trial.place.store)) as db, db:
            assert db.execute(f"UPDATE {table} SET s = s + ? WHERE k = ?", (distance, k)).rowcount == 1
        if distance == by:
            yield
