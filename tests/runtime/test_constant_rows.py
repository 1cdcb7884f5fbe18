"""Rows that stand in a query, or in a reference, are there once, however many epochs come."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.testing import run_epochs

EPOCHS = [[{"who": "a", "n": 1}], [{"who": "a", "n": 2}, {"who": "b", "n": 3}]]
ALWAYS = {"values": "SELECT * FROM VALUES ('a', 8), ('z', 9) AS v(who, n)", "reference": "SELECT who, n FROM always"}


@pytest.mark.parametrize("branch", ALWAYS)
def test_a_constant_branch_of_a_union_comes_once(tmp_path, branch):
    (tmp_path / "always.csv").write_text("who,n\na,8\nz,9\n")
    app = hr.App("a")
    app.topic("events", schema="who STRING, n INT")
    app.reference("always", tmp_path / "always.csv", schema="who STRING, n INT")
    both = f"SELECT who, n FROM events UNION ALL {ALWAYS[branch]}"
    app.sql("rows", both, key=["who", "n"])
    app.sql("counts", f"SELECT who, count(*) AS c FROM ({both}) GROUP BY who")
    with run_epochs(app, EPOCHS) as out:
        assert [tuple(row.values()) for row in out.table("rows")] == [("a", 1), ("a", 2), ("a", 8), ("b", 3), ("z", 9)]
        assert [tuple(row.values()) for row in out.table("counts")] == [("a", 3), ("b", 1), ("z", 1)]
        out.verify()
