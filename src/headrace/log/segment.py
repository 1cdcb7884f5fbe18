"""Reading segments: frames of a hot file, rows of a sealed one."""

from __future__ import annotations

import bisect
import uuid
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as T

from headrace.errors import LogDamaged
from headrace.log import columns
from headrace.log.disk import Disk, DiskFile
from headrace.log.frame import HEADER_BYTES, Header, decode_header, intact

_CHUNK = 256 << 10
_ROW_GROUP = 128 << 10
_LEAD = 4
"""Frames begin on multiples of 8 and headers have 84 bytes: four bytes in front put every batch on a multiple of 8."""


def new_hot_name(base: int) -> str:
    """A name that no file of the partition ever had: a failed one must not come back under its name."""
    return f"{base:020d}-{uuid.uuid4().hex[:12]}.hot"


def new_sealed_name(base: int) -> str:
    """The same for a sealed segment."""
    return f"{base:020d}-{uuid.uuid4().hex[:12]}.parquet"


def read_aligned(file: DiskFile, at: int, length: int) -> pa.Buffer:
    """A range of a file in memory, so that the batches in its frames need no copy."""
    buffer = pa.allocate_buffer(length + _LEAD)
    got = file.read_into(at, memoryview(buffer).cast("B")[_LEAD:])
    return buffer.slice(_LEAD, got)


class HotSegment:
    """What a reader knows of a hot file: where frames begin, learned from headers and only below the published end."""

    def __init__(self, disk: Disk, path: Path, base: int) -> None:
        self.path = path
        self._file = disk.open(path)
        self._bases: list[int] = []
        self._positions: list[int] = []
        self._end, self._position = base, 0
        self._learned = False

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def learn(self, stop: int) -> bool:
        """Read headers until the frames up to the offset `stop` are known; False where the file has fewer."""
        chunk, start = b"", 0
        while self._end < stop:
            at = self._position - start
            if at + HEADER_BYTES > len(chunk) or not chunk:
                start, at = self._position, 0
                chunk = self._file.read(start, _CHUNK)
            header = decode_header(chunk, at)
            if header is None or header.base != self._end:
                return False
            self._bases.append(header.base)
            self._positions.append(self._position)
            self._end, self._position = header.end, self._position + header.bytes
        return True

    def frames(self, start: int, stop: int) -> tuple[pa.Buffer, list[tuple[int, Header]]]:
        """The frames that hold [start, stop), checked bit by bit, and where they lie in the buffer."""
        first = bisect.bisect_right(self._bases, start) - 1
        last = bisect.bisect_left(self._bases, stop)
        low = self._positions[first]
        high = self._positions[last] if last < len(self._positions) else self._position
        buffer = read_aligned(self._file, low, high - low)
        view, at, out = memoryview(buffer), 0, []
        expected = self._bases[first]
        for _ in range(first, last):
            header = decode_header(view, at)
            if header is None or header.base != expected or not intact(header, view, at):
                raise damaged(self.path, expected, low + at)
            out.append((at, header))
            at, expected = at + header.bytes, header.end
        return buffer, out


def damaged(path: Path, offset: int, position: int) -> LogDamaged:
    """The error for a frame that does not hold what was written."""
    return LogDamaged(
        f"{path} is damaged at offset {offset}",
        details=[f"the frame at byte {position} does not hold what was written, and it was durable once"],
        hint="check the disk, then restore the topic's folder from a backup; nothing was cut, and appends are refused",
    )


def rows_of_frames(
    buffer: pa.Buffer, frames: Sequence[tuple[int, Header]], schemas: Sequence[T.StructType], start: int, stop: int
) -> pa.Table:
    """The rows [start, stop) of neighbouring frames, in the columns of a sealed file."""
    newest = columns.sealed_schema(schemas[-1])
    runs: list[pa.Table] = []
    at = 0
    while at < len(frames):
        shape = (frames[at][1].schema, frames[at][1].format)
        run = [frames[at]]
        while at + len(run) < len(frames) and (frames[at + len(run)][1].schema, frames[at + len(run)][1].format) == shape:
            run.append(frames[at + len(run)])
        at += len(run)
        runs.append(_run(buffer, run, columns.frame_schema(schemas[shape[0]], shape[1]), newest))
    whole = pa.concat_tables(runs)
    return whole.slice(start - frames[0][1].base, stop - start)


def _run(buffer: pa.Buffer, frames: Sequence[tuple[int, Header]], shape: pa.Schema, newest: pa.Schema) -> pa.Table:
    batches = [
        pa.ipc.read_record_batch(buffer.slice(position + HEADER_BYTES, header.length), shape) for position, header in frames
    ]
    table = pa.Table.from_batches(batches, shape)
    first, last = frames[0][1], frames[-1][1]
    appended = np.repeat(
        np.array([header.appended for _, header in frames], dtype="int64"), [header.rows for _, header in frames]
    )
    table = table.append_column(columns.OFFSET, pa.array(np.arange(first.base, last.end, dtype="int64")))
    table = table.append_column(columns.APPENDED, pa.array(appended).cast(columns.APPENDED.type))
    return columns.conform(table, newest)


class SealedSegment:
    """A Parquet file of the partition; row i is the offset base + i."""

    def __init__(self, disk: Disk, path: Path, base: int) -> None:
        self.path, self.base = path, base
        self._parquet = pq.ParquetFile(disk.source(path))
        counts = [self._parquet.metadata.row_group(i).num_rows for i in range(self._parquet.num_row_groups)]
        self._starts = [base, *(base + int(n) for n in np.cumsum(counts))]

    @property
    def end(self) -> int:
        """The exclusive end of its offsets."""
        return self._starts[-1]

    def close(self) -> None:
        """Give the file back."""
        self._parquet.close()

    def rows(self, start: int, stop: int, newest: T.StructType) -> pa.Table:
        """The rows [start, stop), in the columns of a sealed file."""
        if start < self.base or stop > self.end:
            raise damaged(self.path, self.end, 0)
        first = bisect.bisect_right(self._starts, start) - 1
        last = bisect.bisect_left(self._starts, stop)
        try:
            table = self._parquet.read_row_groups(list(range(first, last)), use_threads=False)
        except (pa.ArrowInvalid, OSError) as error:
            raise damaged(self.path, start, 0) from error
        table = columns.conform(table.replace_schema_metadata(None), columns.sealed_schema(newest))
        return table.slice(start - self._starts[first], stop - start).cast(columns.sealed_schema(newest))


def sealed_bytes(table: pa.Table) -> pa.Buffer:
    """The Parquet file of a segment's rows."""
    out = pa.BufferOutputStream()
    pq.write_table(table, out, row_group_size=_ROW_GROUP, compression="snappy", write_page_checksum=True, coerce_timestamps="us")
    return out.getvalue()
