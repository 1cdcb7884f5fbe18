"""Who may write: the ceremony of taking a store over, and holding it.

One generation writes. To take over is: keep other starters out (`run/lock`), judge the processes that may be at work,
read the marks, and hit the store's `_generation` row if it is still the one that was judged. From then on every
transaction of an older generation fails, wherever it was stopped.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headrace.clock import Clock, SystemClock
from headrace.errors import AlreadyRunning, StoreRestored
from headrace.store.base import CommitUnknown, Generation, Head, Store, Writes
from headrace.store.ledger import LedgerRow
from headrace.store.marks import Mark, Marks, standing
from headrace.store.process import Process
from headrace.store.sqlite import SqliteStore

YOUNG_US = 5_000_000
"""A heartbeat counts as a sign of life for so long."""
LOCK_WAIT_US = 10_000_000
"""A starter that holds `run/lock` for longer is killed: there is nothing to do under it that takes so long."""
_POLL_S = 0.02

Began = Literal["ours", "new", "claimed", "restored"]
Wait = Callable[[float], None]


# --- the run folder ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Beat:
    """What `run/runner.json` says: who is at work, and when it last said so."""

    process: Process
    generation: int
    heartbeat: int


class RunFolder:
    """`run/`: tells other processes who is at work. All of it may be deleted at any time; nothing depends on it."""

    def __init__(self, folder: Path, *, clock: Clock | None = None, wait: Wait = time.sleep) -> None:
        self.folder = folder
        self.clock = clock or SystemClock()
        self.wait = wait

    @property
    def runner_json(self) -> Path:
        """The running generation and its heartbeat."""
        return self.folder / "runner.json"

    def beat(self, generation: Generation) -> None:
        """Say that this generation is alive; not over a newer one's word: who was stopped may wake up here."""
        there = self.read_beat()
        if there is not None and there.generation > generation.number and there.process.near and there.process.alive:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        named = {**generation.process.as_json(), "generation": generation.number, "heartbeat": self.clock.now_us()}
        beside = self.runner_json.with_name(f"runner.json.{os.getpid()}.tmp")
        beside.write_text(json.dumps(named))
        beside.replace(self.runner_json)

    def read_beat(self) -> Beat | None:
        """The last sign of life that is there."""
        read = _read_json(self.runner_json)
        try:
            return Beat(Process.of(read), int(read["generation"]), int(read["heartbeat"]))
        except (KeyError, TypeError, ValueError):
            return None

    def rest(self, generation: Generation) -> None:
        """Take our own sign of life away, after a clean end."""
        beat = self.read_beat()
        if beat is not None and (beat.process, beat.generation) == (generation.process, generation.number):
            self.runner_json.unlink(missing_ok=True)

    @contextlib.contextmanager
    def lock(self, process: Process) -> Iterator[None]:
        """Keep two starters apart. Who waits longer than ten seconds kills exactly the holder that the file names."""
        fd = self._take_lock()
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"pid": process.pid, "process_started": process.started}).encode(), 0)
            yield
        finally:
            os.close(fd)

    def _take_lock(self) -> int:
        due = self.clock.now_us() + LOCK_WAIT_US
        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / "lock"
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with contextlib.suppress(FileNotFoundError):
                    # The folder may have been deleted while we waited: then this file keeps nobody out.
                    if os.stat(path).st_ino == os.fstat(fd).st_ino:
                        return fd
            except BlockingIOError:
                if self.clock.now_us() >= due:
                    self._kill_holder(path)
                    due = self.clock.now_us() + LOCK_WAIT_US
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
            self.wait(_POLL_S)

    def _kill_holder(self, path: Path) -> None:
        read = _read_json(path)
        with contextlib.suppress(KeyError, TypeError, ValueError):
            # A file lock is held on this machine, so the holder is near.
            Process(int(read["pid"]), Process.mine().host, str(read["process_started"])).kill()


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}


# --- judging -----------------------------------------------------------------------------------------------------------


def judge(old: Process, run: RunFolder) -> Process | None:
    """May we take over from this process? Returns it when it must be killed first; raises `AlreadyRunning`.

    Same host and gone: at once. Same host and there: not while its heartbeat is young (without a heartbeat it counts as
    young for five seconds); else kill exactly it. Another host: wait until its heartbeat is old; not if it moves.
    """
    if old.pid == 0 or (old.near and not old.alive):
        return None
    seen = run.clock.now_us()
    first = _beat_of(old, run)
    if old == Process.mine() and first is None:
        # An earlier run of this very process, which ended without saying so.
        return None
    due = (seen if first is None else min(first, seen)) + YOUNG_US
    while run.clock.now_us() < due:
        if old.near and first is not None:
            raise _already_running(old)
        run.wait(_POLL_S)
        if _beat_of(old, run) not in (None, first):
            raise _already_running(old)
        if old.near and not old.alive:
            return None
    return old if old.near else None


def refuse_while_alive(run: RunFolder) -> None:
    """Say at once what `take_over` would say later: another one is at work. Silence promises nothing."""
    beat = run.read_beat()
    if beat is None or not beat.process.near or not beat.process.alive:
        return
    if run.clock.now_us() < beat.heartbeat + YOUNG_US:
        raise _already_running(beat.process)


