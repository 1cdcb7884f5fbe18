"""The epoch protocol: six named steps, in this order, called by these names everywhere.

1. plan     the sequencer reads the sources' ends and decides the ranges and the clock reading.   Died after it: nothing happened.
2. read     rows of the ranges are handed over; malformed ones are split off to rejects.          Nothing happened.
3. compute  each lane runs its queries, tables over tables after their inputs.                    Nothing happened.
4. commit   ONE transaction: fence, tables, memory, rejects, ledger row.                          The epoch is there, whole.
5. deliver  followers take the epoch, each by its own ledger.                                     Delivered again, once.
6. tidy     sealing, trimming, in small fenced steps.                                             Repeated harmlessly.

`HEADRACE_CRASH="after:compute:7"` (or `before:`) makes the runner kill itself with -9 at that step of that epoch: for tests.
Without an epoch (`after:commit`) it strikes at every one. `tidy` does not come with each epoch: it is struck the first time that
it comes at that epoch or later.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from headrace.errors import UsageError

Step = Literal["plan", "read", "compute", "commit", "deliver", "tidy"]
STEPS: tuple[Step, ...] = ("plan", "read", "compute", "commit", "deliver", "tidy")


@dataclass(frozen=True)
class CrashPoint:
    """Where the runner is to kill itself."""

    side: str
    step: str
    epoch: int | None

    @classmethod
    def parse(cls, text: str) -> CrashPoint:
        """Read `after:compute:7`.

        >>> CrashPoint.parse("before:commit:3")
        CrashPoint(side='before', step='commit', epoch=3)
        """
        side, _, rest = text.partition(":")
        step, _, epoch = rest.partition(":")
        if side not in ("before", "after") or step not in STEPS or (epoch and not epoch.isdigit()):
            raise UsageError(
                f"HEADRACE_CRASH={text!r} is not understood", hint='"after:compute:7"; steps are ' + ", ".join(STEPS)
            )
        return cls(side, step, int(epoch) if epoch else None)

    def strikes(self, side: str, step: str, epoch: int) -> bool:
        """Whether this is the moment."""
        if (self.side, self.step) != (side, step):
            return False
        return self.epoch in (None, epoch) or (step == "tidy" and epoch > (self.epoch or 0))


def kill_self() -> None:
    """End this process as nothing else does: no handler runs, nothing is tidied up."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Steps:
    """Walks through the steps of epochs: times them, tells where we are, and crashes where a test asks for it.

    `strike` is what happens at the crash point; the test kit raises there instead, to go on in the same process.
    """

    crash: CrashPoint | None = None
    strike: Callable[[], None] = kill_self
    milliseconds: dict[str, float] = field(default_factory=dict)
    at: str = ""

    @classmethod
    def from_environment(cls) -> Steps:
        """With the crash point of `HEADRACE_CRASH`, if there is one."""
        text = os.environ.get("HEADRACE_CRASH")
        return cls(CrashPoint.parse(text) if text else None)

    @contextlib.contextmanager
    def step(self, name: Step, epoch: int) -> Iterator[None]:
        """One step of one epoch."""
        self._strike("before", name, epoch)
        self.at = f"{name} of epoch {epoch}"
        began = time.perf_counter()
        yield
        self.milliseconds[name] = round((time.perf_counter() - began) * 1000, 3)
        self._strike("after", name, epoch)

    def _strike(self, side: str, name: str, epoch: int) -> None:
        if self.crash is not None and self.crash.strikes(side, name, epoch):
            self.strike()
