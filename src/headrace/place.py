"""Where one app lives on disk: the data folder's layout, in one place, so that no other module joins path names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.errors import NotAvailable, UsageError


@dataclass(frozen=True)
class Place:
    """The folders and files of one app.

    >>> place = Place.of("clicks", Path("/srv/headrace-data"))
    >>> place.topic("events").as_posix(), place.store.as_posix()
    ('/srv/headrace-data/clicks/log/events', '/srv/headrace-data/clicks/store.db')
    """

    app: str
    data: Path
    store: Path

    @classmethod
    def of(cls, app: str, data: Path, store: str | None = None, *, beside: Path | None = None) -> Place:
        """The place of an app in a data folder; `store` is a `sqlite:///` address, relative ones start at `beside`."""
        data = data.absolute()
        return cls(app, data, store_file(store, beside or data.parent) if store else data / app / "store.db")

    @property
    def folder(self) -> Path:
        """Everything of this app, except a store that was put elsewhere."""
        return self.data / self.app

    @property
    def log(self) -> Path:
        """The topics of the embedded log."""
        return self.folder / "log"

    def topic(self, name: str) -> Path:
        """The folder of one topic."""
        return self.log / name

    @property
    def references(self) -> Path:
        """Copies of references, as long as the ledger names them."""
        return self.folder / "references"

    @property
    def batch_db(self) -> Path:
        """What `headrace batch` writes."""
        return self.folder / "batch.db"

    @property
    def marks_lock(self) -> Path:
        """The lock under which marks are written."""
        return self.folder / "marks.lock"

    @property
    def run(self) -> Path:
        """What tells other processes who is at work; may be deleted while nothing runs."""
        return self.folder / "run"

    @property
    def lock(self) -> Path:
        """Keeps two starters apart, and names its holder."""
        return self.run / "lock"

    @property
    def runner_json(self) -> Path:
        """The running generation and its heartbeat."""
        return self.run / "runner.json"

    @property
    def tmp(self) -> Path:
        """May be deleted at any time while nothing runs."""
        return self.folder / "tmp"


def store_file(address: str, beside: Path) -> Path:
    """The file that a store's address names.

    >>> store_file("sqlite:///tables.db", Path("/srv")).as_posix(), store_file("sqlite:////var/t.db", Path("/srv")).as_posix()
    ('/srv/tables.db', '/var/t.db')
    """
    scheme, found, path = address.partition("://")
    if not found:
        return (beside / address).absolute()
    if scheme in ("postgres", "postgresql", "mysql", "mariadb"):
        raise NotAvailable(f'a store in "{scheme}" is not available in this version', hint="sqlite:///tables.db")
    if scheme != "sqlite" or not path.startswith("/") or len(path) == 1:
        raise UsageError(f'cannot read the store\'s address "{address}"', hint="sqlite:///tables.db")
    return (beside / path[1:]).absolute()
