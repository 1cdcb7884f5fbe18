"""Time as an argument: what the ledger records and the log stamps comes from a Clock."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod


class Clock(ABC):
    """Tells the time. Everything that records a time is handed one, so that tests and replays need no sleeping."""

    @abstractmethod
    def now_us(self) -> int:
        """Microseconds since 1970 in UTC."""


class SystemClock(Clock):
    """The machine's clock.

    >>> SystemClock().now_us() > 1_700_000_000_000_000
    True
    """

    def now_us(self) -> int:
        return time.time_ns() // 1000


class ManualClock(Clock):
    """A clock that moves when told.

    >>> clock = ManualClock(start_us=0)
    >>> clock.advance(seconds=1.5)
    >>> clock.now_us()
    1500000
    """

    def __init__(self, start_us: int = 1_767_225_600_000_000) -> None:
        self._now_us = start_us

    def now_us(self) -> int:
        return self._now_us

    def advance(self, seconds: float) -> None:
        """Move forward; time never goes back."""
        assert seconds >= 0, "a clock does not go back"
        self._now_us += round(seconds * 1_000_000)
