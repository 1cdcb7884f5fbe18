"""Dying while an edited app is rebuilt, and going on with the edit or without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.definitions import AppDef
from headrace.runtime.protocol import CrashPoint
from headrace.store.reader import Reader
from headrace.testing.trial import Abandoned, Trial

COUNTED = "SELECT page, count(*) AS n FROM visits GROUP BY page"
COUNTED_AGAIN = "SELECT page, count(*) + 0 * count(user) AS n FROM visits GROUP BY page"
WIDER = "SELECT page, count(*) AS n, count(DISTINCT user) AS users FROM visits GROUP BY page"


def edited(query: str) -> AppDef:
    """The app with this query."""
    app = hr.App("edited")
    app.topic("visits", schema="page STRING, user STRING", partitions=2)
    app.sql("pages", key=["page"], query=query)
    app.sql("busy", key=["page"], query="SELECT page, n FROM pages WHERE n > 3")
    return app.definition()


def kinds(trial: Trial) -> list[str]:
    """What each epoch was."""
    with Reader(trial.place.store) as reader:
        return [row.kind for row in reader.ledger()]


@pytest.fixture
def trial(spark: SparkSession, tmp_path: Path) -> Any:
    with Trial(edited(COUNTED), tmp_path) as trial:
        trial.append("visits", [{"page": f"p{n % 4}", "user": f"u{n}"} for n in range(18)])
        trial.epoch()
        yield trial


@pytest.mark.parametrize("query", [COUNTED_AGAIN, WIDER], ids=["difference", "swap"])
@pytest.mark.parametrize("side", ["before", "after"])
def test_dying_around_the_commit_of_a_rebuild(trial: Trial, side: str, query: str) -> None:
    before = trial.rows("busy")
    with pytest.raises(Abandoned):
        trial.restart(edited(query), crash=CrashPoint(side, "commit", None))
    trial.restart(edited(query))
    assert kinds(trial) == ["create", "epoch", "rebuild"]
    assert [(row["page"], row["n"]) for row in trial.rows("pages")] == [("p0", 5), ("p1", 5), ("p2", 4), ("p3", 4)]
    assert trial.rows("busy") == before
    trial.append("visits", [{"page": "p3", "user": "u1"}])
    trial.epoch()
    assert {row["page"]: row["n"] for row in trial.rows("busy")}["p3"] == 5
    report = trial.verify()
    assert report.ok, report.as_json()


def test_an_edit_that_is_taken_back_after_dying_in_it(trial: Trial) -> None:
    """Memory that the edit had no use for may be gone already: then the old function makes it again."""
    before = trial.rows("pages")
    with pytest.raises(Abandoned):
        trial.restart(edited(WIDER), crash=CrashPoint("before", "commit", None))
    trial.restart(edited(COUNTED))
    assert trial.rows("pages") == before
    report = trial.verify()
    assert report.ok, report.as_json()
