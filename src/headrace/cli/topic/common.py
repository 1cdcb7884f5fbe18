"""Finding a topic on disk without importing the app."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import UsageError
from headrace.log.topic import DESCRIPTION, Topic
from headrace.place import Place


def names(place: Place) -> list[str]:
    """The topics that exist, by name."""
    if not place.log.is_dir():
        return []
    return sorted(folder.name for folder in place.log.iterdir() if (folder / DESCRIPTION).is_file())


def opened(place: Place, name: str) -> Topic:
    """A topic that exists, whatever the letter case."""
    folder = spelled(place, name)
    if folder is None:
        known = ", ".join(names(place))
        raise UsageError(
            f'{place.app} has no topic "{name}" on disk',
            hint=f"one of {known}" if known else f"headrace send {name} FILE makes it",
        )
    return Topic.open(folder)


def spelled(place: Place, name: str) -> Path | None:
    """The folder of a topic that exists."""
    same = [known for known in names(place) if known.lower() == name.lower()]
    return place.topic(same[0]) if same else None
