"""What an input table has added in double stays approximate in the tables over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame

from headrace.plan.choose import plan_table
from tests.plan.conftest import INPUTS, analysed, table

GIVEN = {**INPUTS, "users": replace(INPUTS["users"], approximate=frozenset({"score"}))}

FUNCTIONS = [
    ("SELECT id, score * 2 AS twice, age FROM users", {"twice"}, 0),
    ("SELECT team, max(score) AS best, count(score) AS n FROM users GROUP BY team", {"best"}, 0),
    ("SELECT u.id, e.id AS eid, u.score FROM users u JOIN events e ON u.id = e.id", {"score"}, 0),
    ("SELECT id, age FROM users WHERE score > 1", set(), 1),
    ("SELECT id, struct(score, age) AS both FROM users", {"both"}, 0),
    ("SELECT id, x FROM events", set(), 0),
]


@pytest.mark.parametrize(("query", "approximate", "decided"), FUNCTIONS)
def test_columns_added_in_double_below_are_known(
    query: str, approximate: set[str], decided: int, frames: Mapping[str, DataFrame]
) -> None:
    key = ("id", "eid") if "eid" in query else ("team",) if "team" in query else ("id",)
    got = plan_table(analysed(frames, query), table(query, key), GIVEN)
    assert set(got.approximate) == approximate
    assert len(got.decided_by_double) == decided
