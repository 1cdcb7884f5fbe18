"""What changes a fingerprint, and what does not."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.definitions import TableDef
from headrace.plan.choose import Input
from headrace.plan.fingerprint import normalised, source_fingerprint, sql_words
from headrace.schema import parse_schema
from tests.plan.conftest import INPUTS, analysed, frame, table

APP = """
    from helper import threshold
    import helper
    from pyspark.sql import functions as F
    LIMIT = 3

    def inner(rows):
        return rows.where("n > 1")

    @F.udf("int")
    def double(n):
        return n * 2

    def opens(events):
        \"\"\"Says what it does.\"\"\"
        return inner(events).where(f"g > {LIMIT}").where(threshold()).where(double("n") > 1)
"""
HELPER = """
    def threshold():
        return "n < 10"
"""
Fingerprint = Callable[..., str]


@pytest.fixture
def fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Fingerprint:
    """`fingerprint(app=..., helper=...)` of a table `opens` in a project of two files."""
    count = iter(range(1000))

    def of(app: str = APP, helper: str = HELPER, change: Callable[[TableDef], TableDef] = lambda t: t, **more: object) -> str:
        folder = tmp_path / f"project_{next(count)}"
        folder.mkdir()
        (folder / "app_of_test.py").write_text(textwrap.dedent(app))
        (folder / "helper.py").write_text(textwrap.dedent(helper))
        monkeypatch.syspath_prepend(str(folder))
        importlib.invalidate_caches()
        for name in ("helper", "app_of_test"):
            sys.modules.pop(name, None)
        module: ModuleType = importlib.import_module("app_of_test")
        definition = change(replace(table("SELECT 1"), name="opens", query=None, function=module.opens))
        inputs = more.pop("inputs", {"events": INPUTS["events"]})
        return source_fingerprint(definition, inputs, more.pop("timezone", "UTC"), **more)  # type: ignore[arg-type]

    return of


def test_comments_and_places_do_not_count(fingerprint: Fingerprint) -> None:
    moved = "\n\n    # A comment.\n" + APP.replace("return inner", "# why\n        return inner").replace("Says", "Tells")
    assert fingerprint() == fingerprint(app=moved)


CHANGES = {
    "the function": {"app": APP.replace('.where(f"g', '.where(f"g + 1')},
    "a function that it calls": {"app": APP.replace("n > 1", "n > 2")},
    "a constant that it reads": {"app": APP.replace("LIMIT = 3", "LIMIT = 4")},
    "a function of another module": {"helper": HELPER.replace("10", "11")},
    "a Python UDF": {"app": APP.replace("n * 2", "n * 3")},
    "the time zone": {"timezone": "Asia/Tokyo"},
    "ANSI": {"ansi": False},
    "the key": {"change": lambda t: replace(t, key=("k",))},
    "an input's schema": {"inputs": {"events": Input("events", "source", parse_schema("k STRING"))}},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_what_changes_the_answer_counts(change: dict[str, object], fingerprint: Fingerprint) -> None:
    assert fingerprint() != fingerprint(**change)


def test_what_it_does_not_use_does_not_count(fingerprint: Fingerprint) -> None:
    assert fingerprint() == fingerprint(app=APP + "\n    OTHER = 5\n\n    def other():\n        return 7\n")


def test_closures_count() -> None:
    def made(n: int) -> Callable[[DataFrame], DataFrame]:
        return lambda events: events.where(f"n > {n}")

    one, two, again = (source_fingerprint(table(made(n)), INPUTS, "UTC") for n in (1, 2, 1))
    assert one != two
    assert one == again


def test_sql_counts_by_its_words() -> None:
    assert sql_words("SELECT  k /* why */ FROM t -- and\nWHERE a = 'x  -- y'") == "SELECT k FROM t WHERE a = 'x  -- y'"
    one, same, other = (
        source_fingerprint(table(q), INPUTS, "UTC")
        for q in ("SELECT k FROM events", "SELECT k\n  FROM events", "SELECT g FROM events")
    )
    assert one == same
    assert one != other


def test_the_plan_made_anew_has_the_same_hash(frames: dict[str, DataFrame]) -> None:
    cte = "WITH a AS (SELECT * FROM events WHERE n > 1) "
    query = cte + "SELECT p.id, q.n FROM a p JOIN a q ON p.id = q.id WHERE p.g IN (SELECT age FROM users)"
    assert normalised(analysed(frames, query)) == normalised(analysed(frames, query))
    assert normalised(analysed(frames, query)) != normalised(analysed(frames, query.replace("n > 1", "n > 2")))


def test_the_plan_over_other_frames_of_the_same_inputs_has_the_same_hash(frames: dict[str, DataFrame]) -> None:
    again = {"events": frame(frames["events"].sparkSession, "events")}
    function = lambda events: events.where("n > 1").groupBy("k").count()  # noqa: E731
    assert normalised(analysed(frames, function)) == normalised(analysed(again, function))
    assert normalised(analysed(frames, function)) != normalised(analysed(frames, lambda events: events.groupBy("k").count()))
