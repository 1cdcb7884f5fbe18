"""What Spark spills lies in a folder of its process, and goes with it, however it ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headrace.spark.session import _own_folder
from headrace.store.process import Process, started


def test_what_a_dead_process_spilled_goes(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        alive = tmp_path / f"process-{process.pid}-{started(process.pid)}"
        reborn = tmp_path / f"process-{process.pid}-1"
        for folder in (alive, reborn, tmp_path / "elsewhere"):
            (folder / "blockmgr").mkdir(parents=True)
        mine = _own_folder(tmp_path)
        assert {each.name for each in tmp_path.iterdir()} == {alive.name, mine.name, "elsewhere"}
        assert mine.name == f"process-{Process.mine().pid}-{Process.mine().started}"
        process.kill()
    _own_folder(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {mine.name, "elsewhere"}
