"""An app from Python: start, append, wait, read, follow, stop. And conditions, judged as Spark judges them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import types as T

import headrace as hr
from headrace.errors import DefinitionError, UsageError, WorldError
from headrace.schema import arrow_schema, parse_schema
from headrace.where import condition


def opens_app(data):
    app = hr.App("phones", data=data)
    app.topic("events", schema="phone_id STRING, action STRING")
    app.sql("opens", key=["phone_id"], query="SELECT phone_id, count(*) AS n FROM events WHERE action = 'open' GROUP BY phone_id")
    return app


def test_rows_that_were_waited_for_are_there(tmp_path):
    app = hr.App("phones", data=tmp_path)
    events = app.topic("events", schema="phone_id STRING, action STRING")

    @app.table(key=["phone_id"])
    def actions(events):
        return events.groupBy("phone_id").count()

    with app.start() as run:
        first = run.wait(events.append([{"phone_id": "a", "action": "open"}, {"phone_id": "b"}]), timeout=120)
        position = events.append([{"phone_id": "a", "action": "close"}])
        assert run.wait(position.token, timeout=60) > first
        assert run.status().state == "running"
        found = actions.read(after=position)
        assert sorted(found.to_pandas().itertuples(index=False, name=None)) == [("a", 2), ("b", 1)]
        assert found.to_arrow().schema.field("count").type == pa.int64()
        assert app.read("actions", as_of=first, where="phone_id = 'a'").to_dicts() == [{"phone_id": "a", "count": 1}]
        assert len(app.read("ACTIONS", where="count > 1")) == 1
        with pytest.raises(TimeoutError):
            run.wait(found.epoch + 1_000, timeout=0.05)
    told = [(change.key, change.before, change.after) for change in actions.changes(after=first)]
    assert told == [(("a",), {"phone_id": "a", "count": 1}, {"phone_id": "a", "count": 2})]
    assert [change.key[0] for change in app.changes("actions")][:2] in (["a", "b"], ["b", "a"])
    with pytest.raises(WorldError, match="has ended"):
        run.wait(found.epoch + 1_000)
    other = hr.App("other", data=tmp_path)
    with pytest.raises(UsageError, match="no tables yet"):
        other.read("actions")
    with pytest.raises(UsageError, match="exclude each other"):
        app.read("actions", as_of=1, after=1)


def test_an_app_that_cannot_be_kept_fails_in_wait_and_leaves_word(tmp_path):
    from headrace.running import failure

    app = hr.App("broken", data=tmp_path)
    events = app.topic("events", schema="a INT")
    app.sql("wrong", "SELECT a, rand() AS r FROM events")
    position = events.append([{"a": 1}])
    with pytest.raises(DefinitionError, match="rand"), app.start() as run:
        run.wait(position, timeout=120)
    assert "rand" in (failure(app.place()) or "")


def test_a_position_of_another_topic_is_refused(tmp_path):
    app = opens_app(tmp_path)
    elsewhere = hr.App("elsewhere", data=tmp_path).topic("events", schema="a INT").append([{"a": 1}])
    with pytest.raises(UsageError, match="of no topic of phones"):
        app.read("opens", after=elsewhere)
    with pytest.raises(UsageError, match="position token"):
        app.read("opens", after="p.nonsense")


COLUMNS = parse_schema("i INT, s STRING, x DOUBLE, d DECIMAL(6,2), b BOOLEAN, day DATE, at TIMESTAMP")
ROWS = pa.Table.from_pylist(
    [
        {
            "i": 1,
            "s": "a",
            "x": 1.5,
            "d": Decimal("1.50"),
            "b": True,
            "day": dt.date(2026, 1, 1),
            "at": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc),
        },
        {"i": 2, "s": "B", "x": float("nan"), "d": Decimal("10.00"), "b": False, "day": dt.date(2026, 2, 1), "at": None},
        {"i": None, "s": None, "x": None, "d": None, "b": None, "day": None, "at": None},
    ],
    schema=arrow_schema(COLUMNS),
)


@pytest.mark.parametrize(
    "text",
    [
        "i = 1", "1 < i", "i <> 1", "NOT i = 1", "i IN (1, 3)", "i NOT IN (1, 3)", "i IS NULL",
        "i IS NOT NULL", "i BETWEEN 0 AND 1",
        "i = 1 OR s IS NULL", "i = 1 AND s = 'a'", "NOT (i = 1 AND s = 'x')", "s = 'b'", "s >= 'B'", "x > 1",
        "x >= 100", "x < 100",
        "x = 1.5", "x <> 1.5", "NOT x > 1", "d < 2", "d > 9.5", "d = -1.5", "b", "NOT b", "b = true", "day = '2026-01-01'",
        "at >= '2026-01-01T00:00:00Z'", "at = '2026-01-01T01:00:00+01:00'", "(i > 0)",
    ],
)  # fmt: skip
def test_conditions_are_judged_as_spark_judges_them(spark, text):
    expected = spark.createDataFrame(ROWS).where(text).select("i").toArrow().column("i").to_pylist()
    assert condition(text, COLUMNS)(ROWS).column("i").to_pylist() == expected


@pytest.mark.parametrize(
    "text",
    ["i = '1'", "s = 1", "s LIKE 'a%'", "i + 1 = 2", "i = x", "upper(s) = 'A'", "rand() > 0", "i IN (SELECT 1)", "s",
     "x = 'NaN'", "at = '2026-01-01'", "d = 1.123", "i = 1.5", "ghost = 1", "i = (", "t.i = 1", "i = 99999999999"],
)  # fmt: skip
def test_what_cannot_be_judged_exactly_is_refused(text):
    with pytest.raises(UsageError):
        condition(text, COLUMNS)(ROWS)


def test_columns_are_found_whatever_the_letter_case():
    assert condition("I = 1", T.StructType(COLUMNS.fields))(ROWS).num_rows == 1
