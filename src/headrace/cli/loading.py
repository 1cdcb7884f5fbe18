"""Importing an app's file. Only commands that need its functions do."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from headrace.app import App, importing
from headrace.apps import Apps
from headrace.cli.target import Target, find
from headrace.definitions import AppDef
from headrace.errors import DefinitionError, HeadraceError, UsageError
from headrace.origin import Origin
from headrace.place import Place
from headrace.settings import Settings


class Loaded:
    """An app that was imported: its definition, where it lives, and the settings of this command."""

    def __init__(self, target: Target, app: App, options: dict[str, Any]) -> None:
        self.target = target
        self.app = app
        self.settings: Settings = app.settings(**options)
        self.place: Place = app.place(self.settings)
        self.definition: AppDef = app.definition()


def load(argument: str | None, options: dict[str, Any]) -> Loaded:
    """Import the app that a command means, check it, and note it in apps.json."""
    target = find(argument)
    apps = _apps(_import(target))
    loaded = Loaded(target, _chosen(target, apps), options)
    remembered = Apps(target.project)
    remembered.remember(target.key, loaded.place)
    if len(apps) == 1:
        remembered.remember(target.file.name, loaded.place)
    return loaded


def import_app(target: Target) -> App:
    """The App object of a file."""
    return _chosen(target, _apps(_import(target)))


def _chosen(target: Target, apps: dict[str, App]) -> App:
    if target.name:
        chosen = [app for variable, app in apps.items() if target.name in (variable, app.name)]
        if not chosen:
            raise UsageError(f'{target.file.name} has no app "{target.name}"', hint=_choices(target, apps))
        return chosen[0]
    if not apps:
        raise DefinitionError(f"{target.file.name} makes no app", hint='app = hr.App("name") at the top level of the file')
    if len(apps) > 1:
        raise UsageError(f"{target.file.name} makes {len(apps)} apps", hint=_choices(target, apps))
    return next(iter(apps.values()))


def _apps(module: ModuleType) -> dict[str, App]:
    """The apps that a file makes or imports, each under its first variable."""
    found: dict[str, App] = {}
    for variable, value in vars(module).items():
        if isinstance(value, App) and not any(value is app for app in found.values()):
            found[variable] = value
    return found


def _choices(target: Target, apps: dict[str, App]) -> str | None:
    return " or ".join(f"{target.file.name}:{variable}" for variable in apps) or None


def _import(target: Target) -> ModuleType:
    file = target.file
    if not file.is_file():
        raise UsageError(f"there is no file {file}", hint="headrace new DIR makes a project")
    # A file called like a module that is loaded (json.py, code.py) must not take its place.
    name = file.stem if file.stem not in sys.modules else f"headrace_app_{file.stem}"
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, f"{file} ends in .py"
    assert spec.loader is not None, f"{file} ends in .py"
    module = importlib.util.module_from_spec(spec)
    before, sys.modules[name] = set(sys.modules), module
    mark = importing.set(True)
    try:
        spec.loader.exec_module(module)
    except HeadraceError:
        raise
    except (Exception, SystemExit) as problem:
        raise DefinitionError(
            f"{file.name} cannot be imported",
            details=[f"{type(problem).__name__}: {problem}"],
            origin=_where(problem, file),
        ) from problem
    finally:
        importing.reset(mark)
    _ship_by_value(file.parent, {name, *set(sys.modules) - before})
    return module


def _ship_by_value(project: Path, names: set[str]) -> None:
    """Executors cannot import the project's modules, so that their functions travel as code, not as names."""
    for name in names:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(project) and not {"site-packages", "dist-packages"} & set(Path(file).parts):
            cloudpickle.register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]


def _where(problem: BaseException, file: Path) -> Origin:
    """The last line of the traceback that stands in the project."""
    if isinstance(problem, SyntaxError) and problem.filename:
        return Origin(Path(problem.filename).name, problem.lineno or 1)
    lines = [frame for frame in traceback.extract_tb(problem.__traceback__) if Path(frame.filename).is_relative_to(file.parent)]
    if not lines:
        return Origin(file.name, 1)
    return Origin(str(Path(lines[-1].filename).relative_to(file.parent)), lines[-1].lineno or 1)
