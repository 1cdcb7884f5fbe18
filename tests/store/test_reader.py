"""Readers in their own connections: one epoch for as long as they like, and nothing but the truth about it."""

from __future__ import annotations

import datetime as dt
import shutil
import sqlite3
import subprocess
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.errors import EpochTrimmed, StoreReplaced, UsageError, WorldError
from headrace.schema import arrow_schema, parse_schema
from headrace.store import history
from headrace.store.base import Change, TableSpec, Writes
from headrace.store.reader import Reader

UTC = dt.timezone.utc


def test_a_snapshot_stays_on_its_epoch(driver: Any) -> None:
    driver.counts()
    driver.put({"a": 1, "b": 1, "c": 1})
    with driver.reader() as reader:
        snapshot = reader.at()
        pages = snapshot.read_arrow("counts", chunk=1)
        first = next(pages).to_pylist()
        driver.put({"b": 2, "d": 2}, removed=["c"])
        driver.put({"b": 3}, removed=["a"])
        rest = [row for page in pages for row in page.to_pylist()]
        assert [(row["k"], row["n"]) for row in first + rest] == [("a", 1), ("b", 1), ("c", 1)]
        assert snapshot.query("SELECT sum(n), count(*) FROM counts").rows == [[3, 3]]
        assert snapshot.epoch == 2
        assert reader.query("SELECT k, n FROM counts ORDER BY k").rows == [["b", 3], ["d", 2]]
        assert [(info.name, info.rows) for info in snapshot.tables()] == [("counts", 3)]


def test_a_trimmed_epoch_is_an_error(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "ROWS_KEPT", 0)
    driver.counts()
    driver.put({"a": 1, "b": 1})
    with driver.reader() as reader:
        snapshot = reader.at()
        pages = snapshot.read_arrow("counts", chunk=1)
        next(pages)
        driver.put({"a": 2})
        driver.clock.advance(601)
        driver.commit()
        assert driver.store.trim(driver.fence, {}) == 1
        for read in (
            lambda: next(pages),
            lambda: snapshot.query("SELECT * FROM counts"),
            lambda: reader.table("counts", as_of=2),
        ):
            with pytest.raises(EpochTrimmed, match="no longer kept"):
                read()
        assert reader.query("SELECT 1").rows == [[1]]


def test_as_of_takes_epochs_and_times(driver: Any) -> None:
    driver.counts()
    start = driver.clock.now_us()
    for n in range(3):
        driver.clock.advance(60)
        driver.put({"a": n})
    at = dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(microseconds=start)
    with driver.reader() as reader:
        assert reader.committed_at == at + dt.timedelta(minutes=3)
        for as_of, expected in [
            (None, 2),
            (3, 1),
            ("3", 1),
            (at + dt.timedelta(seconds=90), 0),
            ((at + dt.timedelta(seconds=120)).isoformat(), 1),
            ("9999-01-01", 2),
        ]:
            answer = reader.query("SELECT n FROM counts", as_of)
            assert answer.rows == [[expected]]
        assert answer.epoch == 4
        with pytest.raises(EpochTrimmed, match="no epoch yet"):
            reader.query("SELECT 1", "2020-01-01")
        with pytest.raises(EpochTrimmed, match="begins with epoch 1"):
            reader.query("SELECT n FROM counts", 0)
        with pytest.raises(UsageError, match="epoch 99 is not there yet"):
            reader.query("SELECT 1", 99)
        with pytest.raises(UsageError, match="neither an epoch nor a time"):
            reader.query("SELECT 1", "yesterday")


def test_a_younger_table_does_not_hide_the_past_of_one_whose_name_holds_its_name(driver: Any) -> None:
    driver.create(TableSpec("counts_per_hour", parse_schema("k STRING"), ("k",)))
    driver.counts()
    with driver.reader() as reader:
        assert reader.query("SELECT count(*) FROM counts_per_hour", 1).rows == [[0]]
        with pytest.raises(EpochTrimmed, match='"counts" begins with epoch 2'):
            reader.query('SELECT count(*) FROM counts_per_hour JOIN "Counts" USING (k)', 1)


def test_another_store_in_its_place_is_noticed(driver: Any, kit: Any, tmp_path: Path) -> None:
    driver.counts()
    driver.put({"a": 1})
    other = kit.Driver(tmp_path / "other" / "store.db")
    other.clock.advance(1)
    other.counts()
    other.put({"z": 1})
    other.store.close()
    with driver.reader() as reader:
        snapshot = reader.at()
        driver.store.close()
        for suffix in ("-wal", "-shm"):
            driver.path.with_name("store.db" + suffix).unlink(missing_ok=True)
        shutil.copy(other.path, tmp_path / "moving.db")
        (tmp_path / "moving.db").replace(driver.path)
        with pytest.raises(StoreReplaced, match="not part of"):
            snapshot.query("SELECT * FROM counts")
        assert reader.query("SELECT k FROM counts").rows == [["z"]]


