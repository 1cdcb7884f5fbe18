"""Paths and locators lead to the JVM's own objects."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.plan.tree import CTE, Expr, Into, Locator, Node, Path, parse
from tests.plan.conftest import analysed

Frames = dict[str, DataFrame]


def jvm_plan(frames: Frames, query: str) -> Any:
    return frames["events"].sparkSession.sql(query)._jdf.queryExecution().analyzed()


def at(node: Any, path: Path) -> Any:
    """The JVM's node at a path, as surgery finds it."""
    for step in path:
        if isinstance(step, Into):
            expr = node.expressions().apply(step.ordinal)
            for i in step.subpath:
                expr = expr.children().apply(i)
            node = expr.plan()
        else:
            assert isinstance(step, int)
            node = node.children().apply(step)
    return node


def jvm_expr(root: Any, where: Locator) -> Any:
    expr = at(root, where.path).expressions().apply(where.ordinal)
    for i in where.subpath:
        expr = expr.children().apply(i)
    return expr


QUERIES = [
    "SELECT k, count(*) FILTER (WHERE n > 1) AS c, sum(n) / 2 AS h FROM events GROUP BY k HAVING max(n) > 3",
    "SELECT e.id, u.name FROM events e LEFT JOIN users u ON e.id = u.id AND e.n > 2",
    "SELECT id FROM events WHERE id IN (SELECT id FROM users WHERE age > 3) AND n > (SELECT max(n) FROM clicks)",
    "SELECT k, sum(n) OVER (PARTITION BY g ORDER BY time ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM events",
    "SELECT k, g, count(*) FROM events GROUP BY ROLLUP (k, g)",
    "SELECT t FROM events LATERAL VIEW explode(tags) x AS t",
    "SELECT k FROM events UNION ALL SELECT name FROM users",
    "SELECT e.k, p.price FROM events e, LATERAL (SELECT price FROM prices WHERE prices.k = e.k) p",
]


def every_expr(node: Node) -> list[Expr]:
    return [e for n in node.everything() for top in n.all_exprs() for e in top.walk()]


@pytest.mark.parametrize("query", QUERIES)
def test_every_path_and_locator_finds_its_object(query: str, frames: Frames) -> None:
    jvm = jvm_plan(frames, query)
    root = parse(jvm.toJSON())
    for node in root.everything():
        assert at(jvm, node.path).getClass().getSimpleName() == node.cls
        assert at(jvm, node.path).output().size() == len(node.output), node.cls
    for expr in every_expr(root):
        if expr.cls in ("AttributeReference", "Literal", "Count", "Sum", "GreaterThan", "EqualTo", "Alias", "ScalarSubquery"):
            assert expr.origin is not None
            assert jvm_expr(jvm, expr.origin).getClass().getSimpleName() == expr.cls


@pytest.mark.parametrize("query", QUERIES)
def test_outputs_are_sparks_own(query: str, frames: Frames) -> None:
    jvm = jvm_plan(frames, query)
    root = parse(jvm.toJSON())
    for node in root.everything():
        attributes = at(jvm, node.path).output()
        theirs = [(attributes.apply(i).name(), attributes.apply(i).exprId().id()) for i in range(attributes.size())]
        assert [(a.name, a.id) for a in node.output] == theirs, node.cls


@pytest.mark.parametrize("query", QUERIES)
def test_never_null_is_never_said_where_spark_says_nullable(query: str, frames: Frames) -> None:
    jvm = jvm_plan(frames, query)
    for node in parse(jvm.toJSON()).everything():
        attributes = at(jvm, node.path).output()
        for i, attribute in enumerate(node.output):
            assert attribute.nullable or not attributes.apply(i).nullable(), (node.cls, attribute.name)


def test_a_cte_read_twice_has_two_occurrences(frames: Frames) -> None:
    root = analysed(frames, "WITH a AS (SELECT * FROM events) SELECT x.id FROM a x JOIN a y ON x.id = y.id")
    leaves = [n for n in root.walk() if n.input == "events"]
    assert len(leaves) == 2
    assert leaves[0].path != leaves[1].path
    assert all(CTE in leaf.path for leaf in leaves)


def test_spark_can_inline_ctes_before_surgery(frames: Frames) -> None:
    exists = "EXISTS (SELECT 1 FROM a r WHERE r.id = p.g)"
    query = f"WITH a AS (SELECT * FROM events) SELECT p.id FROM a p JOIN a q ON p.id = q.id WHERE {exists}"
    session = frames["events"].sparkSession
    inline = session._jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False, False)
    root = parse(inline.apply(jvm_plan(frames, query)).toJSON())
    leaves = [n for n in root.everything() if n.input == "events"]
    assert len(leaves) == 3
    assert not any(CTE in leaf.path for leaf in leaves)


def test_equality_is_by_value_not_by_place(frames: Frames) -> None:
    root = analysed(
        frames, "SELECT n + 1 AS a, n + 1 AS b, n + 2 AS c, CAST(n AS STRING) AS d, CAST(n AS DOUBLE) AS e FROM events"
    )
    a, b, c, d, e = (x.children[0] for x in root.exprs["projectList"])
    assert a == b
    assert a != c
    assert d != e


def test_two_udfs_of_one_name_are_not_equal(frames: Frames) -> None:
    root = analysed(
        frames,
        lambda events: events.select(F.udf(lambda n: n, "int")("n").alias("a"), F.udf(lambda n: n + 1, "int")("n").alias("b")),
    )
    a, b = (x.children[0] for x in root.exprs["projectList"])
    assert a != b
