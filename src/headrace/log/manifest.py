"""The manifest: which files a partition is made of. It decides which file counts.

It is replaced as a whole, under the partition's lock, and each writer raises its counter by one. A second line holds the
CRC-32C of the first, so that a flipped bit in it is found like one in a frame.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import crc32c

from headrace.errors import LogDamaged

NAME = "manifest.json"
VERSION = 1
KEPT_SEQUENCES = 5
KEPT_FOR_US = 7 * 24 * 3600 * 1_000_000


@dataclass(frozen=True)
class SegmentEntry:
    """One segment: the offset at which it begins, its file, and when it was begun (sealed or rolled)."""

    base: int
    name: str
    since: int

    @property
    def sealed(self) -> bool:
        """Whether the file is Parquet, and so will never change."""
        return self.name.endswith(".parquet")


@dataclass(frozen=True)
class Kept:
    """A sequence of a producer that was written, and where."""

    sequence: int
    first: int
    rows: int
    appended: int


@dataclass(frozen=True)
class Manifest:
    """Segments in the order of their offsets, the last of which is hot and takes appends."""

    counter: int
    segments: tuple[SegmentEntry, ...]
    producers: Mapping[bytes, tuple[Kept, ...]] = field(default_factory=dict)
    replaced: tuple[tuple[str, int], ...] = ()
    appended: int = 0
    """The newest append time when the last segment was begun: append times never go back."""

    @property
    def start(self) -> int:
        """The first offset that is still there."""
        return self.segments[0].base

    @property
    def hot(self) -> SegmentEntry:
        """The segment that takes appends."""
        return self.segments[-1]

    def stop_of(self, index: int) -> int | None:
        """The exclusive end of a segment; None for the last, which grows."""
        return self.segments[index + 1].base if index + 1 < len(self.segments) else None

    def next(self, **changes: object) -> Manifest:
        """The manifest that comes after this one."""
        return replace(self, counter=self.counter + 1, **changes)  # type: ignore[arg-type]

    def named(self) -> set[str]:
        """Every file that counts, or that a reader may still hold."""
        return {segment.name for segment in self.segments} | {name for name, _ in self.replaced}

    def encode(self) -> bytes:
        """The file's bytes."""
        body = {
            "version": VERSION,
            "counter": self.counter,
            "appended": self.appended,
            "segments": [[s.base, s.name, s.since] for s in self.segments],
            "replaced": [list(r) for r in self.replaced],
            "producers": {
                producer.hex(): [[k.sequence, k.first, k.rows, k.appended] for k in kept]
                for producer, kept in self.producers.items()
            },
        }
        line = json.dumps(body, separators=(",", ":")).encode()
        return line + b"\n" + f"{crc32c.crc32c(line):08x}\n".encode()

    @classmethod
    def decode(cls, data: bytes, path: Path) -> Manifest:
        """Read a file's bytes; `LogDamaged` where they are not what was written."""
        line, _, rest = data.partition(b"\n")
        if rest != f"{crc32c.crc32c(line):08x}\n".encode():
            raise LogDamaged(f"{path} does not hold what was written", details=["its checksum is wrong"], hint=_RESTORE)
        body = json.loads(line)
        if body["version"] != VERSION:
            raise LogDamaged(
                f"{path} has version {body['version']}, and this Headrace reads {VERSION}", hint="the Headrace that wrote it"
            )
        return cls(
            counter=body["counter"],
            segments=tuple(SegmentEntry(*s) for s in body["segments"]),
            producers={bytes.fromhex(p): tuple(Kept(*k) for k in kept) for p, kept in body["producers"].items()},
            replaced=tuple((name, at) for name, at in body["replaced"]),
            appended=body["appended"],
        )


_RESTORE = "restore the topic's folder from a backup; nothing was changed"


def newest(kept: Mapping[int, Kept]) -> tuple[Kept, ...]:
    """The sequences of one producer that a manifest keeps."""
    return tuple(kept[sequence] for sequence in sorted(kept)[-KEPT_SEQUENCES:])


def still_kept(producers: Mapping[bytes, Mapping[int, Kept]], now_us: int) -> dict[bytes, tuple[Kept, ...]]:
    """What a rolled segment leaves in the manifest: the newest five per producer, for seven days."""
    out = {producer: newest(kept) for producer, kept in producers.items() if kept}
    return {producer: kept for producer, kept in out.items() if now_us - max(k.appended for k in kept) <= KEPT_FOR_US}
