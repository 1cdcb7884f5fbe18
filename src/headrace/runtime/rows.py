"""Rows of inputs on their way to lanes: ranges of topics, copies and current rows of the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import types as T

from headrace.lanes.base import InputChange, RowsOfInputs, with_identity
from headrace.log.topic import Topic
from headrace.runtime.clocks import Clocks
from headrace.schema import NOW, arrow_schema, nullable, python_values
from headrace.spark.frames import POSITION_BITS, Rows, Shape, StoredFiles
from headrace.store.base import Reject, Store

Ranges = Mapping[str, Mapping[int, tuple[int, int]]]

KEPT_WITH_COPIES = T.StructType(
    [
        T.StructField("_extra", T.StringType()),
        T.StructField("_partition", T.IntegerType()),
        T.StructField("_offset", T.LongType()),
        T.StructField("_appended", T.TimestampType()),
    ]
)


def copy_columns(columns: T.StructType) -> T.StructType:
    """What is kept of a source's row for recomputing."""
    return T.StructType([*nullable(columns).fields, *KEPT_WITH_COPIES.fields])


@dataclass(frozen=True)
class SourceRows:
    """One epoch's rows of one source: those for functions, those put aside, and how many offsets they cover."""

    rows: Rows
    rejects: Sequence[Reject]
    offsets: int

    @property
    def handed(self) -> int:
        """How many rows functions are handed."""
        return self.offsets - len(self.rejects)


