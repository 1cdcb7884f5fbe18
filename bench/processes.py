"""Processes that benchmarks start: contenders, producers, `headrace run`."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
MARK = "RESULT "


def start(role: str, **arguments: Any) -> subprocess.Popen[str]:
    """Call `module:function` with these arguments, a `folder` among them, in a process of its own; `answer` takes what it
    returns, and what it says on the way goes into said.log in its folder."""
    command = [sys.executable, "-m", "bench.processes", role, json.dumps(arguments)]
    # Spark talks a lot while it starts; what matters of it comes again as an exception of ours.
    with Path(arguments["folder"], "said.log").open("a") as said:
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=said, text=True, start_new_session=True)


def answer(process: subprocess.Popen[str]) -> Any:
    """What the function returned."""
    said, _ = process.communicate()
    for line in (said or "").splitlines():
        if line.startswith(MARK):
            return json.loads(line.removeprefix(MARK))
    raise RuntimeError(f"{process.args!r} ended with {process.returncode} and without an answer")


def call(role: str, **arguments: Any) -> Any:
    """Call a function in a process of its own and wait for what it returns."""
    return answer(start(role, **arguments))


def app_in(folder: Path, app: str) -> Path:
    """A folder with an app of `bench/apps` as its app.py; its data will lie beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / "bench" / "apps" / f"{app}.py", folder / "app.py")
    return folder


def run_app(folder: Path) -> subprocess.Popen[bytes]:
    """`headrace run` in a folder, in a process group of its own; what it says goes into run.log there."""
    with (folder / "run.log").open("ab") as log:
        command = [sys.executable, "-m", "headrace.cli.main", "run"]
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)


def kill(process: subprocess.Popen[Any]) -> None:
    """Kill a process and what it started, as a machine's failure would: with -9."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def ending(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    """Whatever happens, nothing that we started is left behind."""
    try:
        yield process
    finally:
        kill(process)


def main() -> None:
    """The other end of `start`."""
    role, arguments = sys.argv[1:]
    module, _, function = role.partition(":")
    found = getattr(importlib.import_module(module), function)(**json.loads(arguments))
    print(MARK + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
