"""Who may write: judged by processes that are real and times that are not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.clock import ManualClock
from headrace.errors import AlreadyRunning, Fenced, StoreReplaced, StoreRestored
from headrace.store.base import Generation, Registration, TableSpec, Writes
from headrace.store.fence import YOUNG_US, Holder, RunFolder, judge, take_over
from headrace.store.ledger import LedgerRow
from headrace.store.marks import Marks
from headrace.store.process import Process, started
from headrace.store.sqlite import SqliteStore

from . import kit

ELSEWHERE = Process(4711, "another/boot", "1")


class World:
    """An app's folder, whose time passes only while somebody waits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store.db"
        self.clock = ManualClock()
        self.waited = 0.0
        self.while_waiting: list[Any] = []
        self.run = RunFolder(folder / "run", clock=self.clock, wait=self.wait)
        self.marks = Marks(folder, "app", [folder / "log" / "events"])

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.waited += seconds
        for action in self.while_waiting:
            action()

    def start(self, **more: Any) -> Holder:
        return take_over(self.store, self.marks, self.run, **more)

    def beat_of(self, process: Process, number: int = 1) -> None:
        self.run.beat(Generation(number, "n", "l", 1, process))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def other() -> Iterator[Process]:
    """Another living process on this machine."""
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield Process(child.pid, Process.mine().host, started(child.pid) or "")
    child.kill()
    child.wait()


def entry(holder: Holder, rows: int = 1) -> LedgerRow:
    at = holder.store.offsets().get("events", {}).get(0, 0)
    g = holder.generation
    return LedgerRow(holder.head.epoch + 1, "epoch", g.number, g.lineage, 0, 0, {"events": {0: (at, at + rows)}})


def create(holder: Holder) -> None:
    holder.commit(entry(holder), Writes(create=[Registration(TableSpec("counts", kit.COUNTS, ("k",)))]))


def copy(source: Path, target: Path) -> None:
    with sqlite3.connect(source) as a, sqlite3.connect(target) as b:
        a.backup(b)


def put_back(saved: Path, path: Path) -> None:
    """What someone does who restores a store: the old file, without the newer one's -wal and -shm."""
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    shutil.copy(saved, path.with_name("restored"))
    path.with_name("restored").replace(path)


# --- judging ---


def test_a_process_that_is_gone_is_no_obstacle(world: World, other: Process) -> None:
    other.kill()
    os.waitpid(other.pid, 0)
    assert judge(other, world.run) is None
    assert world.waited == 0


def test_a_pid_that_belongs_to_another_process_now_is_no_obstacle(world: World, other: Process) -> None:
    assert judge(Process(other.pid, other.host, "12"), world.run) is None
    assert other.alive


def test_a_young_heartbeat_is_respected(world: World, other: Process) -> None:
    world.beat_of(other)
    with pytest.raises(AlreadyRunning, match=f"process {other.pid}"):
        judge(other, world.run)
    assert world.waited == 0


def test_an_old_heartbeat_dooms_exactly_its_process(world: World, other: Process) -> None:
    world.beat_of(other)
    world.clock.advance(YOUNG_US / 1e6)
    assert judge(other, world.run) == other


def test_without_a_heartbeat_a_living_process_counts_as_young(world: World, other: Process) -> None:
    assert judge(other, world.run) == other
    assert world.waited == pytest.approx(5, abs=0.1)


def test_a_heartbeat_that_appears_while_waiting_is_respected(world: World, other: Process) -> None:
    world.while_waiting.append(lambda: world.beat_of(other))
    with pytest.raises(AlreadyRunning):
        judge(other, world.run)


def test_a_process_that_ends_while_waiting_is_no_obstacle(world: World, other: Process) -> None:
    world.while_waiting.append(lambda: world.waited > 1 and (other.kill(), other.alive and os.waitpid(other.pid, 0)))
    assert judge(other, world.run) is None


def test_another_host_is_waited_for(world: World) -> None:
    world.beat_of(ELSEWHERE)
    assert judge(ELSEWHERE, world.run) is None
    assert world.waited == pytest.approx(5, abs=0.1)


