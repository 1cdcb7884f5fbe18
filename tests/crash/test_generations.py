"""Two at once, one that sleeps, one that wakes up: one generation writes, and the others say why they end."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.clock import SystemClock
from headrace.store.fence import YOUNG_US, RunFolder
from headrace.store.process import Process
from headrace.store.reader import check_ledger
from headrace.store.sqlite import SqliteStore
from tests.store import worker

from . import auditor, bank, teller
from .kit import Project, finish, wait_until, working

BANK = Path(bank.__file__)
NOBODY = Process(0, "", "")


def take_over_from_afar(store: Path) -> int:
    """Another machine takes the store over: it cannot see whether our process lives, and does not end it."""
    with SqliteStore(store) as db:
        judged = db.generation()
        assert judged is not None
        return db.take_over(judged, NOBODY, lambda found, head, known: (judged.lineage, judged.lineage_number)).number


def heartbeat_is_old(data: Path) -> bool:
    """Whether another start may take over."""
    beat = RunFolder(data / "run").read_beat()
    return beat is None or SystemClock().now_us() > beat.heartbeat + YOUNG_US


def test_two_at_once_and_one_that_wakes_up(project: Callable[..., Project]) -> None:
    books = project(BANK)
    books.call("topic", "create")
    with (
        working(Path(teller.__file__), books.data / "log", "anna") as paying,
        working(Path(auditor.__file__), books.store) as looking,
    ):
        first = books.start().wait_running()
        second = books.start()
        assert second.wait_ended() == 3
        assert second.error["code"] == "already_running"
        assert f"process {first.process.pid}" in second.error["message"]
        books.wait_epoch(2)
        first.send(signal.SIGSTOP)
        taken = take_over_from_afar(books.store)
        epoch = books.epoch()
        first.send(signal.SIGCONT)
        assert first.wait_ended() == 3, first.text
        assert first.error["code"] == "fenced"
        assert books.epoch() == epoch
        third = books.start().wait_running()
        books.wait_epoch(epoch)
        paid_in = finish(paying)
        wait_until(lambda: books.rows("SELECT amount FROM paid_in") == [[paid_in]], "everything that was paid in")
        audit = finish(looking)
        assert third.stop() == 143
    assert audit["wrong"] == []
    with SqliteStore(books.store) as store:
        generation = store.generation()
    assert generation is not None
    assert generation.number == taken + 1


@pytest.mark.slow
def test_one_that_sleeps_is_ended_and_taken_over(project: Callable[..., Project]) -> None:
    """On one machine nobody waits for a process whose heartbeat is old: it is killed, also inside a transaction."""
    books = project(BANK)
    books.call("topic", "create")
    with contextlib.ExitStack() as stack:
        paying = stack.enter_context(working(Path(teller.__file__), books.data / "log", "anna"))
        looking = stack.enter_context(working(Path(auditor.__file__), books.store))
        app = books.start().wait_running()
        for _ in range(3):
            books.wait_epoch(books.epoch())
            app.send(signal.SIGSTOP)
            wait_until(lambda: heartbeat_is_old(books.data), "an old heartbeat")
            following = books.start().wait_running()
            assert app.wait_ended() == -9
            app = following
        paid_in = finish(paying)
        wait_until(lambda: books.rows("SELECT amount FROM paid_in") == [[paid_in]], "everything that was paid in")
        assert finish(looking)["wrong"] == []
        assert app.stop() == 143
    books.verify()


@pytest.mark.slow
def test_started_at_once_after_kill_again_and_again(project: Callable[..., Project]) -> None:
    books = project(BANK)
    books.call("topic", "create")
    with contextlib.ExitStack() as stack:
        paying = stack.enter_context(working(Path(teller.__file__), books.data / "log", "anna"))
        looking = stack.enter_context(working(Path(auditor.__file__), books.store))
        for _ in range(12):
            app = books.start().wait_running()
            app.kill()
        app = books.start().wait_running()
        paid_in = finish(paying)
        wait_until(lambda: books.rows("SELECT amount FROM paid_in") == [[paid_in]], "everything that was paid in")
        assert finish(looking)["wrong"] == []
        assert app.stop() == 143
    books.verify()


@pytest.mark.slow
def test_a_store_taken_over_at_once_a_hundred_times(tmp_path: Path) -> None:
    """The same without Spark: whoever comes after kill -9 never waits, and no epoch is lost."""
    newest = 0
    for n in range(100):
        with working(Path(worker.__file__), tmp_path, "steady") as process:
            assert process.stdout is not None
            acknowledged = [int(process.stdout.readline()) for _ in range(1 + n % 3)]
        assert acknowledged[0] > newest
        newest = acknowledged[-1]
    assert check_ledger(tmp_path / "store.db") == []
