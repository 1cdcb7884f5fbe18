"""apps.json: which apps have run here, so that reading commands find their data without importing anybody's code."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import DefinitionError, WorldError
from headrace.place import Place


@dataclass(frozen=True)
class KnownApp:
    """One line of apps.json: the app that a file defines, and where it keeps its data."""

    key: str
    name: str
    data: Path
    store: Path

    @property
    def place(self) -> Place:
        """Where the app's topics and tables are."""
        return Place(self.name, self.data, self.store)


class Apps:
    """The apps of one project folder, by "app.py" or "app.py:name"."""

    def __init__(self, project: Path) -> None:
        self.project = project.absolute()
        self.file = self.project / "headrace-data" / "apps.json"

    def find(self, key: str) -> KnownApp | None:
        """The app of a key as it was typed, or of a file and the app's own name."""
        known = self._read()
        if key in known:
            return known[key]
        file, _, name = key.partition(":")
        of_file = {app.place: app for app in known.values() if app.key.partition(":")[0] == file}
        same = [app for app in of_file.values() if not name or app.name == name]
        return same[0] if len(same) == 1 else None

    def remember(self, key: str, place: Place) -> None:
        """Note where an app keeps its data; a second file with an app of the same name and data is refused."""
        known = self._read().get(key)
        if known and known.place == place:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            apps = self._read()
            for other in apps.values():
                self._refuse_twins(other, key, place)
            apps[key] = KnownApp(key, place.app, place.data, place.store)
            self._write(apps)

    def _refuse_twins(self, other: KnownApp, key: str, place: Place) -> None:
        theirs, ours = other.key.partition(":")[0], key.partition(":")[0]
        if theirs != ours and other.name == place.app and other.data == place.data and (self.project / theirs).exists():
            raise DefinitionError(
                f'two apps here are called "{place.app}"',
                details=[f"{other.key} and {key}, and both would keep their data in {place.folder}"],
                hint="another name for one of them, or another data= folder",
            )

    def _read(self) -> dict[str, KnownApp]:
        try:
            text = self.file.read_text()
        except FileNotFoundError:
            return {}
        try:
            return {
                key: KnownApp(key, app["name"], self.project / app["data"], self.project / app["store"])
                for key, app in json.loads(text).items()
            }
        except (ValueError, KeyError, TypeError, AttributeError):
            raise WorldError(
                f"cannot read {self.file}",
                hint="delete it; the next `headrace run` writes it again",
                details=["it is no JSON of ours"],
            ) from None

    def _write(self, apps: dict[str, KnownApp]) -> None:
        shown = {
            app.key: {"name": app.name, "data": self._relative(app.data), "store": self._relative(app.store)}
            for app in apps.values()
        }
        beside = self.file.with_name(f".apps.{os.getpid()}.json")
        beside.write_text(json.dumps(shown, indent=2) + "\n")
        beside.replace(self.file)

    def _relative(self, path: Path) -> str:
        """Relative where possible, so that a project folder can be moved."""
        return str(path.relative_to(self.project)) if path.is_relative_to(self.project) else str(path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        folder = os.open(self.file.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)
