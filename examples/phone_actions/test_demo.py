"""The demo as `make demo SECONDS=5` runs it, in a copy: everybody is a real process, and the app is really killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PATIENCE_S = 600


def start(project: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(project / "demo.py"), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def processes_of(project: Path) -> list[str]:
    """The command lines of processes that work in the copy."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "cwd") == str(project):
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def test_the_app_is_killed_comes_back_and_nothing_is_broken(project: Path) -> None:
    demo = start(project, "--seconds", "5", "--rate", "200")
    said, _ = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 0, said
    assert re.search(r"kill -9 \d+", said)
    assert re.search(r"back after .*: generation 2 goes on", said)
    assert re.search(r"closes <= opens: [\d,]+ reads, 0 broken\n.*headrace verify", said)
    assert "live tables = batch answer" in said
    assert processes_of(project) == []


def test_ctrl_c_ends_it_with_the_verdict_and_leaves_nobody_behind(project: Path) -> None:
    demo = start(project, "--rate", "200")
    assert demo.stdout is not None
    for line in demo.stdout:
        if "the app is at work" in line:
            break
    demo.send_signal(signal.SIGINT)
    said, _ = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 0, said
    assert "live tables = batch answer" in said
    assert processes_of(project) == []
