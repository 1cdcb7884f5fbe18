"""A trial: a real log, a real store and a real engine in a folder, moved epoch by epoch by whoever tests."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.clock import ManualClock
from headrace.definitions import AppDef
from headrace.errors import Bug
from headrace.place import Place
from headrace.runtime.engine import Engine
from headrace.runtime.generation import Generation, Workshop
from headrace.runtime.protocol import CrashPoint, Steps
from headrace.runtime.rebuild import due, rebuild
from headrace.runtime.sequencer import Sequencer
from headrace.schema import readable_rows
from headrace.settings import Settings
from headrace.spark.query import Gear
from headrace.spark.session import start_sessions
from headrace.store.base import Head
from headrace.store.fence import Holder, RunFolder, take_over
from headrace.store.marks import Marks
from headrace.store.reader import Reader
from headrace.topics import open_topic
from headrace.verify import VerifyReport, verify_workshop

PRODUCER = "trial"
"""Rows go to partitions by producer and sequence where a topic has no key: a trial has the same ones each time."""


class Abandoned(Exception):
    """Raised at a crash point: the generation at work is left as it is, and another one takes over."""


class Trial:
    """One app in one folder. Rows are appended when told, epochs are computed when told, and nothing happens between.

    Use as a context, or call `close`. A trial lives in this process; `restart` begins a new generation over the same
    folder, as a new start does, with a definition that may have been edited.
    """

    def __init__(self, app: AppDef, folder: Path, *, clock: ManualClock | None = None, settings: Settings | None = None) -> None:
        self.app = app
        self.place = Place.of(app.name, folder)
        self.clock = clock or ManualClock()
        self._settings = settings or Settings()
        self._sequences: dict[str, int] = {}
        self._engine: Engine | None = None
        self.restart()

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def engine(self) -> Engine:
        """The engine at work."""
        if self._engine is None:
            raise Bug("a trial that is closed was used")
        return self._engine

    @property
    def head(self) -> Head:
        """The newest epoch."""
        return self.engine.holder.head

    # --- generations

    def restart(self, app: AppDef | None = None, *, crash: CrashPoint | None = None) -> None:
        """End the generation at work without a word, and begin another one, over an edited app if one is given."""
        self.abandon()
        self.app = app or self.app
        sessions = start_sessions(
            master=self._settings.spark_master,
            memory=self._settings.spark_memory,
            timezone=self.app.timezone,
            scratch=spark_folder(),
            name="trial",
        )
        workshop = Workshop.open(self.app, self.place, self._settings, sessions)
        workshop.check_purity()
        marks = Marks(self.place.folder, self.app.name, [topic.folder for topic in workshop.topics.values()])
        holder = take_over(self.place.store, marks, RunFolder(self.place.run))
        try:
            for topic in workshop.topics.values():
                topic.recover()
            steps = Steps(crash, strike=_abandon)
            engine = Engine(workshop, Generation(workshop, holder.store), holder, self.clock, steps)
        except BaseException:
            _let_go(holder)
            raise
        self._engine = engine
        self._prepare(engine)

    @staticmethod
    def _prepare(engine: Engine) -> None:
        while engine.holder.head.epoch == 0:
            engine.create()
        if what := due(engine):
            while rebuild(engine, what) is None:
                continue

    def abandon(self) -> None:
        """Leave the generation at work as a crash does: nothing is said to the store."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
            _let_go(engine.holder)
            # This process lives on, so its last sign of life would keep the next generation out. The folder may be deleted.
            shutil.rmtree(self.place.run, ignore_errors=True)

    def close(self) -> None:
        """End cleanly."""
        if self._engine is not None:
            self._engine.holder.release()
        self.abandon()

    # --- rows and epochs

    def append(self, topic: str, rows: Sequence[Mapping[str, Any]] | pa.Table) -> None:
        """Append rows to a topic, durably."""
        number = self._sequences.get(topic, 0)
        producer = open_topic(self.place, self.app.topics[topic], clock=self.clock).producer(PRODUCER)
        producer.append(rows, sequence=number)
        self._sequences[topic] = number + 1

    def epoch(self, *, gear: Gear | None = None, rows: int = 1 << 40, crash: CrashPoint | None = None) -> bool:
        """One epoch over what was appended since the last one, at most `rows` of it. False: there was nothing to do.

        At a crash point the generation is abandoned, another one begins, and the epoch is computed by that one.
        """
        try:
            return self._epoch(gear, rows, crash)
        except Abandoned:
            self.restart()
            return self._epoch(gear, rows, None)

    def _epoch(self, gear: Gear | None, rows: int, crash: CrashPoint | None) -> bool:
        engine, sequencer = self.engine, Sequencer(rows)
        ranges = sequencer.ranges(engine.used(), engine.ends())
        if not ranges:
            return False
        engine.steps.crash, engine.force_gear = crash, gear
        taken = engine.take(ranges)
        while engine.epoch(taken) is None:
            taken = engine.take(ranges)
        with engine.steps.step("deliver", taken.number):
            pass  # nobody follows a trial
        with engine.steps.step("tidy", taken.number):
            for topic in engine.topics.values():
                topic.tidy()
        engine.steps.crash = None
        return True

    # --- what came of it

    def rows(self, table: str, as_of: int | None = None) -> list[dict[str, Any]]:
        """A table's rows, in the order of its key."""
        with Reader(self.place.store) as reader:
            chunks = list(reader.at(as_of).read_arrow(table))
        return readable_rows(pa.concat_tables(chunks).drop_columns(["_key"]))

    def verify(self) -> VerifyReport:
        """What `headrace verify` finds."""
        return verify_workshop(self.engine.workshop)


@lru_cache(maxsize=1)
def spark_folder() -> Path:
    """Where Spark works: it outlives the folder of any one trial, and goes with the process."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _abandon() -> None:
    raise Abandoned


def _let_go(holder: Holder) -> None:
    holder.store.close()
