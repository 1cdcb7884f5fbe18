"""One line per function: what the planner says about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import pytest
from pyspark.sql import functions as F

from headrace.plan.choose import TablePlan
from tests.plan.conftest import Query


@dataclass(frozen=True)
class Case:
    """A function and what is expected: `tuples` are (input, expressions) per occurrence, left to right."""

    name: str
    query: Query
    lane: str
    key: tuple[str, ...] | None = None
    tuples: tuple[tuple[str, ...], ...] | None = None
    linear: str | None = None
    found: tuple[str, ...] | None = None  # the key that follows
    shown: bool | None = None  # the result's columns hold the tuple


def t(*parts: str) -> tuple[str, ...]:
    return parts


K = ("k",)
APPEND = [
    Case("select", "SELECT k, n + 1 AS m FROM events", "append", linear="events"),
    Case("filter", "SELECT * FROM events WHERE n > 1 AND k LIKE 'a%'", "append", linear="events"),
    Case("filter DataFrame", lambda events: events.where(F.col("n") > 1).select("k"), "append", linear="events"),
    Case("explode", "SELECT k, t FROM events LATERAL VIEW explode(tags) x AS t", "append"),
    Case("explode DataFrame", lambda events: events.select("k", F.explode("tags").alias("t")), "append"),
    Case("posexplode of a map", "SELECT k, key, value FROM events LATERAL VIEW explode(m) AS key, value", "append"),
    Case("struct field", "SELECT s.a AS a, s.b AS b, m['x'] AS x FROM events", "append"),
    Case("join with a reference", "SELECT e.k, price FROM events e JOIN prices p ON e.k = p.k", "append", K),
    Case("join with a reference on its left", "SELECT e.k, price FROM prices p JOIN events e ON e.k = p.k", "append", K),
    Case("non-equi join with a reference", "SELECT e.k, price FROM events e JOIN prices p ON e.n < p.price", "append", K),
    Case("left join with a reference", "SELECT e.k, price FROM events e LEFT JOIN prices p ON e.k = p.k", "append", K),
    Case("right join from a reference", "SELECT e.k, price FROM prices p RIGHT JOIN events e ON e.k = p.k", "append", K),
    Case("semi join with a reference", "SELECT k FROM events LEFT SEMI JOIN prices USING (k)", "append"),
    Case("anti join with a reference", "SELECT k FROM events LEFT ANTI JOIN prices USING (k)", "append"),
    Case("IN over a reference", "SELECT k FROM events WHERE k IN (SELECT k FROM prices)", "append"),
    Case("NOT IN over a reference", "SELECT k FROM events WHERE k NOT IN (SELECT k FROM prices)", "append"),
    Case("scalar subquery over a reference", "SELECT k FROM events WHERE n > (SELECT max(price) FROM prices)", "append"),
    Case(
        "a reference with LIMIT",
        "SELECT e.k FROM events e JOIN (SELECT * FROM prices ORDER BY k, price, label, id LIMIT 3) p ON e.k = p.k",
        "append",
        K,
    ),
    Case("cross join with VALUES", "SELECT e.k, v.a FROM events e CROSS JOIN (VALUES (1), (2)) AS v(a)", "append", K),
    Case("union", "SELECT k FROM events UNION ALL SELECT k FROM clicks", "append", linear="clicks events"),
    Case(
        "union of one input twice", "SELECT k FROM events WHERE n > 1 UNION ALL SELECT k FROM events", "append", linear="events"
    ),
    Case("union with a table", "SELECT id FROM events UNION ALL SELECT id FROM users", "append", linear="events users"),
    Case("UDF", lambda events: events.select(F.udf(lambda n: n, "int")("n").alias("u")), "append"),
    Case("pandas UDF", lambda events: events.select(F.pandas_udf(lambda n: n, "int")("n").alias("u")), "append"),
    Case("unpivot", "SELECT * FROM (SELECT k, n, g FROM events) UNPIVOT (v FOR what IN (n, g))", "append"),
    Case("CTE read once", "WITH a AS (SELECT * FROM events WHERE n > 1) SELECT k FROM a", "append"),
    Case("ORDER BY at the end", "SELECT k FROM events ORDER BY k", "append"),
    Case("table", "SELECT name FROM users WHERE age > 18", "append", linear="users"),
    Case(
        "lateral over a reference",
        "SELECT e.k, p.price FROM events e, LATERAL (SELECT price FROM prices WHERE prices.k = e.k) p",
        "append",
        K,
    ),
]
MERGE = [
    Case("count", "SELECT k, count(*) AS c FROM events GROUP BY k", "merge", found=K),
    Case("count DataFrame", lambda events: events.groupBy("k").count(), "merge", found=K),
    Case(
        "many",
        "SELECT k, sum(n), avg(amount), min(x), max(time), bool_or(ok), every(ok), bit_xor(n), bit_and(n) FROM events GROUP BY k",
        "merge",
    ),
    Case("variances", "SELECT k, stddev(x), var_pop(n), variance(x), stddev_pop(x) FROM events GROUP BY k", "merge"),
    Case("FILTER", "SELECT k, sum(n) FILTER (WHERE ok) AS c, count_if(n > 1) AS d FROM events GROUP BY k", "merge"),
    Case("expressions over aggregates", "SELECT k, sum(n) / count(*) AS mean FROM events GROUP BY k", "merge", found=K),
    Case("HAVING", "SELECT k, count(*) AS c FROM events GROUP BY k HAVING count(*) > 1 AND max(n) < 5", "merge", found=K),
    Case("computed key", "SELECT n % 10 AS bucket, count(*) AS c FROM events GROUP BY n % 10", "merge", found=("bucket",)),
    Case("no group", "SELECT count(*) AS c, max(time) AS newest FROM events", "merge", found=()),
    Case(
        "window of time",
        "SELECT k, window(time, '1 hour'), count(*) FROM events GROUP BY k, window(time, '1 hour')",
        "merge",
        found=("k", "window"),
    ),
    Case(
        "window of time DataFrame",
        lambda events: events.groupBy("k", F.window("time", "1 hour").alias("hour")).agg(F.count("*").alias("n")),
        "merge",
        found=("k", "hour"),
    ),
    Case(
        "sliding window",
        "SELECT window(time, '1 hour', '10 minutes') AS w, count(*) FROM events GROUP BY window(time, '1 hour', '10 minutes')",
        "merge",
        found=("w",),
    ),
    Case(
        "after explode", "SELECT t, count(*) AS c FROM events LATERAL VIEW explode(tags) x AS t GROUP BY t", "merge", found=("t",)
    ),
    Case("struct key", "SELECT s, count(*) AS c FROM events GROUP BY s", "merge", found=("s",)),
    Case("DISTINCT", "SELECT DISTINCT k, g FROM events", "merge", ("k", "g")),
    Case("DISTINCT DataFrame", lambda events: events.select("k").distinct(), "merge", K),
    Case("UNION", "SELECT k FROM events UNION SELECT k FROM clicks", "merge", K),
    Case(
        "over a union",
        "SELECT k, count(*) FROM (SELECT k FROM events UNION ALL SELECT k FROM clicks) GROUP BY k",
        "merge",
        found=K,
    ),
    Case(
        "over a join with a reference",
        "SELECT label, sum(price) FROM events e JOIN prices p ON e.k = p.k GROUP BY label",
        "merge",
        found=("label",),
    ),
    Case(
        "over a left join with a reference",
        "SELECT p.label, count(*) AS c FROM events e LEFT JOIN prices p ON e.k = p.k GROUP BY p.label",
        "merge",
    ),
    Case(
        "joined with a reference afterwards",
        "SELECT c.k, c.c, p.price FROM (SELECT k, count(*) AS c FROM events GROUP BY k) c JOIN prices p ON c.k = p.k",
        "merge",
        K,
    ),
    Case(
        "over a table, which can lose rows",
        "SELECT team, count(*), sum(age), avg(salary) FROM users GROUP BY team",
        "merge",
        found=("team",),
    ),
    Case("minimum over a table that grows", "SELECT k, min(n) FROM log GROUP BY k", "merge", found=K),
    Case("ROLLUP", "SELECT k, g, count(*) AS c FROM events GROUP BY ROLLUP (k, g)", "merge", ("k", "g")),
    Case(
        "max_by over the position",
        "SELECT k, max_by(n, struct(time, _partition, _offset)) AS newest FROM placed GROUP BY k",
        "merge",
        found=K,
    ),
    Case("max_by over all it takes", "SELECT k, max_by(n, struct(time, n)) AS newest FROM events GROUP BY k", "merge", found=K),
    Case(
        "max_by over the key of a table that grows",
        "SELECT k, max_by(n, struct(time, id)) AS newest FROM log GROUP BY k",
        "merge",
        found=K,
    ),
    Case("greatest struct", "SELECT k, max(struct(time, n)).n AS newest FROM events GROUP BY k", "merge", found=K),
    Case(
        "with a UDF below",
        lambda events: events.groupBy(F.udf(lambda n: n, "int")("n").alias("u")).count(),
        "merge",
        found=("u",),
    ),
]
RECOMPUTE = [
    Case(
        "count distinct",
        "SELECT k, count(DISTINCT n) AS c FROM events GROUP BY k",
        "recompute",
        tuples=(t("k"),),
        found=K,
        shown=True,
    ),
    Case("percentile", "SELECT k, percentile(n, 0.5) AS p FROM events GROUP BY k", "recompute", tuples=(t("k"),), found=K),
    Case("sorted list", "SELECT k, array_sort(collect_list(n)) AS l FROM events GROUP BY k", "recompute", tuples=(t("k"),)),
    Case("max_by with ties", "SELECT k, max_by(n, time) AS newest FROM events GROUP BY k", "recompute", tuples=(t("k"),)),
    Case("minimum over a table", "SELECT team, min(age) FROM users GROUP BY team", "recompute", tuples=(t("team"),)),
    Case("double sum over a table", "SELECT team, sum(score) FROM users GROUP BY team", "recompute", tuples=(t("team"),)),
    Case(
        "session window",
        "SELECT k, session_window(time, '5 minutes') AS w, count(*) FROM events GROUP BY k, session_window(time, '5 minutes')",
        "recompute",
        tuples=(t("k"),),
        found=("k", "w"),
    ),
    Case(
        "session window, renamed",
        lambda events: events.groupBy("k", F.session_window("time", "5 minutes").alias("w")).count(),
        "recompute",
        tuples=(t("k"),),
        found=("k", "w"),
    ),
    Case(
        "join",
        "SELECT e.id, c.page FROM events e JOIN clicks c ON e.id = c.id",
        "recompute",
        ("id",),
        (t("id"), t("id")),
        "clicks events",
    ),
    Case(
        "join whose key is in no column",
        "SELECT e.n, c.page FROM events e JOIN clicks c ON e.id = c.id",
        "recompute",
        ("n",),
        (t("id"), t("id")),
        "clicks events",
        shown=False,
    ),
    Case(
        "join over two pairs",
        "SELECT e.id FROM events e JOIN clicks c ON e.id = c.id AND e.k = c.k AND e.n < c.n",
        "recompute",
        ("id",),
        (t("id", "k"), t("id", "k")),
    ),
    Case(
        "join over a cast",
        "SELECT e.g FROM events e JOIN users u ON e.g = u.id",
        "recompute",
        ("g",),
        (t("CAST(g AS LONG)"), t("id")),
    ),
    Case(
        "join DataFrame",
        lambda events, users: events.join(users, events.id == users.id).select(events.id, "name"),
        "recompute",
        ("id",),
        (t("id"), t("id")),
    ),
    Case(
        "left join",
        "SELECT e.id, u.name FROM events e LEFT JOIN users u ON e.id = u.id",
        "recompute",
        ("id",),
        (t("id"), t("id")),
        "events",
        shown=True,
    ),
    Case(
        "right join",
        "SELECT u.id, e.n FROM events e RIGHT JOIN users u ON e.id = u.id",
        "recompute",
        ("id",),
        (t("id"), t("id")),
        "users",
        shown=True,
    ),
    Case(
        "full join USING",
        "SELECT id, e.n, u.name FROM events e FULL JOIN users u USING (id)",
        "recompute",
        ("id",),
        (t("id"), t("id")),
        "",
        shown=True,
    ),
    Case(
        "semi join",
        "SELECT e.id FROM events e LEFT SEMI JOIN users u ON e.id = u.id",
        "recompute",
        ("id",),
        (t("id"), t("id")),
        "events",
    ),
    Case(
        "anti join",
        "SELECT e.id FROM events e LEFT ANTI JOIN users u ON e.id = u.id",
        "recompute",
        ("id",),
        (t("id"), t("id")),
        "events",
    ),
    Case(
        "IN",
        "SELECT id FROM events WHERE id IN (SELECT id FROM users) AND n > 1",
        "recompute",
        ("id",),
        (t("id"), t("id")),
        "events",
    ),
    Case(
        "EXISTS",
        "SELECT id FROM events e WHERE EXISTS (SELECT 1 FROM users u WHERE u.id = e.id AND u.age > e.n)",
        "recompute",
        ("id",),
        (t("id"), t("id")),
        "events",
    ),
    Case(
        "NOT EXISTS",
        "SELECT id FROM events e WHERE NOT EXISTS (SELECT 1 FROM users u WHERE u.id = e.id)",
        "recompute",
        ("id",),
        (t("id"), t("id")),
        "events",
    ),
    Case(
        "EXISTS with an expression",
        "SELECT g FROM events e WHERE EXISTS (SELECT 1 FROM users u WHERE u.id = e.g)",
        "recompute",
        ("g",),
        (t("CAST(g AS LONG)"), t("id")),
    ),
    Case(
        "correlated IN",
        "SELECT id FROM events e WHERE n IN (SELECT age FROM users u WHERE u.id = e.id)",
        "recompute",
        ("id",),
        (t("id", "n"), t("id", "age")),
    ),
    Case(
        "correlated scalar subquery",
        "SELECT id, (SELECT max(age) FROM users u WHERE u.id = e.id) AS a FROM events e",
        "recompute",
        ("id",),
        (t("id"), t("id")),
        "events",
    ),
    Case(
        "NOT IN, never null",
        "SELECT sure FROM events WHERE sure NOT IN (SELECT sure FROM users)",
        "recompute",
        ("sure",),
        (t("sure"), t("sure")),
        "events",
    ),
    Case(
        "self join",
        "SELECT a.id, b.n FROM events a JOIN events b ON a.id = b.g",
        "recompute",
        ("id",),
        (t("id"), t("CAST(g AS LONG)")),
        "",
    ),
    Case(
        "CTE read twice",
        "WITH a AS (SELECT * FROM events WHERE n > 1) SELECT x.id, y.n FROM a x JOIN a y ON x.id = y.id",
        "recompute",
        ("id",),
        (t("id"), t("id")),
        "",
    ),
    Case(
        "group over a join",
        "SELECT e.id, count(*) FROM events e JOIN clicks c ON e.id = c.id GROUP BY e.id",
        "recompute",
        None,
        (t("id"), t("id")),
        "",
        ("id",),
    ),
    Case(
        "group over a join, by the other side",
        "SELECT c.id, count(*) FROM events e JOIN clicks c ON e.id = c.id GROUP BY c.id",
        "recompute",
        None,
        (t("id"), t("id")),
    ),
    Case(
        "row_number",
        "SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY time) AS r FROM events",
        "recompute",
        ("k", "r"),
        (t("k"),),
        shown=True,
    ),
    Case("rank", "SELECT k, n, rank() OVER (PARTITION BY k ORDER BY n) AS r FROM events", "recompute", ("k", "n"), (t("k"),)),
    Case(
        "two windows",
        "SELECT k, sum(n) OVER (PARTITION BY k, g) AS a, max(n) OVER (PARTITION BY k) AS b FROM events",
        "recompute",
        K,
        (t("k"),),
    ),
    Case(
        "newest by row_number",
        "SELECT id, k FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY time DESC) AS r FROM events) WHERE r = 1",
        "recompute",
        ("id",),
        (t("id"),),
    ),
    Case("INTERSECT", "SELECT k FROM events INTERSECT SELECT k FROM clicks", "recompute", K, (t("k"), t("k")), ""),
    Case(
        "EXCEPT",
        "SELECT k, n FROM events EXCEPT SELECT k, n FROM clicks",
        "recompute",
        ("k", "n"),
        (t("k", "n"), t("k", "n")),
        "",
    ),
    Case(
        "nested aggregates, one key in the other",
        "SELECT k, max(c) FROM (SELECT k, g, count(*) AS c FROM events GROUP BY k, g) GROUP BY k",
        "recompute",
        None,
        (t("k"),),
        "",
        K,
    ),
    Case(
        "union over a group",
        "SELECT k, count(DISTINCT n) AS c FROM (SELECT k, n FROM events UNION ALL SELECT k, n FROM clicks) GROUP BY k",
        "recompute",
        None,
        (t("k"), t("k")),
        "",
        K,
    ),
    Case(
        "distinct after explode",
        "SELECT t, count(DISTINCT k) FROM events LATERAL VIEW explode(tags) x AS t GROUP BY t",
        "recompute",
        None,
        (t("t"),),
    ),
    Case(
        "by a column of a reference",
        "SELECT p.label, count(DISTINCT e.n) FROM events e JOIN prices p ON e.k = p.k GROUP BY p.label",
        "recompute",
        None,
        (t("label"),),
    ),
    Case(
        "reference LEFT JOIN events",
        "SELECT p.k, e.n FROM prices p LEFT JOIN events e ON p.k = e.k",
        "recompute",
        K,
        (t("k"),),
        "",
        shown=True,
    ),
    Case(
        "GROUPING SETS with a common column",
        "SELECT k, g, count(DISTINCT n) FROM events GROUP BY k, GROUPING SETS ((g), ())",
        "recompute",
        ("k", "g"),
        (t("k"),),
    ),
    Case(
        "applyInPandas",
        lambda events: events.groupBy("k").applyInPandas(lambda rows: rows[["k"]], "k STRING"),
        "recompute",
        K,
        (t("k"),),
        "",
    ),
    Case(
        "cogroup",
        lambda events, clicks: (
            events.groupBy("k").cogroup(clicks.groupBy("k")).applyInPandas(lambda a, b: pd.DataFrame(), "k STRING")
        ),
        "recompute",
        K,
        (t("k"), t("k")),
        "",
    ),
    Case(
        "pivot with values",
        lambda events: events.groupBy("k").pivot("g", [1, 2]).agg(F.sum("n")),
        "recompute",
        None,
        (t("k"),),
        "",
        K,
    ),
    Case("distinct sum", "SELECT k, sum(DISTINCT n) FROM events GROUP BY k", "recompute", None, (t("k"),)),
    Case("sum of intervals", "SELECT k, sum(time - TIMESTAMP'2026-01-01') FROM events GROUP BY k", "recompute", None, (t("k"),)),
]
WHOLE = [
    Case("LIMIT", "SELECT k, n FROM events ORDER BY n LIMIT 3", "recompute", K),
    Case("group with LIMIT", "SELECT k, count(*) AS c FROM events GROUP BY k ORDER BY c DESC, k LIMIT 10", "recompute"),
    Case("window without PARTITION BY", "SELECT k, sum(n) OVER (ORDER BY time) AS s FROM events", "recompute", K),
    Case(
        "non-equi join",
        "SELECT e.id, c.page FROM events e JOIN clicks c ON e.n < c.n",
        "recompute",
        ("id",),
        linear="clicks events",
    ),
    Case("cross join", "SELECT e.id, c.page FROM events e CROSS JOIN clicks c", "recompute", ("id",), linear="clicks events"),
    Case(
        "uncorrelated scalar subquery",
        "SELECT id FROM events WHERE n > (SELECT avg(n) FROM clicks)",
        "recompute",
        ("id",),
        linear="events",
    ),
    Case("NOT IN over nullable columns", "SELECT id FROM events WHERE id NOT IN (SELECT id FROM users)", "recompute", ("id",)),
    Case(
        "joins chained over different keys",
        "SELECT e.id FROM events e JOIN clicks c ON e.id = c.id JOIN users u ON c.g = u.age",
        "recompute",
        ("id",),
    ),
    Case(
        "nested aggregates over different keys",
        "SELECT c, count(*) FROM (SELECT k, count(*) AS c FROM events GROUP BY k) GROUP BY c",
        "recompute",
    ),
    Case(
        "global aggregate over a group", "SELECT max(c) AS m FROM (SELECT k, count(*) AS c FROM events GROUP BY k)", "recompute"
    ),
    Case(
        "two windows over different keys",
        "SELECT k, sum(n) OVER (PARTITION BY g) AS a, max(n) OVER (PARTITION BY k) AS b FROM events",
        "recompute",
        K,
    ),
    Case("ROLLUP over distinct", "SELECT k, g, count(DISTINCT n) FROM events GROUP BY ROLLUP (k, g)", "recompute", ("k", "g")),
    Case(
        "only a session window",
        "SELECT session_window(time, '5 minutes') AS w, count(*) FROM events GROUP BY session_window(time, '5 minutes')",
        "recompute",
    ),
    Case(
        "grouping by a collation",
        "SELECT collate(k, 'UTF8_LCASE') AS c, count(DISTINCT n) FROM events GROUP BY collate(k, 'UTF8_LCASE')",
        "recompute",
    ),
]


def check(case: Case, plan: Callable[..., TablePlan]) -> TablePlan:
    got = plan(case.query, case.key)
    assert got.lane == case.lane, got.reasons
    if case.found is not None:
        assert got.key == case.found
    if case.linear is not None:
        assert " ".join(sorted(got.linear)) == case.linear
    return got


def ids(cases: list[Case]) -> list[str]:
    return [case.name for case in cases]


@pytest.mark.parametrize("case", APPEND, ids=ids(APPEND))
def test_row_by_row_functions_append(case: Case, plan: Callable[..., TablePlan]) -> None:
    got = check(case, plan)
    assert got.merge is None
    assert not got.whole


@pytest.mark.parametrize("case", MERGE, ids=ids(MERGE))
def test_aggregates_that_unite_merge(case: Case, plan: Callable[..., TablePlan]) -> None:
    got = check(case, plan)
    assert got.merge is not None
    assert all(part.origin.path == got.merge.aggregate for part in got.merge.functions)


@pytest.mark.parametrize("case", RECOMPUTE, ids=ids(RECOMPUTE))
def test_other_functions_are_recomputed_by_partition(case: Case, plan: Callable[..., TablePlan]) -> None:
    got = check(case, plan)
    assert not got.whole
    assert tuple(tuple(sorted(map(str, o.tuple))) for o in got.occurrences) == tuple(tuple(sorted(x)) for x in case.tuples or ())
    if case.shown is not None:
        assert (got.output_tuple is not None) is case.shown


@pytest.mark.parametrize("case", WHOLE, ids=ids(WHOLE))
def test_functions_without_a_partition_are_recomputed_whole_with_a_warning(case: Case, plan: Callable[..., TablePlan]) -> None:
    got = check(case, plan)
    assert got.whole
    assert got.output_tuple is None
    assert any("whole" in w for w in got.warnings)


def test_there_are_enough_functions() -> None:
    assert len(APPEND + MERGE + RECOMPUTE + WHOLE) >= 80
