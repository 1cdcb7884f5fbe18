"""Headrace: live tables on Apache Spark that always equal the batch answer on a prefix of the data.

import headrace as hr

app = hr.App("clicks")
events = app.topic("events", schema="page STRING, time TIMESTAMP")

@app.table(key=["page"])
def visits(events):
    return events.groupBy("page").count()

with app.start() as run:
    run.wait(events.append([{"page": "/", "time": "2026-01-01T10:00:00Z"}]))
    print(app.read("visits").to_pandas())
"""

from typing import Any

from headrace.app import App, Reference, Table, Topic
from headrace.errors import HeadraceError, NotAvailable
from headrace.functions import latest, now, random
from headrace.live import Run
from headrace.log.position import Position
from headrace.reading import Rows

__version__ = "0.1.0"

__all__ = ["App", "HeadraceError", "Position", "Reference", "Rows", "Run", "Table", "Topic", "latest", "now", "random"]

# What the documentation of later versions shows. Asking for one says so, instead of "has no attribute".
_LATER = frozenset(
    ["MySQL", "Postgres", "SQLite", "Parquet", "Hive", "Kafka", "Delta", "Redis", "Webhook", "Mail", "MQTT", "AMQP"]
).union(
    ["Panes", "at_watermark", "every", "after_rows", "after_first", "any_of", "all_of", "then", "repeat", "after"],
    ["count_window", "calendar_window", "as_of_join", "Keyed", "predict", "Source", "Receiver", "Sink"],
)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        raise NotAvailable(f"headrace.{name} is not available in this version")
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")
