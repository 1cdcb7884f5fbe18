"""The ledger: one row per epoch, each with the hash of the one before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from headrace.store.values import time_text, time_us

Kind = Literal["create", "epoch", "rebuild"]
Ranges = Mapping[str, Mapping[int, tuple[int, int]]]
"""Source -> partition -> (start, end), end exclusive; only the partitions that moved."""
Offsets = Mapping[str, Mapping[int, int]]
"""Source -> partition -> exclusive end."""

_JSON = ("ranges", "references", "close", "floors", "max_times", "rows", "rejects", "definitions")
COLUMNS = ("epoch", "kind", "generation", "lineage", "clock", "committed_at", *_JSON, "previous", "hash")
_TIMES = ("clock", "committed_at")


def canonical(value: Any) -> str:
    """JSON with one spelling for one value.

    >>> canonical({"b": 1, "a": [1, 2]})
    '{"a":[1,2],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True)
class LedgerRow:
    """What an epoch contained, when it was committed, and by which generation.

    `clock` is the reading that `hr.now()` gives to the epoch's rows; both times are microseconds since 1970 in UTC.
    `references` maps each reference to its content hash, `definitions` each table to what it was made by; `rows` and
    `rejects` count by whatever names the runtime counts by. `previous` and `hash` are set when the row is committed.
    """

    epoch: int
    kind: Kind
    generation: int
    lineage: str
    clock: int
    committed_at: int
    ranges: Ranges = field(default_factory=dict)
    references: Mapping[str, str] = field(default_factory=dict)
    close: Mapping[str, Any] = field(default_factory=dict)
    floors: Mapping[str, Any] = field(default_factory=dict)
    max_times: Mapping[str, Any] = field(default_factory=dict)
    rows: Mapping[str, Any] = field(default_factory=dict)
    rejects: Mapping[str, Any] = field(default_factory=dict)
    definitions: Mapping[str, Any] = field(default_factory=dict)
    previous: str = ""
    hash: str = ""

    def columns(self) -> dict[str, Any]:
        """The row as it is stored: times as text, mappings as canonical JSON."""
        return {f.name: _stored(f.name, getattr(self, f.name)) for f in fields(self)}

    def computed_hash(self) -> str:
        """SHA-256 of the canonical JSON of all other columns."""
        return hash_of(self.columns())

    def sealed(self, previous: str) -> LedgerRow:
        """The row with its place in the chain.

        >>> row = LedgerRow(1, "epoch", 1, "a1", clock=0, committed_at=0, ranges={"events": {0: (0, 3)}}).sealed("")
        >>> row.hash == row.computed_hash(), len(row.hash)
        (True, 64)
        """
        linked = replace(self, previous=previous, hash="")
        return replace(linked, hash=linked.computed_hash())

    @classmethod
    def of(cls, values: Iterable[Any]) -> LedgerRow:
        """The row that a SELECT of `COLUMNS` gave."""
        read = {name: _read(name, value) for name, value in zip(COLUMNS, values, strict=True)}
        return cls(**read)


def hash_of(columns: Mapping[str, Any]) -> str:
    """The hash of a row as it is stored."""
    text = canonical({name: value for name, value in columns.items() if name != "hash"})
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _stored(name: str, value: Any) -> Any:
    if name in _TIMES:
        return time_text(value)
    if name in _JSON:
        return canonical(value)
    return value


def _read(name: str, value: Any) -> Any:
    if name in _TIMES:
        return time_us(value)
    if name == "ranges":
        loaded = json.loads(value)
        return {source: {int(p): (start, end) for p, (start, end) in parts.items()} for source, parts in loaded.items()}
    return json.loads(value) if name in _JSON else value


def fold(offsets: dict[str, dict[int, int]], ranges: Ranges) -> None:
    """Move offsets on by the ranges of one epoch, in place.

    >>> at = {"events": {0: 3}}
    >>> fold(at, {"events": {0: (3, 5), 1: (0, 2)}})
    >>> at
    {'events': {0: 5, 1: 2}}
    """
    for source, parts in ranges.items():
        ends = offsets.setdefault(source, {})
        for partition, (_, end) in parts.items():
            ends[partition] = end


def folded(ranges: Iterable[str]) -> dict[str, dict[int, int]]:
    """The offsets after epochs with these ranges, as they are stored: how much of every source the prefix holds.

    >>> folded(['{"events":{"0":[0,3]}}', '{}', '{"events":{"0":[3,5]}}'])
    {'events': {0: 5}}
    """
    offsets: dict[str, dict[int, int]] = {}
    for text in ranges:
        if text != "{}":
            for source, parts in json.loads(text).items():
                offsets.setdefault(source, {}).update((int(partition), end) for partition, (_, end) in parts.items())
    return offsets


def broken(stored: Iterable[Mapping[str, Any]], ends: Mapping[str, Mapping[int, int]] | None = None) -> Iterator[tuple[int, str]]:
    """What is wrong with a ledger: (epoch, what). `stored` are rows as they are in the database, oldest first.

    Checked: each row's own hash, the chain, epochs without a gap, ranges contiguous from offset to offset, and not
    beyond the log's `ends`, for the sources that are named there.
    """
    expected, previous = 0, ""
    offsets: dict[str, dict[int, int]] = {}
    for row in stored:
        epoch = int(row["epoch"])
        if hash_of(row) != row["hash"]:
            yield epoch, "its hash is not the hash of its columns"
        if row["previous"] != previous:
            yield epoch, "it does not follow the epoch before: the hash it names is another"
        if epoch != expected + 1:
            yield epoch, f"it follows epoch {expected}"
        expected, previous = epoch, row["hash"]
        try:
            ranges = _read("ranges", row["ranges"])
        except (ValueError, TypeError, AttributeError):
            yield epoch, "its ranges cannot be read"
            continue
        yield from ((epoch, what) for what in _wrong_ranges(offsets, ranges, ends or {}))
        fold(offsets, ranges)


def _wrong_ranges(
    offsets: Mapping[str, Mapping[int, int]], ranges: Ranges, ends: Mapping[str, Mapping[int, int]]
) -> Iterator[str]:
    for source, parts in ranges.items():
        for partition, (start, end) in parts.items():
            place = f"{source}, partition {partition}, [{start}, {end})"
            at = offsets.get(source, {}).get(partition, start if start == 0 else 0)
            if start != at:
                yield f"{place}: the epoch before ended at {at}"
            if end <= start:
                yield f"{place}: it is empty or runs backwards"
            if source in ends and end > ends[source].get(partition, 0):
                yield f"{place}: the log ends at {ends[source].get(partition, 0)}"
