"""Decides what an epoch holds: everything that is there when caught up, a measured slice when behind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

Ends = Mapping[str, Mapping[int, int]]
Ranges = dict[str, dict[int, tuple[int, int]]]

FIRST_ROWS = 100_000
"""Rows of the first epoch when behind: enough to learn how fast this app is on this machine."""
FIRST_ROWS_READ_BY_SPARK = 1_000_000
"""The same where no row passes through this process: what such an epoch costs hardly depends on its rows."""


@dataclass
class Sequencer:
    """Grows epochs while they take less than about `target_s`, shrinks them when they take much longer."""

    max_rows: int
    first_rows: int = FIRST_ROWS
    target_s: float = 2.0
    _cap: int = field(init=False)
    _least_s: float = field(init=False, default=math.inf)

    def __post_init__(self) -> None:
        self._cap = min(self.first_rows, self.max_rows)

    @property
    def cap(self) -> int:
        """Rows that the next epoch takes at most."""
        return self._cap

    def ranges(self, used: Ends, ends: Ends) -> Ranges:
        """The next epoch's ranges, partitions that do not move left out. Empty: there is nothing to do.

        >>> Sequencer(max_rows=10).ranges({"events": {0: 5}}, {"events": {0: 8, 1: 2}})
        {'events': {0: (5, 8), 1: (0, 2)}}
        """
        waiting = {
            (source, partition): (used.get(source, {}).get(partition, 0), end)
            for source, partitions in ends.items()
            for partition, end in partitions.items()
            if end > used.get(source, {}).get(partition, 0)
        }
        share = self._share([end - start for start, end in waiting.values()])
        out: Ranges = {}
        for (source, partition), (start, end) in waiting.items():
            out.setdefault(source, {})[partition] = (start, min(end, start + share))
        return out

    def _share(self, sizes: list[int]) -> int:
        """How many rows each partition may give, so that all together stay within the cap; short ones leave room to others."""
        left, count = self._cap, len(sizes)
        for size in sorted(sizes):
            if size * count > left:
                return max(1, left // count)
            left -= size
            count -= 1
        return max(sizes, default=0)

    def took(self, rows: int, seconds: float) -> None:
        """Learn from an epoch. One that ended early, at the end of a file, counts as full from half of the cap on."""
        if 2 * rows >= self._cap:
            self._least_s = min(self._least_s, seconds)
        limit = self._limit_s()
        if seconds > 2 * limit:
            self._cap = max(1_000, min(self._cap, rows) // 2)
        elif 2 * rows >= self._cap and seconds < limit:
            self._cap = min(self.max_rows, self._cap * (8 if seconds < self.target_s / 4 else 2))

    def _limit_s(self) -> float:
        """How long an epoch may take. Where the least that any took is much, smaller epochs would cost nearly as much."""
        return max(self.target_s, min(4 * self._least_s, 5 * self.target_s))
