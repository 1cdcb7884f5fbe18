"""The projects that `headrace new` makes."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Template:
    """A project: its files, and the commands that show it at work."""

    files: dict[str, str]
    steps: tuple[str, ...]


def _lines(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


_GITIGNORE = "headrace-data/\n__pycache__/\nspark-warehouse/\n"

_PHONE_ACTIONS = '''"""Which actions do phones report, hour by hour, and how often has each phone opened and closed?"""

import headrace as hr
from pyspark.sql import functions as F

app = hr.App("phone_actions")

events = app.topic(
    "events",
    schema="phone_id STRING NOT NULL, time TIMESTAMP NOT NULL, action STRING NOT NULL",
    event_time="time",
    lateness="2 hours",
    partitions=4,
    partition_by="phone_id",
)


@app.table(key=["action", "hour"])
def actions_per_hour(events):
    return events.groupBy("action", F.window("time", "1 hour").alias("hour")).agg(F.count("*").alias("n"))


app.sql(
    "opens_and_closes",
    key=["phone_id"],
    query="""
        SELECT phone_id, count_if(action = 'open') AS opens, count_if(action = 'close') AS closes
        FROM events GROUP BY phone_id
    """,
)

if __name__ == "__main__":
    app.run()
'''

_PHONE_EVENTS = _lines(
    [
        {"phone_id": phone, "time": f"2026-01-01T{hour:02}:{minute:02}:00Z", "action": action}
        for phone, hour, minute, action in [
            ("a", 10, 0, "open"),
            ("b", 10, 5, "open"),
            ("a", 10, 20, "close"),
            ("c", 10, 40, "open"),
            ("a", 11, 2, "open"),
            ("b", 11, 15, "close"),
            ("c", 9, 58, "install"),
            ("a", 11, 30, "close"),
        ]
    ]
)

_WORDS = '''"""The most often used words, live."""

import headrace as hr
from pyspark.sql import functions as F

app = hr.App("word_count")

lines = app.topic("lines", schema="value STRING")


@app.table(key=["word"])
def words(lines):
    word = F.explode(F.split(F.lower("value"), "[^a-z]+")).alias("word")
    return lines.select(word).where("word != ''").groupBy("word").agg(F.count("*").alias("n"))


if __name__ == "__main__":
    app.run()
'''

TEMPLATES = {
    "phone_actions": Template(
        {
            "app.py": _PHONE_ACTIONS,
            "events.jsonl": _PHONE_EVENTS,
            ".gitignore": _GITIGNORE,
        },
        (
            "headrace send events events.jsonl",
            "headrace run --once",
            'headrace query "SELECT * FROM actions_per_hour ORDER BY hour_start, action"',
        ),
    ),
    "word_count": Template(
        {
            "app.py": _WORDS,
            "lines.txt": "the quick brown fox\njumps over the lazy dog\nthe end\n",
            ".gitignore": _GITIGNORE,
        },
        (
            "headrace send lines lines.txt",
            "headrace run --once",
            'headrace query "SELECT * FROM words ORDER BY n DESC, word LIMIT 10"',
        ),
    ),
}
