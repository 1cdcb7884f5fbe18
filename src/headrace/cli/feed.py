"""From a file, or from standard input, into a topic."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pyarrow as pa

from headrace.cli.progress import Advance
from headrace.errors import UsageError
from headrace.log.position import Position
from headrace.log.rows import FORMATS, LINE_BYTES_MAX, RowReader
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
_ROWS_AT_ONCE = 32_768
_BYTES_AT_ONCE = 16 << 20
_PIECE_BYTES = 1 << 20


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
    """Append everything, in pieces; a repetition with the same sequence cuts the same file at the same rows."""
    sent, writer = Sent(next_sequence=sequence), topic.producer(producer)
    ends: dict[int, int] = {}
    live = source is None and sequence is None and format in ("json", "text")
    for rows, size in _appends(RowReader(topic.spec.schema), source, format, live=live):
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


def _appends(reader: RowReader, source: Path | None, format: str, *, live: bool) -> Iterator[tuple[pa.Table, int]]:
    """Landing rows of one append, and the bytes that were read for them."""
    if source is None:
        tables = _live(reader, format) if live else _standard_input(reader, format)
        yield from ((table, table.nbytes) for table in tables)
        return
    with source.open("rb") as file:
        at = 0
        for table in _gathered(reader.read(file, format)):
            # Parquet is not read from front to back.
            yield table, max(0, file.tell() - at)
            at = max(at, file.tell())


def _gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Pieces of some size: each append costs an fsync. Where they are cut depends on the rows alone."""
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        held.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield pa.concat_tables(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_tables(held)


def _stdin() -> io.BufferedReader:
    return cast(io.BufferedReader, sys.stdin.buffer)


def _standard_input(reader: RowReader, format: str) -> Iterator[pa.Table]:
    """All of standard input, cut as a file would be."""
    if format == "parquet" and not sys.stdin.seekable():
        raise UsageError("Parquet cannot be read from a pipe", hint="name the file, or send Arrow's stream format")
    if format == "arrow" and not sys.stdin.seekable():
        batches = pa.ipc.open_stream(_stdin())
        return _gathered(reader.from_arrow(batch) for batch in batches)
    return _gathered(reader.read(_stdin(), format))


def _live(reader: RowReader, format: str) -> Iterator[pa.Table]:
    """Lines as they come: who writes into the pipe sees them in the topic at once."""
    judge = reader.json_lines if format == "json" else reader.text
    rest, skipping = b"", False
    while piece := _stdin().read1(_PIECE_BYTES):
        whole, newline, tail = piece.rpartition(b"\n")
        if not newline:
            rest = rest if skipping else rest + tail
        else:
            if skipping:
                # The rest of a line of which more than enough is held: only what follows it counts.
                whole = whole.partition(b"\n")[2]
                yield judge(rest)
                yield judge(whole)
            else:
                yield judge(rest + whole)
            rest, skipping = tail, False
        # One byte more than a line may have, so that it is judged as too long; what follows it is never held.
        if len(rest) > LINE_BYTES_MAX:
            rest, skipping = rest[: LINE_BYTES_MAX + 1], True
    yield judge(rest)
