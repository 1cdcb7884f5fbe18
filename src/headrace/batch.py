"""The batch job: the same, untouched functions over all rows of a prefix. No lane, and nothing stored, takes part.

`Answers` computes every table at a prefix into Parquet files; `verify` compares them with the live tables, `run_batch` puts
them into `batch.db`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.clock import SystemClock
from headrace.definitions import AppDef
from headrace.lanes.base import refuse_twice
from headrace.place import Place
from headrace.running import has_store
from headrace.runtime.generation import Planned, Workshop
from headrace.schema import arrow_schema, encode_key, encode_keys, nullable
from headrace.settings import Settings
from headrace.spark.errors import spark_errors
from headrace.spark.frames import Rows, StoredFiles
from headrace.spark.query import Loaded
from headrace.spark.session import start_sessions
from headrace.store.base import Change, Finish, Generation, Head, Registration, TableSpec, Writes
from headrace.store.ledger import LedgerRow
from headrace.store.process import Process
from headrace.store.reader import Reader
from headrace.store.sqlite import SqliteStore

Prefix = Mapping[str, Mapping[int, int]]
Progress = Callable[..., None]
CHUNK = 100_000


def silent(*_: object, **__: object) -> None:
    """No progress."""


def open_workshop(app: AppDef, place: Place, settings: Settings) -> Workshop:
    """The app's functions, ready to be called, in this process's Spark."""
    sessions = start_sessions(
        master=settings.spark_master,
        memory=settings.spark_memory,
        timezone=app.timezone,
        scratch=place.tmp / "spark",
        name=app.name,
    )
    return Workshop.open(app, place, settings, sessions)


@dataclass
class Answers:
    """The batch answer of every table at one prefix. Use as a context: its files go at the end.

    `left_out` names rows that a table leaves out, by table and source: its own rejects, as row identities.
    """

    workshop: Workshop
    prefix: Prefix
    left_out: Mapping[tuple[str, str], frozenset[int]] = field(default_factory=dict)
    progress: Progress = silent
    handed: dict[tuple[str, str], int] = field(default_factory=dict)

    def __enter__(self) -> Answers:
        self._folder = self.workshop.place.tmp / f"batch-{os.getpid()}-{secrets.token_hex(4)}"
        self._folder.mkdir(parents=True)
        try:
            tables = self.workshop.app.in_order()
            for done, table in enumerate(tables):
                self.progress(f'batch: table "{table.name}"', done=done, total=len(tables))
                self._compute(self.workshop.tables[table.name])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def source_rows(self, name: str, table: str = "") -> Rows:
        """All rows of a source in the prefix, without those that a table leaves out."""
        ranges = {p: (0, end) for p, end in self.prefix.get(name, {}).items() if end}
        rows = self.workshop.readers[name].files(ranges).rows
        assert isinstance(rows, StoredFiles), "files are asked for"
        without = self.left_out.get((table, name), frozenset())
        return replace(rows, without=tuple(sorted(without)))

    def loaded(self, planned: Planned) -> dict[str, Loaded]:
        """Every input of a table: sources whole, tables as this batch has computed them."""
        door, out = self.workshop.door, {}
        for name in planned.table.reads:
            if name in self.workshop.readers:
                out[name] = door.load(name, self.source_rows(name, planned.table.name), "large")
            elif name in self.workshop.tables:
                out[name] = Loaded.of(door, door.shapes[name], self._table_frame(name), "large")
        return out

    def _compute(self, planned: Planned) -> None:
        with spark_errors(planned.table):
            frame = self.workshop.door.call(planned.table, self.loaded(planned), "large")
            renamed = frame.toDF(*[f"c{i}" for i in range(len(frame.columns))])
            renamed.write.option("compression", "zstd").parquet(str(self._path(planned.table.name)))
        for name in planned.table.reads:
            if name in self.workshop.readers:
                self.handed[planned.table.name, name] = self._count(name, planned.table.name)

    def _count(self, source: str, table: str) -> int:
        """How many rows of the source the function was handed: counted by Spark, not by the ledger."""
        rows = self.source_rows(source, table)
        return self.workshop.door.load(source, rows, "large").relation.count()

    def _path(self, name: str) -> Path:
        return self._folder / name

    def _table_frame(self, name: str) -> DataFrame:
        shape, session = self.workshop.door.shapes[name], self.workshop.door.session("large")
        read = session.read.parquet(str(self._path(name))).toDF(*shape.columns.names)
        return read.withColumn(shape.row_column, F.lit(None).cast("binary"))

    def rows(self, name: str) -> Iterator[pa.Table]:
        """A table's rows, in chunks, in our Arrow types."""
        wanted = arrow_schema(nullable(self.workshop.tables[name].columns))
        for file in sorted(self._path(name).glob("*.parquet")):
            for batch in pq.ParquetFile(file).iter_batches(CHUNK):
                columns = [c if c.type.equals(f.type) else c.cast(f.type) for c, f in zip(batch.columns, wanted, strict=True)]
                yield pa.Table.from_arrays(columns, schema=wanted)


