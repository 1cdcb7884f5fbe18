"""What is kept of the past, and what an epoch that is not kept answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headrace.errors import EpochTrimmed
from headrace.store import history


def test_young_history_stays(driver: Any) -> None:
    driver.counts()
    for n in range(5):
        driver.put({"a": n})
    assert driver.store.trim(driver.fence, {}) == 0
    assert driver.rows(as_of=2) == {"a": 0}


def test_the_newest_rows_are_kept(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "ROWS_KEPT", 2)
    driver.counts()
    for n in range(5):
        driver.put({"a": n})
    driver.clock.advance(601)
    driver.commit()
    assert driver.store.trim(driver.fence, {}) == 2
    assert driver.store.trim(driver.fence, {}) == 0
    with pytest.raises(EpochTrimmed, match='epoch 3 of table "counts" is no longer kept'):
        driver.rows(as_of=3)
    assert driver.rows(as_of=4) == {"a": 2}
    with driver.reader() as reader, pytest.raises(EpochTrimmed):
        reader.changes("counts", 3)


def test_a_policy_keeps_by_age(driver: Any) -> None:
    driver.counts()
    for n in range(4):
        driver.put({"a": n})
        driver.clock.advance(3600)
    driver.commit()
    assert driver.store.trim(driver.fence, {"counts": timedelta(days=7)}) == 0
    assert driver.store.trim(driver.fence, {"counts": timedelta(hours=2)}) == 1
    assert driver.store.registrations()["counts"].history_from == 3
    assert driver.rows(as_of=3) == {"a": 1}


def test_who_follows_holds_history(driver: Any) -> None:
    driver.counts()
    for n in range(4):
        driver.put({"a": n})
    driver.clock.advance(10_000)
    driver.commit()
    policies = {"counts": timedelta(seconds=1)}
    assert driver.store.trim(driver.fence, policies, hold=3) == 1
    assert driver.store.trim(driver.fence, policies, hold=3) == 0
    with driver.reader() as reader:
        assert [change.epoch for change in reader.changes("counts", 3)] == [4, 5]


def test_one_step_deletes_so_many(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "AT_ONCE", 3)
    driver.counts()
    for n in range(4):
        driver.put({"a": n, "b": n})
    driver.clock.advance(10_000)
    driver.commit()
    policies = {"counts": timedelta(seconds=1)}
    steps = []
    while gone := driver.store.trim(driver.fence, policies):
        steps.append(gone)
    # The notes on where an epoch's rows begin go in the same way.
    assert steps == [3, 3, 3]
    assert driver.rows() == {"a": 3, "b": 3}


def test_changes_are_found_after_notes_are_forgotten(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "AT_ONCE", 2)
    driver.counts()
    for n in range(4):
        driver.put({f"k{n}": n}, upsert=False)
    driver.clock.advance(601)
    driver.commit()
    while driver.store.trim(driver.fence, {}):
        pass
    with driver.reader() as reader:
        for after in range(1, 6):
            assert [c.key[0] for c in reader.changes("counts", after)] == [f"k{n}" for n in range(after - 1, 4)]
