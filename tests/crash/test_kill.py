"""kill -9 of the app at every step of the protocol, with producers and a reader in other processes: nothing is lost, nothing
comes twice, and nobody ever sees half an epoch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.runtime.protocol import STEPS

from . import auditor, bank, teller
from .kit import Project, finish, wait_until, working

BANK = Path(bank.__file__)
FEW = ["after:commit", "before:commit", "before:deliver", "after:tidy"]
ALL = [f"{side}:{step}" for step in STEPS for side in ("before", "after")]


def strike_everywhere(books: Project, points: list[str]) -> None:
    """Start the app again and again, each time to die at another point, while tellers work and an auditor looks."""
    books.call("topic", "create")
    with contextlib.ExitStack() as stack:
        tellers = [stack.enter_context(working(Path(teller.__file__), books.data / "log", name)) for name in ("anna", "bert")]
        looking = stack.enter_context(working(Path(auditor.__file__), books.store))
        for point in points:
            app = books.start(crash=point)
            assert app.wait_ended() == -9, app.text
        before = books.epoch()
        app = books.start().wait_running()
        books.wait_epoch(before)
        paid_in = sum(finish(each) for each in tellers)
        wait_until(lambda: books.rows("SELECT amount FROM paid_in") == [[paid_in]], "everything that was paid in")
        audit = finish(looking)
        assert app.stop() == 143
    assert audit["wrong"] == []
    assert audit["epochs"] >= 3
    assert books.rows("SELECT sum(balance) FROM accounts") == [[paid_in]]
    assert {source["rejects"] for source in books.verify()["sources"]} == {0}


def test_killed_at_some_steps(project: Callable[..., Project]) -> None:
    strike_everywhere(project(BANK), FEW)


@pytest.mark.slow
def test_killed_before_and_after_every_step(project: Callable[..., Project]) -> None:
    strike_everywhere(project(BANK), ALL)
