"""Verify's own test: whatever is spoilt in a store, it finds and names."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.testing.trial import Trial
from headrace.verify import VerifyReport


@pytest.fixture(scope="module")
def trial(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """A table with parts, one with copies of rows and an index, one without a key, and one over another."""
    app = hr.App("spoilt")
    app.topic("visits", schema="page STRING, user STRING, ms INT", partitions=2)
    app.sql("pages", key=["page"], query="SELECT page, count(*) AS n, avg(ms) AS ms FROM visits GROUP BY page")
    app.sql("users", key=["page"], query="SELECT page, count(DISTINCT user) AS users FROM visits GROUP BY page")
    app.sql("slow", query="SELECT page, ms FROM visits WHERE ms > 50")
    app.sql("sizes", key=["n"], query="SELECT n, count(*) AS pages FROM pages GROUP BY n")
    folder = tmp_path_factory.mktemp("spoilt")
    with Trial(app.definition(), folder) as trial:
        for n in range(3):
            trial.append("visits", [{"page": f"p{i % 4}", "user": f"u{i % (n + 2)}", "ms": 10 * i + n} for i in range(12)])
            trial.epoch()
        yield trial


@contextmanager
def spoilt(store: Path, *statements: str) -> Iterator[None]:
    """Change a store behind everyone's back, and put all of it back."""
    with closing(sqlite3.connect(store)) as db, closing(sqlite3.connect(":memory:")) as kept:
        db.backup(kept)
        with db:
            changed = sum(db.execute(statement).rowcount for statement in statements)
        assert changed, "the test changes something"
        yield
        kept.backup(db)


def verified(trial: Trial, *statements: str) -> VerifyReport:
    with spoilt(trial.place.store, *statements):
        return trial.verify()


def column(store: Path, table: str, position: int = 0) -> str:
    """The name of a table's n-th column that is not one of ours."""
    with closing(sqlite3.connect(store)) as db:
        names = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
    return str([name for name in names if not name.startswith(("_key", "_from", "_hr_row"))][position])


def test_nothing_is_wrong(trial: Trial) -> None:
    report = trial.verify()
    assert report.ok, report.as_json()
    assert {table.name: table.rows for table in report.tables} == {"pages": 4, "users": 4, "slow": 20, "sizes": 1}


def test_a_stored_value(trial: Trial) -> None:
    report = verified(trial, "UPDATE pages SET n = n + 1 WHERE page = 'p2'")
    assert not report.ok
    (pages,) = (table for table in report.tables if table.name == "pages")
    assert pages.different == 1
    (first,) = pages.first
    assert "p2" in first.key
    assert "n=10" in str(first.live)
    assert "n=9" in str(first.batch)


def test_a_row_that_is_gone_and_one_too_many(trial: Trial) -> None:
    report = verified(trial, "DELETE FROM users WHERE page = 'p1'", "UPDATE slow SET ms = 1 WHERE ms = 60")
    different = {table.name: table for table in report.tables if table.different}
    assert set(different) == {"users", "slow"}
    assert different["users"].first[0].live is None
    assert any("ms=1" in str(each.live) for each in different["slow"].first)


def test_a_part_of_a_group(trial: Trial) -> None:
    part = column(trial.place.store, "_m_pages", 1)
    report = verified(trial, f'UPDATE "_m_pages" SET "{part}" = "{part}" + 1 WHERE rowid = 1')
    assert not report.ok
    (finding,) = report.findings
    assert finding.startswith('memory of "pages": the parts of group')


def test_a_row_copy(trial: Trial) -> None:
    report = verified(trial, """UPDATE "_r_visits" SET "user" = 'nobody' WHERE "_hr_row" = 3""")
    assert not report.ok
    assert 'copies of "visits": 1 rows of the log are not there as they were, 1 are not in the log' in report.findings


def test_an_index_entry(trial: Trial) -> None:
    with closing(sqlite3.connect(trial.place.store)) as db:
        (index,) = (
            name
            for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE '#_x#_%' ESCAPE '#'")
        )
    report = verified(trial, f'DELETE FROM "{index}" WHERE row = 3')
    assert not report.ok
    assert any('memory of "users"' in finding and "1 entries too few" in finding for finding in report.findings)


def test_a_range_of_the_ledger(trial: Trial) -> None:
    report = verified(trial, "UPDATE _ledger SET ranges = replace(ranges, '12', '11') WHERE ranges LIKE '%12%'")
    assert not report.ok
    assert any(finding.startswith("ledger: epoch") for finding in report.findings), report.findings


def test_a_hash_of_the_ledger(trial: Trial) -> None:
    report = verified(trial, "UPDATE _ledger SET hash = 'ff' || substr(hash, 3) WHERE epoch = 2")
    assert not report.ok
    assert any(finding.startswith("ledger: epoch 2") for finding in report.findings), report.findings


def test_a_count_of_the_ledger(trial: Trial) -> None:
    report = verified(trial, "UPDATE _ledger SET rows = replace(rows, '12', '13') WHERE epoch = 3")
    assert not report.ok
    assert any(finding.startswith("law of rows") for finding in report.findings), report.findings
