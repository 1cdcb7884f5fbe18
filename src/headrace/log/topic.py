"""A topic: a folder with a description, `topic.json`, and numbered partitions."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from headrace import schema as schemas
from headrace.clock import Clock, SystemClock
from headrace.errors import DefinitionError, LogDamaged, UsageError
from headrace.log import columns
from headrace.log.disk import Disk, RealDisk
from headrace.log.partition import SEGMENT_BYTES, Partition
from headrace.log.position import Position
from headrace.log.producer import Producer

DESCRIPTION = "topic.json"
VERSION = 1


@dataclass(frozen=True)
class TopicSpec:
    """What `topic.json` says. Everything but the list of schemas is fixed for ever."""

    name: str
    id: str
    schemas: tuple[T.StructType, ...]
    partitions: int
    partition_by: tuple[str, ...]
    event_time: str | None

    @property
    def schema(self) -> T.StructType:
        """The newest schema."""
        return self.schemas[-1]

    def encode(self) -> bytes:
        """The file's bytes."""
        body = {
            "version": VERSION,
            "id": self.id,
            "name": self.name,
            "schemas": [schemas.to_json(s) for s in self.schemas],
            "partitions": self.partitions,
            "partition_by": list(self.partition_by),
            "event_time": self.event_time,
        }
        return json.dumps(body, indent=1).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes, path: Path) -> TopicSpec:
        """Read a file's bytes."""
        try:
            body = json.loads(data)
            version = body["version"]
        except (ValueError, KeyError, TypeError) as error:
            raise LogDamaged(f"{path} is not a topic's description", hint="restore it from a backup") from error
        if version != VERSION:
            raise LogDamaged(f"{path} has version {version}; this Headrace reads {VERSION}", hint="the Headrace that wrote it")
        return cls(
            name=body["name"],
            id=body["id"],
            schemas=tuple(schemas.from_json(s) for s in body["schemas"]),
            partitions=body["partitions"],
            partition_by=tuple(body["partition_by"]),
            event_time=body["event_time"],
        )


@dataclass(frozen=True)
class Slices:
    """Rows of one partition for executors: ranges of sealed Parquet files, in order, and the rest as rows."""

    partition: int
    sealed: tuple[tuple[Path, int, int], ...]
    rest: pa.Table


@dataclass(frozen=True)
class PartitionStats:
    """One partition, as it is now."""

    start: int
    end: int
    segments_sealed: int
    segments_hot: int
    bytes: int


@dataclass(frozen=True)
class TopicStats:
    """A topic, as it is now."""

    name: str
    id: str
    rows: int
    bytes: int
    partitions: tuple[PartitionStats, ...]


