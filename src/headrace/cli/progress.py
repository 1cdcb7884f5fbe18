"""Progress of long work: on stderr, and only where somebody looks at it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Advance = Callable[[int], None]


@contextmanager
def progress(what: str, *, total: int | None = None) -> Iterator[Advance]:
    """A bar where the end is known, else a spinner; nothing in a pipe. Yields what moves it on."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda amount: bar.advance(task, amount)


@contextmanager
def steps(what: str) -> Iterator[Callable[..., None]]:
    """For work that tells what it does in words (and, if it likes, how far it is: done, total)."""
    if not sys.stderr.isatty():
        yield lambda *_, **__: None
        return
    columns = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def tell(text: object = what, done: float | None = None, total: float | None = None, **_: object) -> None:
            bar.update(task, description=str(text), completed=done, total=total)

        yield tell
