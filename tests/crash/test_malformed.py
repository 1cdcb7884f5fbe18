"""Whatever comes through `headrace send` into a running app: rejects, each with its reason, and bounded memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.store.reader import Reader

from .kit import HEADRACE, SMALL, Project, wait_until

APP = """
import headrace as hr

app = hr.App("numbers")
app.topic("numbers", schema="k STRING NOT NULL, n INT, x DOUBLE, at TIMESTAMP")
app.sql("sums", key=["k"], query="SELECT k, count(*) AS rows, sum(n) AS n FROM numbers GROUP BY k")
"""
LONG = 64 << 20
GOOD = b'{"k": "a", "n": 1, "x": 1.5, "at": "2026-01-01T00:00:00Z"}\n'
UNUSABLE = {
    b'{"k": "\xff\xfe", "n": 1}': "not_utf8",
    b"\xff\xfe\x00\x01": "not_utf8",
    b'{"k": "deep", "n": ' + b"[" * 10_000 + b"]" * 10_000 + b"}": "too_deep",
    b"[" * 10_000: "too_deep",
    b'{"k": "a", "n": NaN}': "not_json",
    b'{"k": "a", "n": 2147483648}': "range",
    b'{"k": "a", "n": 1e400}': "type",
    b'{"k": "a", "n": "one"}': "type",
    b'{"n": 1}': "missing",
    b'{"k": null}': "missing",
    b'{"k": "a", "k": "b"}': "duplicate_field",
    b'{"k": "a", "at": "yesterday"}': "type",
    b"[1, 2]": "not_object",
    b"{": "not_json",
    b"\x00": "not_json",
}
MEMORY_MB = 1000  # a line of 64 MB is held several times over; 763 was the most that was seen


def send(project: Project, file: Path) -> int:
    """Send a file's lines; returns the largest resident size of the sending process, in megabytes."""
    process = subprocess.Popen(
        [*HEADRACE, "send", "numbers", str(file), "--format", "json", "--json"],
        cwd=project.folder,
        env={**os.environ, **SMALL},
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss >> 10


def rejects(project: Project) -> list[Any]:
    with Reader(project.store) as reader:
        return list(reader.rejects())


@pytest.mark.parametrize("long_lines", [3, pytest.param(24, marks=pytest.mark.slow)])
def test_malformed_lines_become_rejects(project: Callable[..., Project], tmp_path: Path, long_lines: int) -> None:
    numbers = project(APP)
    lines = tmp_path / "lines.jsonl"
    with lines.open("wb") as file:
        file.write(GOOD)
        for line in UNUSABLE:
            file.write(line + b"\n" + GOOD)
        for _ in range(long_lines):
            file.write(b'{"k": "')
            for _ in range(LONG >> 20):
                file.write(b"x" * (1 << 20))
            file.write(b'"}\n' + GOOD)
        # Unknown fields are kept beside the row, missing ones are null: both are rows.
        file.write(b'{"k": "b", "colour": "red", "n": 5}\n{"k": "b"}\n')
    app = numbers.start().wait_running()
    assert send(numbers, lines) < MEMORY_MB
    good = 1 + len(UNUSABLE) + long_lines
    wait_until(lambda: numbers.rows("SELECT * FROM sums ORDER BY k") == [["a", good, good], ["b", 2, 5]], "the good rows")
    found = rejects(numbers)
    assert [each.offset for each in found] == [1 + 2 * n for n in range(len(UNUSABLE) + long_lines)]
    reasons = [each.reason for each in found]
    assert reasons[: len(UNUSABLE)] == list(UNUSABLE.values())
    assert reasons[len(UNUSABLE) :] == ["too_long"] * long_lines
    assert all(each.raw is not None and len(each.raw) <= 4096 and each.message for each in found)
    assert app.stop() == 143
