"""One partition: a folder with a manifest, segments, the published end and a lock.

Theory of operation
-------------------
Rows become durable in frames of the hot file and count once `end` is published. Every sentence here was paid for by a
schedule in which rows were lost or doubled without it:

1. Nobody reads beyond `end`, and `end` is published only after the fsync: a reader never uses a row that a power cut
   could take back. `end` itself is never fsynced. Where it is absent, wrong or old, the frames are scanned.
2. Whoever takes the lock rereads the manifest and fsyncs the folder if it has not seen this manifest's counter: its writer
   may have died between renaming it and making the name durable.
3. Whoever appends or opens makes sure that the hot file ends with the frame that ends at `end`. Frames beyond it belong
   to a group whose writer died: whole ones are kept (fsync, then publish), a torn tail is cut.
4. A wrong frame before `end`, or one that a whole frame of a later group follows, was durable once. It is damage:
   nothing is cut, appends are refused.
5. After a failed fsync nobody knows what is on disk: the segment is cut to `end` and takes no more. (Not survived: a kill
   between the failure and the cut, and then a power cut: the next fsync of that file succeeds without having kept it.)
6. A remembered file position is only a hint: the frame that ends there is read back and must be the one remembered.
7. What a manifest names is in the folder for good before it is named.
"""

from __future__ import annotations

import contextlib
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import NamedTuple, TypeVar

import crc32c
import pyarrow as pa
from pyspark.sql import types as T

from headrace.clock import Clock
from headrace.errors import HeadraceError, LogDamaged, UsageError, WorldError
from headrace.log import columns, frame, manifest, segment
from headrace.log.disk import Disk, DiskFile
from headrace.log.frame import Header, Payload
from headrace.log.manifest import Kept, Manifest, SegmentEntry
from headrace.log.segment import HotSegment, SealedSegment

SEGMENT_BYTES = 64 << 20
UNSEALED_US = 60 * 1_000_000
REPLACED_US = 3600 * 1_000_000
ORPHAN_US = 24 * 3600 * 1_000_000

_END = struct.Struct("<QI")
_OPEN_FILES = 16
_Answer = TypeVar("_Answer")


def _encoded_end(end: int) -> bytes:
    body = struct.pack("<Q", end)
    return body + struct.pack("<I", crc32c.crc32c(body))


class Placed(NamedTuple):
    """Where an entry's rows are."""

    first: int
    rows: int
    repeated: bool


