"""Epochs: reading, computing and committing them for one generation that holds the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

import pyarrow as pa

from headrace.clock import Clock
from headrace.errors import FunctionFailed
from headrace.lanes.base import InputChange, Lane, Outcome
from headrace.lanes.ties import Ties
from headrace.log.topic import Topic
from headrace.runtime.blame import BadRow, Blame, without_rows
from headrace.runtime.generation import Generation, Workshop
from headrace.runtime.protocol import Steps
from headrace.runtime.rows import SourceRows, as_copies, copy_columns
from headrace.runtime.sequencer import Ranges
from headrace.spark.errors import SparkFailed, spark_errors
from headrace.spark.frames import StoredFiles
from headrace.spark.query import Gear
from headrace.store.base import Head, Registration, Reject, TableSpec, Writes
from headrace.store.fence import Holder
from headrace.store.ledger import Kind, LedgerRow

SMALL_ROWS = 20_000
"""Epochs up to this size travel with the plan."""
THREADS = 6


@dataclass(frozen=True)
class Taken:
    """One epoch: what it is to hold."""

    number: int
    clock_us: int
    ranges: Ranges

    @property
    def rows(self) -> int:
        """How many offsets it covers."""
        return sum(stop - start for parts in self.ranges.values() for start, stop in parts.values())


@dataclass
class Engine:
    """Computes epochs and commits them. One at a time; never two in one process."""

    workshop: Workshop
    generation: Generation
    holder: Holder
    clock: Clock
    steps: Steps
    force_gear: Gear | None = None
    ties: dict[str, Ties] = field(default_factory=dict)
    """The newest ties of each table that had some."""
    rejects: int = 0
    """How many rows of the newest epoch were put aside."""
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, "lane"))

    # --- places

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics that the app reads."""
        return self.workshop.topics

    def used(self) -> dict[str, dict[int, int]]:
        """The prefix of the head."""
        return self.holder.store.offsets()

    def ends(self) -> dict[str, dict[int, int]]:
        """What the log has published."""
        return {name: dict(enumerate(topic.ends())) for name, topic in self.topics.items()}

    # --- an epoch

    def whole_files(self, ranges: Ranges) -> Ranges:
        """The ranges of a large epoch so that executors read whole files, as far as they can; a small one's as they are."""
        if Taken(0, 0, ranges).rows <= SMALL_ROWS:
            return ranges
        return {name: self.workshop.readers[name].whole_files(parts) for name, parts in ranges.items()}

    def take(self, ranges: Ranges) -> Taken:
        """Step `plan`, once the ranges are decided."""
        number = self.holder.head.epoch + 1
        with self.steps.step("plan", number):
            taken = Taken(number, self.clock.now_us(), ranges)
            if self.generation.clocks is not None:
                self.generation.clocks.note(ranges, taken.clock_us)
            return taken

    def epoch(self, taken: Taken) -> Head | None:
        """Read, compute and commit one epoch. None: it was not committed; compute it again."""
        with self.steps.step("read", taken.number):
            gear = self._gear(taken)
            sources = self._read(taken, gear)
        with self.steps.step("compute", taken.number):
            outcomes = self._compute(taken, sources, gear)
            writes = self._writes(sources, outcomes)
            self.ties.update({name: outcome.ties[0] for name, outcome in outcomes.items() if outcome.ties})
            self.rejects = len(writes.rejects)
        with self.steps.step("commit", taken.number):
            try:
                return self.holder.commit(self.entry(taken, sources, rejects=writes.rejects), writes)
            except FunctionFailed as error:
                raise self._placed(error) from error

    def _placed(self, error: FunctionFailed) -> FunctionFailed:
        """An error of the store about one of the tables, with the place where the table is defined."""
        for name, planned in self.workshop.tables.items():
            if error.origin is None and f'table "{name}"' in error.message:
                return FunctionFailed(error.message, details=error.details, origin=planned.table.origin, hint=error.hint)
        return error

    def _gear(self, taken: Taken) -> Gear:
        return self.force_gear or ("small" if taken.rows <= SMALL_ROWS else "large")

    def _read(self, taken: Taken, gear: Gear) -> dict[str, SourceRows]:
        """Small epochs and sources that a recompute must find again as rows, the rest as files for executors."""
        out = {}
        for name, ranges in taken.ranges.items():
            reader = self.workshop.readers[name]
            out[name] = reader.read(ranges) if gear == "small" or name in self.generation.copied else reader.files(ranges)
        return out

    def _compute(self, taken: Taken, sources: Mapping[str, SourceRows], gear: Gear) -> dict[str, Outcome]:
        """Every table whose inputs changed, level by level; tables of one level side by side."""
        door = self.workshop.door
        self.generation.rows_of.upto = advanced(self.used(), taken.ranges)
        changes = {name: InputChange(door.shapes[name].empty(), read.rows) for name, read in sources.items() if read.handed}
        outcomes: dict[str, Outcome] = {}
        for level in self.workshop.app.levels():
            due = [table.name for table in level if any(name in changes for name in table.reads)]
            runs = [self._pool.submit(self._run_lane, name, changes, gear) for name in due]
            # When one fails, the others must not go on behind the back of whoever computes the epoch again.
            wait(runs)
            for name, run in zip(due, runs, strict=True):
                outcomes[name] = outcome = run.result()
                if outcome.change:
                    changes[name] = outcome.change.as_input(door.shapes[name])
        return outcomes

    def _run_lane(self, name: str, changes: Mapping[str, InputChange], gear: Gear) -> Outcome:
        table = self.workshop.tables[name].table
        mine = {read: changes[read] for read in table.reads if read in changes}
        return self.run_lane(self.generation.lanes[name], mine, gear)

    def run_lane(self, lane: Lane, mine: dict[str, InputChange], gear: Gear) -> Outcome:
        """Run a lane; where its function fails, find the row or the key, and go on without the row if the table says so."""
        table = lane.context.table
        try:
            with spark_errors(table):
                return lane.run(mine, gear)
        except SparkFailed as error:
            bad = Blame(lane, mine, self.workshop.readers).bad_rows(every=table.on_error == "reject")
            if not bad:
                raise Blame(lane, mine, self.workshop.readers).key_error(error) from error
            if table.on_error != "reject":
                raise bad[0].as_error(lane) from error
        return self._run_without(lane, mine, bad, gear)

    def _run_without(self, lane: Lane, changes: dict[str, InputChange], bad: list[BadRow], gear: Gear) -> Outcome:
        """The lane over the rows that its function can take; the others become rejects of its table."""
        table = lane.context.table
        for source in {row.source for row in bad}:
            rows = frozenset(row.row for row in bad if row.source == source)
            column = self.workshop.door.shapes[source].row_column
            changes[source] = without_rows(changes[source], column, rows, self.workshop.readers[source])
        rejects = tuple(row.as_reject(table.name) for row in bad)
        self.generation.rows_of.leave_out(rejects)
        try:
            with spark_errors(table):
                outcome = lane.run(changes, gear)
        except SparkFailed as error:
            raise Blame(lane, changes, self.workshop.readers).key_error(error) from error
        return replace(outcome, rejects=rejects)

    def _writes(self, sources: Mapping[str, SourceRows], outcomes: Mapping[str, Outcome]) -> Writes:
        shapes = self.workshop.door.shapes
        copies: dict[str, pa.Table] = {}
        for name in self.generation.with_copies(frozenset(sources)):
            rows = sources[name].rows
            assert not isinstance(rows, StoredFiles), "copied rows pass the driver"
            copies[name] = as_copies(rows, shapes[name])
        return Writes(
            tables={name: outcome.change.as_write() for name, outcome in outcomes.items() if outcome.change},
            parts={name: outcome.parts for name, outcome in outcomes.items() if outcome.parts is not None},
            index={name: change for outcome in outcomes.values() for name, change in outcome.index.items()},
            copies=copies,
            rejects=[r for read in sources.values() for r in read.rejects] + [r for o in outcomes.values() for r in o.rejects],
            steps_ms=dict(self.steps.milliseconds),
        )

    def entry(
        self, taken: Taken, sources: Mapping[str, SourceRows], kind: Kind = "epoch", rejects: Sequence[Reject] = ()
    ) -> LedgerRow:
        """The ledger row of an epoch; `rejects` are all of its rejects."""
        generation = self.holder.generation
        aside = Counter((r.table, r.source) for r in rejects)
        return LedgerRow(
            epoch=taken.number,
            kind=kind,
            generation=generation.number,
            lineage=generation.lineage,
            clock=taken.clock_us,
            committed_at=self.clock.now_us(),
            ranges=taken.ranges,
            references={name: reference.hash for name, reference in self.workshop.references.items()},
            rows={
                table.name: {name: read.handed - aside[table.name, name] for name, read in sources.items() if name in table.reads}
                for table in self.workshop.app.tables.values()
                if any(name in table.reads for name in sources)
            },
            rejects={f"{table}/{source}" if table else source: count for (table, source), count in sorted(aside.items())},
            definitions={} if kind == "epoch" else {name: self.workshop.made_by(name) for name in self.workshop.tables},
        )

    # --- the first epoch

    def create(self) -> Head | None:
        """Commit the batch answer over no rows as the first epoch, with every table that the app has."""
        taken = self.take({})
        with self.steps.step("compute", taken.number):
            self.generation.rows_of.made_anew = frozenset(self.workshop.tables)
            outcomes = self._over_nothing()
            self.generation.rows_of.made_anew = frozenset()
            writes = self._writes({}, outcomes)
        registrations = [r for name in self.workshop.tables for r in self.registrations(name)]
        registrations += [self.copies_registration(name) for name in sorted(self.generation.copied)]
        writes = Writes(create=registrations, tables=writes.tables, parts=writes.parts, index=writes.index)
        with self.steps.step("commit", taken.number):
            return self.holder.commit(self.entry(taken, {}, "create"), writes)

    def _over_nothing(self) -> dict[str, Outcome]:
        door = self.workshop.door
        outcomes: dict[str, Outcome] = {}
        changes: dict[str, InputChange] = {}
        for table in self.workshop.app.in_order():
            mine = {name: changes[name] for name in table.reads if name in changes}
            with spark_errors(table):
                outcome = self.generation.lanes[table.name].afresh().run(mine, "small")
            outcomes[table.name] = outcome
            if outcome.change:
                changes[table.name] = outcome.change.as_input(door.shapes[table.name])
        return outcomes

    def registrations(self, name: str) -> list[Registration]:
        """A table and its memory, as the store registers them."""
        planned, lane = self.workshop.tables[name], self.generation.lanes[name]
        own = Registration(
            TableSpec(name, planned.columns, planned.plan.key), lane=planned.plan.lane, fingerprint=planned.fingerprint
        )
        return [own, *lane.registrations()]

    def copies_registration(self, source: str) -> Registration:
        """The copies of a source's rows."""
        columns = copy_columns(self.workshop.door.shapes[source].columns)
        return Registration(TableSpec(source, columns, None, "rows"), layout=columns.simpleString(), hidden=True)

    def close(self) -> None:
        """Let the lanes' threads go."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def advanced(used: Mapping[str, Mapping[int, int]], ranges: Ranges) -> dict[str, dict[int, int]]:
    """The prefix after these ranges."""
    return {
        name: {**used.get(name, {}), **{p: stop for p, (_, stop) in ranges.get(name, {}).items()}}
        for name in used.keys() | ranges.keys()
    }