def test_another_hosts_moving_heartbeat_is_respected(world: World) -> None:
    world.beat_of(ELSEWHERE)
    world.while_waiting.append(lambda: world.waited > 2 and world.beat_of(ELSEWHERE))
    with pytest.raises(AlreadyRunning, match="on another"):
        judge(ELSEWHERE, world.run)


def test_a_heartbeat_from_the_future_does_not_last_longer(world: World) -> None:
    world.clock.advance(3600)
    world.beat_of(ELSEWHERE)
    late = ManualClock()
    world.run = RunFolder(world.run.folder, clock=late, wait=late.advance)
    assert judge(ELSEWHERE, world.run) is None
    assert late.now_us() - ManualClock().now_us() < 2 * YOUNG_US


def test_who_wakes_up_does_not_speak_over_a_newer_generation(world: World, other: Process) -> None:
    world.beat_of(other, number=2)
    world.beat_of(Process.mine(), number=1)
    beat = world.run.read_beat()
    assert beat is not None
    assert (beat.process, beat.generation) == (other, 2)
    os.kill(other.pid, signal.SIGKILL)
    os.waitpid(other.pid, 0)
    world.beat_of(Process.mine(), number=1)
    beat = world.run.read_beat()
    assert beat is not None
    assert beat.process == Process.mine()


# --- run/lock ---


