"""The frame: the unit in which rows are appended, checked and read.

Little endian: magic `HRF1`, format u16, schema number u16, length u32, CRC-32C u32, base offset u64, rows u32, event-time
range 2 x i64, append time i64, producer 16 bytes, sequence u64, first offset of its fsync group u64; then `length` bytes:
one encapsulated Arrow record batch, and zeros up to a multiple of 8 for the whole frame, so that every frame starts on
one. The low byte of the format is its version, the high byte says which of the hidden columns the batch carries: those
that are null in every row are left out. The checksum covers the payload first and then the header with a checksum of 0,
so that the expensive part is done before the partition's lock is taken.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import crc32c
import pyarrow as pa

MAGIC = b"HRF1"
VERSION = 1
HAS_EXTRA = 1 << 8
HAS_REJECTS = 1 << 9
FRAME_BYTES_MAX = 64 << 20
NOBODY = bytes(16)
"""The producer of frames that nobody can repeat: appends without a name and a sequence."""

NO_TIME = (2**63 - 1, -(2**63))
"""The event-time range of a frame in which no row has an event time."""

_HEADER = struct.Struct("<4sHHIIQIqqq16sQQ")
HEADER_BYTES = _HEADER.size
_CRC_AT = 12

assert HEADER_BYTES == 84, "the header's shape is a contract"


class Header(NamedTuple):
    """What a frame says about itself."""

    format: int
    schema: int
    length: int
    crc: int
    base: int
    rows: int
    time_min: int
    time_max: int
    appended: int
    producer: bytes
    sequence: int
    group: int

    @property
    def end(self) -> int:
        """The exclusive offset at which the next frame begins."""
        return self.base + self.rows

    @property
    def bytes(self) -> int:
        """The size of the whole frame."""
        return HEADER_BYTES + self.length


@dataclass(frozen=True)
class Payload:
    """A record batch made ready for its frame, before its offset is known."""

    data: bytes
    crc: int
    rows: int
    format: int
    schema: int
    time_min: int
    time_max: int

    @classmethod
    def of(cls, batch: pa.RecordBatch, *, schema: int, flags: int, times: tuple[int, int] = NO_TIME) -> Payload:
        """Serialise a batch of the columns that `flags` tell."""
        body = batch.serialize()
        data = body.to_pybytes() + bytes(-(HEADER_BYTES + body.size) % 8)
        return cls(data, crc32c.crc32c(data), batch.num_rows, VERSION | flags, schema, *times)

    @property
    def bytes(self) -> int:
        """The size of the frame that this becomes."""
        return HEADER_BYTES + len(self.data)


def encode(payload: Payload, *, base: int, appended: int, producer: bytes, sequence: int, group: int) -> bytes:
    """The whole frame."""
    fields = (
        (MAGIC, payload.format, payload.schema, len(payload.data)),
        (base, payload.rows, payload.time_min, payload.time_max, appended, producer, sequence, group),
    )
    unsigned = _HEADER.pack(*fields[0], 0, *fields[1])
    crc = crc32c.crc32c(unsigned, payload.crc)
    return _HEADER.pack(*fields[0], crc, *fields[1]) + payload.data


def decode_header(data: bytes | memoryview, at: int = 0) -> Header | None:
    """The header at `at`, or None where there is none; the checksum is not looked at."""
    if len(data) - at < HEADER_BYTES:
        return None
    magic, *fields = _HEADER.unpack_from(data, at)
    header = Header(*fields)
    if magic != MAGIC or header.format & 0xFF != VERSION or header.length > FRAME_BYTES_MAX or not header.rows:
        return None
    return header


def intact(header: Header, data: memoryview, at: int) -> bool:
    """Whether the frame whose header was read at `at` is there whole, bit by bit."""
    stop = at + header.bytes
    if stop > len(data):
        return False
    unsigned = bytearray(data[at : at + HEADER_BYTES])
    unsigned[_CRC_AT : _CRC_AT + 4] = b"\0\0\0\0"
    return bool(crc32c.crc32c(bytes(unsigned), crc32c.crc32c(data[at + HEADER_BYTES : stop])) == header.crc)


def frame_at(data: memoryview, at: int) -> Header | None:
    """The whole, intact frame at `at`, or None."""
    header = decode_header(data, at)
    return header if header is not None and intact(header, data, at) else None


def frames_after(data: memoryview, at: int) -> Iterator[Header]:
    """Every intact frame that begins on a multiple of 8 behind `at`, wherever it lies (`data` begins on one)."""
    raw = bytes(data)
    found = raw.find(MAGIC, at + 1)
    while found >= 0:
        if found % 8 == 0:
            header = frame_at(data, found)
            if header is not None:
                yield header
        found = raw.find(MAGIC, found + 1)
