"""Marks: how far the store was, written beside the log, so that a store that went back is noticed.

A mark lies in each topic of the app (`readers/<app>`), or in `readers.json` where the app has no topics of its own. It
is durable before any sink or feed takes the epoch, moves only forward, and is written under `marks.lock`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headrace.errors import Fenced
from headrace.log.disk import Disk, RealDisk
from headrace.store.base import Generation, Head

Standing = Literal["ours", "claimed", "restored"]


@dataclass(frozen=True)
class Mark:
    """What the app has read, and how far its store was. `number` counts lineages: the higher one is the newer history."""

    lineage: str
    number: int
    generation: int
    epoch: int
    hash: str
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @classmethod
    def at(cls, generation: Generation, head: Head, offsets: Mapping[str, Mapping[int, int]]) -> Mark:
        """The mark of a generation whose newest epoch is `head`."""
        copied = {source: dict(parts) for source, parts in offsets.items()}
        return cls(generation.lineage, generation.lineage_number, generation.number, head.epoch, head.hash, copied)

    def as_bytes(self) -> bytes:
        """The file's content."""
        named = {"version": 1, **self.__dict__}
        return json.dumps(named, sort_keys=True, separators=(",", ":")).encode("utf-8") + b"\n"

    @classmethod
    def of(cls, data: bytes) -> Mark | None:
        """The mark in a file's content; None when it holds none, which counts as a mark that is missing.

        >>> mark = Mark("a1", 1, 3, 7, "ff", {"events": {0: 12}})
        >>> Mark.of(mark.as_bytes()) == mark, Mark.of(b"")
        (True, None)
        """
        try:
            read = json.loads(data)
            offsets = {source: {int(p): int(end) for p, end in parts.items()} for source, parts in read["offsets"].items()}
            return cls(read["lineage"], read["number"], read["generation"], read["epoch"], read["hash"], offsets)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


class Marks:
    """The marks of one app: in each of its topics' folders, else in one file of the app's own.

    `folder` is the app's folder; `topics` are the folders of the topics that it reads, other apps' topics included.
    """

    def __init__(self, folder: Path, app: str, topics: Sequence[Path] = (), *, disk: Disk | None = None) -> None:
        self._disk = disk or RealDisk()
        self._folder = folder
        self._ready: set[Path] = set()
        self._files = [topic / "readers" / app for topic in topics] or [folder / "readers.json"]

    def read(self) -> list[Mark]:
        """The marks that are there."""
        return [mark for mark in map(self._read, self._files) if mark is not None]

    def _read(self, path: Path) -> Mark | None:
        try:
            return Mark.of(self._disk.read_whole(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, mark: Mark, check: Callable[[], None]) -> None:
        """Write the mark everywhere, durably. `check` raises when the store is not the one that we have open.

        Raises `Fenced` when a mark there is newer: another generation, or a newer history, went further.
        """
        self._disk.make_folders(self._folder)
        with self._disk.lock(self._folder / "marks.lock"):
            check()
            for there in self.read():
                self._refuse_newer(there, mark)
            self._put(mark)

    def claim(self, above: int, make: Callable[[int], Mark], check: Callable[[], None]) -> Mark:
        """Take the next lineage number, higher than `above` and than every mark's, by writing a mark that has it."""
        self._disk.make_folders(self._folder)
        with self._disk.lock(self._folder / "marks.lock"):
            check()
            mark = make(1 + max([above, *(there.number for there in self.read())]))
            self._put(mark)
        return mark

    def check(self, written: Mark) -> None:
        """Raise `Fenced` when a mark there is not the one that we wrote last. One that is missing is no sign of anything."""
        for there in self.read():
            if there != written:
                raise Fenced(
                    f"generation {written.generation} is not the newest one: the log holds the mark of another",
                    details=[f"generation {there.generation} of lineage {there.lineage} read up to epoch {there.epoch}"],
                    hint="headrace status",
                )

    def missing(self) -> bool:
        """Whether a mark is to be written anew; until then retention removes nothing."""
        return any(self._read(path) is None for path in self._files)

    def _put(self, mark: Mark) -> None:
        for path in self._files:
            if path not in self._ready or not self._disk.exists(path.parent):
                self._disk.make_folders(path.parent)
                # Whoever made a folder on the way may have died before its name was durable.
                self._disk.fsync_way(path)
                self._ready.add(path)
            self._disk.replace(path, mark.as_bytes())

    def _refuse_newer(self, there: Mark, mark: Mark) -> None:
        if there.lineage != mark.lineage:
            newer = there.number >= mark.number
        else:
            newer = (there.generation, there.epoch) > (mark.generation, mark.epoch)
        if newer:
            raise Fenced(
                f"generation {mark.generation} may not go on: a newer one has written its mark beside the log",
                details=[f"generation {there.generation} of lineage {there.lineage} read up to epoch {there.epoch}"],
                hint="headrace status",
            )


def standing(marks: Sequence[Mark], generation: Generation, head: Head, in_ledger: Callable[[int, str], bool]) -> Standing:
    """What the marks say about a store: `ours`, `restored` (it is behind or beside its newest mark), or `claimed`.

    `claimed`: a new lineage began from exactly this store, took a number, and got no further.
    """
    for mark in _newest(marks):
        if mark.number < generation.lineage_number:
            continue
        if mark.number > generation.lineage_number:
            return "claimed" if (mark.epoch, mark.hash) == (head.epoch, head.hash) else "restored"
        if mark.lineage != generation.lineage or mark.generation > generation.number or not in_ledger(mark.epoch, mark.hash):
            return "restored"
    return "ours"


def _newest(marks: Sequence[Mark]) -> Iterator[Mark]:
    top = max((mark.number for mark in marks), default=0)
    return (mark for mark in marks if mark.number == top)
