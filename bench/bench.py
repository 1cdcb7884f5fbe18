"""The contract of a benchmark."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.results import Result


@dataclass(frozen=True)
class Options:
    """How to run: for seconds only, and on which disk."""

    quick: bool = False
    folder: Path | None = None
    """Where data is put; it should be on the disk to measure. None: a temporary folder."""
    pictures: Path | None = None
    """Where pictures are put; None: nowhere."""
    began: float = field(default_factory=time.monotonic)

    def say(self, what: str) -> None:
        """Tell whoever waits how far we are."""
        print(f"[{time.monotonic() - self.began:6.1f} s] {what}", flush=True)


@dataclass(frozen=True)
class Bench:
    """One file's question or questions: their exact words, how they are answered, and who answers them."""

    name: str
    questions: Sequence[str]
    story: str
    answer: Callable[[Options], list[Result]]