@dataclass
class SourceReader:
    """Reads ranges of one topic."""

    topic: Topic
    shape: Shape
    event_time: str | None
    clocks: Clocks | None = None
    """Clock readings of the epochs, where a function asks for `hr.now()`."""

    def read(self, ranges: Mapping[int, tuple[int, int]]) -> SourceRows:
        """The rows of these ranges as one table."""
        tables = [self.topic.read(p, start, stop) for p, (start, stop) in sorted(ranges.items())]
        stored = pa.concat_tables(tables) if tables else None
        if stored is None:
            return SourceRows(self.shape.empty(), [], 0)
        good, rejects = self._split(stored)
        return SourceRows(self.frame_rows(good), rejects, stored.num_rows)

    def files(self, ranges: Mapping[int, tuple[int, int]]) -> SourceRows:
        """The rows of these ranges for executors: sealed files, and the rest as a table."""
        sealed: list[tuple[str, int, int, int]] = []
        limits = {}
        rests, rejects = [self.shape.empty()], []
        for partition, (start, stop) in sorted(ranges.items()):
            slices = self.topic.slices(partition, start, stop)
            good, put_aside = self._split(slices.rest)
            rests.append(self.frame_rows(good))
            rejects += put_aside
            if slices.sealed:
                limits[partition] = self._limits(partition, slices.sealed[0][1], slices.sealed[-1][2])
            for path, first, last in slices.sealed:
                sealed.append((str(path), partition, first, last))
                rejects += self._rejects_in(str(path), partition, first, last)
        epochs = {p: self.clocks.arrays(self.shape.name, p) for p in ranges} if self.clocks else {}
        files = StoredFiles(self.shape, sealed, pa.concat_tables(rests), self.event_time, epochs, limits)
        return SourceRows(files, rejects, sum(stop - start for start, stop in ranges.values()))

    def _limits(self, partition: int, first: int, last: int) -> tuple[int | None, int | None]:
        """The offsets at which rows of sealed files begin and end to count; None where the files themselves do."""
        known = self.topic.sealed_ranges(partition)
        begins, ends = {start for start, _ in known}, {stop for _, stop in known}
        return None if first in begins else first, None if last in ends else last

    def whole_files(self, ranges: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        """The ranges, ending where a sealed file ends, unless that would leave out more than half of a range."""
        out = {}
        for partition, (start, stop) in ranges.items():
            ends = [end for _, end in self.topic.sealed_ranges(partition) if start + (stop - start) // 2 <= end <= stop]
            out[partition] = (start, max(ends, default=stop))
        return out

    def _clock_of(self, stored: pa.Table) -> Any:
        """The clock of the epoch of each row."""
        kind = pa.timestamp("us", tz="UTC")
        if self.clocks is None:
            return pa.nulls(stored.num_rows, kind)
        partitions, offsets = stored.column("_partition").to_numpy(), stored.column("_offset").to_numpy()
        readings = np.zeros(stored.num_rows, np.int64)
        for partition in np.unique(partitions).tolist():
            here = partitions == partition
            readings[here] = self.clocks.at(self.shape.name, partition, offsets[here])
        return pa.array(readings).cast(kind)

    def _split(self, stored: pa.Table) -> tuple[pa.Table, list[Reject]]:
        reason = stored.column("_reason")
        if reason.null_count == len(reason):
            return stored, []
        bad = stored.filter(pc.is_valid(reason))
        return stored.filter(pc.is_null(reason)), self._as_rejects(bad)

    def _as_rejects(self, bad: pa.Table) -> list[Reject]:
        columns = [bad.column(name).to_pylist() for name in ("_partition", "_offset", "_reason", "_message", "_raw")]
        return [
            Reject(self.shape.name, partition, offset, "", "read", reason, message, raw)
            for partition, offset, reason, message, raw in zip(*columns, strict=True)
        ]

    def _rejects_in(self, path: str, partition: int, first: int, last: int) -> list[Reject]:
        """Rejects among a sealed file's rows; its statistics tell when there are none."""
        here = (ds.field("_offset") >= first) & (ds.field("_offset") < last)
        found = ds.dataset(path).to_table(
            columns=["_offset", "_reason", "_message", "_raw"], filter=here & ds.field("_reason").is_valid()
        )
        where = pa.array([partition] * found.num_rows, pa.int32())
        return self._as_rejects(found.append_column("_partition", where))

    def frame_rows(self, stored: pa.Table) -> pa.Table:
        """Stored rows in the shape of a frame."""
        n, schema = stored.num_rows, arrow_schema(self.shape.full)
        partition, offset = stored.column("_partition"), stored.column("_offset")
        row = pc.add(pc.multiply(partition.cast(pa.int64()), 1 << POSITION_BITS), offset)
        if self.event_time is None:
            time: Any = pa.nulls(n, pa.timestamp("us", tz="UTC"))
        else:
            time = stored.column(self.event_time).cast(pa.timestamp("us", tz="UTC"))
        made = {
            "_source": pa.array([self.shape.name] * n, pa.string()) if n < 1000 else pa.repeat(self.shape.name, n),
            "_partition": partition,
            "_offset": offset,
            "_time": time,
            "_appended": stored.column("_appended"),
            "_extra": stored.column("_extra"),
            NOW: self._clock_of(stored),
            self.shape.row_column: row,
        }
        users = {f.name for f in self.shape.columns.fields}
        return pa.Table.from_arrays(
            [_as_type(stored.column(f.name), f.type) if f.name in users else made[f.name] for f in schema], schema=schema
        ).combine_chunks()


def _as_type(column: Any, kind: pa.DataType) -> Any:
    return column if column.type.equals(kind) else column.cast(kind)


def as_copies(rows: pa.Table, shape: Shape) -> pa.Table:
    """A frame's rows as they are kept for recomputing."""
    return rows.select(copy_columns(shape.columns).names)


class StoredRows(RowsOfInputs):
    """Rows of inputs as the store and the log have them."""

    def __init__(self, store: Store, shapes: Mapping[str, Shape], readers: Mapping[str, SourceReader]) -> None:
        self._store, self._shapes, self._readers = store, shapes, readers
        self.upto: Mapping[str, Mapping[int, int]] = {}
        """The prefix that ends with the epoch being computed: source -> partition -> end."""
        self.left_out: dict[tuple[str, str], frozenset[int]] = {}
        """Rows that a table rejected, by table and source: whoever fetches rows for it leaves them out."""
        self.made_anew: frozenset[str] = frozenset()
        """Tables whose stored rows, if any, do not count: their change is all that they hold."""

    def leave_out(self, rejects: Iterable[Reject]) -> None:
        """Remember rows that tables rejected."""
        for reject in rejects:
            if reject.table:
                row = (reject.partition << POSITION_BITS) + reject.offset
                place = (reject.table, reject.source)
                self.left_out[place] = self.left_out.get(place, frozenset()) | {row}

    def forget_left_out(self, tables: Iterable[str]) -> None:
        """These tables judge all rows anew."""
        self.left_out = {place: rows for place, rows in self.left_out.items() if place[0] not in set(tables)}

    def by_identity(self, name: str, rows: Sequence[Any]) -> pa.Table:
        shape = self._shapes[name]
        found = self._store.fetch_rows(name, rows)
        if shape.kind == "source":
            return self._readers[name].frame_rows(found)
        return with_identity(found.select(shape.columns.names), python_values(found.column("_hr_row")), shape)

    def all_rows(self, name: str, change: InputChange | None, table: str) -> Rows:
        shape = self._shapes[name]
        if shape.kind == "source":
            ranges = {p: (0, end) for p, end in self.upto.get(name, {}).items() if end}
            rows = self._readers[name].files(ranges).rows
            without = self.left_out.get((table, name), frozenset())
            return replace(rows, without=tuple(sorted(without))) if isinstance(rows, StoredFiles) else rows
        kept_rows = self._store.fetch_all(name) if name not in self.made_anew else ()
        chunks = [with_identity(rows, keys, shape) for keys, rows in kept_rows]
        stored = pa.concat_tables([shape.empty(), *chunks])
        if change is None:
            return stored
        gone = change.before.column(shape.row_column)
        kept = stored.filter(pc.invert(pc.is_in(stored.column(shape.row_column), value_set=gone.combine_chunks())))
        assert isinstance(change.after, pa.Table), "a table's rows are handed over as rows"
        return pa.concat_tables([kept, change.after])
