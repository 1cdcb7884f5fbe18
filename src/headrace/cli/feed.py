"""From a file, or from standard input, into a topic."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from headrace.cli.progress import Advance
from headrace.errors import UsageError
from headrace.log.position import Position
from headrace.log.rows import RowReader
from headrace.log.topic import Topic

_EXTENSIONS = {
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".csv": "csv",
    ".txt": "text",
    ".log": "text",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".parquet": "parquet",
}
FORMATS = ("json", "csv", "text", "arrow", "parquet")
_ROWS_AT_ONCE = 10_000


def format_of(file: str, wanted: str | None) -> str:
    """The format of a file: what was asked for, else what its name says; standard input has JSON lines."""
    if wanted is not None:
        if wanted not in FORMATS:
            raise UsageError(f'there is no format "{wanted}"', hint=f"one of {', '.join(FORMATS)}")
        return wanted
    if file == "-":
        return "json"
    found = _EXTENSIONS.get(Path(file).suffix.lower())
    if found is None:
        raise UsageError(f"cannot tell the format of {file}", hint=f"--format {', '.join(FORMATS)}")
    return found


@dataclass
class Sent:
    """What `send` did."""

    rows: int = 0
    rejects: int = 0
    first: list[tuple[int, str, str]] = field(default_factory=list)
    position: Position | None = None
    next_sequence: int | None = None


def feed(topic: Topic, source: Path | None, format: str, *, producer: str | None, sequence: int | None, advance: Advance) -> Sent:
    """Append everything, in appends of at most 10,000 rows; a repetition cuts the same file at the same rows."""
    sent, writer = Sent(next_sequence=sequence), topic.producer(producer)
    ends: dict[int, int] = {}
    for rows, size in _tables(RowReader(topic.spec.schema), source, format):
        if rows.num_rows:
            ends.update(writer.append_parsed(rows, sequence=sent.next_sequence).ends)
            _count(sent, rows)
        advance(size)
    sent.position = Position(topic.spec.id, ends) if ends else None
    return sent


def _count(sent: Sent, rows: pa.Table) -> None:
    reasons = rows.column("_reason")
    wrong = len(reasons) - reasons.null_count
    if wrong and len(sent.first) < 5:
        messages = rows.column("_message")
        for number, reason in enumerate(reasons.to_pylist()):
            if reason is not None and len(sent.first) < 5:
                sent.first.append((sent.rows + number + 1, reason, messages[number].as_py() or ""))
    sent.rejects += wrong
    sent.rows += rows.num_rows
    if sent.next_sequence is not None:
        sent.next_sequence += 1


def _tables(reader: RowReader, source: Path | None, format: str) -> Iterator[tuple[pa.Table, int]]:
    """Landing rows and the bytes that they took."""
    stream = source.open("rb") if source else sys.stdin.buffer
    lines = []
    for line in stream:
        lines.append(json.loads(line))
    yield reader.from_dicts(lines), 0
