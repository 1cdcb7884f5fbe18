"""A row or a key that makes a function fail: found, named, and, where the table says so, left out for good."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.errors import FunctionFailed
from headrace.store.reader import Reader
from headrace.testing.trial import Trial

GOOD = [{"name": f"n{n}", "number": str(n)} for n in range(5)]
BAD = {"name": "broken", "number": "seven"}


def numbers(query: str, **options: Any) -> hr.App:
    """An app over texts that should be numbers."""
    app = hr.App("numbers")
    app.topic("lines", schema="name STRING, number STRING", partitions=1)
    app.sql("numbers", query=query, **options)
    return app


def rejects(trial: Trial) -> list[Any]:
    """The rows put aside."""
    with Reader(trial.place.store) as reader:
        return list(reader.rejects())


@pytest.fixture
def started(spark: SparkSession, tmp_path: Path) -> Iterator[Any]:
    """Starts trials."""
    made: list[Trial] = []

    def start(app: hr.App) -> Trial:
        made.append(Trial(app.definition(), tmp_path / str(len(made))))
        return made[-1]

    yield start
    for trial in made:
        trial.close()


@pytest.mark.parametrize("gear", ["small", "large"])
@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("SELECT name, CAST(number AS INT) AS n FROM lines", None),
        ("SELECT name, sum(CAST(number AS INT)) AS n FROM lines GROUP BY name", ["name"]),
        ("SELECT name, count(DISTINCT CAST(number AS INT)) AS n FROM lines GROUP BY name", ["name"]),
    ],
    ids=["append", "merge", "recompute"],
)
def test_a_row_is_named(started: Any, query: str, key: list[str] | None, gear: Any) -> None:
    trial = started(numbers(query, key=key))
    trial.append("lines", GOOD)
    trial.epoch(gear=gear)
    before = trial.rows("numbers")
    trial.append("lines", [*GOOD, BAD, *GOOD])
    with pytest.raises(FunctionFailed) as failed:
        trial.epoch(gear=gear)
    said = str(failed.value)
    assert 'table "numbers": its function fails on a row' in said
    assert 'source "lines", partition 0, offset 10' in said
    assert "name='broken', number='seven'" in said
    assert "try_cast" in said
    assert 'on_error="reject"' in said
    assert trial.head.epoch == 2
    assert trial.rows("numbers") == before


@pytest.mark.parametrize("gear", ["small", "large"])
def test_rejected_rows_stay_out(started: Any, gear: Any) -> None:
    trial = started(
        numbers("SELECT name, sum(CAST(number AS INT)) AS n FROM lines GROUP BY name", key=["name"], on_error="reject")
    )
    trial.append("lines", [*GOOD, BAD, {"name": "n1", "number": "x"}])
    assert trial.epoch(gear=gear)
    expected = [{"name": f"n{n}", "n": n} for n in range(5)]
    assert trial.rows("numbers") == expected
    found = rejects(trial)
    assert [(r.table, r.partition, r.offset, r.reason) for r in found] == [
        ("numbers", 0, 5, "function_failed"),
        ("numbers", 0, 6, "function_failed"),
    ]
    report = trial.verify()
    assert report.ok, report.as_json()
    assert [(s.rows, s.used, s.rejects) for s in report.sources] == [(7, 5, 2)]


def test_a_rejected_row_stays_out_of_later_fetches(started: Any) -> None:
    """A recompute fetches the rows of a partition again: those that were rejected must not come along."""
    query = "SELECT name, count(DISTINCT CAST(number AS INT)) AS n FROM lines GROUP BY name"
    trial = started(numbers(query, key=["name"], on_error="reject"))
    trial.append("lines", [{"name": "a", "number": "1"}, {"name": "a", "number": "x"}])
    trial.epoch()
    trial.append("lines", [{"name": "a", "number": "2"}])
    trial.epoch()
    assert trial.rows("numbers") == [{"name": "a", "n": 2}]
    trial.restart()
    trial.append("lines", [{"name": "a", "number": "3"}])
    trial.epoch()
    assert trial.rows("numbers") == [{"name": "a", "n": 3}]
    assert len(rejects(trial)) == 1
    assert trial.verify().ok


def test_an_unchanged_function_keeps_its_rejects_and_a_changed_one_judges_anew(started: Any) -> None:
    query = "SELECT name, sum(CAST(number AS INT)) AS n FROM lines GROUP BY name"
    app = numbers(query, key=["name"], on_error="reject")
    trial = started(app)
    trial.append("lines", [*GOOD, BAD])
    trial.epoch()
    trial.restart(numbers(query, key=["name"], on_error="reject").definition())
    assert len(rejects(trial)) == 1
    changed = query.replace("CAST(number AS INT)", "coalesce(try_cast(number AS INT), 7)")
    trial.restart(numbers(changed, key=["name"], on_error="reject").definition())
    assert {"name": "broken", "n": 7} in trial.rows("numbers")
    assert rejects(trial) == []
    report = trial.verify()
    assert report.ok, report.as_json()


def test_a_key_is_named(started: Any) -> None:
    app = hr.App("shares")
    app.topic("sales", schema="shop STRING, won INT, lost INT", partitions=1)
    app.sql("shares", key=["shop"], query="SELECT shop, sum(won) / sum(lost) AS share FROM sales GROUP BY shop")
    trial = started(app)
    trial.append("sales", [{"shop": shop, "won": 1, "lost": 1} for shop in "abcd"])
    trial.epoch()
    trial.append("sales", [{"shop": shop, "won": 1, "lost": -1 if shop == "c" else 1} for shop in "abcd"])
    with pytest.raises(FunctionFailed) as failed:
        trial.epoch()
    said = str(failed.value)
    assert 'table "shares": its function fails on a key' in said
    assert "c" in said.split("key: ")[1].splitlines()[0]
    assert "try_divide" in said
    assert trial.head.epoch == 2


def test_an_overflow_names_its_key(started: Any) -> None:
    app = hr.App("sums")
    app.topic("numbers", schema="k STRING, n BIGINT", partitions=1)
    app.sql("sums", key=["k"], query="SELECT k, sum(n) AS n FROM numbers GROUP BY k")
    trial = started(app)
    most = 2**63 - 1
    trial.append("numbers", [{"k": "a", "n": 1}, {"k": "b", "n": most}])
    trial.epoch()
    trial.append("numbers", [{"k": "a", "n": 1}, {"k": "b", "n": 1}])
    with pytest.raises(FunctionFailed) as failed:
        trial.epoch()
    assert 'table "sums"' in str(failed.value)
    assert "b" in str(failed.value).split("key: ")[1].splitlines()[0]
    # The same key comes back into range with the next rows: it is judged by its sum, not by the order of rows.
    assert trial.rows("sums") == [{"k": "a", "n": 1}, {"k": "b", "n": most}]


def test_a_python_function_that_raises(started: Any) -> None:
    @F.udf("INT")
    def length(text: str) -> int:
        if text == "seven":
            raise ValueError("no such number")
        return len(text)

    app = hr.App("python")
    app.topic("lines", schema="name STRING, number STRING", partitions=1)

    @app.table
    def lengths(lines: DataFrame) -> DataFrame:
        return lines.select("name", length("number").alias("n"))

    trial = started(app)
    trial.append("lines", [*GOOD, BAD])
    with pytest.raises(FunctionFailed) as failed:
        trial.epoch()
    assert "no such number" in str(failed.value)
    assert "offset 5" in str(failed.value)


@pytest.mark.parametrize("lane", ["merge", "recompute"])
def test_a_row_that_a_filter_clause_keeps_out_is_not_blamed(started: Any, lane: str) -> None:
    also = {"merge": "count(*)", "recompute": "array_sort(collect_list(number))"}[lane]
    query = f"SELECT name, sum(CAST(number AS INT)) FILTER (WHERE number <> 'none') AS n, {also} AS m FROM lines GROUP BY name"
    trial = started(numbers(query, key=["name"], on_error="reject"))
    assert trial.engine.workshop.tables["numbers"].plan.lane == lane
    trial.append("lines", [{"name": "kept", "number": "none"}, BAD])
    trial.epoch()
    assert [(reject.partition, reject.offset) for reject in rejects(trial)] == [(0, 1)]
    assert [row["name"] for row in trial.rows("numbers")] == ["kept"]
    assert trial.verify().ok


def test_a_row_is_blamed_for_what_spark_computes_although_a_filter_clause_says_no(started: Any) -> None:
    query = "SELECT name, count(DISTINCT CAST(number AS INT)) FILTER (WHERE number <> 'none') AS n FROM lines GROUP BY name"
    trial = started(numbers(query, key=["name"], on_error="reject"))
    trial.append("lines", [*GOOD, {"name": "out", "number": "none"}])
    trial.epoch()
    assert [reject.offset for reject in rejects(trial)] == [len(GOOD)]
    assert trial.verify().ok
