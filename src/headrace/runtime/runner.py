"""The runner: one generation at work. Starts, recovers, runs epochs until it is stopped, and ends cleanly.

    run
     ├─ start Spark, open the log, read references, plan every table
     ├─ take the store over (one generation at a time)
     ├─ create or rebuild what the definitions ask for
     ├─ epochs, as rows come; a heartbeat and `tidy` beside them
     └─ let go

A JVM that dies is replaced, at most three times; an epoch in which a Python worker dies is computed again, at most three times.
Everything else that fails ends the run with an error that names it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from headrace.clock import Clock, SystemClock
from headrace.definitions import AppDef
from headrace.durations import parse_duration
from headrace.errors import HeadraceError, WorldError
from headrace.place import Place
from headrace.runtime.engine import Engine
from headrace.runtime.generation import Generation, Workshop
from headrace.runtime.lifecycle import Lifecycle
from headrace.runtime.protocol import Steps
from headrace.runtime.rebuild import due, rebuild
from headrace.runtime.sequencer import FIRST_ROWS, FIRST_ROWS_READ_BY_SPARK, Sequencer
from headrace.settings import Settings
from headrace.spark.errors import SparkDied, WorkerDied, is_dead
from headrace.spark.session import forget_dead_sessions, start_sessions
from headrace.store.fence import Holder, RunFolder, refuse_while_alive, take_over
from headrace.store.marks import Marks

POLL_S = 0.005
POLL_IDLE_S = 0.01
"""Waking up is what waiting costs: without rows we do it half as often, which still notices a row within 20 ms."""
IDLE_S = 1.0
BEAT_S = 1.0
TIDY_S = 5.0
PURITY_S = 60.0
REBUILT_PER_S = 300_000
"""Rows per second that a rebuild takes in, roughly: for what is said before it begins."""
JVM_DEATHS = 3
COPIED_ROWS = 1_000_000
"""Rows of one epoch at most where rows of sources are kept for recomputing: they all pass through this process."""
WORKER_DEATHS = 3

T = TypeVar("T")


@dataclass(frozen=True)
class Event:
    """Something that the runner says."""

    message: str
    epoch: int | None = None
    rows: int | None = None
    rejects: int | None = None
    ms: float | None = None
    tables: tuple[str, ...] = ()
    level: str = "info"


@dataclass(frozen=True)
class RunStatus:
    """How a run stands."""

    state: str
    generation: int | None
    epoch: int | None
    rows: int
    epochs: int
    steps_ms: dict[str, float] = field(default_factory=dict)
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return dict(self.__dict__)


class Runner:
    """Runs one app until it is stopped.

    `run` blocks; `stop` may be called from any thread or a signal handler's thread; `wait_for` waits in another thread until
    a prefix is committed.
    """

    def __init__(
        self,
        app: AppDef,
        place: Place,
        settings: Settings,
        *,
        clock: Clock | None = None,
        report: Callable[[Event], None] | None = None,
    ) -> None:
        self.app, self.place, self.settings = app, place, settings
        self.clock = clock or SystemClock()
        self.lifecycle = Lifecycle()
        self._report = report or (lambda event: None)
        self._stop = threading.Event()
        self._committed = threading.Condition()
        self._engine: Engine | None = None
        self._rows = self._epochs = 0
        self._error: HeadraceError | None = None

    # --- from other threads

    def stop(self) -> None:
        """Ask the run to end after the epoch at work."""
        self._stop.set()

    def status(self) -> RunStatus:
        """How the run stands."""
        engine = self._engine
        return RunStatus(
            state=self.lifecycle.state.value,
            generation=engine.holder.generation.number if engine else None,
            epoch=engine.holder.head.epoch if engine else None,
            rows=self._rows,
            epochs=self._epochs,
            steps_ms=dict(engine.steps.milliseconds) if engine else {},
            error=str(self._error) if self._error else None,
        )

    def wait_for(self, topic: str, ends: dict[int, int], timeout: float | None = None) -> int:
        """Wait until every table has taken these rows; returns the epoch that covers them.

        Raises the run's own error when it failed, `TimeoutError` when it takes too long.
        """

        def covered() -> bool:
            engine = self._engine
            used = engine.used().get(topic, {}) if engine else {}
            return all(used.get(partition, 0) >= end for partition, end in ends.items())

        with self._committed:
            self._committed.wait_for(lambda: covered() or self._error is not None or self.lifecycle.ended, timeout)
            if self._error is not None:
                raise self._error
            if not covered():
                raise TimeoutError(
                    f"{topic} {ends} is not taken after {timeout} s" if not self.lifecycle.ended else "the run has ended"
                )
            assert self._engine is not None
            return self._engine.holder.head.epoch

    # --- the run

    def run(self, *, once: bool = False, restored: bool = False) -> None:
        """Keep the tables up to date until stopped; with `once`, take what is there at the start and end."""
        deaths = 0
        targets: dict[str, dict[int, int]] | None = None
        try:
            # Whoever starts a second one by mistake need not wait for Spark to hear so.
            refuse_while_alive(RunFolder(self.place.run))
            while True:
                try:
                    with self._opened(restored) as engine:
                        if once and targets is None:
                            targets = engine.ends()
                        self._keep_up(engine, targets)
                    break
                except Exception as error:
                    if not _jvm_died(error):
                        raise
                    deaths += 1
                    if deaths > JVM_DEATHS or self._stop.is_set():
                        raise _died_too_often(error, deaths, self.place) from error
                    restored = False
                    self._say(Event(f"Spark's JVM died; starting another one ({deaths} of {JVM_DEATHS})", level="warning"))
                    forget_dead_sessions()
            self.lifecycle.end()
        except HeadraceError as error:
            self._fail(error)
            raise
        except BaseException:
            self.lifecycle.fail()
            raise
        finally:
            with self._committed:
                self._committed.notify_all()

    def _fail(self, error: HeadraceError) -> None:
        self._error = error
        self.lifecycle.fail()

    @contextlib.contextmanager
    def _opened(self, restored: bool) -> Iterator[Engine]:
        """Everything that an epoch needs, taken and given back."""
        self.lifecycle.start()
        sessions = start_sessions(
            master=self.settings.spark_master,
            memory=self.settings.spark_memory,
            timezone=self.app.timezone,
            scratch=self.place.tmp / "spark",
            name=self.app.name,
        )
        workshop = Workshop.open(self.app, self.place, self.settings, sessions)
        holder = self._take_over(workshop, restored)
        engine = None
        try:
            for topic in workshop.topics.values():
                topic.recover()
            generation = Generation(workshop, holder.store)
            engine = Engine(workshop, generation, holder, self.clock, Steps.from_environment())
            with self._heart(holder):
                self._prepare(engine)
                self._engine = engine
                self.lifecycle.run()
                self._say(Event("running", epoch=holder.head.epoch, tables=tuple(workshop.tables)))
                yield engine
        finally:
            if engine is not None:
                engine.close()
            # This process may live on without the app, or begin again with another JVM: nobody should wait for it. Where the
            # store is not ours any more, there is nothing to let go of.
            with contextlib.suppress(HeadraceError, sqlite3.Error):
                holder.release()
            holder.store.close()

    def _take_over(self, workshop: Workshop, restored: bool) -> Holder:
        topics = [topic.folder for topic in workshop.topics.values()]
        marks = Marks(self.place.folder, self.app.name, topics)
        holder = take_over(self.place.store, marks, RunFolder(self.place.run), restored=restored)
        if holder.began == "new":
            used = any(any(topic.ends()) for topic in workshop.topics.values())
            self._say(Event("the store is new: it begins from the log" if used else "the store is new"))
        elif holder.began != "ours":
            self._say(Event("a new lineage begins from this store", epoch=holder.head.epoch, level="warning"))
        return holder

    def _prepare(self, engine: Engine) -> None:
        """The first epoch of a new store; rebuilds where the app was edited."""
        while engine.holder.head.epoch == 0:
            self._outliving_workers(engine.create)
        engine.workshop.check_purity()
        self._say_what_else_changed(engine)
        what = due(engine)
        if not what:
            return
        for name, why in what.why.items():
            self._say(Event(f'table "{name}" {why}: it is rebuilt', tables=(name,)))
        for name in what.removed:
            self._say(Event(f'table "{name}" has left the app: it is hidden until `headrace table drop {name}`', tables=(name,)))
        rows = sum(end for parts in engine.used().values() for end in parts.values())
        if what.why:
            text = f"rebuilding from the log: {rows:,} rows, about {1 + rows // REBUILT_PER_S} s"
            self._say(Event(text, rows=rows, tables=tuple(what.why)))
        began = time.perf_counter()
        while self._outliving_workers(lambda: rebuild(engine, what)) is None:
            continue
        if what.why:
            self._say(Event("rebuilt", epoch=engine.holder.head.epoch, ms=round((time.perf_counter() - began) * 1000)))

    def _say_what_else_changed(self, engine: Engine) -> None:
        """Another Spark or Python, or another plan of the same source: nothing is rebuilt, but it is said."""
        made = engine.holder.store.definitions()
        for name in engine.workshop.tables:
            was, now = made.get(name), engine.workshop.made_by(name)
            if was is None or was.get("source") != now["source"]:
                continue
            for what in ("spark", "python", "plan"):
                if was.get(what) != now[what]:
                    shown = "" if what == "plan" else f" ({was.get(what)}, now {now[what]})"
                    text = f'table "{name}" was made with another {what}{shown}: headrace verify tells whether it still agrees'
                    self._say(Event(text, level="warning"))
                    break

    @contextlib.contextmanager
    def _heart(self, holder: Holder) -> Iterator[None]:
        """Says every second that we are alive, whatever else takes long."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(BEAT_S):
                holder.say_alive()

        thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _keep_up(self, engine: Engine, targets: dict[str, dict[int, int]] | None) -> None:
        """Epochs until stopped, or until the targets are taken."""
        most = self.settings.max_rows_per_epoch
        copied = bool(engine.generation.copied)
        sequencer = Sequencer(min(most, COPIED_ROWS) if copied else most, FIRST_ROWS if copied else FIRST_ROWS_READ_BY_SPARK)
        checked = tidied = pure = busy = time.monotonic()
        judged = self._epochs
        known: Any = None
        while not self._stop.is_set():
            ends = targets if targets is not None else engine.ends()
            # Ends that left nothing to do leave nothing to do until they move.
            ranges = {} if ends == known else sequencer.ranges(engine.used(), ends)
            now = time.monotonic()
            if ranges:
                self._one_epoch(engine, sequencer, engine.whole_files(ranges))
                busy = now = time.monotonic()
            elif targets is not None:
                return
            else:
                known = ends
                # Half as dear as waiting for an event, which would end only a poll earlier.
                time.sleep(POLL_S if now - busy < IDLE_S else POLL_IDLE_S)
            if now - checked > BEAT_S:
                engine.holder.check()
                checked = now
            # A function that nobody called since cannot have done harm; after a pause it is judged behind its first epoch.
            if now - pure > PURITY_S and judged != self._epochs:
                engine.workshop.check_purity()
                pure, judged = time.monotonic(), self._epochs
            if now - tidied > TIDY_S:
                self._tidy(engine)
                tidied = now

    def _one_epoch(self, engine: Engine, sequencer: Sequencer, ranges: Any) -> None:
        began = time.perf_counter()
        known_ties = set(engine.ties)
        taken = engine.take(ranges)
        head = self._outliving_workers(lambda: engine.epoch(taken))
        seconds = time.perf_counter() - began
        if head is None:
            return
        sequencer.took(taken.rows, seconds)
        for name in engine.ties.keys() - known_ties:
            ties = engine.ties[name]
            text = f'table "{name}": rows tie in {ties.why}, such as {ties.example}; one of the right answers is shown'
            self._say(Event(text, epoch=head.epoch, tables=(name,), level="warning"))
        with self._committed:
            self._rows += taken.rows
            self._epochs += 1
            self._committed.notify_all()
        with engine.steps.step("deliver", taken.number):
            self._say(
                Event(
                    "committed",
                    epoch=head.epoch,
                    rows=taken.rows,
                    rejects=engine.rejects or None,
                    ms=round(seconds * 1000, 1),
                    level="debug",
                )
            )

    def _outliving_workers(self, compute: Callable[[], T]) -> T:
        """Compute, and compute again when a Python worker died: nothing has happened before the commit."""
        for deaths in range(1, WORKER_DEATHS + 1):
            try:
                return compute()
            except WorkerDied as error:
                why = error.details[0] if error.details else ""
                self._say(Event(f"{error.message}, {why}; again ({deaths} of {WORKER_DEATHS})", level="warning"))
        return compute()

    def _tidy(self, engine: Engine) -> None:
        """Seal segments, trim history: a small piece at a time, so that rows do not wait."""
        with engine.steps.step("tidy", engine.holder.head.epoch):
            for topic in engine.topics.values():
                topic.tidy()
            policies = {name: _kept(planned.table.history) for name, planned in engine.workshop.tables.items()}
            engine.holder.store.trim(engine.holder.generation, policies)
            # Else the checkpoint of thousands of pages falls into the commit of some epoch.
            engine.holder.store.checkpoint()

    def _say(self, event: Event) -> None:
        self._report(event)


def _jvm_died(error: Exception) -> bool:
    """Whether an error comes of the JVM's end: that has many faces, but the world's other errors are not among them."""
    if isinstance(error, WorldError):
        return isinstance(error, SparkDied)
    return is_dead(error)


def _died_too_often(error: Exception, deaths: int, place: Place) -> SparkDied:
    return SparkDied(
        "Spark's JVM died" + (f" {deaths} times" if deaths > 1 else ""),
        details=[
            *(error.details if isinstance(error, SparkDied) else [type(error).__name__]),
            f"what it said itself is in {place.tmp / 'spark' / 'jvm.log'}",
        ],
        hint="more memory for it: HEADRACE_SPARK_MEMORY; or smaller epochs: HEADRACE_MAX_ROWS_PER_EPOCH",
    )


def _kept(history: str | None) -> timedelta | None:
    return parse_duration(history) if history else None
