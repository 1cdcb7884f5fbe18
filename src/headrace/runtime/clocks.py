"""The clock of each row's epoch, for `hr.now()`: read once per epoch, kept in the ledger, the same in every replay and batch."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headrace.store.ledger import LedgerRow

Ranges = Mapping[str, Mapping[int, tuple[int, int]]]


@dataclass
class _Epochs:
    """Where the epochs of one partition begin, and what the clock said at each."""

    starts: array[int] = field(default_factory=lambda: array("q"))
    clocks: array[int] = field(default_factory=lambda: array("q"))


class Clocks:
    """Offsets of every source's partitions to clock readings, in microseconds.

    >>> clocks = Clocks()
    >>> clocks.note({"events": {0: (0, 10)}}, 1_000)
    >>> clocks.note({"events": {0: (10, 12)}}, 2_000)
    >>> clocks.at("events", 0, np.array([0, 9, 10, 11])).tolist()
    [1000, 1000, 2000, 2000]
    """

    def __init__(self) -> None:
        self._epochs: dict[tuple[str, int], _Epochs] = {}

    @classmethod
    def of(cls, ledger: Iterable[LedgerRow]) -> Clocks:
        """The clock readings of every epoch of a ledger."""
        clocks = cls()
        for row in ledger:
            clocks.note(row.ranges, row.clock)
        return clocks

    def note(self, ranges: Ranges, clock_us: int) -> None:
        """An epoch of these ranges read the clock; noted again, it takes the place of the reading before."""
        for source, partitions in ranges.items():
            for partition, (start, _) in partitions.items():
                epochs = self._epochs.setdefault((source, partition), _Epochs())
                if epochs.starts and epochs.starts[-1] >= start:
                    assert epochs.starts[-1] == start, "epochs follow each other"
                    epochs.clocks[-1] = clock_us
                else:
                    epochs.starts.append(start)
                    epochs.clocks.append(clock_us)

    def arrays(self, source: str, partition: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The starts of the epochs of a partition and their clock readings; never empty."""
        epochs = self._epochs.get((source, partition))
        if epochs is None:
            return np.zeros(1, np.int64), np.zeros(1, np.int64)
        return np.array(epochs.starts, np.int64), np.array(epochs.clocks, np.int64)

    def at(self, source: str, partition: int, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The clock readings of the epochs of these rows."""
        starts, clocks = self.arrays(source, partition)
        return clocks[np.searchsorted(starts, offsets, side="right") - 1]
