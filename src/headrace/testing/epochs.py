"""`run_epochs`: rows in, epoch by epoch, and what the tables say afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.app import App, Topic
from headrace.clock import ManualClock
from headrace.errors import NotAvailable, UsageError
from headrace.runtime.protocol import STEPS, CrashPoint
from headrace.store.reader import Reader, RowChange
from headrace.testing.trial import Trial

Row = Mapping[str, Any] | tuple[str | Topic, Mapping[str, Any]]


@dataclass(frozen=True)
class Crash:
    """Among an epoch's rows: the app dies at a step of this epoch, and starts again.

    Exactly one of `before` and `after` names a step: plan, read, compute, commit, deliver or tidy.
    """

    after: str | None = None
    before: str | None = None

    def __post_init__(self) -> None:
        if (self.after is None) == (self.before is None) or (self.after or self.before) not in STEPS:
            raise UsageError("a crash is before or after one step", hint=f'Crash(after="compute"); steps are {", ".join(STEPS)}')

    @property
    def point(self) -> CrashPoint:
        """The moment, of whichever epoch is computed next."""
        return CrashPoint("after" if self.after else "before", self.after or self.before or "", None)


class Late:
    """A row that comes late: due with event time."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotAvailable("headrace.testing.Late is not available in this version")


class Idle:
    """A partition without rows: due with event time."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotAvailable("headrace.testing.Idle is not available in this version")


class Outcome:
    """What came of some epochs. Its folder goes with it; use as a context to let it go at once."""

    def __init__(self, trial: Trial, folder: tempfile.TemporaryDirectory[str]) -> None:
        self._trial, self._folder = trial, folder

    def __enter__(self) -> Outcome:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let log and store go."""
        self._trial.close()
        self._folder.cleanup()

    @property
    def epoch(self) -> int:
        """The number of the newest epoch; the first one creates the tables."""
        return self._trial.head.epoch

    def table(self, name: str, as_of: int | None = None) -> list[dict[str, Any]]:
        """A table's rows as dicts, in the order of its key; of an older epoch with `as_of`."""
        return self._trial.rows(name, as_of)

    def changes(self, name: str, after: int = 0) -> list[RowChange]:
        """What each epoch did to a table."""
        with Reader(self._trial.place.store) as reader:
            return reader.changes(name, after=after)

    def verify(self) -> None:
        """Raise AssertionError, naming what differs, unless every table is what its function gives over all rows."""
        report = self._trial.verify()
        if report.ok:
            return
        said = list(report.findings)
        for table in report.tables:
            said += [f'table "{table.name}": {table.different} rows differ'] if table.different else []
            said += [f"  key {d.key}: the table has {d.live}, batch {d.batch}" for d in table.first]
        raise AssertionError("\n".join(said))


def run_epochs(
    app: App, epochs: Sequence[Sequence[Row | Crash]], *, clock: ManualClock | None = None, seconds: float = 1.0
) -> Outcome:
    """Run an app over rows, each list an epoch, in this process and in a temporary folder.

    A row is a dict where the app has one topic, else `("topic", {...})`. `clock` is the epochs' and the log's clock; it moves
    by `seconds` before each list, and an empty list is time without rows. A `Crash` among the rows of an epoch makes the app die
    at that step of it and start again. Log, store, engine and Spark are the real ones; Spark is started once per process.

    >>> import headrace as hr
    >>> app = hr.App("clicks")
    >>> clicks = app.topic("clicks", schema="page STRING")
    >>> counted = app.sql("visits", key=["page"], query="SELECT page, count(*) AS n FROM clicks GROUP BY page")
    >>> with run_epochs(app, [[{"page": "/"}], [Crash(after="compute"), {"page": "/"}]]) as out:
    ...     out.table("visits")
    [{'page': '/', 'n': 2}]
    """
    clock = clock or ManualClock()
    folder = tempfile.TemporaryDirectory(prefix="headrace-trial-")
    try:
        trial = Trial(app.definition(), Path(folder.name), clock=clock, settings=app.settings())
        for epoch in epochs:
            clock.advance(seconds)
            crashes = [marker for marker in epoch if isinstance(marker, Crash)]
            for topic, rows in _by_topic(trial, [row for row in epoch if not isinstance(row, Crash)]).items():
                trial.append(topic, rows)
            trial.epoch(crash=crashes[0].point if crashes else None)
    except BaseException:
        folder.cleanup()
        raise
    return Outcome(trial, folder)


def _by_topic(trial: Trial, rows: Sequence[Row]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    names = list(trial.app.topics)
    for row in rows:
        if isinstance(row, tuple):
            topic = row[0] if isinstance(row[0], str) else row[0].name
            row = row[1]
        elif len(names) == 1:
            topic = names[0]
        else:
            raise UsageError("a row does not say which topic it belongs to", hint=f'("{names[0]}", {{...}})' if names else None)
        if topic not in trial.app.topics:
            raise UsageError(f'there is no topic "{topic}"', hint=", ".join(f'"{name}"' for name in names))
        found.setdefault(topic, []).append(row)
    return found
