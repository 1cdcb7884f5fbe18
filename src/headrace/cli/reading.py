"""The store of a known app, for commands that only read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.cli import output
from headrace.errors import UsageError
from headrace.place import Place

if TYPE_CHECKING:
    from headrace.store.reader import Answer, Reader


@contextmanager
def reading(place: Place) -> Iterator[Reader]:
    """A reader on the newest epoch."""
    if not place.store.is_file():
        raise UsageError(f"{place.app} has no tables yet", details=[f"there is no {place.store}"], hint="headrace run")
    from headrace.store.reader import Reader

    reader = Reader(place.store)
    try:
        yield reader
    finally:
        reader.close()


def epoch_or_time(text: str | None) -> int | dt.datetime | None:
    """What --as-of takes: an epoch, or a time in ISO form (UTC unless it says otherwise)."""
    if text is None:
        return None
    if text.isdigit():
        return int(text)
    try:
        time = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(f'"{text}" is no epoch and no time', hint="--as-of 120, or --as-of 2026-01-31T10:00:00Z") from None
    return time if time.tzinfo else time.replace(tzinfo=dt.timezone.utc)


def show(answer: Answer, place: Place, *, json: bool) -> None:
    """An answer as a table, or as JSON."""
    if json:
        columns = [{"name": name, "type": kind} for name, kind in answer.columns]
        committed = answer.committed_at
        output.answer({"committed_at": committed, "columns": columns, "rows": answer.rows}, app=place.app, epoch=answer.epoch)
        return
    numbers = ("int", "double", "float", "decimal", "long", "short", "byte", "bigint", "smallint", "tinyint")
    right = [name for name, kind in answer.columns if kind and str(kind).lower().startswith(numbers)]
    output.table([name for name, _ in answer.columns], answer.rows, right=right)
