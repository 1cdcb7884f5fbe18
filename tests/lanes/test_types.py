"""Exact types: what goes through a lane comes out as it was, as a key and as a value, in both gears."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headrace import App
from headrace.spark.query import Gear
from tests.lanes.kit import lane, run, same

UTC = dt.timezone.utc
NAN = float("nan")
TYPES: dict[str, tuple[str, list[Any]]] = {
    "bool": ("BOOLEAN", [True, False, None]),
    "tiny": ("TINYINT", [-128, 127, None]),
    "long": ("BIGINT", [-(2**63), 2**63 - 1, 2**53 + 1, None]),
    "real": ("FLOAT", [0.5, NAN, float("-inf"), None]),
    "number": ("DOUBLE", [0.1, NAN, float("inf"), 5e-324, 1.7976931348623157e308, None]),
    "money": ("DECIMAL(38,10)", [Decimal("9999999999999999999999999999.9999999999"), Decimal("-0.0000000001"), None]),
    "text": ("STRING", ["", "a", "A", "a ", "é", "e\u0301", "\x00", "🙂", None]),
    "bytes": ("BINARY", [b"", b"\x00", b"\xff", None]),
    "day": ("DATE", [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 10), None]),
    "moment": ("TIMESTAMP", [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(2026, 3, 29, 1, 30, 0, 1, tzinfo=UTC), None]),
    "wall": ("TIMESTAMP_NTZ", [dt.datetime(1, 1, 1), dt.datetime(2026, 3, 29, 2, 30, 0, 1), None]),
    "list": ("ARRAY<STRING>", [[], [None], ["a", "a"], None]),
    "pair": ("STRUCT<p: INT, q: STRUCT<r: DECIMAL(5,2)>>", [{"p": 1, "q": {"r": Decimal("1.50")}}, {"p": None, "q": None}, None]),
}


def topic_rows(name: str) -> list[list[dict[str, Any]]]:
    """Each value twice, in epochs of their own."""
    values = TYPES[name][1]
    return [[{"id": i, "v": v} for i, v in enumerate(values)], [{"id": 100 + i, "v": v} for i, v in enumerate(reversed(values))]]


@pytest.mark.parametrize("gear", ["small", "large"])
def test_values_and_keys_are_what_they_were(tmp_path: Path, gear: Gear):
    app = App("exact")
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
    app.topic("events", f"id INT, {columns}, tags MAP<STRING, INT>")
    app.sql("kept", "SELECT * FROM events")
    app.sql("joined", "SELECT a.* FROM events a LEFT JOIN events b ON a.id = b.id + 1", key="id")
    for name in TYPES:
        app.sql(
            f"by_{name}",
            f"SELECT {name} AS v, count(*) AS n, max_by({name}, struct(_partition, _offset)) AS last FROM events GROUP BY {name}",
        )
    longest = max(len(values) for _, values in TYPES.values())
    rows = [
        {"id": i, "tags": {"x": i, "y": None}, **{name: values[i % len(values)] for name, (_, values) in TYPES.items()}}
        for i in range(longest * 2)
    ]
    with run(app, tmp_path, [rows[:5], rows[5:]], gear) as running:
        assert (lane(running, "kept"), lane(running, "joined")) == ("append", "recompute")
        for table in ("kept", "joined"):
            stored = {row["id"]: row for row in running.rows(table)}
            for row in rows:
                for name, value in row.items():
                    got = dict(stored[row["id"]][name]) if name == "tags" else stored[row["id"]][name]
                    assert same(got, value), (table, name, got, value)
        for name, (_, values) in TYPES.items():
            assert lane(running, f"by_{name}") == "merge"
            groups = running.rows(f"by_{name}")
            assert len(groups) == len(values), (name, groups)
            for group in groups:
                assert same(group["last"], group["v"]), (name, group)


@pytest.mark.parametrize("gear", ["small", "large"])
def test_zeros_are_one_key_and_nan_is_one_key(tmp_path: Path, gear: Gear):
    app = App("zeros")
    app.topic("events", "x DOUBLE")
    app.sql("by_x", "SELECT x, count(*) AS n FROM events GROUP BY x")
    app.sql("distinct_x", "SELECT DISTINCT x FROM events", key="x")
    with run(app, tmp_path, [[{"x": 0.0}, {"x": NAN}], [{"x": -0.0}, {"x": NAN}, {"x": None}]], gear) as running:
        assert sorted(row["n"] for row in running.rows("by_x")) == [1, 2, 2]
        assert len(running.rows("distinct_x")) == 3


@pytest.mark.parametrize("gear", ["small", "large"])
def test_a_null_struct_may_have_fields_that_are_never_null(tmp_path: Path, gear: Gear):
    """Arrow refuses such a struct; a left join and an aggregate over nothing make it every day."""
    app = App("structs")
    app.topic("events", "id INT, g INT")
    app.sql("made", "SELECT g, struct(g AS p, 'z' AS q) AS s, array(struct(1 AS one)) AS l FROM events", key=None)
    app.sql("joined", "SELECT a.id, b.s, b.l FROM events a LEFT JOIN made b ON a.id = b.g", key=["id", "s"])
    app.sql("most", "SELECT max(s) AS s, count(*) AS n FROM made WHERE g > 1")
    with run(app, tmp_path, [[{"id": 1, "g": 2}], [{"id": 2, "g": None}]], gear) as running:
        assert [row["s"] for row in running.rows("joined")] == [None, {"p": 2, "q": "z"}]
        assert running.rows("most", as_of=1) == [{"s": None, "n": 0}]


@pytest.mark.parametrize("gear", ["small", "large"])
def test_times_beyond_the_year_9999_inside_others(tmp_path: Path, gear: Gear):
    """Python's own times end there; the last hour's window does not."""
    app = App("ends")
    app.topic("events", "id INT, t TIMESTAMP, g INT")
    app.sql("by_hour", "SELECT window(t, '1 hour') AS w, g, count(*) AS n FROM events GROUP BY window(t, '1 hour'), g")
    app.sql(
        "lists", "SELECT id, array(w.end) AS ends, map('t', w.end) AS m FROM (SELECT id, window(t, '1 hour') AS w FROM events) q"
    )
    app.sql("joined", "SELECT b.g, b.w, l.id, l.ends, l.m FROM by_hour b JOIN lists l ON b.g = l.id", key=["g", "w", "id"])
    last = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    with run(app, tmp_path, [[{"id": 1, "t": last, "g": 1}], [{"id": 2, "t": last, "g": 1}]], gear) as running:
        end = (last - dt.datetime(1970, 1, 1, tzinfo=UTC)) // dt.timedelta(microseconds=1) + 1
        (hour,) = running.rows("by_hour")
        assert (hour["w"]["end"], hour["n"]) == (end, 2)
        (joined,) = running.rows("joined")
        assert (joined["ends"], joined["m"]) == ([end], [("t", end)])
