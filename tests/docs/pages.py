"""Code blocks of a documentation page, in order, and running them in one folder."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.cli import main

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ADDED = re.compile(r"^# added to (\S+)\n")


@dataclass(frozen=True)
class Block:
    """One block of a page: its language and its text."""

    language: str
    text: str


@dataclass(frozen=True)
class Said:
    """A command of a page: what the page says that it prints, and what it printed."""

    command: str
    expected: str
    printed: str


def blocks(page: Path, *languages: str) -> list[Block]:
    """The blocks of a page in some languages."""
    found = [Block(match[1], match[2]) for match in _BLOCK.finditer(page.read_text())]
    return [block for block in found if not languages or block.language in languages]


def play(page: Path) -> Iterator[Said]:
    """Run a page from the current folder: its console commands in order, its Python blocks as one program at the end.

    A Python block that begins with `# added to FILE` is appended to that file when it is reached.
    """
    program = []
    for block in blocks(page, "console", "python"):
        added = _ADDED.match(block.text)
        if block.language == "python" and not added:
            program.append(block.text)
        elif added:
            with Path(added[1]).open("a") as file:
                file.write("\n\n" + block.text[added.end() :])
        else:
            for command, expected in _commands(block.text):
                yield Said(command, expected, _run(command))
    if program:
        Path("program.py").write_text("\n".join(program))
        runpy.run_path("program.py")


def _commands(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield command, expected.strip("\n")


def _run(command: str) -> str:
    """What a command prints. Ours run in this process, where Spark has been started."""
    words = shlex.split(command)
    if words[0] == "cd":
        os.chdir(words[1])
        return ""
    if words[0] == "headrace":
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = main.answer(words[1:])
        assert code == 0, f"{command} ended with {code}"
        return _trimmed(printed.getvalue())
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return _trimmed(subprocess.run(command, shell=True, check=True, capture_output=True, text=True, env=environment).stdout)


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