@dataclass
class Entry:
    """One frame on its way into a partition."""

    payload: Payload
    producer: bytes
    sequence: int
    placed: Placed | None = None
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether a group has taken it, well or not."""
        return self.placed is not None or self.error is not None


@dataclass
class _Tail:
    """The hot file up to the frame that ends at `end`, as this process last saw it. A hint, never trusted unread."""

    name: str
    end: int
    position: int
    last: Header | None = None
    last_position: int = 0
    appended: int = 0
    sequences: dict[bytes, dict[int, Kept]] = dataclass_field(default_factory=dict)

    def take(self, header: Header) -> None:
        """Go on by one frame."""
        self.last, self.last_position = header, self.position
        self.end, self.position = header.end, self.position + header.bytes
        self.appended = max(self.appended, header.appended)
        if header.producer != frame.NOBODY:
            kept = Kept(header.sequence, header.base, header.rows, header.appended)
            self.sequences.setdefault(header.producer, {})[header.sequence] = kept


class Partition:
    """A partition of a topic; any number of threads and processes may hold one of the same folder."""

    def __init__(
        self,
        folder: Path,
        *,
        schemas: Callable[[int], Sequence[T.StructType]],
        disk: Disk,
        clock: Clock,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.folder = folder
        self._schemas, self._disk, self._clock, self._segment_bytes = schemas, disk, clock, segment_bytes
        self._leader, self._queue_lock = threading.Lock(), threading.Lock()
        self._queue: list[Entry] = []
        self._read_lock = threading.Lock()
        self._manifest_bytes, self._manifest = b"", None
        self._seen_counter = -1
        self._tail: _Tail | None = None
        self._broken: str | None = None
        self._end_file: DiskFile | None = None
        self._open: dict[str, HotSegment | SealedSegment] = {}
        self._sealer: threading.Thread | None = None

    _manifest: Manifest | None

    @staticmethod
    def make(folder: Path, disk: Disk, clock: Clock) -> None:
        """Put an empty partition into a folder that nobody knows yet, durably."""
        disk.make_folder(folder)
        name = segment.new_hot_name(0)
        with disk.open(folder / name, create=True) as file:
            file.fsync()
        with disk.open(folder / "lock", create=True) as file:
            file.fsync()
        with disk.open(folder / "end", create=True) as file:
            file.write(0, _encoded_end(0))  # not fsynced, like every `end`; it spares pollers the manifest
        disk.replace(folder / manifest.NAME, Manifest(0, (SegmentEntry(0, name, clock.now_us()),)).encode())

    # --- what everybody may ask ------------------------------------------------------------------------------------

    def start(self) -> int:
        """The first offset that is still there."""
        return self._read_manifest().start

    def end(self) -> int:
        """The published exclusive end; absent, wrong or before the last hot segment: that segment's start."""
        published = self._published()
        known = self._manifest
        if known is None or published is None or published < known.hot.base:
            known = self._read_manifest()
        return known.hot.base if published is None else max(published, known.hot.base)

    def published(self) -> int | None:
        """What the file `end` says, or None where it is absent or wrong."""
        return self._published()

    def _published(self) -> int | None:
        for _ in range(3):  # a reader may meet a writer in the middle of twelve bytes
            try:
                file = self._end_file
                if file is None or not file.linked():
                    file = self._end_file = self._disk.open(self.folder / "end")
                data = file.read(0, _END.size)
            except FileNotFoundError:
                return None
            if len(data) == _END.size:
                end, crc = _END.unpack(data)
                if crc32c.crc32c(data[:8]) == crc:
                    return int(end)
        return None

    def _publish(self, end: int) -> None:
        file = self._end_file
        if file is None or not file.linked():
            file = self._end_file = self._disk.open(self.folder / "end", create=True)
        file.write(0, _encoded_end(end))

    def _read_manifest(self) -> Manifest:
        path = self.folder / manifest.NAME
        try:
            data = self._disk.read_whole(path)
        except FileNotFoundError:
            raise LogDamaged(f"{path} is gone", hint="restore the topic's folder from a backup") from None
        known = self._manifest
        if known is None or data != self._manifest_bytes:
            known = Manifest.decode(data, path)
            self._manifest_bytes, self._manifest = data, known
        return known

    # --- under the lock --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Manifest]:
        with self._disk.lock(self.folder / "lock"):
            current = self._read_manifest()
            if current.counter != self._seen_counter:
                self._disk.fsync_folder(self.folder)
                self._seen_counter = current.counter
            yield current

    def _put_manifest(self, new: Manifest) -> Manifest:
        self._disk.fsync_folder(self.folder)
        data = new.encode()
        self._disk.replace(self.folder / manifest.NAME, data)
        self._manifest_bytes, self._manifest, self._seen_counter = data, new, new.counter
        return new

    def _repaired(self, current: Manifest) -> tuple[Manifest, DiskFile, _Tail]:
        """The hot file, ending with the frame that ends at the published end."""
        hot = current.hot
        file = self._disk.open(self.folder / hot.name)
        try:
            published = self._published()
            tail = self._remembered(file, hot, current)
            self._scan(file, tail, published if published is not None and published >= hot.base else hot.base)
            if tail.end != published or self._broken == hot.name:
                current, file = self._made_durable(current, file, tail)
                self._publish(tail.end)
        except BaseException:
            file.close()
            raise
        self._tail = tail
        return current, file, tail

    def _made_durable(self, current: Manifest, file: DiskFile, tail: _Tail) -> tuple[Manifest, DiskFile]:
        """Fsync frames that somebody else wrote. Where that fails, or failed before, they go into another file: no later
        fsync of this one would tell what it holds, and without an `end` nobody knows which of them were acknowledged."""
        if self._broken != current.hot.name:
            try:
                file.fsync()
                return current, file
            except OSError:
                self._broken = current.hot.name
        name, now = segment.new_hot_name(current.hot.base), self._clock.now_us()
        fresh = self._disk.open(self.folder / name, create=True)
        try:
            fresh.write(0, file.read(0, tail.position))
            fresh.fsync()
            entry = SegmentEntry(current.hot.base, name, current.hot.since)
            replaced = (*current.replaced, (current.hot.name, now))
            current = self._put_manifest(current.next(segments=(*current.segments[:-1], entry), replaced=replaced))
        except BaseException:
            fresh.close()
            raise
        file.close()
        tail.name, self._broken = name, None
        return current, fresh

    def _remembered(self, file: DiskFile, hot: SegmentEntry, current: Manifest) -> _Tail:
        """Where we were last time, if the frame that ends there is still that frame; else the start of the file."""
        tail, self._tail = self._tail, None
        if tail is not None and tail.name == hot.name and tail.last is not None:
            data = file.read(tail.last_position, frame.HEADER_BYTES)
            if frame.decode_header(data) == tail.last:
                return tail
        return _Tail(hot.name, hot.base, 0, appended=current.appended)

    def _scan(self, file: DiskFile, tail: _Tail, published: int) -> None:
        """Go on from `tail` over whole frames, and cut what is torn behind the last of them."""
        rest = file.size() - tail.position
        if not rest:
            if tail.end < published:
                raise segment.damaged(self.folder / tail.name, tail.end, tail.position)
            return
        begin = tail.position
        view = memoryview(file.read(begin, rest))
        while tail.position - begin < len(view):
            header = frame.frame_at(view, tail.position - begin)
            if header is None or header.base != tail.end:
                self._judge_wrong_frame(view, tail, tail.position - begin, published)
                file.truncate(tail.position)
                return
            tail.take(header)
        if tail.end < published:
            raise segment.damaged(self.folder / tail.name, tail.end, tail.position)

    def _judge_wrong_frame(self, view: memoryview, tail: _Tail, at: int, published: int) -> None:
        later = any(header.group > tail.end for header in frame.frames_after(view, at))
        if tail.end < published or later:
            raise segment.damaged(self.folder / tail.name, tail.end, tail.position)

    def recover(self) -> int:
        """Take the lock, cut a torn tail, fsync, publish; the end."""
        try:
            with self._locked() as current:
                _, file, tail = self._repaired(current)
                file.close()
                return tail.end
        except OSError as error:
            raise self._explained(error) from error

    # --- append ----------------------------------------------------------------------------------------------------

    def append(self, entry: Entry) -> Placed:
        """Return when the entry's rows are durable and published. Threads that wait together share an fsync."""
        with self._queue_lock:
            self._queue.append(entry)
        with self._leader:
            if not entry.done:
                with self._queue_lock:
                    group, self._queue = self._queue, []
                self._commit(group)
        if entry.error is not None:
            raise entry.error
        assert entry.placed is not None, "the group that took an entry has answered it"
        return entry.placed

    def _commit(self, group: Sequence[Entry]) -> None:
        try:
            with self._locked() as current:
                current, file, tail = self._repaired(current)
                with file:
                    if tail.position >= self._segment_bytes:
                        current, rolled = self._roll(current, tail), True
                        hot = self._disk.open(self.folder / current.hot.name)
                        tail = self._tail = _Tail(current.hot.name, tail.end, 0, appended=tail.appended)
                    else:
                        hot, rolled = file, False
                    with hot:
                        self._write(hot, current, tail, group)
            if rolled:
                self._seal_behind()
        except BaseException as error:
            for entry in group:
                if not entry.done:
                    entry.error = self._explained(error)

    def _explained(self, error: BaseException) -> BaseException:
        if isinstance(error, OSError):
            return WorldError(
                f"{self.folder}: rows could not be made durable",
                details=[str(error)],
                hint="nothing was acknowledged; repeat the append with the same producer and sequence once the disk is well",
            )
        if isinstance(error, HeadraceError):
            return type(error)(error.message, details=error.details, hint=error.hint)
        return error

    def _write(self, hot: DiskFile, current: Manifest, tail: _Tail, group: Sequence[Entry]) -> None:
        """Write the frames of one group, fsync once, publish, answer."""
        known = _Known(current, tail)
        now = max(self._clock.now_us(), tail.appended)
        base, parts, placed = tail.end, [], []
        for entry in group:
            try:
                found = known.find(entry)
            except UsageError as error:
                entry.error = error
                continue
            if found is None:
                found = Placed(base, entry.payload.rows, False)
                parts.append(
                    frame.encode(
                        entry.payload, base=base, appended=now, producer=entry.producer, sequence=entry.sequence, group=tail.end
                    )
                )
                known.add(entry, found)
                base += found.rows
            placed.append((entry, found))
        if parts:
            self._durably(hot, current, tail, b"".join(parts))
            for part in parts:
                header = frame.decode_header(part)
                assert header is not None, "what was encoded can be decoded"
                assert header.base == tail.end, "frames of a group follow each other"
                tail.take(header)
            self._publish(tail.end)
        for entry, found in placed:
            entry.placed = found

    def _durably(self, hot: DiskFile, current: Manifest, tail: _Tail, data: bytes) -> None:
        try:
            hot.write(tail.position, data)
        except BaseException:
            self._tail = None
            hot.truncate(tail.position)  # a full disk: what came through is torn, and nobody has seen it
            raise
        try:
            hot.fsync()
        except BaseException:
            self._tail, self._broken = None, current.hot.name
            hot.truncate(tail.position)
            self._roll(current, tail)
            self._broken = None
            raise

    def _roll(self, current: Manifest, tail: _Tail) -> Manifest:
        """Under the lock: begin a new hot segment at the end; what the old one knew of sequences goes into the manifest."""
        now = self._clock.now_us()
        name = segment.new_hot_name(tail.end)
        self._disk.open(self.folder / name, create=True).close()
        entry = SegmentEntry(tail.end, name, now)
        empty = current.hot.base == tail.end
        return self._put_manifest(
            current.next(
                segments=(*(current.segments[:-1] if empty else current.segments), entry),
                producers=manifest.still_kept(_Known(current, tail).sequences, now),
                replaced=(*current.replaced, (current.hot.name, now)) if empty else current.replaced,
                appended=max(tail.appended, current.appended),
            )
        )

    # --- seal and sweep --------------------------------------------------------------------------------------------

    def _seal_behind(self) -> None:
        """Seal what was rolled, in the background; whoever rolled it does so."""
        if self._sealer is None or not self._sealer.is_alive():
            self._sealer = threading.Thread(target=self._seal_quietly, name=f"seal {self.folder.name}", daemon=True)
            self._sealer.start()

    def _seal_quietly(self) -> None:
        with contextlib.suppress(OSError, HeadraceError):  # tidy seals what a background thread could not, and says why
            self.seal()

    def wait_sealed(self) -> None:
        """Wait for the background sealer of this object, if it is at work."""
        if self._sealer is not None:
            self._sealer.join()

    def seal(self, unsealed_us: int = 0) -> None:
        """Turn every rolled segment into a Parquet file with a name of its own; with an age, only older ones."""
        current = self._read_manifest()
        for index, entry in enumerate(current.segments[:-1]):
            old = self._clock.now_us() - current.segments[index + 1].since >= unsealed_us
            if not entry.sealed and old:
                self._seal_one(entry, current.segments[index + 1].base)

    def _seal_one(self, entry: SegmentEntry, stop: int) -> None:
        try:
            rows = self._hot_rows(entry, entry.base, stop, None)
        except FileNotFoundError:
            return  # somebody else has sealed it
        if rows is None:
            raise segment.damaged(self.folder / entry.name, entry.base, 0)
        name = segment.new_sealed_name(entry.base)
        with self._disk.open(self.folder / name, create=True) as file:
            file.write(0, segment.sealed_bytes(rows).to_pybytes())
            file.fsync()
        with self._locked() as current:
            if entry not in current.segments:
                self._disk.unlink(self.folder / name)
                return
            now = self._clock.now_us()
            segments = tuple(SegmentEntry(s.base, name, now) if s == entry else s for s in current.segments)
            self._put_manifest(current.next(segments=segments, replaced=(*current.replaced, (entry.name, now))))

    def sweep(self) -> None:
        """Delete replaced files after an hour, and files that nothing names after a day."""
        now = self._clock.now_us()
        with self._locked() as current:
            old = {name for name, at in current.replaced if now - at > REPLACED_US}
            orphans = {
                name
                for name in self._disk.names(self.folder)
                if name.endswith((".hot", ".parquet"))
                and name not in current.named()
                and now - self._disk.modified_us(self.folder / name) > ORPHAN_US
            }
            for name in sorted(old | orphans):
                self._disk.unlink(self.folder / name)
            if old:
                self._put_manifest(current.next(replaced=tuple(r for r in current.replaced if r[0] not in old)))

    def tidy(self) -> None:
        """Seal what lies unsealed for a minute, then sweep."""
        self.seal(UNSEALED_US)
        self.sweep()

    # --- read ------------------------------------------------------------------------------------------------------

    def read(self, start: int, stop: int) -> pa.Table:
        """The rows [start, stop) in the columns of a sealed file."""
        with self._read_lock:
            return self._reading(start, stop, lambda current: self._rows(current, start, stop))

    def slices(self, start: int, stop: int) -> tuple[list[tuple[Path, int, int]], pa.Table]:
        """The sealed files that hold a beginning of [start, stop), with their ranges, and the rest as rows."""
        with self._read_lock:
            return self._reading(start, stop, lambda current: self._slices(current, start, stop))

    def sealed_ranges(self) -> list[tuple[int, int]]:
        """The offsets of each sealed file, as far as we know: there may be newer ones."""
        current = self._manifest or self._read_manifest()
        ends = [(entry, current.stop_of(index)) for index, entry in enumerate(current.segments)]
        return [(entry.base, stop) for entry, stop in ends if entry.sealed and stop is not None]

    def _reading(self, start: int, stop: int, attempt: Callable[[Manifest], _Answer | None]) -> _Answer:
        """Try with the manifest that we know; where a file or rows are missing, with the one that is there now."""
        current = self._manifest or self._read_manifest()
        while True:
            if start < current.start:
                raise WorldError(
                    f"{self.folder}: rows before offset {current.start} are trimmed", details=[f"asked for from {start}"]
                )
            with contextlib.suppress(FileNotFoundError):
                answer = attempt(current)
                if answer is not None:
                    return answer
            newer = self._read_manifest()
            if newer.counter == current.counter:
                raise LogDamaged(
                    f"{self.folder}: rows [{start}, {stop}) are not all there",
                    details=[f"the log was published up to {self.end()}"],
                    hint="were files of the log deleted, or was it restored from an older copy?",
                )
            current = newer

    def _check(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop or (stop > start and stop > self.end()):
            raise UsageError(
                f"{self.folder}: [{start}, {stop}) is not a range of published rows", details=[f"they end at {self.end()}"]
            )

    def _rows(self, current: Manifest, start: int, stop: int) -> pa.Table | None:
        self._check(start, stop)
        parts = [columns.sealed_schema(self._schemas(0)[-1]).empty_table()]
        for index, entry in enumerate(current.segments):
            segment_stop = current.stop_of(index)
            low, high = max(start, entry.base), stop if segment_stop is None else min(stop, segment_stop)
            if low < high:
                part = self._rows_of(entry, low, high)
                if part is None:
                    return None
                parts.append(part)
        return pa.concat_tables(parts)

    def _slices(self, current: Manifest, start: int, stop: int) -> tuple[list[tuple[Path, int, int]], pa.Table] | None:
        sealed: list[tuple[Path, int, int]] = []
        for index, entry in enumerate(current.segments):
            segment_stop = current.stop_of(index)
            if not entry.sealed or segment_stop is None:
                break
            low, high = max(start, entry.base), min(stop, segment_stop)
            if low < high:
                sealed.append((self.folder / entry.name, low, high))
        rest = self._rows(current, sealed[-1][2] if sealed else start, stop)
        return None if rest is None else (sealed, rest)

    def _rows_of(self, entry: SegmentEntry, start: int, stop: int) -> pa.Table | None:
        if not entry.sealed:
            return self._hot_rows(entry, start, stop, self._opened(entry))
        opened = self._opened(entry)
        assert isinstance(opened, SealedSegment), "a Parquet file is a sealed segment"
        return opened.rows(start, stop, self._schemas(0)[-1])

    def _hot_rows(self, entry: SegmentEntry, start: int, stop: int, opened: HotSegment | SealedSegment | None) -> pa.Table | None:
        hot = opened if opened is not None else HotSegment(self._disk, self.folder / entry.name, entry.base)
        assert isinstance(hot, HotSegment), "a hot file is read by its frames"
        if not hot.learn(stop):
            return None
        buffer, frames = hot.frames(start, stop)
        newest = max(header.schema for _, header in frames)
        return segment.rows_of_frames(buffer, frames, self._schemas(newest), start, stop)

    def _opened(self, entry: SegmentEntry) -> HotSegment | SealedSegment:
        """An open segment; the ones used last are kept open."""
        found = self._open.pop(entry.name, None)
        if found is None:
            kind = SealedSegment if entry.sealed else HotSegment
            found = kind(self._disk, self.folder / entry.name, entry.base)
        self._open[entry.name] = found
        while len(self._open) > _OPEN_FILES:
            self._open.pop(next(iter(self._open))).close()
        return found

    # --- numbers ---------------------------------------------------------------------------------------------------

    def newest_sequence(self, producer: bytes) -> int | None:
        """The highest sequence of a producer that is known here."""
        with self._locked() as current:
            _, file, tail = self._repaired(current)
            file.close()
            return max(_Known(current, tail).sequences.get(producer, {}), default=None)

    def files(self) -> tuple[int, int, int]:
        """How many sealed segments, hot segments and bytes there are."""
        current = self._read_manifest()
        total = 0
        for entry in current.segments:
            with contextlib.suppress(FileNotFoundError), self._disk.open(self.folder / entry.name) as file:
                total += file.size()
        sealed = sum(entry.sealed for entry in current.segments)
        return sealed, len(current.segments) - sealed, total


class _Known:
    """Which sequences of which producers are written: the manifest's, those of the hot file's frames, and this group's."""

    def __init__(self, current: Manifest, tail: _Tail) -> None:
        self._current, self._tail = current, tail
        self._new: dict[bytes, dict[int, Kept]] = {}

    @property
    def sequences(self) -> dict[bytes, dict[int, Kept]]:
        """All of them."""
        out = {producer: {k.sequence: k for k in kept} for producer, kept in self._current.producers.items()}
        for more in (self._tail.sequences, self._new):
            for producer, found in more.items():
                out.setdefault(producer, {}).update(found)
        return out

    def _find(self, producer: bytes, sequence: int) -> tuple[Kept | None, int]:
        """This sequence, and the newest one of its producer (-1 where there is none)."""
        newest, found = -1, None
        for kept in self._current.producers.get(producer, ()):
            newest = max(newest, kept.sequence)
            found = kept if kept.sequence == sequence else found
        for more in (self._tail.sequences.get(producer), self._new.get(producer)):
            if more:
                # Sequences of one producer only grow, so the last that came is the newest.
                newest = max(newest, next(reversed(more)))
                found = more.get(sequence, found)
        return found, newest

    def find(self, entry: Entry) -> Placed | None:
        """Where a repeated entry is; None for a new one; an error for one that is too old to know."""
        if entry.producer == frame.NOBODY:
            return None
        kept, newest = self._find(entry.producer, entry.sequence)
        if kept is not None:
            if kept.rows != entry.payload.rows:
                raise UsageError(
                    f"sequence {entry.sequence} was used before, for {kept.rows} rows at offset {kept.first}",
                    details=[f"now it comes with {entry.payload.rows} rows: a sequence names one batch for ever"],
                    hint="a higher sequence for other rows",
                )
            return Placed(kept.first, kept.rows, True)
        if entry.sequence < newest:
            raise UsageError(
                f"sequence {entry.sequence} is older than what is kept of its producer",
                details=[f"its newest is {newest}; whether {entry.sequence} was written is not known any more"],
                hint="a producer repeats in order before it goes on, at most five in flight",
            )
        return None

    def add(self, entry: Entry, placed: Placed) -> None:
        """Two entries of one group may be the same one."""
        if entry.producer != frame.NOBODY:
            self._new.setdefault(entry.producer, {})[entry.sequence] = Kept(entry.sequence, placed.first, placed.rows, 0)
