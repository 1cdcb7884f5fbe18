"""Durations as people write them: "10 minutes", "7 days"."""

from __future__ import annotations

import re
from datetime import timedelta

from headrace.errors import DefinitionError

_UNITS = {
    "second": 1,
    "sec": 1,
    "s": 1,
    "minute": 60,
    "min": 60,
    "m": 60,
    "hour": 3600,
    "h": 3600,
    "day": 86400,
    "d": 86400,
    "week": 604800,
}


def parse_duration(text: str) -> timedelta:
    """Read a duration.

    >>> parse_duration("2 hours"), parse_duration("90s")
    (datetime.timedelta(seconds=7200), datetime.timedelta(seconds=90))
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+?)s?\s*", text)
    unit = _UNITS.get(found.group(2).lower()) if found else None
    if found is None or unit is None:
        raise DefinitionError(f"{text!r} is not a duration", hint='"30 seconds", "10 minutes", "2 hours", "7 days"')
    return timedelta(seconds=float(found.group(1)) * unit)
