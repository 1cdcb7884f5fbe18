"""headrace doctor"""

from __future__ import annotations

import datetime as dt
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import typer

from headrace.app import place_of
from headrace.apps import Apps
from headrace.cli import output
from headrace.cli.options import AppArgument, Data, Debug, Json, StoreAt, given
from headrace.cli.target import Target, find, split
from headrace.errors import UsageError
from headrace.place import Place
from headrace.settings import Settings
from headrace.spark.java import SUPPORTED, all_javas, find_java

NAME = "doctor"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    state: Literal["ok", "warning", "wrong"]
    text: str
    hint: str | None = None


def command(app: AppArgument = None, data: Data = None, store: StoreAt = None, json: Json = False, debug: Debug = False) -> None:
    """Look at everything that an app needs: Python, Java, Spark, folders, the store; and say where each setting comes from.

    Ends with 0 when nothing is wrong, else with 3.

    \b
    Example:
      headrace doctor
    """
    argument = split(app or [])[0]
    try:
        target = find(argument)
    except UsageError:
        if argument is not None:
            raise
        target = None
    settings = Settings.load(given(data=data, store=store, debug=debug), project=target.project if target else Path.cwd())
    findings = list(_findings(target, settings))
    if json:
        checks = [{"name": f.name, "state": f.state, "text": f.text, "try": f.hint} for f in findings]
        origins = [{"name": name, "value": value, "origin": origin} for name, value, origin in _settings(settings)]
        output.answer({"checks": checks, "settings": origins})
    else:
        for finding in findings:
            output.say(f"{finding.state:8}{finding.name:12}{finding.text}")
            if finding.hint and finding.state != "ok":
                output.say(f"{'':20}try: {finding.hint}")
        output.say("")
        output.table(["setting", "value", "origin"], _settings(settings))
    if any(finding.state == "wrong" for finding in findings):
        raise typer.Exit(3)


def _settings(settings: Settings) -> list[tuple[str, object, str]]:
    return [
        (name, None if getattr(settings, name) is None else str(getattr(settings, name)), settings.origins[name])
        for name in type(settings).model_fields
        if name != "origins"
    ]


def _findings(target: Target | None, settings: Settings) -> Iterator[Finding]:
    yield from (look() for look in (_python, _java, _spark, _clock))
    if target is None:
        yield Finding("app", "warning", "no app here", "headrace new DIR")
        return
    known = Apps(target.project).find(target.key)
    folder = settings.data or (known.data if known else target.project / "headrace-data")
    yield _folder(folder)
    if known is None:
        yield Finding("app", "warning", f"{target.key} was never run here", f"headrace run {target.key}")
        return
    place = known.place if settings.data is None and settings.store is None else place_of(known.name, target.project, settings)
    yield Finding("app", "ok", f"{known.name}, data in {place.folder}")
    yield _store(place)


def _python() -> Finding:
    text = f"{platform.python_version()} at {sys.executable}"
    return Finding("python", "ok" if sys.version_info >= (3, 10) else "wrong", text, "Python 3.10 or newer")


def _java() -> Finding:
    found = find_java()
    if found:
        return Finding("java", "ok", f"{found.version} at {found.home} ({found.origin})")
    others = ", ".join(f"{java.version} at {java.home}" for java in all_javas())
    needed = " or ".join(map(str, SUPPORTED))
    return Finding("java", "wrong", f"no Java {needed}" + (f", only {others}" if others else ""), 'pip install "headrace[jdk]"')


def _spark() -> Finding:
    number = version("pyspark")
    home = os.environ.get("SPARK_HOME")
    if home:
        return Finding(
            "spark", "warning", f"{number}, but SPARK_HOME is {home}", "unset SPARK_HOME, whose Spark may be another one"
        )
    state: Literal["ok", "warning"] = "ok" if number.startswith("4.3.") else "warning"
    return Finding("spark", state, number, "pyspark 4.3, which Headrace is tested with")


def _clock() -> Finding:
    now = dt.datetime.now(dt.timezone.utc)
    state: Literal["ok", "wrong"] = "ok" if now.year >= 2025 else "wrong"
    return Finding("clock", state, now.isoformat(timespec="seconds").replace("+00:00", "Z"), "set the machine's clock")


def _folder(folder: Path) -> Finding:
    there = folder
    while not there.exists():
        there = there.parent
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"x")
            os.fsync(file.fileno())
    except OSError as problem:
        return Finding("data", "wrong", f"{folder} cannot be written: {problem.strerror}", "--data, or HEADRACE_DATA")
    free = shutil.disk_usage(there).free
    state: Literal["ok", "warning"] = "ok" if free > 2**30 else "warning"
    return Finding("data", state, f"{folder}, {free / 2**30:,.1f} GB free", "a folder with more room: --data")


def _store(place: Place) -> Finding:
    if not place.store.is_file():
        return Finding("store", "warning", f"{place.store} is not there", "headrace run makes it, from the log")
    hint = f"stop the app, delete {place.store} with its -wal and -shm, and run: it is rebuilt from the log"
    try:
        db = sqlite3.connect(f"file:{place.store}?mode=ro", uri=True)
        try:
            wrong = [row[0] for row in db.execute("PRAGMA quick_check(3)") if row[0] != "ok"]
            epochs = db.execute("SELECT count(*) FROM _ledger").fetchone()[0]
        finally:
            db.close()
    except sqlite3.Error as problem:
        return Finding("store", "wrong", f"{place.store}: {problem}", hint)
    if wrong:
        return Finding("store", "wrong", f"{place.store}: {'; '.join(wrong)}", hint)
    return Finding("store", "ok", f"{place.store}, {epochs:,} epochs")
