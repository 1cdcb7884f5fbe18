"""Real processes, real kills: whatever dies or wakes up, the store holds whole epochs, each once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.clock import ManualClock, SystemClock
from headrace.store.fence import Holder, RunFolder, take_over
from headrace.store.marks import Marks
from headrace.store.process import Process
from headrace.store.reader import Reader, check_ledger
from headrace.store.sqlite import SqliteStore

from . import worker

BOTH = 'SELECT (SELECT n FROM "left"), (SELECT n FROM "right")'


@contextmanager
def working(folder: Path, mode: str = "steady") -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, worker.__file__, str(folder), mode], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        with process:
            pass


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said = process.stdout.readline().strip()
    if not said:
        raise AssertionError(process.communicate()[1])
    return said


def start_after(folder: Path) -> Holder:
    """Another start, at a time when every heartbeat is old."""
    clock = ManualClock(SystemClock().now_us() + 60_000_000)
    run = RunFolder(folder / "run", clock=clock, wait=clock.advance)
    return take_over(folder / "store.db", Marks(folder, "app", [folder / "log" / "events"]), run)


def test_killed_again_and_again_a_reader_sees_whole_epochs(tmp_path: Path) -> None:
    chance, acknowledged, seen = random.Random(7), 0, 0
    for _ in range(4):
        with working(tmp_path) as process:
            for _ in range(chance.randint(1, 12)):
                acknowledged = int(line(process))
            with Reader(tmp_path / "store.db") as reader:
                # Whatever the process is doing now, it dies in the middle of it; the reader reads on.
                for n in range(20):
                    answer = reader.query(BOTH)
                    assert answer.rows == [[worker.START - answer.epoch, answer.epoch]]
                    assert answer.epoch >= max(acknowledged, seen)
                    seen = answer.epoch
                    if n == 10:
                        process.kill()
    holder = start_after(tmp_path)
    assert holder.began == "ours"
    assert holder.head.epoch >= acknowledged
    assert holder.store.offsets() == {"events": {0: holder.head.epoch}}
    worker.move(holder)
    holder.store.close()
    assert check_ledger(tmp_path / "store.db", {"events": {0: holder.head.epoch}}) == []


def test_a_process_stopped_inside_a_transaction_is_ended(tmp_path: Path) -> None:
    with working(tmp_path, "stop_inside") as process:
        line(process)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        with Reader(tmp_path / "store.db") as reader:
            before = reader.epoch
            holder = start_after(tmp_path)
            assert process.wait() == -signal.SIGKILL
            assert (holder.head.epoch, reader.epoch) == (before, before)
            worker.move(holder)
            assert reader.query(BOTH).rows == [[worker.START - before - 1, before + 1]]
        holder.store.close()


def test_a_process_that_wakes_up_cannot_write(tmp_path: Path) -> None:
    with working(tmp_path, "stop_between") as process:
        assert [line(process), line(process)] == ["1", "2"]
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        marks = Marks(tmp_path, "app", [tmp_path / "log" / "events"])
        store = SqliteStore(tmp_path / "store.db")
        old = store.generation()
        assert old is not None
        assert old.process.pid == process.pid
        # As from another host, which cannot kill it.
        new = store.take_over(old, Process.mine(), lambda *_: (old.lineage, old.lineage_number))
        holder = Holder(store, new, "ours", marks, RunFolder(tmp_path / "run"))
        worker.move(holder)
        os.kill(process.pid, signal.SIGCONT)
        assert line(process) == "fenced"
        assert process.wait() == 3
        worker.move(holder)
        assert holder.head.epoch == 4
        store.close()
    assert check_ledger(tmp_path / "store.db") == []


def test_two_starts_at_once(tmp_path: Path) -> None:
    with working(tmp_path) as first, working(tmp_path) as second:
        said = {line(first): first, line(second): second}
        assert set(said) == {"already_running", "1"}
        loser = said["already_running"]
        assert loser.wait() == 3
