"""A project whose app runs as people run it: processes of their own, which tests start, kill, stop and wake up."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headrace.store.reader import Reader

HEADRACE = [sys.executable, "-m", "headrace.cli.main"]
PATIENCE_S = 300.0
"""How long a test waits for something that must come; nothing is asserted about how fast it does."""
# Of what the JVM compiles, a test uses little: the quick compiler alone starts an app in half the time.
SMALL = {
    "HEADRACE_SPARK_MASTER": "local[2]",
    "HEADRACE_SPARK_MEMORY": "1g",
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1",
}


def wait_until(what: Callable[[], Any], name: str) -> Any:
    """Wait until `what` answers something true, and return it."""
    due = time.monotonic() + PATIENCE_S
    while time.monotonic() < due:
        if answer := what():
            return answer
        time.sleep(0.01)
    raise AssertionError(f"{name}: not after {PATIENCE_S} s")


class App:
    """One `headrace run`, or another command that goes on: a process and what it says."""

    def __init__(self, folder: Path, arguments: list[str], environment: dict[str, str], said: Path) -> None:
        self.said = said
        self._out = said.with_suffix(".out")
        with said.open("wb") as err, self._out.open("wb") as out:
            self.process = subprocess.Popen(
                [*HEADRACE, *arguments],
                cwd=folder,
                env={**os.environ, **SMALL, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        """What it has said so far."""
        return self.said.read_text()

    @property
    def error(self) -> dict[str, Any]:
        """Its error: the last line."""
        found: dict[str, Any] = json.loads(self.text.splitlines()[-1])["error"]
        return found

    def events(self, message: str) -> list[dict[str, Any]]:
        """What it said that holds this text."""
        lines = [json.loads(line) for line in self.text.splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in lines if message in json.dumps(line)]

    def wait_said(self, message: str, times: int = 1) -> None:
        """Wait until it has said this."""

        def heard() -> bool:
            if self.process.poll() is not None and len(self.events(message)) < times:
                raise AssertionError(f"it ended with {self.process.returncode} and never said {message!r}:\n{self.text}")
            return len(self.events(message)) >= times

        wait_until(heard, f"{message!r} from\n{self.text}")

    def wait_running(self) -> App:
        """Wait until epochs are taken."""
        self.wait_said('"running"')
        return self

    def wait_ended(self) -> int:
        """Wait for its end; returns its exit code, -9 when it was killed."""
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end:\n{self.text}") from None

    def send(self, number: int) -> None:
        """A signal for the app's own process."""
        self.process.send_signal(number)

    def stop(self) -> int:
        """End it well, as Ctrl-C does."""
        self.send(signal.SIGTERM)
        return self.wait_ended()

    def kill(self) -> None:
        """End it as nothing else does."""
        self.send(signal.SIGKILL)
        self.wait_ended()

    def children(self, name: str = "") -> list[int]:
        """The processes below it whose command line holds this, oldest first."""
        return [pid for pid in below(self.process.pid) if name in command_line(pid)]

    def jvm(self) -> int:
        """The JVM that plans its queries."""
        return int(wait_until(lambda: self.children("SparkSubmit"), "a JVM")[0])


def below(parent: int) -> list[int]:
    """All processes below one."""
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            stat = (entry / "stat").read_text()
            state, ppid = stat[stat.rindex(")") + 2 :].split()[:2]
            if state not in "ZX":
                found.setdefault(int(ppid), []).append(int(entry.name))
    out, queue = [], [parent]
    while queue:
        for child in sorted(found.get(queue.pop(0), [])):
            out.append(child)
            queue.append(child)
    return out


def command_line(pid: int) -> str:
    """How a process was started."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


class Project:
    """A folder with an app; every process that was started in it ends with the test."""

    def __init__(self, folder: Path, app: Path | str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        text = app.read_text() if isinstance(app, Path) else app
        (folder / "app.py").write_text(text)
        self.name = text.split('hr.App("')[1].split('"')[0]
        self._apps: list[App] = []

    @property
    def data(self) -> Path:
        """The app's own folder."""
        return self.folder / "headrace-data" / self.name

    @property
    def store(self) -> Path:
        """The store's file."""
        return self.data / "store.db"

    def start(self, *arguments: str, crash: str | None = None, **settings: str) -> App:
        """`headrace run`, with a crash point and other settings."""
        return self.begin("run", *arguments, "--json", "--debug", crash=crash, **settings)

    def begin(self, *arguments: str, crash: str | None = None, **settings: str) -> App:
        """Any command, as a process to wait for."""
        environment = {f"HEADRACE_{name.upper()}": value for name, value in settings.items()}
        if crash is not None:
            environment["HEADRACE_CRASH"] = crash
        app = App(self.folder, list(arguments), environment, self.folder / f"said-{len(self._apps)}.txt")
        self._apps.append(app)
        return app

    def call(self, *arguments: str, code: int = 0, given: bytes | None = None) -> Any:
        """A command that ends: its answer."""
        environment = {**os.environ, **SMALL}
        ended = subprocess.run(
            [*HEADRACE, *arguments, "--json"], cwd=self.folder, env=environment, input=given, check=False, capture_output=True
        )
        assert ended.returncode == code, ended.stdout.decode() + ended.stderr.decode()
        return json.loads(ended.stdout or b"{}")

    def verify(self) -> dict[str, Any]:
        """What `headrace verify` says; it must agree."""
        answer: dict[str, Any] = self.call("verify")
        assert answer["ok"], answer
        return answer

    def rows(self, sql: str) -> list[list[Any]]:
        """An answer from the newest epoch."""
        with Reader(self.store) as reader:
            return reader.query(sql).rows

    def epoch(self) -> int:
        """The newest epoch; 0 where there is no store yet."""
        if not self.store.exists():
            return 0
        with Reader(self.store) as reader:
            return reader.head().epoch

    def wait_epoch(self, above: int) -> int:
        """Wait for an epoch newer than this one."""
        wait_until(lambda: self.epoch() > above, f"an epoch after {above}")
        return self.epoch()

    def keep_store(self, beside: Path) -> None:
        """Copy the store as a backup does that knows about WAL files: one consistent file."""
        import sqlite3

        with contextlib.closing(sqlite3.connect(self.store)) as source, contextlib.closing(sqlite3.connect(beside)) as target:
            source.backup(target)

    def put_store(self, saved: Path) -> None:
        """Put a copy in the place of the store, without the files that belong to another."""
        for suffix in ("-wal", "-shm"):
            Path(f"{self.store}{suffix}").unlink(missing_ok=True)
        shutil.copy(saved, self.store.with_suffix(".new"))
        self.store.with_suffix(".new").replace(self.store)

    def close(self) -> None:
        """End whatever still runs."""
        for app in self._apps:
            for pid in [*below(app.process.pid), app.process.pid] if app.process.poll() is None else []:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            app.process.wait()


@contextlib.contextmanager
def working(script: Path, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A helper process that works until its standard input is closed."""
    process = subprocess.Popen(
        [sys.executable, str(script), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        with process:
            pass


def finish(process: subprocess.Popen[str]) -> Any:
    """Tell a helper process to end; returns what it says."""
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    return json.loads(out)
