"""One transaction per epoch: tables, memory, rejects and the ledger row, or nothing."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from headrace.errors import Fenced, FunctionFailed, StoreReplaced, StoreRestored, WorldError
from headrace.schema import parse_schema
from headrace.store.base import Change, CommitUnknown, Finish, Generation, IndexChange, Registration, Reject, TableSpec, Writes
from headrace.store.process import Process
from headrace.store.sqlite import SqliteStore
from headrace.store.tables import PARTITION_STEP

from .kit import Driver


def test_rows_come_are_replaced_and_go(driver: Any) -> None:
    driver.counts()
    driver.put({"a": 1, "b": 2})
    driver.put({"a": 3}, removed=["b"])
    assert driver.rows() == {"a": 3}
    assert driver.rows(as_of=2) == {"a": 1, "b": 2}
    assert driver.rows(as_of=1) == {}


def test_a_replaced_row_by_removal_and_insert(driver: Any, kit: Any) -> None:
    driver.counts()
    driver.put({"a": 1})
    driver.put({"a": 2}, removed=["a"], upsert=False)
    assert (driver.rows(), driver.rows(as_of=2)) == ({"a": 2}, {"a": 1})


@pytest.mark.parametrize("stored", [True, False])
def test_two_rows_with_one_key_are_shown(driver: Any, kit: Any, stored: bool) -> None:
    driver.counts()
    if stored:
        driver.put({"a": 1})
        change = kit.counts_change({"a": 2}, upsert=False)
    else:
        twice = pa.concat_tables([kit.counts_table({"a": 1}), kit.counts_table({"a": 2})])
        change = Change([], kit.keys("a", "a"), twice)
    before = driver.head
    with pytest.raises(FunctionFailed) as error:
        driver.commit(Writes(tables={"counts": change}))
    text = error.value.render()
    assert 'table "counts" has two rows with one key' in text
    assert "key k" in text
    assert "k='a', n=1" in text
    assert "k='a', n=2" in text
    assert "hr.latest" in text
    assert driver.store.head() == before
    driver.put({"b": 1})


def test_a_key_twice_in_an_upsert_is_an_error(driver: Any, kit: Any) -> None:
    driver.counts()
    driver.put({"a": 1})
    twice = pa.concat_tables([kit.counts_table({"a": 2}), kit.counts_table({"a": 3})])
    with pytest.raises(FunctionFailed, match="two rows with one key"):
        driver.commit(Writes(tables={"counts": Change([], kit.keys("a", "a"), twice, upsert=True)}))


def test_everything_of_an_epoch_or_nothing(driver: Any, kit: Any) -> None:
    driver.create(
        TableSpec("counts", kit.COUNTS, ("k",)),
        TableSpec("counts", kit.COUNTS, ("k",), "parts"),
        TableSpec("counts_0", parse_schema("x INT"), None, "index"),
    )
    good = kit.counts_change({"a": 1})
    bad = Change([], kit.keys("z", "z"), pa.concat_tables([kit.counts_table({"z": 1})] * 2))
    reject = Reject("events", 0, 0, "", "read", "malformed", "no JSON", b"{")
    index = {"counts_0": IndexChange([], [b"t"], [b"r"])}
    with pytest.raises(FunctionFailed):
        driver.commit(Writes(parts={"counts": good}, index=index, rejects=[reject], tables={"counts": bad}))
    assert driver.store.fetch("counts", kit.keys("a"), "parts")[0] == []
    assert driver.store.lookup("counts_0", [b"t"]) == []
    driver.commit(Writes(parts={"counts": good}, index=index, rejects=[reject], tables={"counts": good}, steps_ms={"read": 1.5}))
    assert driver.store.fetch("counts", kit.keys("a"), "parts")[1].to_pylist() == [{"k": "a", "n": 1}]
    assert driver.store.lookup("counts_0", [b"t", b"u"]) == [b"r"]
    with driver.reader() as reader:
        (found,) = reader.rejects()
        assert (found.source, found.reason, found.raw, found.epoch) == ("events", "malformed", b"{", 2)
        assert reader.rejects(source="other") == []


def test_copies_are_fetched_by_identity(driver: Any) -> None:
    columns = parse_schema("v STRING")
    storage = type(columns)([*columns.fields, *_positions()])
    driver.create(TableSpec("events", storage, None, "rows"))
    rows = pa.table({"v": ["a", "b"], "_partition": pa.array([0, 3], pa.int32()), "_offset": pa.array([7, 8], pa.int64())})
    driver.commit(Writes(copies={"events": rows}))
    wanted = [7, 3 * PARTITION_STEP + 8, 99]
    back = driver.store.fetch_rows("events", wanted)
    assert back.column("_hr_row").to_pylist() == wanted[:2]
    assert back.drop_columns(["_hr_row"]).equals(rows)
    assert [ids for ids, _ in driver.store.fetch_all("events", "rows", chunk=1)] == [[7], [3 * PARTITION_STEP + 8]]


def _positions() -> list[Any]:
    return [T.StructField("_partition", T.IntegerType()), T.StructField("_offset", T.LongType())]


def test_a_tables_rows_are_fetched_by_key_as_identity(driver: Any, kit: Any) -> None:
    driver.counts()
    driver.put({"a": 1, "b": 2})
    assert driver.store.fetch_rows("counts", kit.keys("b")).to_pylist() == [{"_hr_row": kit.keys("b")[0], "k": "b", "n": 2}]


def test_many_keys_are_fetched_as_few_are(driver: Any, kit: Any) -> None:
    driver.counts()
    names = [f"k{i}" for i in range(300)]
    driver.put({name: i for i, name in enumerate(names)})
    found, rows = driver.store.fetch("counts", kit.keys(*names[::2], "none"))
    assert dict(zip(found, rows.column("n").to_pylist(), strict=True)) == dict(
        zip(kit.keys(*names[::2]), range(0, 300, 2), strict=True)
    )


def test_index_entries_go_with_their_rows(driver: Any) -> None:
    driver.create(TableSpec("events_0", parse_schema("x INT"), None, "index"))
    driver.commit(Writes(index={"events_0": IndexChange([], [b"a", b"a", b"b"], [1, 2, 1])}))
    assert sorted(driver.store.lookup("events_0", [b"a"])) == [1, 2]
    driver.commit(Writes(index={"events_0": IndexChange([1], [b"c"], [3])}))
    assert driver.store.lookup("events_0", [b"a", b"b", b"c"]) in ([2, 3], [3, 2])


def test_odd_names_are_only_names(driver: Any) -> None:
    columns = parse_schema('`count(1)` BIGINT, `a "b"; DROP TABLE t` STRING, `select` INT')
    driver.create(TableSpec("order", columns, None))
    rows = pa.table([pa.array([5], pa.int64()), pa.array(["x"]), pa.array([1], pa.int32())], names=columns.names)
    driver.commit(Writes(tables={"order": Change([], [b"1"], rows)}))
    with driver.reader() as reader:
        assert reader.table("order").to_dicts() == rows.to_pylist()
        assert reader.query('SELECT "count(1)" FROM "order"').rows == [[5]]


def test_a_table_of_no_columns_has_rows(driver: Any) -> None:
    driver.create(TableSpec("t", parse_schema("x INT"), ("x",)))
    driver.commit()
    assert driver.store.registrations()["t"].since == 1


# --- random epochs against a dictionary ---


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9), max_size=4),
            st.sets(st.sampled_from("abcdef"), max_size=3),
        ),
        max_size=8,
    )
)
def test_any_epoch_reads_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, epochs: list[tuple[dict[str, int], set[str]]]
) -> None:
    driver = Driver(tmp_path_factory.mktemp("store") / "store.db")
    driver.counts()
    states: list[dict[str, int]] = [{}]
    for rows, removed in epochs:
        driver.put(rows, removed=sorted(removed))
        states.append({k: v for k, v in states[-1].items() if k not in removed} | rows)
    for n, state in enumerate(states, start=1):
        assert driver.rows(as_of=n) == state
    with driver.reader() as reader:
        for after in range(1, len(states) + 1):
            replayed = dict(states[after - 1])
            for change in reader.changes("counts", after):
                assert replayed.get(change.key[0]) == (change.before or {}).get("n")
                replayed.pop(change.key[0], None)
                if change.after:
                    replayed[change.key[0]] = change.after["n"]
            assert replayed == states[-1]
    driver.store.close()


# --- the fence ---


def test_an_older_generation_cannot_write(driver: Any, kit: Any) -> None:
    driver.counts()
    zombie_fence = driver.fence
    driver.fence = driver.store.take_over(driver.fence, Process.mine(), lambda *_: ("lineage", 1))
    with pytest.raises(Fenced, match="generation 1 may not write"):
        driver.store.commit(zombie_fence, driver.head, _as(driver, zombie_fence), Writes())
    driver.put({"a": 1})


def _as(driver: Any, fence: Generation) -> Any:
    new, driver.fence = driver.fence, fence
    entry = driver.entry()
    driver.fence = new
    return entry


def test_the_right_number_with_a_stale_nonce_cannot_write(driver: Any) -> None:
    driver.counts()
    stale = replace(driver.fence, nonce="0" * 32)
    for step in (
        lambda: driver.store.commit(stale, driver.head, driver.entry(), Writes()),
        lambda: driver.store.trim(stale, {}),
        lambda: driver.store.drop(stale, ["counts"]),
        lambda: driver.store.check(stale, driver.head),
        lambda: driver.store.drop_fills(stale),
    ):
        with pytest.raises(Fenced):
            step()


def test_a_nonce_that_came_back_with_an_old_copy_is_not_enough(driver: Any) -> None:
    driver.counts()
    old = driver.path.with_name("copy.db")
    _copy(driver.path, old)
    driver.put({"a": 1})
    _write_into(old, driver.path)
    with pytest.raises(StoreRestored, match="went back"):
        driver.put({"a": 2})


def _copy(source: Path, target: Path) -> None:
    with sqlite3.connect(source) as a, sqlite3.connect(target) as b:
        a.backup(b)


def _write_into(source: Path, target: Path) -> None:
    """Put an old content into the same file, so that device and inode stay."""
    with sqlite3.connect(source) as a, sqlite3.connect(target) as b:
        a.backup(b)


def test_a_replaced_file_stops_the_writer(driver: Any) -> None:
    driver.counts()
    copy = driver.path.with_name("copy.db")
    _copy(driver.path, copy)
    copy.replace(driver.path)
    with pytest.raises(StoreReplaced, match="was replaced"):
        driver.put({"a": 1})


def test_a_deleted_file_stops_the_writer(driver: Any) -> None:
    driver.counts()
    driver.path.unlink()
    with pytest.raises(StoreReplaced, match="was deleted"):
        driver.put({"a": 1})


class Unlucky(SqliteStore):
    """A store whose connection breaks at COMMIT, before or after the commit took place."""

    fails: str | None = None

    def _commit(self) -> None:
        fails, self.fails = self.fails, None
        if fails != "before":
            super()._commit()
        if fails:
            raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("fails", ["before", "after"])
def test_an_unknown_outcome_is_resolved(tmp_path: Path, kit: Any, fails: str) -> None:
    driver = kit.Driver(tmp_path / "store.db")
    driver.counts()
    driver.store.close()
    store = Unlucky(driver.path)
    driver.store = store
    store.fails = fails
    entry, writes = driver.entry(), Writes(tables={"counts": kit.counts_change({"a": 1})})
    with pytest.raises(CommitUnknown):
        store.commit(driver.fence, driver.head, entry, writes)
    old = driver.fence
    driver.fence, head = store.resolve(driver.fence, driver.head, entry)
    assert driver.fence.nonce != old.nonce
    assert (head == driver.head) == (fails == "before")
    if fails == "before":
        head = store.commit(driver.fence, driver.head, entry, writes)
    driver.head = head
    assert driver.rows() == {"a": 1}
    assert store.offsets() == {"events": {0: 1}}
    with pytest.raises(Fenced):
        store.check(old, head)
    store.close()


@pytest.mark.parametrize("fails", ["before", "after"])
def test_a_resolution_that_is_unknown_itself_is_resolved(tmp_path: Path, kit: Any, fails: str) -> None:
    driver = kit.Driver(tmp_path / "store.db")
    driver.counts()
    driver.store.close()
    store = Unlucky(driver.path)
    store.fails = fails
    fence, head = store.resolve(driver.fence, driver.head, driver.entry())
    assert head == driver.head
    store.check(fence, head)
    store.close()


def test_who_was_fenced_cannot_resolve(driver: Any) -> None:
    driver.counts()
    old, entry = driver.fence, driver.entry()
    driver.store.take_over(old, Process.mine(), lambda *_: ("lineage", 1))
    with pytest.raises(Fenced):
        driver.store.resolve(old, driver.head, entry)


def test_a_store_of_another_format_is_refused(driver: Any) -> None:
    driver.store.close()
    with sqlite3.connect(driver.path) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(WorldError, match="format 99"):
        SqliteStore(driver.path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"hello, this is no database at all" * 100)
    with pytest.raises(WorldError, match="cannot be used"):
        SqliteStore(tmp_path / "store.db")


# --- tables come and go ---


def test_a_removed_table_is_hidden_until_dropped(driver: Any) -> None:
    driver.counts()
    driver.put({"a": 1})
    driver.store.update(driver.fence, replace(driver.store.registrations()["counts"], state="removed"))
    with driver.reader() as reader:
        assert [(t.name, t.state) for t in reader.tables()] == [("counts", "removed")]
    assert driver.store.fetch_rows("counts", []).num_rows == 0
    driver.store.drop(driver.fence, ["counts"])
    assert driver.store.registrations() == {}
    driver.counts()


def _fill(driver: Any, kit: Any, rows: dict[str, int], columns: Any = None) -> Registration:
    registration = Registration(TableSpec("counts", columns or kit.COUNTS, ("k",)), fingerprint="new")
    assert driver.store.begin_fill(driver.fence, registration, driver.head.epoch) is None
    change = kit.counts_change(rows, upsert=False)
    if columns:
        change = Change([], change.keys, change.rows.append_column("m", pa.array([0] * len(rows), pa.int32())))
    driver.store.fill(driver.fence, "counts", "table", change, {"last": "x"})
    return registration


def test_a_rebuild_ends_in_its_difference(driver: Any, kit: Any) -> None:
    driver.counts()
    driver.put({"a": 1, "b": 2, "c": 3})
    _fill(driver, kit, {"a": 1, "b": 5, "d": 4})
    assert driver.rows() == {"a": 1, "b": 2, "c": 3}
    driver.commit(Writes(finish=[Finish("counts", "difference")]), kind="rebuild")
    assert driver.rows() == {"a": 1, "b": 5, "d": 4}
    assert driver.rows(as_of=2) == {"a": 1, "b": 2, "c": 3}
    with driver.reader() as reader:
        changes = [(c.key, (c.before or {}).get("n"), (c.after or {}).get("n")) for c in reader.changes("counts", 2)]
    assert changes == [(("b",), 2, 5), (("c",), 3, None), (("d",), None, 4)]
    assert driver.store.registrations()["counts"].fingerprint == "new"


def test_a_rebuild_ends_in_a_swap(driver: Any, kit: Any) -> None:
    driver.counts()
    driver.put({"a": 1})
    wider = parse_schema("k STRING, n BIGINT, m INT")
    for number in (7, 8):
        _fill(driver, kit, {"b": number}, wider)
        driver.commit(Writes(finish=[Finish("counts", "swap")]), kind="rebuild", rows=0)
        assert driver.rows() == {"b": number}
    with driver.reader() as reader:
        (info,) = reader.tables()
        assert (info.since, info.history_from, info.columns) == (4, 4, wider)


def test_a_fill_goes_on_where_it_was(driver: Any, kit: Any) -> None:
    driver.counts()
    registration = _fill(driver, kit, {"a": 1})
    again = driver.reopen()
    assert again.store.begin_fill(again.fence, registration, again.head.epoch) == {"last": "x"}
    assert "_n_counts" not in again.store.registrations()
    again.store.drop_fills(again.fence)
    assert again.store.begin_fill(again.fence, registration, again.head.epoch) is None
    again.store.close()


def test_a_fill_of_another_prefix_begins_anew(driver: Any, kit: Any) -> None:
    driver.counts()
    registration = _fill(driver, kit, {"a": 1})
    driver.commit()
    assert driver.store.begin_fill(driver.fence, registration, driver.head.epoch) is None
    driver.commit(Writes(finish=[Finish("counts", "difference")]), kind="rebuild", rows=0)
    assert driver.rows() == {}


def test_a_checkpoint_empties_the_wal_beside_the_writer(driver: Any) -> None:
    driver.counts()
    with sqlite3.connect(driver.path) as db:
        pending = "PRAGMA wal_checkpoint(PASSIVE)"
        driver.put({f"k{n}": n for n in range(1000)})
        driver.store.checkpoint()
        driver.put({"a": 1})
        assert db.execute(pending).fetchone()[0] == 0
    driver.put({"a": 2})
    assert driver.rows()["a"] == 2


def test_a_full_disk_writes_nothing(driver: Any, kit: Any) -> None:
    driver.counts()
    before = driver.head
    driver.store._db.execute("PRAGMA max_page_count = 40")
    with pytest.raises(WorldError, match="cannot be used") as error:
        driver.put({f"k{n}": n for n in range(10_000)})
    assert "full" in error.value.render()
    driver.store._db.execute("PRAGMA max_page_count = 1000000")
    assert driver.store.head() == before
    driver.put({"a": 1})
    assert driver.rows() == {"a": 1}
