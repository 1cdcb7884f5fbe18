"""Which orders the rows decide, which are looked at for ties, and where doubles decide."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.errors import DefinitionError
from headrace.plan.choose import TablePlan
from headrace.plan.describe import describe

Plan = Callable[..., TablePlan]

ORDERS = [
    ("SELECT k, row_number() OVER (PARTITION BY k ORDER BY time) AS r FROM events", [True]),  # rows that tie are alike
    ("SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY time) AS r FROM events", [False]),
    ("SELECT k, row_number() OVER (PARTITION BY k ORDER BY time, _partition, _offset) AS r FROM placed", [True]),
    ("SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY time, _partition) AS r FROM placed", [False]),
    ("SELECT id, row_number() OVER (PARTITION BY team ORDER BY age, id) AS r FROM users", [True]),
    ("SELECT id, row_number() OVER (PARTITION BY id ORDER BY age) AS r FROM users", [True]),
    ("SELECT team, row_number() OVER (PARTITION BY team ORDER BY age) AS r FROM users", [True]),
    ("SELECT team, name, row_number() OVER (PARTITION BY team ORDER BY age) AS r FROM users", [False]),
    (
        "SELECT u.id, row_number() OVER (PARTITION BY u.team ORDER BY u.id) AS r, e.n FROM users u JOIN events e ON e.id = u.id",
        [False],
    ),
    (
        "SELECT u.id, row_number() OVER (PARTITION BY u.team ORDER BY u.id, e._partition, e._offset) AS r, e.n"
        " FROM users u JOIN placed e ON e.id = u.id",
        [True],
    ),
    (
        "SELECT e.n, row_number() OVER (PARTITION BY u.team ORDER BY e._partition, e._offset) AS r"
        " FROM users u JOIN placed e ON e.id = u.id",
        [True],
    ),
    (
        "SELECT t, row_number() OVER (PARTITION BY k ORDER BY _partition, _offset) AS r"
        " FROM placed LATERAL VIEW explode(tags) x AS t",
        [False],
    ),
    ("SELECT k, lag(n) OVER (PARTITION BY k ORDER BY time) AS r FROM events", [False]),
    ("SELECT k, lead(n) OVER (PARTITION BY k ORDER BY time, n) AS r FROM events", [True]),
    ("SELECT k, n, ntile(4) OVER (PARTITION BY k ORDER BY time) AS r FROM events", [False]),
    ("SELECT k, cume_dist() OVER (PARTITION BY k ORDER BY time) AS r FROM events", [True]),
    ("SELECT k, n, cume_dist() OVER (PARTITION BY k ORDER BY time) AS r FROM events", [False]),
    ("SELECT k, first(n) OVER (PARTITION BY k ORDER BY time) AS r FROM events", [False]),
    ("SELECT k, nth_value(n, 2) OVER (PARTITION BY k ORDER BY time) AS r FROM events", [False]),
    ("SELECT k, n, rank() OVER (PARTITION BY k ORDER BY time) AS r FROM events", []),
    ("SELECT k, n, dense_rank() OVER (PARTITION BY k ORDER BY time) AS r FROM events", []),
    ("SELECT k, n, percent_rank() OVER (PARTITION BY k ORDER BY time) AS r FROM events", []),
    ("SELECT k, sum(n) OVER (PARTITION BY k ORDER BY time) AS r FROM events", []),
    ("SELECT k, sum(n) OVER (PARTITION BY k) AS r FROM events", []),
    ("SELECT k, sum(n) OVER (PARTITION BY k ORDER BY time ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS r FROM events", [False]),
    (
        "SELECT k, sum(n) OVER (PARTITION BY k ORDER BY time RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW) AS r"
        " FROM events",
        [],
    ),
    ("SELECT k, max_by(n, time) AS r FROM events GROUP BY k", [False]),
    ("SELECT k, max_by(n, struct(time, _offset)) AS r FROM placed GROUP BY k", [False]),
    ("SELECT k, min_by(n, struct(time, _partition, _offset)) AS r FROM placed GROUP BY k", [True]),
    ("SELECT k, min_by(struct(n, g), struct(time, g, n)) AS r FROM events GROUP BY k", [True]),
    ("SELECT k, max_by(name, struct(age, u.id)) AS r FROM users u JOIN prices p ON p.id = u.id GROUP BY k", [False]),
    ("SELECT team, max_by(name, struct(age, id)) AS r FROM users GROUP BY team", [True]),
    ("SELECT k, listagg(k, ',') WITHIN GROUP (ORDER BY k) AS r FROM events GROUP BY k", [True]),
    ("SELECT g, listagg(k, ',') WITHIN GROUP (ORDER BY n) AS r FROM events GROUP BY g", [False]),
    ("SELECT k, n AS r FROM events ORDER BY n LIMIT 3", [False]),
    ("SELECT k, n AS r FROM events ORDER BY n, k LIMIT 3", [True]),
    ("SELECT k, count(*) AS r FROM events GROUP BY k ORDER BY count(*) DESC, k LIMIT 3", [True]),
    ("SELECT k, count(*) AS r FROM events GROUP BY k ORDER BY count(*) DESC LIMIT 3", [False]),
    ("SELECT id AS k, name AS r FROM users ORDER BY age, id LIMIT 3 OFFSET 2", [True]),
]


@pytest.mark.parametrize(("query", "proved"), ORDERS)
def test_orders_are_proved_or_checked(query: str, proved: list[bool], plan: Plan) -> None:
    got = plan(query, ("r",))
    assert [order.proved for order in got.orders] == proved
    if False in proved:
        assert got.lane == "recompute"


def test_a_newest_row_per_key_is_merged_where_its_order_is_proved(plan: Plan) -> None:
    latest = "SELECT id, max_by(struct(k, n, time), struct(time, _partition, _offset)) AS r FROM placed GROUP BY id"
    got = plan(latest)
    assert got.lane == "merge"
    assert got.orders[0].proved


DOUBLES = [
    ("SELECT k, sum(x) AS v FROM events GROUP BY k", {"v": "sum(x) adds doubles"}, 0),
    ("SELECT k, avg(n) AS v FROM events GROUP BY k", {"v": "avg(n) adds integers in double"}, 0),
    ("SELECT k, sum(n) AS v, avg(amount) AS w, min(x) AS y, max(x) AS z FROM events GROUP BY k", {}, 0),
    ("SELECT k, stddev(n) AS v FROM events GROUP BY k", {"v": "stddev(CAST(n AS DOUBLE)) adds doubles"}, 0),
    ("SELECT k, count(x) AS v FROM events GROUP BY k HAVING sum(x) > 5", {}, 1),
    ("SELECT k, CASE WHEN sum(x) > 5 THEN 1 ELSE 0 END AS v FROM events GROUP BY k", {"v": "sum(x) adds doubles"}, 1),
    ("SELECT k, v FROM (SELECT k, sum(x) AS v FROM events GROUP BY k) ORDER BY v, k LIMIT 3", {"v": "sum(x) adds doubles"}, 1),
    ("SELECT v, count(*) AS c FROM (SELECT k, sum(x) AS v FROM events GROUP BY k) GROUP BY v", {"v": "sum(x) adds doubles"}, 2),
    ("SELECT k, sum(x) OVER (PARTITION BY k) AS v FROM events", {"v": "sum(x) adds doubles"}, 0),
    ("SELECT k, v FROM (SELECT k, sum(x) AS v FROM events GROUP BY k) WHERE v IS NOT NULL", {"v": "sum(x) adds doubles"}, 0),
    ("SELECT v FROM (SELECT n AS v FROM events UNION ALL SELECT sum(x) FROM events)", {"v": "sum(x) adds doubles"}, 0),
]


@pytest.mark.parametrize(("query", "approximate", "decided"), DOUBLES)
def test_what_is_added_in_double_is_known(query: str, approximate: dict[str, str], decided: int, plan: Plan) -> None:
    got = plan(query, None if "GROUP BY k" in query or "GROUP BY v" in query else ("k",) if " k," in query else ("v",))
    assert got.approximate == approximate
    assert len(got.decided_by_double) == decided + ("v" in (got.key or ()) and "v" in approximate and decided == 0)


def test_keys_are_asked_for_and_checked(plan: Plan) -> None:
    with pytest.raises(DefinitionError, match=r'table "t" needs a key(.|\n)*try: key='):
        plan("SELECT e.id FROM events e JOIN clicks c ON e.id = c.id")
    with pytest.raises(DefinitionError, match="needs a key"):
        plan("SELECT DISTINCT k FROM events")
    with pytest.raises(DefinitionError, match="needs a key"):
        plan("SELECT e.k FROM events e JOIN prices p ON e.k = p.k")
    with pytest.raises(DefinitionError, match=r'has no column "kk"(.|\n)*"k", "c"'):
        plan("SELECT k, count(*) AS c FROM events GROUP BY k", ("kk",))
    assert plan("SELECT c FROM (SELECT k, count(*) AS c FROM events GROUP BY k)", ("c",)).key == ("c",)
    with pytest.raises(DefinitionError, match="needs a key"):
        plan("SELECT c FROM (SELECT k, count(*) AS c FROM events GROUP BY k)")


def test_positions_of_branches_and_of_what_multiplies(plan: Plan) -> None:
    got = plan("SELECT k FROM events UNION ALL SELECT explode(tags) FROM events UNION ALL SELECT k FROM clicks WHERE n > 1")
    assert [(p.branch, p.input, p.multiplies) for p in got.positions] == [
        (0, "events", False),
        (1, "events", True),
        (2, "clicks", False),
    ]


def test_what_plan_says(plan: Plan) -> None:
    joined = plan("SELECT e.n, count(1) AS c FROM events e LEFT JOIN users u ON e.id = u.id GROUP BY e.n")
    text = "\n".join(describe(joined))
    assert "because what stands below its group-by is not row by row" in text
    assert "every row of every input" in text
    assert any("every epoch reads the whole table's inputs again" in warning for warning in joined.warnings)
    text = "\n".join(describe(plan("SELECT e.id, u.name FROM events e LEFT JOIN users u ON e.id = u.id", ("id",))))
    assert "events by id" in text
    assert "users by id" in text
    assert "where only events changed, none of its old rows" in text
    ordered = plan("SELECT k, count(*) FROM events GROUP BY k ORDER BY k")
    text = "\n".join(describe(ordered))
    assert "because the parts of count(1) unite" in text
    assert any("ORDER BY at the end is ignored" in warning for warning in ordered.warnings)
    assert 'name the column "count(1)": ... AS count' in text
