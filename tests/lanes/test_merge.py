"""What must be right in merge: one test for each sentence of the design."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from headrace import App
from headrace.errors import FunctionFailed
from headrace.spark.query import Gear
from headrace.store.reader import Reader
from tests.lanes.kit import lane, must_verify, run, trial

BIG = 2**63 - 1


def parts(running, table: str) -> list[dict]:
    """The parts as they are stored."""
    store = running.engine.holder.store
    return [row for _, rows in store.fetch_all(table, "parts") for row in rows.to_pylist()]


def test_parts_are_written_to_the_last_bit(tmp_path: Path):
    """A tolerance would lose small rows for ever."""
    app = App("bits")
    app.topic("events", "k STRING, x DOUBLE")
    app.sql("sums", "SELECT k, sum(x) AS s, count(*) AS n FROM events GROUP BY k")
    with run(app, tmp_path, [[{"k": "a", "x": 1e6}], *[[{"k": "a", "x": 1e-10}]] * 3]) as running:
        assert lane(running, "sums") == "merge"
        assert running.rows("sums")[0]["s"] == 1e6 + 1e-10 + 1e-10 + 1e-10
        assert parts(running, "sums")[0]["p0_0"] == 1e6 + 1e-10 + 1e-10 + 1e-10


def test_parts_have_the_types_of_sparks_buffers(tmp_path: Path):
    """avg(BIGINT) divides an exact sum once, avg(DECIMAL) has more digits than its argument, variance keeps (n, mean, M2)."""
    app = App("buffers")
    app.topic("events", "k STRING, n BIGINT, d DECIMAL(12,2)")
    app.sql("stats", "SELECT k, avg(n) AS an, avg(d) AS ad, var_pop(n) AS v, stddev(n) AS sd FROM events GROUP BY k")
    rows = [{"k": "a", "n": n, "d": Decimal("9999999999.99")} for n in (1, 2, 4)]
    with run(app, tmp_path, [[row] for row in rows]) as running:
        (row,) = running.rows("stats")
        assert row["an"] == 7 / 3
        assert row["ad"] == Decimal("9999999999.990000")
        assert row["v"] == pytest.approx(14 / 9)
        assert {name for name in parts(running, "stats")[0] if name.startswith("p2")} == {"p2_0", "p2_1", "p2_2"}


def test_an_overflow_does_not_depend_on_the_order_of_rows(tmp_path: Path):
    """sum(BIGINT) is kept exactly: what goes beyond its range and comes back within one group is no error."""
    app = App("ranges")
    app.topic("events", "k STRING, n BIGINT")
    app.sql("sums", "SELECT k, sum(n) AS s FROM events GROUP BY k")
    with trial(app, tmp_path) as running:
        running.append("events", [{"k": "a", "n": BIG}, {"k": "a", "n": BIG}, {"k": "a", "n": -BIG}])
        running.epoch()
        assert running.rows("sums") == [{"k": "a", "s": BIG}]


def test_an_overflow_is_an_error_that_names_table_and_key(tmp_path: Path):
    app = App("ranges")
    app.topic("events", "k STRING, n BIGINT")
    app.sql("sums", "SELECT k, sum(n) AS s FROM events GROUP BY k")
    with trial(app, tmp_path) as running:
        running.append("events", [{"k": "low", "n": 1}, {"k": "high", "n": BIG}])
        running.epoch()
        before = running.head
        running.append("events", [{"k": "low", "n": 1}, {"k": "high", "n": 1}])
        with pytest.raises(FunctionFailed) as failed:
            running.epoch()
        assert '"sums"' in failed.value.message
        assert "high" in failed.value.render()
        assert "low" not in failed.value.render().replace("overflow", "")
        assert running.head == before


def test_a_sum_beyond_38_digits_names_table_and_group(tmp_path: Path):
    app = App("digits")
    app.topic("events", "k STRING, d DECIMAL(38,0)")
    app.sql("sums", "SELECT k, sum(d) AS s FROM events GROUP BY k")
    with trial(app, tmp_path) as running:
        running.append("events", [{"k": "a", "d": Decimal("9" * 38)}])
        running.epoch()
        running.append("events", [{"k": "a", "d": Decimal(2)}])
        with pytest.raises(FunctionFailed, match="sums"):
            running.epoch()


NESTED = """
    SELECT n AS size, count(*) AS groups, sum(total) AS total, avg(total) AS average, min(total) AS least, max(total) AS most
    FROM per_key GROUP BY n
"""


@pytest.mark.parametrize("gear", ["small", "large"])
def test_over_a_table_rows_before_and_after_are_taken_each_on_its_own(tmp_path: Path, gear: Gear):
    """Counts and sums subtract; minima and maxima follow when their row goes; a group goes at its last row."""
    app = App("over")
    app.topic("events", "k STRING, n INT")
    app.sql("per_key", "SELECT k, count(*) AS n, sum(n) AS total FROM events GROUP BY k")
    app.sql("sizes", NESTED)
    epochs = [
        [{"k": "a", "n": 5}, {"k": "b", "n": 7}],
        [{"k": "a", "n": 1}],
        [{"k": "b", "n": 1}, {"k": "c", "n": None}],
    ]
    with run(app, tmp_path, epochs, gear) as running:
        found = running.rows("sizes")
        assert [(row["size"], row["groups"], row["total"], row["least"], row["most"]) for row in found] == [
            (1, 1, None, None, None),
            (2, 2, 14, 6, 8),
        ]


def test_a_sum_whose_last_value_goes_is_null_again(tmp_path: Path):
    """Each sum keeps how many values it has, apart from the group's row count."""
    app = App("nulls")
    app.topic("events", "k STRING, n INT")
    app.sql("per_key", "SELECT k, CASE WHEN count(*) = 1 THEN max(n) END AS n FROM events GROUP BY k")
    app.sql("total", "SELECT count(*) AS rows, sum(n) AS s, avg(n) AS a FROM per_key")
    with run(app, tmp_path, [[{"k": "a", "n": 3}], [{"k": "a", "n": 4}]]) as running:
        assert lane(running, "total") == "merge"
        assert running.rows("total") == [{"rows": 1, "s": None, "a": None}]
        assert running.rows("total", as_of=2) == [{"rows": 1, "s": 3, "a": 3.0}]


