"""On a cluster whose executors are processes of their own, everything answers as it does in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .kit import SMALL
from .on_cluster import ROWS, WORDS

CLUSTER = "local-cluster[2,1,1024]"


ROOT = Path(__file__).parents[2]


def run_on(master: str, folder: Path) -> dict[str, Any]:
    """What came of the core cases on a master."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.crash.on_cluster", master, str(folder)],
        cwd=ROOT,
        env={**os.environ, **SMALL},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_executors_of_their_own_and_two_of_them_killed(tmp_path: Path) -> None:
    answer = run_on(CLUSTER, tmp_path)
    assert answer["strikes"] == ["large", "small"]
    assert answer["sealed"] > 1
    assert answer["ok"], answer["report"]
    numbers = {word: [n for n in range(ROWS) if WORDS[n % 5] == word] for word in WORDS} | {"fox": [ROWS, ROWS + 1]}
    assert answer["counts"] == [{"capitals": w.upper(), "n": len(ns), "total": sum(ns)} for w, ns in numbers.items()]
    assert answer["even"] == ROWS // 2 + 1
    assert answer["widest"] == [{"word": w, "n": len(ns), "seen": sorted({n % 5 for n in ns})} for w, ns in numbers.items()]
    assert answer["most"] == [{"n": 2, "words": 1}, {"n": ROWS // 5, "words": 5}]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["lanes", "runtime"])
def test_the_core_cases_unchanged(folder: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", f"tests/{folder}", "-q", "-x", "-m", "not slow"],
        cwd=ROOT,
        env={**os.environ, **SMALL, "HEADRACE_TEST_MASTER": CLUSTER},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode in (0, 5), ended.stdout
