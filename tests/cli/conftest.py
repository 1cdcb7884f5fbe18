"""A project that has run once, with real processes, and a way to call commands."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.cli import main

HEADRACE = [sys.executable, "-m", "headrace.cli.main"]


class Result(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on stdout."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error object, the last line on stderr."""
        return json.loads(self.err.splitlines()[-1])["error"]


Cli = Callable[..., Result]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Call a command in this process."""

    def call(*arguments: object) -> Result:
        capsys.readouterr()
        code = main.answer([str(argument) for argument in arguments])
        return Result(code, *capsys.readouterr())

    return call


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new project, in the current folder."""
    assert main.answer(["new", str(tmp_path / "phones")]) == 0
    monkeypatch.chdir(tmp_path / "phones")
    return tmp_path / "phones"


@pytest.fixture(scope="session")
def ran_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose rows, one unusable among them, were taken by `headrace run --once`."""
    folder = tmp_path_factory.mktemp("ran") / "phones"
    assert main.answer(["new", str(folder)]) == 0
    for arguments, given in ((["send", "events", "events.jsonl"], None), (["send", "events", "-"], b'{"phone_id": 1}\n')):
        subprocess.run([*HEADRACE, *arguments], cwd=folder, input=given, check=True, capture_output=True)
    ended = subprocess.run(
        [*HEADRACE, "run", "--once", "--spark-master", "local[1]", "--json"],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.fixture
def ran(ran_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that project, in the current folder, that the test may spoil."""
    folder = tmp_path / "phones"
    shutil.copytree(ran_once, folder)
    monkeypatch.chdir(folder)
    return folder