class Topic:
    """A topic of the embedded log. Any number of threads and processes may hold one of the same folder.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "events"
    >>> topic = Topic.create(folder, name="events", schema=schemas.parse_schema("id BIGINT, what STRING"))
    >>> topic.producer().append([{"id": 1, "what": "open"}, {"id": 2}]).ends
    {0: 2}
    >>> topic.read(0, 0, 2).column("what").to_pylist()
    ['open', None]
    """

    def __init__(self, folder: Path, spec: TopicSpec, *, disk: Disk, clock: Clock, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder, self.disk, self.clock = folder, disk, clock
        self._spec = spec
        self._spec_lock = threading.Lock()
        self._partitions = tuple(
            Partition(folder / str(n), schemas=self._schemas, disk=disk, clock=clock, segment_bytes=segment_bytes)
            for n in range(spec.partitions)
        )

    @classmethod
    def create(
        cls,
        folder: Path,
        *,
        name: str,
        schema: T.StructType,
        partitions: int = 1,
        partition_by: Sequence[str] = (),
        event_time: str | None = None,
        disk: Disk | None = None,
        clock: Clock | None = None,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> Topic:
        """Make a topic beside and rename it. Where there is one already, it must have the same description."""
        disk, clock = disk or RealDisk(), clock or SystemClock()
        wanted = TopicSpec(name, uuid.uuid4().hex, (schema,), partitions, tuple(partition_by), event_time)
        _validate(wanted)
        if not disk.exists(folder):
            disk.make_folders(folder.parent)
            beside = folder.with_name(f".{folder.name}-{uuid.uuid4().hex[:12]}.tmp")
            disk.make_folder(beside)
            for n in range(partitions):
                Partition.make(beside / str(n), disk, clock)
            disk.replace(beside / DESCRIPTION, wanted.encode())
            try:
                disk.rename(beside, folder)
            except OSError:
                disk.remove_folder(beside)
                if not disk.exists(folder):
                    raise
        topic = cls.open(folder, disk=disk, clock=clock, segment_bytes=segment_bytes)
        _compare(folder, wanted, topic.spec)
        return topic

    @classmethod
    def open(
        cls, folder: Path, *, disk: Disk | None = None, clock: Clock | None = None, segment_bytes: int = SEGMENT_BYTES
    ) -> Topic:
        """Open a topic that exists."""
        disk, clock = disk or RealDisk(), clock or SystemClock()
        path = folder / DESCRIPTION
        try:
            spec = TopicSpec.decode(disk.read_whole(path), path)
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(f"there is no topic at {folder}", hint="headrace topic create") from None
        # Whoever made it may have died before its name, or that of a folder above, was durable.
        disk.fsync_way(folder)
        return cls(folder, spec, disk=disk, clock=clock, segment_bytes=segment_bytes)

    # --- description -------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> TopicSpec:
        """The description, as this object last read it."""
        return self._spec

    def reload(self) -> TopicSpec:
        """Read the description again: another process may have added columns."""
        path = self.folder / DESCRIPTION
        with self._spec_lock:
            self._spec = TopicSpec.decode(self.disk.read_whole(path), path)
            return self._spec

    def _schemas(self, number: int) -> Sequence[T.StructType]:
        """All schemas, read anew when a frame has one that we do not know yet."""
        spec = self._spec if number < len(self._spec.schemas) else self.reload()
        return spec.schemas

    def evolve(self, schema: T.StructType) -> None:
        """Add nullable columns. Anything else is refused, with the reason."""
        with self.disk.lock(self.folder / "topic.lock"):
            spec = self.reload()
            if _same(spec.schema, schema):
                return
            reasons = _reasons_against(spec.schema, schema)
            if reasons:
                raise DefinitionError(
                    f'topic "{spec.name}" cannot take this schema',
                    details=reasons,
                    hint="a new topic; rows that were appended keep the columns that they have",
                )
            evolved = replace(spec, schemas=(*spec.schemas, schema))
            _validate(evolved)
            with self._spec_lock:
                self.disk.replace(self.folder / DESCRIPTION, evolved.encode())
                self._spec = evolved

    # --- rows --------------------------------------------------------------------------------------------------------

    def ends(self) -> tuple[int, ...]:
        """The published exclusive end of every partition: one small read each."""
        return tuple(partition.end() for partition in self._partitions)

    def starts(self) -> tuple[int, ...]:
        """The first offset of every partition that is still there."""
        return tuple(partition.start() for partition in self._partitions)

    def recover(self) -> None:
        """Repair every partition under its lock: keep whole frames, cut a torn tail, fsync, publish."""
        for partition in self._partitions:
            partition.recover()

    def position(self) -> Position:
        """The position that everything published so far has reached."""
        return Position(self.spec.id, dict(enumerate(self.ends())))

    def read(self, partition: int, start: int, stop: int) -> pa.Table:
        """Exactly the rows of these offsets, in storage columns, with the newest schema's columns."""
        return _positioned(self._partitions[partition].read(start, stop), partition, self.spec.schema)

    def slices(self, partition: int, start: int, stop: int) -> Slices:
        """The same rows for executors: sealed files with their ranges, and the rest as rows."""
        sealed, rest = self._partitions[partition].slices(start, stop)
        return Slices(partition, tuple(sealed), _positioned(rest, partition, self.spec.schema))

    def sealed_ranges(self, partition: int) -> list[tuple[int, int]]:
        """The offsets of each sealed file of a partition, as far as we know: there may be newer ones."""
        return self._partitions[partition].sealed_ranges()

    def producer(self, name: str | None = None) -> Producer:
        """Something to append with. Two producers of one name are the same one for (producer, sequence)."""
        return Producer(self, self._partitions, name)

    # --- care --------------------------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Seal what lies unsealed for a minute; delete replaced files after an hour and orphans after a day."""
        for partition in self._partitions:
            partition.tidy()

    def seal(self) -> None:
        """Seal every rolled segment now."""
        for partition in self._partitions:
            partition.wait_sealed()
            partition.seal()

    def stats(self) -> TopicStats:
        """Rows, bytes and segments."""
        found = tuple(PartitionStats(p.start(), p.end(), *p.files()) for p in self._partitions)
        return TopicStats(self.spec.name, self.spec.id, sum(p.end - p.start for p in found), sum(p.bytes for p in found), found)

    def __repr__(self) -> str:
        return f"Topic({self.spec.name!r}, {str(self.folder)!r})"


def _positioned(rows: pa.Table, partition: int, schema: T.StructType) -> pa.Table:
    """The columns of a sealed file and the partition, in the order of storage columns."""
    number = pa.repeat(pa.scalar(partition, pa.int32()), rows.num_rows)
    wanted = columns.storage_schema(schema)
    return columns.conform(rows.append_column(columns.PARTITION, number), wanted)


def _validate(spec: TopicSpec) -> None:
    names = spec.schema.names
    wrong = []
    if not 1 <= spec.partitions <= 1024:
        wrong.append(f"partitions={spec.partitions} is not between 1 and 1024")
    wrong += [f"partition_by names {name!r}, which is no column" for name in spec.partition_by if name not in names]
    if spec.event_time is not None:
        if spec.event_time not in names:
            wrong.append(f"event_time names {spec.event_time!r}, which is no column")
        elif not isinstance(spec.schema[spec.event_time].dataType, (T.TimestampType, T.TimestampNTZType, T.DateType)):
            wrong.append(f"event_time names {spec.event_time!r}, which is no TIMESTAMP or DATE")
    if not names:
        wrong.append("it has no columns")
    if wrong:
        raise DefinitionError(f'topic "{spec.name}" cannot be made', details=wrong, hint=f"its columns are {', '.join(names)}")
    columns.landing_schema(spec.schema)  # refuses types that cannot be kept


def _compare(folder: Path, wanted: TopicSpec, found: TopicSpec) -> None:
    """Who loses the race to make a topic compares the descriptions."""
    wrong = [
        f"{what} is {getattr(found, what)!r}, not {getattr(wanted, what)!r}"
        for what in ("name", "partitions", "partition_by", "event_time")
        if getattr(found, what) != getattr(wanted, what)
    ]
    if not _same(found.schema, wanted.schema):
        wrong.append(f"its columns are {schemas.ddl(found.schema)}, not {schemas.ddl(wanted.schema)}")
    if wrong:
        raise DefinitionError(
            f'topic "{wanted.name}" exists with another description',
            details=[str(folder), *wrong],
            hint="another name, or the description that it has; nullable columns can be added to it",
        )


def _plain(schema: T.StructType) -> list[tuple[str, dict[str, Any], bool]]:
    return [(f.name, json.loads(f.dataType.json()), f.nullable) for f in schema.fields]


def _same(one: T.StructType, other: T.StructType) -> bool:
    """Equal but for comments."""
    return _plain(one) == _plain(other)


def _reasons_against(old: T.StructType, new: T.StructType) -> list[str]:
    """Why `old` cannot become `new`."""
    found = {f.name: f for f in new.fields}
    reasons = []
    for field in old.fields:
        kept = found.get(field.name)
        if kept is None:
            reasons.append(f"column {field.name!r} is missing: columns are never removed")
        elif kept.dataType != field.dataType:
            reasons.append(
                f"column {field.name!r} is {field.dataType.simpleString().upper()} and cannot become "
                f"{kept.dataType.simpleString().upper()}: types never change"
            )
        elif kept.nullable != field.nullable:
            words = {True: "may be null", False: "is NOT NULL"}
            reasons.append(f"column {field.name!r} {words[field.nullable]}: that never changes")
    for field in new.fields:
        if field.name not in old.names and not field.nullable:
            reasons.append(f"column {field.name!r} is NOT NULL, and rows that were appended do not have it")
    kept_order = [f.name for f in new.fields if f.name in old.names]
    if not reasons and kept_order != old.names:
        reasons.append("the order of the columns changed")
    return reasons
