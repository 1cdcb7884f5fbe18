"""An app of a few tables over random cuts of the same rows, in both gears."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace import App
from headrace.spark.query import Gear
from headrace.testing import Trial

Rows = Sequence[Mapping[str, Any]]


def trial(app: App, folder: Path) -> Trial:
    """A trial that borrows the tests' Spark."""
    return Trial(app.definition(), folder)


def run(app: App, folder: Path, epochs: Iterable[Mapping[str, Rows] | Rows], gear: Gear | None = None) -> Trial:
    """One epoch per item: rows of the only topic, or rows by topic. Compared with batch at the end."""
    running = trial(app, folder)
    for epoch in epochs:
        by_topic = epoch if isinstance(epoch, Mapping) else {next(iter(running.app.topics)): epoch}
        for topic, rows in by_topic.items():
            running.append(topic, rows)
        running.epoch(gear=gear)
    must_verify(running)
    return running


def must_verify(running: Trial) -> None:
    """`verify` finds nothing."""
    report = running.verify()
    assert report.ok, report


def lane(running: Trial, table: str) -> str:
    """The lane of a table; `recompute!` where it is the whole table."""
    plan = running.engine.workshop.tables[table].plan
    return plan.lane + "!" * plan.whole


def same(one: Any, other: Any) -> bool:
    """Equality that knows NaN."""
    return one == other or (isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other))
