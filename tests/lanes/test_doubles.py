"""Sums of doubles: live and batch add them in different orders, and tables over them follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import App
from headrace.lanes.tolerance import close
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


@pytest.mark.parametrize(("one", "other"), [(float("nan"), 0.0), (float("inf"), 1e308), (None, 0.0), (1.0, 1.0 + 1e-9)])
def test_what_is_apart_is_apart(one: float | None, other: float | None):
    assert not close(one, other)
