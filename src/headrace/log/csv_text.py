"""Cutting CSV into records by RFC 4180, telling an empty field from a quoted empty one.

A field in quotes may hold commas, line breaks and doubled quotes. A quote inside a bare field, text after a closing quote,
and quotes that never close make a record unreadable: then its first line is one, and the next line begins anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_QUOTED = re.compile(rb'"([^"]*(?:""[^"]*)*)"')


class Record(NamedTuple):
    """One record: its bytes, its fields (None for an empty one without quotes), or why it is unreadable."""

    raw: bytes
    fields: Sequence[bytes | None]
    wrong: str | None = None


def records(data: bytes, *, last: bool) -> Iterator[Record | int]:
    """The records of `data`; at the end the number of bytes that were used, all of them when `last`.

    >>> list(records(b'a,,"b ""c"\\nd', last=True))[0].fields
    [b'a', None, b'b "c']
    """
    at = 0
    while at < len(data):
        stop = data.find(b"\n", at)
        if stop < 0 and not last:
            break
        stop = len(data) if stop < 0 else stop
        line = data[at:stop]
        if b'"' not in line:
            bare = line.removesuffix(b"\r")
            if bare.strip(b" \t"):
                yield Record(line, [field or None for field in bare.split(b",")])
            at = stop + 1
            continue
        found = _quoted_record(data, at, stop, last)
        if found is None:
            break
        record, at = found
        yield record
    yield min(at, len(data))


def _quoted_record(data: bytes, at: int, line_stop: int, last: bool) -> tuple[Record, int] | None:
    """A record that holds a quote, and where the next one begins; None where more bytes must come first."""
    begin, fields = at, list[bytes | None]()
    wrong = None
    while True:
        if data[at : at + 1] == b'"':
            match = _QUOTED.match(data, at)
            if match is None or (match.end() == len(data) and not last):
                if not last:
                    return None
                wrong = "a quote that never closes"
                break
            fields.append(match[1].replace(b'""', b'"'))
            at = match.end()
        else:
            stop = _bare_stop(data, at)
            if b'"' in data[at:stop]:
                wrong = "a quote inside a field without quotes"
                break
            fields.append(data[at:stop].removesuffix(b"\r") or None)
            at = stop
        sign = data[at : at + 1]
        if sign == b",":
            at += 1
            continue
        if data[at : at + 2] == b"\r\n" or (sign == b"\r" and at + 1 == len(data)):
            at += 1
            sign = data[at : at + 1]
        if not sign and not last:
            return None
        if sign in (b"\n", b""):
            return Record(data[begin:at], fields), at + 1
        wrong = "text after a closing quote"
        break
    return Record(data[begin:line_stop], (), wrong), line_stop + 1


def _bare_stop(data: bytes, at: int) -> int:
    newline = data.find(b"\n", at)
    stop = len(data) if newline < 0 else newline
    comma = data.find(b",", at, stop)
    return stop if comma < 0 else comma
