"""The ledger's chain: whatever is changed in it is found and named."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from headrace.store.ledger import LedgerRow
from headrace.store.reader import check_ledger

ENDS = {"events": {0: 100}}


def test_a_row_comes_back_as_it_was(driver: Any) -> None:
    driver.commit(
        references={"customers": "ab"},
        definitions={"t": {"fingerprint": "é"}},
        rejects={"events": 1},
        max_times={"events": {"0": 5}},
    )
    (row,) = driver.store.ledger()
    assert row.hash == row.computed_hash() == driver.head.hash
    assert row.references == {"customers": "ab"}
    assert row.ranges == {"events": {0: (0, 1)}}
    assert (row.clock, row.previous) == (driver.clock.now_us(), "")


def test_each_row_carries_the_hash_of_the_one_before(driver: Any) -> None:
    heads = [driver.commit(rows=3) for _ in range(4)]
    rows: list[LedgerRow] = list(driver.store.ledger(after=1))
    assert [row.previous for row in rows] == [head.hash for head in heads[:3]]
    assert driver.store.offsets() == {"events": {0: 12}}
    again = driver.reopen()
    assert again.store.offsets() == {"events": {0: 12}}
    with driver.reader() as reader:
        assert reader.offsets(2) == {"events": {0: 6}}
    again.store.close()
    assert check_ledger(driver.path, ENDS) == []


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("UPDATE _ledger SET ranges = replace(ranges, '[3,6]', '[3,7]') WHERE epoch = 2", "epoch 2: its hash is not the hash"),
        (
            "UPDATE _ledger SET ranges = replace(ranges, '[3,6]', '[3,7]') WHERE epoch = 2",
            "epoch 3: events, partition 0, [6, 9): the epoch before ended at 7",
        ),
        ("UPDATE _ledger SET hash = 'ff' WHERE epoch = 2", "epoch 3: it does not follow the epoch before"),
        ("UPDATE _ledger SET generation = 9 WHERE epoch = 1", "epoch 1: its hash is not the hash"),
        ("UPDATE _ledger SET ranges = 'x' WHERE epoch = 1", "epoch 1: its ranges cannot be read"),
        ("DELETE FROM _ledger WHERE epoch = 2", "epoch 3: it follows epoch 1"),
    ],
)
def test_damage_is_found_and_named(driver: Any, damage: str, found: str) -> None:
    for _ in range(3):
        driver.commit(rows=3)
    with sqlite3.connect(driver.path) as db:
        db.execute(damage)
    assert any(line.startswith(found) for line in check_ledger(driver.path, ENDS))


def test_ranges_beyond_the_log_are_found(driver: Any) -> None:
    driver.commit(rows=3)
    assert check_ledger(driver.path, {"events": {0: 2}}) == ["epoch 1: events, partition 0, [0, 3): the log ends at 2"]
