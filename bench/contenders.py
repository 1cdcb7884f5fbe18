"""Those whose freshness is compared: each starts in a folder of its own and keeps the same tables."""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.processes import app_in, run_app, start
from bench.store import has_epoch

PATIENCE_S = 120


@dataclass
class Contender(ABC):
    """Keeps tables up to date in a folder."""

    folder: Path
    tables: list[str]

    @abstractmethod
    def begin(self) -> subprocess.Popen[Any]:
        """Start it; it takes rows when this returns."""

    @property
    @abstractmethod
    def database(self) -> Path:
        """The SQLite file with the tables."""

    @property
    def topic(self) -> Path | None:
        """Where rows are appended; None: files in `in/`."""
        return None


@dataclass
class Headrace(Contender):
    """`headrace run` over the embedded log."""

    app: str = "five_tables"
    name: str = "five"

    def begin(self) -> subprocess.Popen[Any]:
        process = run_app(app_in(self.folder, self.app))
        wait_until(lambda: has_epoch(self.database, 1), process, "the first epoch")
        return process

    @property
    def place(self) -> Path:
        """The app's part of its data folder."""
        return self.folder / "headrace-data" / self.name

    @property
    def database(self) -> Path:
        return self.place / "store.db"

    @property
    def topic(self) -> Path:
        return self.place / "log" / "events"


@dataclass
class HandWritten(Contender):
    """Structured Streaming, written by hand."""

    how: str = "queries"

    def begin(self) -> subprocess.Popen[Any]:
        (self.folder / "in").mkdir(parents=True)
        process = start("bench.streaming:keep_counts", folder=str(self.folder), how=self.how, tables=self.tables)
        wait_until((self.folder / "ready").exists, process, "its queries")
        return process

    @property
    def database(self) -> Path:
        return self.folder / "tables.db"


def wait_until(true: Any, process: subprocess.Popen[Any], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for a process to get somewhere; a process that ended, or takes for ever, is an error."""
    ends = time.monotonic() + patience_s
    while not true():
        if process.poll() is not None or time.monotonic() > ends:
            raise RuntimeError(f"{process.args!r}: no {what} ({process.poll()})")
        time.sleep(0.005)
