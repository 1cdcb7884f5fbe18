"""Ingest: durable rows per second of one producer, from Arrow and from JSON lines by the law of rows.

    python bench/ingest.py [--seconds 3] [--folder DIR] [--json]

Each append of 1,000 rows is fsynced and published before the next one begins. The baseline in the same run is the disk
alone: the same bytes appended to one file, each 1,000 rows followed by an fsync.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

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


def rate(append: Callable[[], object], seconds: float) -> float:
    """Rows per second of appends of a thousand rows, after one to warm up."""
    append()
    calls, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        append()
        calls += 1
    return calls * ROWS / (time.perf_counter() - began)


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


def disk_alone(folder: Path, seconds: float) -> float:
    """Appends of the same size and fsyncs, without a log."""
    data = arrow_rows().combine_chunks().to_batches()[0].serialize().to_pybytes()
    fd = os.open(folder / "alone", os.O_RDWR | os.O_CREAT)
    try:
        return rate(lambda: (os.write(fd, data), os.fdatasync(fd)), seconds)
    finally:
        os.close(fd)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=3)
    options.add_argument("--folder", type=Path, help="on the disk to measure; default: a temporary one")
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        folder = Path(name)
        found["disk alone"] = disk_alone(folder, chosen.seconds)
        rows, lines, reader = arrow_rows(), json_rows(), RowReader(SCHEMA)
        for partitions in (1, 4):
            arrow = topic(folder, f"arrow{partitions}", partitions).producer("bench")
            sequence = iter(range(1 << 60))
            found[f"Arrow, {partitions} partition(s)"] = rate(
                lambda to=arrow, n=sequence: to.append(rows, sequence=next(n)), chosen.seconds
            )
            text = topic(folder, f"json{partitions}", partitions).producer("bench")
            found[f"JSON lines, {partitions} partition(s)"] = rate(
                lambda to=text, n=sequence: to.append_parsed(reader.json_lines(lines), sequence=next(n)), chosen.seconds
            )
    if chosen.json:
        print(json.dumps({"unit": "rows/s", **{question: round(value) for question, value in found.items()}}))
    else:
        for question, value in found.items():
            print(f"{question:28} {value:12,.0f} rows/s  {value / found['disk alone']:6.2f} x the disk alone")


if __name__ == "__main__":
    main()
