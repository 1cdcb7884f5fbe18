"""Lengths of time as people write them: "2 hours", "7 days"."""

from __future__ import annotations

import re

from headrace.errors import UsageError

_MICROSECONDS = {
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def duration_us(text: str) -> int:
    """Microseconds of a duration.

    >>> duration_us("2 hours"), duration_us("1 minute 30 seconds")
    (7200000000, 90000000)
    """
    total, at = 0.0, 0
    while at < len(text) or not at:
        part = _PART.match(text, at)
        unit = part and _MICROSECONDS.get(part.group(2).lower().removesuffix("s"))
        if not part or not unit:
            raise UsageError(f'cannot read the duration "{text}"', hint='a number and a unit, such as "90 seconds" or "2 hours"')
        total += float(part.group(1)) * unit
        at = part.end()
    return round(total)
