"""A log with a backlog: rows appended while nobody ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from bench.events import CAMPAIGN_COLUMNS
from headrace.log import Topic
from headrace.schema import parse_schema

APPEND = 10_000


@dataclass(frozen=True)
class Backlog:
    """The topic of an app that was not started yet."""

    folder: Path
    app: str

    @property
    def place(self) -> Path:
        """The app's part of its data folder."""
        return self.folder / "headrace-data" / self.app

    @property
    def store(self) -> Path:
        """Its tables."""
        return self.place / "store.db"

    @property
    def topic(self) -> Path:
        """Its only topic."""
        return self.place / "log" / "events"

    def sealed(self) -> str:
        """How much of the log is in sealed files."""
        stats = Topic.open(self.topic).stats()
        return ", ".join(f"{p.segments_sealed} segments sealed, {p.segments_hot} hot" for p in stats.partitions)


def fill(backlog: Backlog, files: Sequence[Path]) -> None:
    """Append the rows of Parquet files, ten thousand at a time, as a producer does; segments are sealed as they fill."""
    backlog.topic.parent.mkdir(parents=True)
    topic = Topic.create(backlog.topic, name="events", schema=parse_schema(CAMPAIGN_COLUMNS), event_time="event_time")
    producer = topic.producer("bench")
    for file in files:
        rows = pq.read_table(file)
        for start in range(0, rows.num_rows, APPEND):
            producer.append(rows.slice(start, APPEND))
    topic.seal()
