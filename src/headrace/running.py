"""Whether an app runs, as other processes can tell: by run/runner.json and the process that it names."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from headrace.errors import AlreadyRunning, WorldError
from headrace.place import Place
from headrace.store.process import Process


@dataclass(frozen=True)
class Running:
    """What run/runner.json says, and its process."""

    process: Process
    said: dict[str, Any]

    @property
    def alive(self) -> bool:
        """Whether that very process is there; on another machine we cannot tell, and believe the file."""
        return self.process.alive if self.process.near else True


def last_run(place: Place) -> Running | None:
    """The newest run that left a note, alive or not."""
    try:
        said = json.loads(place.runner_json.read_text())
        return Running(Process.of(said), said)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def running(place: Place) -> Running | None:
    """The run that is at work now."""
    found = last_run(place)
    return found if found and found.alive else None


def refuse_while_running(place: Place, what: str) -> None:
    """Some things must not change under a running app."""
    found = running(place)
    if found:
        raise WorldError(f"{what} while {place.app} runs ({found.process}) is not possible", hint="headrace stop")


def has_store(place: Place) -> bool:
    """Whether there is a store to read; one that is being made at this moment is none yet."""
    if not place.store.is_file():
        return False
    try:
        with closing(sqlite3.connect(place.store.as_uri() + "?mode=ro", uri=True)) as db:
            return db.execute("SELECT 1 FROM sqlite_schema WHERE name = '_ledger'").fetchone() is not None
    except sqlite3.OperationalError:
        return False
    except sqlite3.DatabaseError:
        # It is damaged: whoever reads it says how.
        return True


def failure(place: Place) -> str | None:
    """Why the newest run failed, if it did and said so."""
    try:
        return str(json.loads((place.run / "error.json").read_text())["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def noting_failure(place: Place) -> Iterator[None]:
    """Leave a note when a run fails, for `headrace status`; and none when it does not."""
    note = place.run / "error.json"
    note.unlink(missing_ok=True)
    try:
        yield
    except AlreadyRunning:
        # That is the failure of this start, not of the run that goes on.
        raise
    except Exception as problem:
        place.run.mkdir(parents=True, exist_ok=True)
        note.write_text(json.dumps({"message": str(problem)}))
        raise
