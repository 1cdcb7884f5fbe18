"""SQL over tables: exact, or refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.errors import UsageError
from headrace.schema import arrow_schema, parse_schema
from headrace.store.base import Change, TableSpec, Writes
from headrace.store.query import moment_text
from headrace.store.reader import Answer, Reader

from .kit import Driver

D = Decimal
UTC = dt.timezone.utc
SCHEMA = parse_schema(
    "id INT, amount DECIMAL(20,2), other DECIMAL(38,18), x DOUBLE, at TIMESTAMP, day DATE, ok BOOLEAN, name STRING, "
    "tags ARRAY<BIGINT>, `count(1)` BIGINT"
)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "amount": D("9.50"),
        "x": 1.5,
        "at": dt.datetime(2026, 1, 1, 10, tzinfo=UTC),
        "day": dt.date(2026, 1, 1),
        "ok": True,
    },
    {"id": 2, "amount": D("10.10"), "x": 2.5, "at": dt.datetime(2026, 1, 2, tzinfo=UTC), "day": dt.date(2026, 1, 2), "ok": False},
    {"id": 3, "amount": D("-1.00"), "other": D("0.000000000000000001"), "name": "open", "tags": [1, None, 2**60]},
    {"id": 4, "amount": D("123456789012345678.90"), "x": float("nan"), "count(1)": 7},
]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Any:
    driver = Driver(tmp_path_factory.mktemp("query") / "store.db")
    driver.create(TableSpec("sales", SCHEMA, ("id",)))
    full = [{name: row.get(name) for name in SCHEMA.names} for row in ROWS]
    table = pa.Table.from_pylist(full, schema=arrow_schema(SCHEMA))
    driver.commit(Writes(tables={"sales": Change([], [b"%d" % row["id"] for row in ROWS], table)}))
    driver.commit()
    with driver.reader() as made:
        yield made
    driver.store.close()


def one(answer: Answer) -> Any:
    return answer.rows[0][0]


def test_star_has_the_users_columns_and_types(reader: Reader) -> None:
    answer = reader.query("SELECT * FROM sales WHERE id = 1")
    assert [name for name, _ in answer.columns] == SCHEMA.names
    assert dict(answer.columns)["amount"] == "decimal(20,2)"
    assert answer.to_dicts()[0] == {name: ROWS[0].get(name) for name in SCHEMA.names}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT sum(amount) FROM sales", D("123456789012345697.50")),
        ("SELECT avg(amount) FROM sales WHERE id < 3", D("9.800000")),
        ("SELECT avg(amount) FROM sales WHERE id > 99", None),
        ("SELECT sum(DISTINCT amount) FROM sales WHERE id < 3", D("19.60")),
        ("SELECT total FROM (SELECT sum(amount) AS total FROM sales WHERE id < 3)", D("19.60")),
        ("SELECT max(amount) FROM sales WHERE id < 3", D("10.10")),
        ("SELECT min(amount) FROM sales", D("-1.00")),
        ("SELECT max(coalesce(amount, other)) FROM sales WHERE id < 3", D("10.10")),
        ("SELECT count(*) FROM sales WHERE amount > 9.5", 2),
        ("SELECT count(*) FROM sales WHERE amount >= 9.5", 3),
        ("SELECT count(*) FROM sales WHERE amount = 9.5", 1),
        ("SELECT count(*) FROM sales WHERE amount <> 9.500", 3),
        ("SELECT count(*) FROM sales WHERE 10 > amount", 2),
        ("SELECT count(*) FROM sales WHERE amount > -2 AND amount < -0.5", 1),
        ("SELECT count(*) FROM sales WHERE amount BETWEEN 9 AND 11", 2),
        ("SELECT count(*) FROM sales WHERE amount IN (9.5, 10.1)", 2),
        ("SELECT count(*) FROM sales WHERE amount > id", 3),
        ("SELECT count(*) FROM sales WHERE other IS NULL", 3),
        ("SELECT count(*) FROM sales HAVING sum(amount) > 100", 4),
        ("SELECT id FROM sales WHERE amount = (SELECT max(amount) FROM sales)", 4),
        ("SELECT CAST(amount AS REAL) * 2 FROM sales WHERE id = 1", 19.0),
        ("SELECT sum(id) FROM sales", 10),
        ("SELECT sum(x) FROM sales WHERE id < 4", 4.0),
        ('SELECT "count(1)" FROM sales WHERE id = 4', 7),
        ("SELECT count(*) FROM sales WHERE at = '2026-01-01T10:00:00Z'", 1),
        ("SELECT count(*) FROM sales WHERE at >= '2026-01-02'", 1),
        ("SELECT count(*) FROM sales WHERE at BETWEEN '2026-01-01 09:00' AND '2026-01-01T11:00+00:00'", 1),
        ("SELECT count(*) FROM sales WHERE at IN ('2026-01-02')", 1),
        ("SELECT count(*) FROM sales WHERE day = '2026-01-02'", 1),
        ("SELECT count(*) FROM sales WHERE ok", 1),
        ("SELECT max(at) FROM sales", dt.datetime(2026, 1, 2, tzinfo=UTC)),
        ("SELECT ok FROM sales WHERE id = 1", True),
        ("SELECT tags FROM sales WHERE id = 3", [1, None, str(2**60)]),
        ("SELECT value FROM sales, json_each(tags) WHERE sales.id = 3", 1),
        ('SELECT id FROM sales WHERE name = "open"', 3),
        ("SELECT 7 / 2", 3),
        ("WITH s AS (SELECT id, amount FROM sales) SELECT sum(amount) FROM s WHERE id < 3", D("19.60")),
        ("WITH s AS (SELECT id FROM sales) SELECT count(*) FROM s", 4),
        ("SELECT count(*) FROM (SELECT id FROM sales)", 4),
        ("SELECT count(*) FROM json_each('[1, 2]')", 2),
        ("SELECT 1 UNION SELECT 1", 1),
        ("VALUES (5)", 5),
    ],
)
@pytest.mark.parametrize("as_of", [None, 2])
def test_an_answer(reader: Reader, sql: str, expected: Any, as_of: int | None) -> None:
    assert one(reader.query(sql, as_of)) == expected


@pytest.mark.parametrize("as_of", [None, 2])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM sales ORDER BY amount",
        "SELECT id FROM (SELECT id, amount AS a FROM sales) ORDER BY a",
        "SELECT id FROM sales GROUP BY id ORDER BY sum(amount)",
        "SELECT id FROM (SELECT id, sum(amount) AS total FROM sales GROUP BY id) ORDER BY total",
        "SELECT id, row_number() OVER (ORDER BY amount) AS n FROM sales ORDER BY n",
    ],
)
def test_decimals_are_ordered_as_numbers(reader: Reader, sql: str, as_of: int | None) -> None:
    assert [row[0] for row in reader.query(sql, as_of).rows] == [3, 1, 2, 4]


def test_a_running_sum_is_exact(reader: Reader) -> None:
    rows = reader.query("SELECT sum(amount) OVER (ORDER BY id) FROM sales").rows
    assert [row[0] for row in rows] == [D("9.50"), D("19.60"), D("18.60"), D("123456789012345697.50")]


@pytest.mark.parametrize("sql", ["SELECT sum(x) FROM sales", "SELECT avg(x) FROM sales", "SELECT sum(x) OVER () FROM sales"])
def test_a_sum_over_nan_is_nan(reader: Reader, sql: str) -> None:
    value = one(reader.query(sql))
    assert value != value


@pytest.mark.parametrize(
    "expression",
    [
        "amount * 2",
        "amount + other",
        "id - amount",
        "-amount",
        "sum(amount) / count(*)",
        "t.amount % 2",
        "coalesce(amount, 0) + 1",
    ],
)
def test_arithmetic_on_decimals_is_refused(reader: Reader, expression: str) -> None:
    with pytest.raises(UsageError, match="is a DECIMAL") as error:
        reader.query(f"SELECT {expression} FROM sales AS t")
    assert "--spark" in error.value.render()


def test_arithmetic_on_a_decimal_of_another_name_is_refused(reader: Reader) -> None:
    with pytest.raises(UsageError, match="is a DECIMAL"):
        reader.query("WITH s AS (SELECT sum(amount) AS total FROM sales) SELECT total / 2 FROM s")


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM sales",
        "INSERT INTO sales VALUES (1)",
        "UPDATE sales SET id = 1",
        "CREATE TABLE t (x)",
        "DROP TABLE sales",
        "ATTACH 'x.db' AS x",
        "PRAGMA journal_mode = DELETE",
        "SELECT 1; SELECT 2",
        "SELECT * FROM main.sales",
        "SELECT * FROM _ledger",
        "SELECT * FROM sqlite_master",
        "SELECT count(*) FROM sqlite_schema",
        "SELECT count(*) FROM _ledger",
        "SELECT count(*) FROM sales__history",
        "SELECT 1 FROM main.sales",
        "SELECT * FROM pragma_table_info('sales')",
        "SELECT load_extension('x')",
        "WITH t AS (SELECT 1) DELETE FROM sales",
        "VACUUM",
        "",
        "hello",
    ],
)
def test_only_select_from_the_apps_tables(reader: Reader, sql: str) -> None:
    with pytest.raises(UsageError):
        reader.query(sql)
    assert one(reader.query("SELECT count(*) FROM sales")) == 4


def test_unknown_names_are_answered_with_the_known_ones(reader: Reader) -> None:
    with pytest.raises(UsageError) as error:
        reader.query("SELECT * FROM sale")
    assert error.value.render() == 'there is no table "sale"\n  there are: sales\n  try: sales'
    with pytest.raises(UsageError) as error:
        reader.query("SELECT amont FROM sales")
    assert error.value.render().startswith('there is no column "amont"\n  sales: id, amount,')
    assert error.value.hint == "amount"


def test_a_table_with_where_order_and_limit(reader: Reader) -> None:
    answer = reader.table("sales", where="amount > 0", order="amount DESC", limit=2)
    assert [row["id"] for row in answer.to_dicts()] == [4, 2]
    assert (answer.epoch, answer.committed_at) == (3, reader.committed_at)
    with pytest.raises(UsageError, match="no table"):
        reader.table("nope")
    with pytest.raises(UsageError):
        reader.table("sales", where="1) UNION SELECT * FROM (SELECT * FROM main._ledger")


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2026-01-31", "2026-01-31 00:00:00.000000"),
        ("2026-01-31 10:00", "2026-01-31 10:00:00.000000"),
        ("2026-01-31T10:00:00.5Z", "2026-01-31 10:00:00.500000"),
        ("2026-01-31T10:00:00+0130", "2026-01-31 08:30:00.000000"),
        ("2026-02-31", None),
        ("soon", None),
    ],
)
def test_a_time_as_people_write_it(text: str, stored: str | None) -> None:
    assert moment_text(text) == stored


def test_statements_see_only_their_own_epoch(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "store.db")
    driver.counts()
    driver.put({"a": 1})
    driver.put({"a": 5}, removed=[])
    with driver.reader() as reader:
        assert one(reader.query("SELECT n FROM counts WHERE k = 'a'", 2)) == 1
        assert one(reader.query("SELECT a.n + b.n FROM counts a JOIN COUNTS b USING (k)")) == 10
    driver.store.close()