def test_a_starter_that_holds_the_lock_too_long_is_killed(world: World) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom headrace.store.fence import RunFolder\n"
        "from headrace.store.process import Process\n"
        "with RunFolder(Path(sys.argv[1])).lock(Process.mine()):\n  print('held', flush=True); sys.stdin.read()"
    )
    held = subprocess.Popen(
        [sys.executable, "-c", script, str(world.run.folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert held.stdout is not None
    assert held.stdout.readline() == "held\n"
    assert json.loads((world.run.folder / "lock").read_text())["pid"] == held.pid
    world.while_waiting.append(lambda: world.waited > 10 and held.wait(10))
    with world.run.lock(Process.mine()):
        assert world.waited > 10
        assert held.wait(10) == -signal.SIGKILL
    with held:
        pass


def test_the_lock_survives_that_its_folder_is_deleted(world: World) -> None:
    with world.run.lock(Process.mine()):
        shutil.rmtree(world.run.folder)
    with world.run.lock(Process.mine()):
        pass


# --- taking over ---


def test_the_first_start(world: World) -> None:
    holder = world.start()
    assert holder.began == "new"
    assert (holder.generation.number, holder.generation.lineage_number, holder.head.epoch) == (1, 1, 0)
    assert world.marks.read() == [holder.mark]
    create(holder)
    assert (holder.mark.epoch, holder.mark.hash, holder.mark.offsets) == (1, holder.head.hash, {"events": {0: 1}})
    assert world.marks.read() == [holder.mark]
    holder.check()


def test_a_second_start_while_the_first_is_at_work(world: World) -> None:
    world.start()
    with pytest.raises(AlreadyRunning):
        world.start()


def test_after_a_clean_end_the_process_may_live_on(world: World, other: Process) -> None:
    first = world.start(process=other)
    create(first)
    first.release()
    assert world.run.read_beat() is None
    second = world.start()
    assert (second.began, second.generation.number, second.head.epoch) == ("ours", 2, 1)
    assert second.generation.lineage == first.generation.lineage
    assert other.alive
    assert world.waited == 0


def test_a_stopped_process_is_killed_and_taken_over(world: World, other: Process) -> None:
    first = world.start(process=other)
    create(first)
    os.kill(other.pid, signal.SIGSTOP)
    world.clock.advance(6)
    second = world.start()
    assert os.waitpid(other.pid, 0)[1] == signal.SIGKILL
    assert second.generation.number == 2
    with pytest.raises(Fenced):
        first.check()
    with pytest.raises(Fenced):
        first.commit(entry(first), Writes())
    second.commit(entry(second), Writes())


def test_everything_under_run_may_be_deleted(world: World, other: Process) -> None:
    first = world.start(process=other)
    create(first)
    shutil.rmtree(world.run.folder)
    first.beat()
    with pytest.raises(AlreadyRunning):
        world.start()
    shutil.rmtree(world.run.folder)
    # Without its heartbeat the process counts as young for five seconds, and is killed then: it may be stopped.
    assert world.start().generation.number == 2
    assert world.waited == pytest.approx(5, abs=0.1)


def test_a_store_that_stays_locked(world: World) -> None:
    world.start().release()
    locker = sqlite3.connect(world.store, isolation_level=None)
    locker.execute("BEGIN IMMEDIATE")
    with pytest.raises(AlreadyRunning, match="is locked by another process") as error:
        world.start(opened=lambda path: SqliteStore(path, lock_timeout_s=0.01))
    assert "its newest generation is 1" in error.value.render()
    locker.close()


# --- a store that went back, or went away ---


def test_a_restored_store_is_refused(world: World) -> None:
    holder = world.start()
    create(holder)
    saved = world.folder / "yesterday.db"
    copy(world.store, saved)
    holder.commit(entry(holder), Writes())
    lineage = holder.generation.lineage
    holder.release()
    holder.store.close()
    put_back(saved, world.store)
    with pytest.raises(StoreRestored, match="older copy") as error:
        world.start()
    assert "ends at epoch 1; the log says that epoch 2 was committed" in error.value.render()
    again = world.start(restored=True)
    assert (again.began, again.generation.lineage_number, again.head.epoch) == ("restored", 2, 1)
    assert again.generation.lineage != lineage
    assert world.marks.read() == [again.mark]
    again.commit(entry(again), Writes())
    again.release()
    again.store.close()
    assert world.start().began == "ours"


def test_a_restored_store_under_a_running_app(world: World) -> None:
    holder = world.start()
    create(holder)
    saved = world.folder / "yesterday.db"
    copy(world.store, saved)
    holder.commit(entry(holder), Writes())
    put_back(saved, world.store)
    for step in (holder.beat, lambda: holder.commit(entry(holder), Writes()), holder.write_mark):
        with pytest.raises(StoreReplaced):
            step()


def test_a_deleted_store_begins_anew(world: World) -> None:
    holder = world.start()
    create(holder)
    holder.store.close()
    for file in world.folder.glob("store.db*"):
        file.unlink()
    shutil.rmtree(world.run.folder)
    again = world.start()
    assert (again.began, again.head.epoch, again.generation.lineage_number) == ("new", 0, 2)
    assert world.marks.read() == [again.mark]


def test_a_lineage_that_was_claimed_and_got_no_further(world: World) -> None:
    holder = world.start()
    create(holder)
    holder.release()
    holder.store.close()
    # A start died between its claim and its first transaction.
    world.marks.claim(1, lambda number: replace(holder.mark, lineage="dead", number=number), lambda: None)
    again = world.start()
    assert (again.began, again.generation.lineage_number, again.head.epoch) == ("claimed", 3, 1)


def test_a_new_lineage_is_above_what_sinks_know(world: World) -> None:
    assert world.start(lineage_above=7).generation.lineage_number == 8


def test_a_missing_mark_is_written_anew(world: World) -> None:
    holder = world.start()
    create(holder)
    shutil.rmtree(world.folder / "log")
    holder.check()
    assert world.marks.read() == [holder.mark]


def test_two_copies_of_one_store_cannot_both_go_on(world: World, tmp_path: Path) -> None:
    holder = world.start()
    create(holder)
    holder.release()
    copy(world.store, tmp_path / "copy.db")
    first = world.start()
    shutil.rmtree(world.run.folder)
    with pytest.raises(StoreRestored):
        take_over(tmp_path / "copy.db", world.marks, RunFolder(tmp_path / "run2"))
    first.commit(entry(first), Writes())
    second = take_over(tmp_path / "copy.db", world.marks, RunFolder(tmp_path / "run2"), restored=True)
    with pytest.raises(Fenced, match="the mark of another"):
        first.commit(entry(first), Writes())
    second.commit(entry(second), Writes())