def _beat_of(process: Process, run: RunFolder) -> int | None:
    beat = run.read_beat()
    return beat.heartbeat if beat is not None and beat.process == process else None


def _already_running(process: Process) -> AlreadyRunning:
    return AlreadyRunning(f"the app is running already: {process}", hint="headrace status, or headrace stop")


# --- taking over -------------------------------------------------------------------------------------------------------


class Holder:
    """The generation at work: its store, its newest epoch, its last mark. One per running app.

    `began` says how: `ours` went on, `new` is a store that was not there before, `claimed` and `restored` began a new
    lineage on an existing store.
    """

    def __init__(self, store: Store, generation: Generation, began: Began, marks: Marks, run: RunFolder) -> None:
        self.store, self.generation, self.began = store, generation, began
        self.head = store.head()
        self._marks, self._run = marks, run
        self.mark = Mark.at(generation, self.head, store.offsets())
        self.write_mark()

    def write_mark(self) -> None:
        """Write how far we are beside the log; only then may a sink or a feed take the epoch."""
        mark = Mark.at(self.generation, self.head, self.store.offsets())
        self._marks.write(mark, self.store.check_file)
        self.mark = mark

    def beat(self) -> None:
        """Check that everything is still ours, and say that we are alive; every second or so."""
        self.check()
        self._run.beat(self.generation)

    def say_alive(self) -> None:
        """Only say that we are alive, without asking the store: it may be busy with our own commit."""
        self._run.beat(self.generation)

    def check(self) -> None:
        """Raise unless store, fence, newest epoch and mark are our own; a mark that is missing is written anew."""
        self.store.check(self.generation, self.head)
        self._marks.check(self.mark)
        if self._marks.missing():
            self.write_mark()

    def commit(self, entry: LedgerRow, writes: Writes) -> Head | None:
        """Write one epoch and its mark. None: it is not there, and nobody else's is; compute it again.

        The outcome of a commit that breaks off is learnt from the store, never guessed.
        """
        self._marks.check(self.mark)
        try:
            head = self.store.commit(self.generation, self.head, entry, writes)
        except CommitUnknown:
            self.generation, head = self.store.resolve(self.generation, self.head, entry)
            if head == self.head:
                return None
        self.head = head
        self.write_mark()
        return head

    def release(self) -> None:
        """End cleanly: the next start need not judge a process that lives on without the app."""
        try:
            self.store.release(self.generation)
        finally:
            self._run.rest(self.generation)


def take_over(
    store_path: Path,
    marks: Marks,
    run: RunFolder,
    *,
    restored: bool = False,
    lineage_above: int = 0,
    process: Process | None = None,
    opened: Callable[[Path], Store] | None = None,
) -> Holder:
    """Become the generation at work.

    `restored`: begin a new lineage, which is what someone asks for who put an old copy of the store in its place.
    `lineage_above`: the highest lineage number that a sink knows. Raises `AlreadyRunning` or `StoreRestored`.
    """
    me = process or Process.mine()
    began: list[Began] = []

    def decide(found: Generation | None, head: Head, in_ledger: Callable[[int, str], bool]) -> tuple[str, int]:
        state: Began = "new" if found is None else standing(marks.read(), found, head, in_ledger)
        if state == "restored" and not restored:
            raise _refuse_restored(store_path, marks, head)
        began.append("restored" if restored else state)
        if found is not None and state == "ours" and not restored:
            return found.lineage, found.lineage_number
        return _begin_lineage(store, marks, found, head, lineage_above)

    with run.lock(me):
        store = opened(store_path) if opened else SqliteStore(store_path, clock=run.clock)
        try:
            judged = store.generation()
            _clear_the_way(judged, run)
            generation = store.take_over(judged, me, decide)
        except BaseException:
            store.close()
            raise
        run.beat(generation)
    try:
        return Holder(store, generation, began[-1], marks, run)
    except BaseException:
        store.close()
        raise


def _clear_the_way(judged: Generation | None, run: RunFolder) -> None:
    """Judge the process in the store and the one in `run/runner.json`."""
    beat = run.read_beat()
    for old in dict.fromkeys([*([judged.process] if judged else []), *([beat.process] if beat else [])]):
        doomed = judge(old, run)
        if doomed is not None:
            doomed.kill()


def _begin_lineage(store: Store, marks: Marks, found: Generation | None, head: Head, above: int) -> tuple[str, int]:
    """Claim a number by a mark, before the store knows it: two starters on two copies must not take the same one."""
    lineage, offsets = secrets.token_hex(8), store.offsets()

    def make(number: int) -> Mark:
        generation = (found.number if found else 0) + 1
        return Mark(lineage, number, generation, head.epoch, head.hash, offsets)

    mark = marks.claim(max(above, found.lineage_number if found else 0), make, store.check_file)
    return lineage, mark.number


def _refuse_restored(path: Path, marks: Marks, head: Head) -> StoreRestored:
    newest: Mapping[str, Any] = max((m.__dict__ for m in marks.read()), key=lambda m: (m["number"], m["generation"], m["epoch"]))
    return StoreRestored(
        f"the store {path} is an older copy of itself",
        details=[f"it ends at epoch {head.epoch}; the log says that epoch {newest['epoch']} was committed"],
        hint="headrace run --restored goes on from this copy; or put the newest one back, without -wal and -shm files of another",
    )