def test_the_one_group_of_an_aggregate_without_group_by_stays(tmp_path: Path):
    """As batch over no rows has it: from the first epoch, and when its last row is gone."""
    app = App("one")
    app.topic("events", "k STRING")
    app.sql("singles", "SELECT k FROM events GROUP BY k HAVING count(*) = 1")
    app.sql("number", "SELECT count(*) AS n, max(k) AS k FROM singles")
    app.sql("rows_of", "SELECT count(*) AS n, sum(length(k)) AS s FROM events")
    with trial(app, tmp_path) as running:
        assert running.head.epoch == 1
        assert running.rows("rows_of") == [{"n": 0, "s": None}]
        assert running.rows("number") == [{"n": 0, "k": None}]
        for expected in (1, 0):
            running.append("events", [{"k": "a"}])
            running.epoch()
            assert running.rows("number")[0]["n"] == expected
        must_verify(running)


def test_an_append_over_a_table_takes_its_key(tmp_path: Path):
    """The difference of the two answers is the change, and without a key of its own the table has that of its input."""
    app = App("follow")
    app.topic("events", "k STRING, n INT")
    app.sql("per_key", "SELECT k, sum(n) AS s FROM events GROUP BY k")
    app.sql("large", "SELECT upper(k) AS name, s FROM per_key WHERE s > 2")
    with run(app, tmp_path, [[{"k": "a", "n": 3}], [{"k": "a", "n": -2}], [{"k": "b", "n": 9}, {"k": "a", "n": 4}]]) as running:
        assert lane(running, "large") == "append"
        assert sorted((row["name"], row["s"]) for row in running.rows("large")) == [("A", 5), ("B", 9)]
        assert running.rows("large", as_of=3) == []


def test_having_hides_and_shows_groups(tmp_path: Path):
    app = App("having")
    app.topic("events", "k STRING, n INT")
    app.sql("even", "SELECT k, count(*) AS n FROM events GROUP BY k HAVING count(*) % 2 = 0")
    with run(app, tmp_path, [[{"k": "a"}], [{"k": "a"}], [{"k": "a"}, {"k": "b"}], [{"k": "b"}]]) as running:
        assert lane(running, "even") == "merge"
        assert running.rows("even") == [{"k": "b", "n": 2}]
        with Reader(running.place.store) as reader:
            assert [(c.epoch, c.key) for c in reader.changes("even", after=0)] == [(3, ("a",)), (4, ("a",)), (5, ("b",))]


EVERY = """
    SELECT k, count(*) AS c, count(n) AS cn, count_if(n > 1) AS ci, sum(n) AS s, avg(n) AS a, min(x) AS lo, max(x) AS hi,
           bool_and(n > 0) AS every, bool_or(n > 3) AS some, bit_and(n) AS ba, bit_or(n) AS bo, bit_xor(n) AS bx,
           max_by(n, struct(_partition, _offset)) AS last, min_by(x, struct(_partition, _offset)) AS first,
           sum(n) FILTER (WHERE x > 0) AS sf, count(*) FILTER (WHERE x > 0) AS cf, stddev(n) AS sd, variance(n) AS v
    FROM events GROUP BY k
"""


@pytest.mark.parametrize("gear", ["small", "large"])
def test_every_aggregate_that_merges(tmp_path: Path, gear: Gear):
    app = App("every")
    app.topic("events", "k STRING, n INT, x DOUBLE", partitions=2, partition_by="k")
    app.sql("stats", EVERY)
    nan = float("nan")
    rows = [(1, 0.5), (None, nan), (3, -0.0), (6, None), (-1, float("inf")), (None, 0.0)]
    epochs = [[{"k": k, "n": n, "x": x} for k in ("a", None)] for n, x in rows]
    with run(app, tmp_path, epochs, gear) as running:
        assert lane(running, "stats") == "merge"
        first, second = running.rows("stats")
        assert first["k"] is None
        exact = {name: value for name, value in second.items() if name not in ("k", "lo", "hi", "a", "sd", "v")}
        assert exact == {
            "c": 6, "cn": 4, "ci": 2, "s": 9, "every": False, "some": True, "ba": 0, "bo": -1, "bx": 1 ^ 3 ^ 6 ^ -1,
            "last": None, "first": 0.5, "sf": None, "cf": 3,
        } | {"sf": exact["sf"], "bx": 1 ^ 3 ^ 6 ^ -1}  # fmt: skip
        assert {**first, "k": "a"} == {**second, "hi": first["hi"]}
