"""Which app a command means: the APP argument, the file behind it, and the app without importing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.apps import Apps, KnownApp
from headrace.errors import NotAvailable, UsageError
from headrace.place import Place, store_file
from headrace.settings import Settings, read_toml


@dataclass(frozen=True)
class Target:
    """An app's file, and the name in it where one was given."""

    file: Path
    name: str | None

    @property
    def project(self) -> Path:
        """The folder of the app's file."""
        return self.file.parent

    @property
    def key(self) -> str:
        """The app's key in apps.json."""
        return self.file.name + (f":{self.name}" if self.name else "")


def split(arguments: Sequence[str], expected: Sequence[str] = (), *, more: bool = False) -> tuple[str | None, list[str]]:
    """The APP argument, if there is one, and the `expected` others (and `more` after them).

    >>> split(["app.py:clicks", "SELECT 1"], ["SQL"]), split(["SELECT 1"], ["SQL"])
    (('app.py:clicks', ['SELECT 1']), (None, ['SELECT 1']))
    """
    rest = list(arguments)
    app = None
    # A topic may be called like a folder that lies here: an existing path is the app only where an argument is left for it.
    if rest and (_ends_like_app(rest[0]) or not (expected or more) or (len(rest) > len(expected) and Path(rest[0]).exists())):
        app = rest.pop(0)
    if len(rest) < len(expected):
        raise UsageError(f"{' and '.join(expected[len(rest) :])} missing")
    if len(rest) > len(expected) and not more:
        if app is None:
            raise UsageError(f'there is no app "{rest[0]}"', hint="an app is a file, such as app.py, or its folder")
        raise UsageError(f'"{rest[len(expected)]}" is one argument too many')
    return app, rest


def _ends_like_app(argument: str) -> bool:
    file, _, name = argument.rpartition(":")
    return argument.endswith((".py", ".toml")) or (file.endswith(".py") and name.isidentifier())


def find(argument: str | None, *, here: Path | None = None) -> Target:
    """The file of an app; nothing is imported."""
    folder = here or Path.cwd()
    if argument is None:
        return _in_folder(folder, shown="here")
    file, _, name = argument.partition(":")
    path = folder / file
    if file.endswith(".py"):
        return Target(path.absolute(), name or None)
    if name:
        raise UsageError(f'"{argument}" names no app', hint="FILE.py:NAME")
    if path.suffix == ".toml":
        return _of_toml(path.absolute())
    if path.is_dir():
        return _in_folder(path.absolute(), shown=f"in {argument}")
    raise UsageError(f"{argument} is no app", hint="a Python file that makes an hr.App, its folder, or nothing for ./app.py")


def _in_folder(folder: Path, *, shown: str) -> Target:
    if (folder / "headrace.toml").is_file():
        return _of_toml((folder / "headrace.toml").absolute())
    if (folder / "app.py").is_file() or Apps(folder).find("app.py"):
        return Target((folder / "app.py").absolute(), None)
    raise UsageError(
        f"there is no app {shown}", details=["neither headrace.toml nor app.py"], hint="headrace new DIR, or name the app's file"
    )


def _of_toml(file: Path) -> Target:
    if not file.is_file():
        raise UsageError(f"there is no file {file}")
    named = read_toml(file).get("app", "app.py")
    source, _, name = str(named).partition(":")
    if not (file.parent / source).exists() and (file.parent / "tables").is_dir():
        raise NotAvailable("a folder of SQL files as an app is not available in this version", hint="app.sql(...) in app.py")
    return Target((file.parent / source).absolute(), name or None)


def known(target: Target) -> KnownApp:
    """The app as apps.json knows it, without importing its code."""
    app = Apps(target.project).find(target.key)
    if app is None and not target.file.is_file():
        raise UsageError(f"there is no file {target.file}", hint="headrace new DIR makes a project")
    if app is None:
        raise UsageError(f"{target.key} was never run here", hint=f"headrace run {target.key}")
    return app


def place_without_import(argument: str | None, settings_given: dict[str, object], *, here: Path | None = None) -> Place:
    """Where a known app keeps its data; an option or the environment overrides what was noted."""
    target = find(argument, here=here)
    app = known(target)
    settings = Settings.load(settings_given, project=target.project)
    if settings.data is None and settings.store is None:
        return app.place
    project = target.project
    data = app.data
    if settings.data is not None:
        data = (project if settings.origins["data"].endswith(".toml") else Path.cwd()) / settings.data
    if settings.store is not None:
        store = store_file(settings.store, project if settings.origins["store"].endswith(".toml") else Path.cwd())
    else:
        store = app.store if settings.data is None else data / app.name / "store.db"
    return Place(app.name, data.absolute(), store)
