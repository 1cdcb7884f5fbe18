"""Appending: rows become frames, one per partition, durable before anybody is told."""

from __future__ import annotations

import hashlib
import struct
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import crc32c
import numpy as np
import pyarrow as pa

from headrace import schema as schemas
from headrace.errors import UsageError
from headrace.log import columns
from headrace.log.frame import FRAME_BYTES_MAX, NOBODY, Payload
from headrace.log.partition import Entry, Partition
from headrace.log.position import Position
from headrace.log.rows import RowReader

if TYPE_CHECKING:
    from headrace.log.topic import Topic

SEQUENCE_MAX = 2**63 - 1


class Producer:
    """Appends rows to a topic. May be used by several threads, which then share fsyncs.

    A call with `sequence` may be repeated, by another process and after any crash too: the pair (producer's name,
    sequence) is written once, and a repetition is answered with the first position. Repeat in order before going on,
    with at most five sequences in flight. A call without `sequence` cannot be repeated: when it raised, a second call may
    write rows twice.

    One append is one frame per partition, at most 64 MB. `append` cuts more rows than that into several appends;
    with `sequence` it refuses them, since one sequence is one frame.
    """

    def __init__(self, topic: Topic, partitions: Sequence[Partition], name: str | None) -> None:
        self._topic, self._partitions, self.name = topic, partitions, name
        # A name is the same identity everywhere. Calls without a sequence have none: nobody can repeat them.
        self._named = hashlib.md5(name.encode(), usedforsecurity=False).digest() if name is not None else None
        self._reader: tuple[int, RowReader] | None = None

    def append(self, rows: Sequence[Mapping[str, Any]] | pa.Table | pa.RecordBatch, *, sequence: int | None = None) -> Position:
        """Append rows, all or none: one wrong row raises `RowsRefused`, and nothing is written."""
        number, reader = self._current()
        if isinstance(rows, (pa.Table, pa.RecordBatch)):
            landed = reader.from_arrow(rows, refuse=True)
        else:
            landed = reader.from_dicts(rows)
        return self._append(landed, number, sequence)

    def append_parsed(self, rows: pa.Table, *, sequence: int | None = None) -> Position:
        """Append what a `RowReader` made, rejects among the rows."""
        number, reader = self._current()
        return self._append(columns.conform(rows, reader.landing), number, sequence)

    def _current(self) -> tuple[int, RowReader]:
        """The newest schema's number and its reader."""
        known = self._topic.spec.schemas
        if self._reader is None or self._reader[0] != len(known) - 1:
            self._reader = (len(known) - 1, RowReader(known[-1]))
        return self._reader

    def _identity(self, sequence: int | None) -> tuple[bytes, int]:
        if sequence is None:
            return NOBODY, 0
        if self._named is None:
            raise UsageError("a sequence needs a producer with a name", hint='topic.producer("loader")')
        if not 0 <= sequence <= SEQUENCE_MAX:
            raise UsageError(f"sequence {sequence} is not between 0 and 2^63 - 1")
        return self._named, sequence

    def _append(self, rows: pa.Table, schema: int, sequence: int | None) -> Position:
        producer, number = self._identity(sequence)
        ends: dict[int, int] = {}
        whole = rows.combine_chunks()
        if whole.num_rows:
            batch = whole.to_batches()[0]
            parts = [(p, b, self._payload(b, schema)) for p, b in self._split(batch, producer, number)]
            if any(payload.bytes > FRAME_BYTES_MAX for _, _, payload in parts):
                return self._append_halves(rows, schema, sequence)
            for partition, _, payload in parts:
                placed = self._partitions[partition].append(Entry(payload, producer, number))
                ends[partition] = placed.first + placed.rows
        return Position(self._topic.spec.id, ends)

    def _append_halves(self, rows: pa.Table, schema: int, sequence: int | None) -> Position:
        if sequence is not None:
            raise UsageError(
                f"{rows.num_rows} rows are more than a frame of 64 MB",
                details=["one sequence is one frame per partition"],
                hint="smaller batches, each with a sequence of its own",
            )
        if rows.num_rows == 1:
            raise UsageError(
                "a row of more than 64 MB cannot be appended", hint="keep large values in files and their names in rows"
            )
        middle = rows.num_rows // 2
        first = self._append(rows.slice(0, middle), schema, None)
        second = self._append(rows.slice(middle), schema, None)
        return Position(first.topic_id, {**first.ends, **second.ends})

    def _payload(self, batch: pa.RecordBatch, schema: int) -> Payload:
        times = columns.time_range(batch, self._topic.spec.event_time)
        batch, flags = columns.trimmed(batch)
        return Payload.of(batch, schema=schema, flags=flags, times=times)

    def _split(self, batch: pa.RecordBatch, producer: bytes, sequence: int) -> list[tuple[int, pa.RecordBatch]]:
        """The rows of each partition, in their order."""
        spec = self._topic.spec
        if spec.partitions == 1:
            return [(0, batch)]
        if not spec.partition_by:
            by = producer + struct.pack("<Q", sequence) if producer != NOBODY else uuid.uuid4().bytes
            return [(crc32c.crc32c(by) % spec.partitions, batch)]
        numbers = partitions_of(batch, spec.partition_by, spec.partitions)
        found = np.unique(numbers)
        if len(found) == 1:
            return [(int(found[0]), batch)]
        return [(int(p), batch.take(np.flatnonzero(numbers == p))) for p in found]


def partitions_of(rows: pa.Table | pa.RecordBatch, partition_by: Sequence[str], partitions: int) -> np.ndarray[Any, Any]:
    """The partition of every row: CRC-32C of its canonical key modulo the number of partitions."""
    if len(partition_by) == 1:  # keys repeat, and each needs its bytes once
        column: Any = rows.column(partition_by[0])
        if not pa.types.is_nested(column.type):
            whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            coded = whole.dictionary_encode(null_encoding="encode")
            of_value = _partitions_of(pa.table({partition_by[0]: coded.dictionary}), partition_by, partitions)
            return np.take(of_value, coded.indices.to_numpy(zero_copy_only=False))
    return _partitions_of(rows, partition_by, partitions)


def _partitions_of(rows: pa.Table | pa.RecordBatch, partition_by: Sequence[str], partitions: int) -> np.ndarray[Any, Any]:
    keys = schemas.encode_keys(rows, partition_by)
    return np.fromiter((crc32c.crc32c(key) % partitions for key in keys), dtype="int32", count=len(keys))