def test_reading_without_a_writer(driver: Any) -> None:
    driver.counts()
    driver.put({"a": 1})
    driver.store.close()
    assert driver.rows() == {"a": 1}


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="there is no store"):
        Reader(tmp_path / "store.db")


def test_waiting_for_a_newer_epoch(driver: Any) -> None:
    driver.counts()
    with driver.reader() as reader:
        assert reader.wait_newer(0).epoch == 1
        assert reader.wait_newer(1, timeout_s=0) is None
        waiting = threading.Event()

        def wait(_: float) -> None:
            waiting.set()

        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(reader.wait_newer(1, 30, wait=wait)))
        thread.start()
        assert waiting.wait(10)
        driver.put({"a": 1})
        thread.join(10)
        assert found[0].epoch == 2


def test_changes_and_history_of_a_row(driver: Any) -> None:
    driver.counts()
    driver.put({"a": 1})
    driver.put({"a": 2, "b": 1})
    driver.put({}, removed=["a"])
    driver.put({"a": 3})
    with driver.reader() as reader:
        told = [(c.epoch, c.key[0], c.before and c.before["n"], c.after and c.after["n"]) for c in reader.changes("counts", 2)]
        assert told == [(3, "a", 1, 2), (3, "b", None, 1), (4, "a", 2, None), (5, "a", None, 3)]
        assert [c.epoch for c in reader.changes("counts", 2, upto=3)] == [3, 3]
        assert [(v.since, v.until, v.row["n"]) for v in reader.history("counts", ["a"])] == [(2, 3, 1), (3, 4, 2), (5, None, 3)]
        assert reader.history("counts", ["none"]) == []
        with pytest.raises(UsageError, match="the key of table"):
            reader.history("counts", ["a", "b"])
        with pytest.raises(EpochTrimmed):
            reader.changes("counts", -1)


def test_keys_are_given_as_people_write_them(driver: Any) -> None:
    schema = parse_schema("w STRUCT<start: TIMESTAMP, end: TIMESTAMP>, d DECIMAL(10,2), ok BOOLEAN, n INT")
    driver.create(TableSpec("t", schema, ("w", "d", "ok", "n")))
    window = {"start": dt.datetime(2026, 1, 1, tzinfo=UTC), "end": dt.datetime(2026, 1, 2, tzinfo=UTC)}
    row = {"w": window, "d": Decimal("1.00"), "ok": True, "n": None}
    rows = pa.Table.from_pylist([row], schema=arrow_schema(schema))
    driver.commit(Writes(tables={"t": Change([], [b"k"], rows)}))
    with driver.reader() as reader:
        (version,) = reader.history("t", ["2026-01-01", "1.0", "true", None])
        assert version.row["w"]["end"] == dt.datetime(2026, 1, 2, tzinfo=UTC)
        (change,) = reader.changes("t", 1)
        assert change.key[1:] == (1, True, None)
        with pytest.raises(UsageError, match="'x' is no decimal"):
            reader.history("t", ["2026-01-01", "x", "true", None])


def test_hidden_tables_and_memory_are_not_shown(driver: Any, kit: Any) -> None:
    driver.counts()
    driver.create(TableSpec("_h_counts_0", kit.COUNTS, ("k",)), hidden=True)
    driver.create(TableSpec("counts", kit.COUNTS, ("k",), "parts"))
    with driver.reader() as reader:
        assert [info.name for info in reader.tables()] == ["counts"]
        for name in ("_h_counts_0", "_m_counts", "counts__history", "_ledger", "sqlite_schema"):
            with pytest.raises(UsageError):
                reader.query(f"SELECT count(*) FROM {name}")


def test_an_ordinary_client_can_read(driver: Any, kit: Any) -> None:
    driver.counts()
    driver.put({"a": 1})
    driver.put({"a": 2})
    with sqlite3.connect(driver.path) as db:
        assert db.execute("SELECT k, n, _from FROM counts").fetchall() == [("a", 2, 3)]
        assert db.execute("SELECT k, n, _from, _to FROM counts__history").fetchall() == [("a", 1, 2, 3)]
        assert db.execute("SELECT epoch, kind FROM _ledger").fetchall() == [(1, "create"), (2, "epoch"), (3, "epoch")]


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="no sqlite3 on this machine")
def test_the_sqlite_shell_can_read(driver: Any) -> None:
    driver.counts()
    driver.put({"a": 1})
    command = ["sqlite3", "-readonly", str(driver.path), "SELECT k, n FROM counts"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout == "a|1\n"


def test_a_reader_does_not_hold_up_the_writer(driver: Any) -> None:
    driver.counts()
    driver.put({"a": 1})
    with driver.reader() as reader, reader.transaction() as db:
        assert db.execute("SELECT n FROM counts").fetchone() == (1,)
        driver.put({"a": 2})
        assert db.execute("SELECT n FROM counts").fetchone() == (1,)