@dataclass(frozen=True)
class BatchReport:
    """What `headrace batch` computed, and where it is."""

    tables: list[tuple[str, int]]
    path: Path


def run_batch(app: AppDef, place: Place, settings: Settings, progress: Progress = silent) -> BatchReport:
    """Run every function over all rows that there are now, and put the answers into `batch.db`."""
    workshop = open_workshop(app, place, settings)
    prefix = {name: dict(enumerate(topic.ends())) for name, topic in workshop.topics.items()}
    _set_clocks(workshop, place, prefix)
    unfinished = place.tmp / f"batch-{secrets.token_hex(4)}.db"
    try:
        with Answers(workshop, prefix, progress=progress) as answers:
            tables = _into_store(workshop, answers, unfinished, prefix)
        for old in (place.batch_db.with_name(place.batch_db.name + suffix) for suffix in ("-wal", "-shm")):
            old.unlink(missing_ok=True)
        unfinished.replace(place.batch_db)
    finally:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                unfinished.with_name(unfinished.name + suffix).unlink()
    return BatchReport(tables, place.batch_db)


def _set_clocks(workshop: Workshop, place: Place, prefix: Prefix) -> None:
    """`hr.now()` is the clock of the row's epoch; rows beyond the ledger get the one reading of this batch."""
    if has_store(place):
        with Reader(place.store) as reader:
            clocks, used = workshop.set_clocks(reader.ledger), reader.offsets()
    else:
        clocks, used = workshop.set_clocks(list), {}
    if clocks is not None:
        beyond = {
            name: {p: (used.get(name, {}).get(p, 0), end) for p, end in parts.items() if end > used.get(name, {}).get(p, 0)}
            for name, parts in prefix.items()
        }
        clocks.note(beyond, SystemClock().now_us())


def _into_store(workshop: Workshop, answers: Answers, path: Path, prefix: Prefix) -> list[tuple[str, int]]:
    """A store of one epoch that holds the answers: it is read like any other."""
    now = SystemClock().now_us()
    counts = []
    with SqliteStore(path) as store:
        fence = store.take_over(None, Process.mine(), lambda *_: (secrets.token_hex(8), 1))
        finish = []
        for name, planned in workshop.tables.items():
            spec = TableSpec(name, planned.columns, planned.plan.key)
            counts.append((name, _fill(store, fence, Registration(spec, lane="batch"), answers, planned)))
            finish.append(Finish(name, "swap"))
        ranges = {name: {p: (0, end) for p, end in parts.items()} for name, parts in prefix.items()}
        entry = LedgerRow(1, "create", fence.number, fence.lineage, now, now, ranges=ranges)
        store.commit(fence, Head(), entry, Writes(finish=finish))
        store.release(fence)
    return counts


def _fill(store: SqliteStore, fence: Generation, registration: Registration, answers: Answers, planned: Planned) -> int:
    store.begin_fill(fence, registration, 0)
    count = 0
    for rows in answers.rows(planned.table.name):
        key = planned.plan.key
        keys = [encode_key([count + i]) for i in range(rows.num_rows)] if key is None else encode_keys(rows, key)
        refuse_twice(planned.table, key, keys, rows)
        count += rows.num_rows
        store.fill(fence, planned.table.name, "table", Change([], keys, rows), count)
    return count
