"""Transfers keep the sum, in every epoch."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from types import ModuleType

import pytest
from transfers import transfers

from headrace import HeadraceError
from headrace.store.reader import Reader


def test_the_sum_of_all_balances_is_zero_in_every_epoch(example: ModuleType) -> None:
    app, moved = example.app, list(transfers(600))
    with app.start() as run:
        for start in range(0, len(moved), 150):
            run.wait(example.transfers.append(moved[start : start + 150]), timeout=60)
    with Reader(app.place().store) as reader:
        for epoch in range(1, reader.epoch + 1):
            snapshot = reader.at(epoch)
            rows = snapshot.query("SELECT sum(balance) AS total, sum(movements) AS movements FROM accounts").to_dicts()
            assert rows[0]["total"] in (None, Decimal(0))
            negative = snapshot.query("SELECT account, balance FROM accounts WHERE balance < 0 ORDER BY account").rows
            assert snapshot.query("SELECT account, balance FROM overdrawn ORDER BY account").rows == negative
    expected: defaultdict[str, Decimal] = defaultdict(Decimal)
    for transfer in moved:
        expected[str(transfer["source"])] -= Decimal(transfer["amount"])
        expected[str(transfer["target"])] += Decimal(transfer["amount"])
    assert {row["account"]: row["balance"] for row in app.read("accounts").to_dicts()} == expected
    assert app.verify().ok


def test_a_transfer_without_an_amount_is_refused_whole(example: ModuleType) -> None:
    with pytest.raises(HeadraceError, match="amount"):
        example.transfers.append([{"source": "a", "target": "b", "amount": "1.00"}, {"source": "a", "target": "b"}])
    assert example.app.place().topic("transfers").exists()
