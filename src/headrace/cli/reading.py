"""The store of a known app, for commands that only read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.cli import output
from headrace.errors import UsageError
from headrace.place import Place
from headrace.running import has_store
from headrace.store.reader import Answer, Reader


@contextmanager
def reading(place: Place) -> Iterator[Reader]:
    """A reader on the newest epoch."""
    if not has_store(place):
        raise UsageError(f"{place.app} has no tables yet", details=[f"there is no store at {place.store}"], hint="headrace run")
    reader = Reader(place.store)
    try:
        yield reader
    finally:
        reader.close()


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
