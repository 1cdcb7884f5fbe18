"""Recompute: by partition, linear, whole; the same rows in both gears."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import App
from headrace.errors import FunctionFailed
from headrace.spark.query import Gear
from tests.lanes.kit import lane, run, trial

BOTH = pytest.mark.parametrize("gear", ["small", "large"])


def shop() -> App:
    app = App("shop")
    app.topic("orders", "id INT, sku STRING, n INT")
    app.topic("payments", "id INT, order_id INT, amount INT")
    return app


ORDERS = [{"id": 1, "sku": "a", "n": 2}, {"id": 2, "sku": "b", "n": 1}, {"id": 3, "sku": None, "n": None}]
PAYMENTS = [
    {"id": 10, "order_id": 1, "amount": 5},
    {"id": 11, "order_id": 1, "amount": 5},
    {"id": 12, "order_id": None, "amount": 1},
]
EPOCHS = [{"orders": ORDERS[:1]}, {"payments": PAYMENTS[:1]}, {"orders": ORDERS[1:], "payments": PAYMENTS[1:]}]


@BOTH
def test_a_left_join_replaces_the_unmatched_row(tmp_path: Path, gear: Gear):
    app = shop()
    app.sql(
        "paid",
        "SELECT o.id, p.id AS payment, p.amount FROM orders o LEFT JOIN payments p ON o.id = p.order_id",
        key=["id", "payment"],
    )
    with run(app, tmp_path, EPOCHS, gear) as running:
        assert lane(running, "paid") == "recompute"
        assert running.rows("paid", as_of=2) == [{"id": 1, "payment": None, "amount": None}]
        assert [(row["id"], row["payment"]) for row in running.rows("paid")] == [(1, 10), (1, 11), (2, None), (3, None)]


@BOTH
def test_joins_of_every_kind_and_subqueries(tmp_path: Path, gear: Gear):
    app = shop()
    on = "orders o {} JOIN payments p ON o.id = p.order_id"
    for kind in ("INNER", "RIGHT", "FULL"):
        app.sql(kind.lower(), f"SELECT o.id, p.id AS payment, o.n FROM {on.format(kind)}", key=["id", "payment"])
    for kind in ("LEFT SEMI", "LEFT ANTI"):
        app.sql(kind.lower().replace(" ", "_"), f"SELECT o.* FROM {on.format(kind)}", key="id")
    conditions = {
        "has": "EXISTS (SELECT 1 FROM payments p WHERE p.order_id = o.id)",
        "has_not": "NOT EXISTS (SELECT 1 FROM payments p WHERE p.order_id = o.id)",
        "among": "id IN (SELECT order_id FROM payments)",
        "not_among": "id NOT IN (SELECT order_id FROM payments)",
        "twice": "(SELECT count(*) FROM payments p WHERE p.order_id = o.id) > 1",
        "beyond": "n >= (SELECT count(*) FROM payments)",
    }
    for name, condition in conditions.items():
        app.sql(name, f"SELECT * FROM orders o WHERE {condition}", key="id")
    with run(app, tmp_path, EPOCHS, gear) as running:
        ids = {name: [row["id"] for row in running.rows(name)] for name in (*conditions, "left_semi", "left_anti")}
        assert ids == {
            "has": [1],
            "has_not": [2, 3],
            "among": [1],
            "not_among": [],
            "twice": [1],
            "beyond": [],
            "left_semi": [1],
            "left_anti": [2, 3],
        }
        assert [row["payment"] for row in running.rows("full")] == [12, 10, 11, None, None]


@BOTH
def test_new_rows_of_a_linear_input_need_none_of_its_old_rows(tmp_path: Path, gear: Gear):
    app = shop()
    app.sql("stock", "SELECT sku, sum(n) AS n FROM orders GROUP BY sku")
    app.sql("priced", "SELECT p.id, o.sku, p.amount FROM payments p JOIN orders o ON o.id = p.order_id", key="id")
    app.sql("cross_checked", "SELECT p.id, s.sku FROM payments p JOIN stock s ON p.amount > s.n", key=["id", "sku"])
    with run(app, tmp_path, [*EPOCHS, {"payments": [{"id": 13, "order_id": 2, "amount": 2}]}], gear) as running:
        assert "payments" in running.engine.workshop.tables["priced"].plan.linear
        assert lane(running, "cross_checked") == "recompute!"
        assert [row["id"] for row in running.rows("priced")] == [10, 11, 13]


@BOTH
def test_tables_that_change_together(tmp_path: Path, gear: Gear):
    """Linear in each, and both changed: then the old rows of both are needed."""
    app = shop()
    app.sql("ordered", "SELECT sku, sum(n) AS n FROM orders GROUP BY sku")
    app.sql("latest", "SELECT sku, max(id) AS id, count(*) % 2 AS odd FROM orders GROUP BY sku")
    app.sql("both", "SELECT o.sku, o.n, l.id FROM ordered o JOIN latest l ON o.n % 2 = l.odd", key=["sku", "id"])
    epochs = [{"orders": [{"id": i, "sku": "abc"[i % 3], "n": i % 2}]} for i in range(7)]
    with run(app, tmp_path, epochs, gear) as running:
        assert running.engine.workshop.tables["both"].plan.linear == {"ordered", "latest"}
        assert lane(running, "both") == "recompute"


@BOTH
def test_windows_with_and_without_a_partition(tmp_path: Path, gear: Gear):
    app = shop()
    app.sql("ranked", "SELECT id, sku, row_number() OVER (PARTITION BY sku ORDER BY n DESC, id) AS place FROM orders", key="id")
    app.sql("running_total", "SELECT id, sum(n) OVER (ORDER BY id) AS total FROM orders", key="id")
    app.sql("top", "SELECT id, n FROM orders ORDER BY n DESC, id LIMIT 2", key="id")
    epochs = [{"orders": [{"id": i, "sku": "ab"[i % 2], "n": i % 3}]} for i in range(5)]
    with run(app, tmp_path, epochs, gear) as running:
        assert [lane(running, name) for name in ("ranked", "running_total", "top")] == ["recompute", "recompute!", "recompute!"]
        assert [row["total"] for row in running.rows("running_total")] == [0, 1, 3, 3, 4]
        assert [row["id"] for row in running.rows("top")] == [1, 2]


@BOTH
def test_a_self_join_has_two_occurrences(tmp_path: Path, gear: Gear):
    app = shop()
    app.sql(
        "pairs", "SELECT a.id, b.id AS other FROM orders a JOIN orders b ON a.sku = b.sku AND a.id < b.id", key=["id", "other"]
    )
    epochs = [{"orders": [{"id": i, "sku": "ab"[i % 2]}, {"id": i + 10, "sku": None}]} for i in range(4)]
    with run(app, tmp_path, epochs, gear) as running:
        assert [(row["id"], row["other"]) for row in running.rows("pairs")] == [(0, 2), (1, 3)]


def test_a_key_given_twice_is_an_error_that_shows_both(tmp_path: Path):
    app = shop()
    app.sql("paid", "SELECT o.id, p.amount FROM orders o JOIN payments p ON o.id = p.order_id", key="id")
    with trial(app, tmp_path) as running:
        running.append("orders", ORDERS[:1])
        running.append("payments", PAYMENTS[:1])
        running.epoch()
        running.append("payments", PAYMENTS[1:])
        with pytest.raises(FunctionFailed, match="one key"):
            running.epoch()


@BOTH
def test_bags_of_positions_union_and_explode(tmp_path: Path, gear: Gear):
    """Tables without a key: the same rows, each as often as batch has them."""
    app = App("bags")
    app.topic("lines", "text STRING, words ARRAY<STRING>", partitions=2)
    app.topic("more", "text STRING")
    app.sql("words", "SELECT explode(split(text, ' ')) AS word FROM lines")
    app.sql("both", "SELECT text FROM lines UNION ALL SELECT text FROM more UNION ALL SELECT upper(text) FROM lines")
    app.sql("listed", "SELECT w FROM lines LATERAL VIEW OUTER explode(words) AS w WHERE text <> 'x'")
    epochs = [
        {"lines": [{"text": "a a b", "words": ["a", None, "a"]}, {"text": "", "words": []}]},
        {"more": [{"text": "a"}, {"text": "a"}], "lines": [{"text": "a", "words": None}, {"text": "x", "words": ["z"]}]},
    ]
    with run(app, tmp_path, epochs, gear) as running:
        assert {lane(running, name) for name in ("words", "both", "listed")} == {"append"}
        assert sorted(row["word"] for row in running.rows("words")) == ["", "a", "a", "a", "b", "x"]
        assert len(running.rows("both")) == 10
        assert sorted(str(row["w"]) for row in running.rows("listed")) == ["None", "None", "None", "a", "a"]


@BOTH
def test_set_operations_over_aliases_of_one_input(tmp_path: Path, gear: Gear):
    """Columns meet by position, whatever they are called; each side is an occurrence of its own."""
    app = shop()
    one, two = "SELECT sku AS a, n AS b FROM orders o WHERE n > 0", "SELECT sku AS x, id AS y FROM orders p WHERE id < 4"
    for kind in ("INTERSECT", "EXCEPT", "UNION"):
        app.sql(kind.lower(), f"SELECT a AS left_name, b FROM ({one} {kind} {two}) AS both", key=["left_name", "b"])
    app.sql(
        "paid", "SELECT i.id FROM (SELECT order_id AS id FROM payments INTERSECT SELECT o.id FROM orders AS o) AS i", key="id"
    )
    epochs = [*EPOCHS, {"orders": [{"id": 2, "sku": "a", "n": 3}, {"id": 1, "sku": "b", "n": 2}]}]
    with run(app, tmp_path, epochs, gear) as running:
        assert {lane(running, kind) for kind in ("intersect", "except", "paid")} == {"recompute"}

        def pairs(name: str) -> list[tuple[str, int]]:
            return [(row["left_name"], row["b"]) for row in running.rows(name)]

        # left: a2 b1 a3 b2; right: a1 b2 (null, 3) a2 b1
        assert pairs("intersect") == [("a", 2), ("b", 1), ("b", 2)]
        assert pairs("except") == [("a", 3)]
        assert sorted(pairs("union"), key=str) == sorted([("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), (None, 3)], key=str)
        assert [row["id"] for row in running.rows("paid")] == [1]


@BOTH
def test_an_epoch_of_which_a_filter_keeps_nothing_though_columns_are_nested(tmp_path: Path, gear: Gear):
    app = App("nested")
    app.topic("a", "id INT, k INT, tags ARRAY<STRING>, s STRUCT<t: TIMESTAMP>, m MAP<STRING, INT>")
    app.topic("c", "id INT, k INT")
    app.sql("joined", "SELECT a.*, c.id AS other FROM a JOIN c ON a.k = c.k WHERE a.id > 0", key=["id", "other"])
    epochs = [{"c": [{"id": 7, "k": 1}]}, {"a": [{"id": -1, "k": 1, "tags": ["x"]}]}, {"a": [{"id": 1, "k": 1, "tags": ["x"]}]}]
    with run(app, tmp_path, epochs, gear) as running:
        assert [(row["id"], row["other"], row["tags"]) for row in running.rows("joined")] == [(1, 7, ["x"])]
