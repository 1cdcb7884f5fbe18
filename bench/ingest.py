"""Ingest: durable rows per second of one producer, from Arrow and from JSON lines by the law of rows.

python -m bench ingest
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.bench import Bench, Options
from bench.results import Result
from headrace.log import RowReader, Topic
from headrace.schema import parse_schema

ROWS = 1000
SCHEMA = parse_schema("phone_id STRING, time TIMESTAMP, action STRING, amount DOUBLE, n BIGINT")


def arrow_rows() -> pa.Table:
    """A thousand typed rows."""
    return pa.table(
        {
            "phone_id": [f"phone-{i % 97}" for i in range(ROWS)],
            "time": pa.array(np.arange(ROWS) * 1_000_000 + 1_767_225_600_000_000, pa.timestamp("us", "UTC")),
            "action": [("open", "close", "call")[i % 3] for i in range(ROWS)],
            "amount": np.arange(ROWS) * 0.25,
            "n": np.arange(ROWS),
        }
    )


def json_rows() -> bytes:
    """The same rows as JSON lines."""
    rows = arrow_rows().to_pylist()
    return b"".join(json.dumps(row | {"time": row["time"].isoformat()}).encode() + b"\n" for row in rows)


def rate(append: Callable[[], object], seconds: float) -> int:
    """Rows per second of appends of a thousand rows, after one to warm up."""
    append()
    calls, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        append()
        calls += 1
    return round(calls * ROWS / (time.perf_counter() - began))


def topic(folder: Path, name: str, partitions: int) -> Topic:
    """A topic, by key where it has several partitions."""
    return Topic.create(
        folder / name,
        name=name,
        schema=SCHEMA,
        partitions=partitions,
        partition_by=["phone_id"] if partitions > 1 else [],
        event_time="time",
    )


def disk_alone(folder: Path, seconds: float) -> int:
    """Appends of the same size, each with its fsync, without a log."""
    data = arrow_rows().combine_chunks().to_batches()[0].serialize().to_pybytes()
    fd = os.open(folder / "alone", os.O_RDWR | os.O_CREAT)
    try:
        return rate(lambda: _durable(fd, data), seconds)
    finally:
        os.close(fd)


def _durable(fd: int, data: bytes) -> None:
    os.write(fd, data)
    os.fdatasync(fd)


def from_arrow(folder: Path, partitions: int, seconds: float) -> int:
    """Arrow tables through `Producer.append`, every row checked."""
    producer, rows, sequence = topic(folder, f"arrow{partitions}", partitions).producer("bench"), arrow_rows(), count(1)
    return rate(lambda: producer.append(rows, sequence=next(sequence)), seconds)


def from_json(folder: Path, partitions: int, seconds: float) -> int:
    """JSON lines read by the law of rows, then appended."""
    producer, lines, sequence = topic(folder, f"json{partitions}", partitions).producer("bench"), json_rows(), count(1)
    reader = RowReader(SCHEMA)
    return rate(lambda: producer.append_parsed(reader.json_lines(lines), sequence=next(sequence)), seconds)


ARROW = "ingest from Arrow, one producer, one partition, durable appends of 1,000 rows"
JSON = "ingest from JSON lines, one producer, one partition, durable appends of 1,000 rows"
ARROW_FOUR = "ingest from Arrow, one producer, four partitions by key"
JSON_FOUR = "ingest from JSON lines, one producer, four partitions by key"


def answer(options: Options) -> list[Result]:
    """Each for some seconds; the baseline is the disk alone."""
    seconds, found = 1.5 if options.quick else 10, []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        alone = disk_alone(folder, seconds)
        options.say(f"the disk alone: {alone:,} rows/s")
        for question, measure, partitions, limit in (
            (ARROW, from_arrow, 1, 500_000),
            (JSON, from_json, 1, 150_000),
            (ARROW_FOUR, from_arrow, 4, None),
            (JSON_FOUR, from_json, 4, None),
        ):
            value = measure(folder, partitions, seconds)
            options.say(f"{question}: {value:,} rows/s")
            found.append(Result(question, "rows/s", value, alone, limit, "more", judged_by_value=True))
    return found


STORY = """
Each append of 1,000 rows is fsynced and published before the next one begins. The baseline is the disk alone: the same bytes
appended to one file, each 1,000 rows followed by an fsync. With four partitions each append is four frames and four fsyncs.
"""

BENCH = Bench("ingest", (ARROW, JSON, ARROW_FOUR, JSON_FOUR), STORY, answer)
