"""Makes a failing case smaller while it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.case import Case, Epoch

Fails = Callable[[Case], bool]


def shrink(case: Case, fails: Fails, seconds: float = 120) -> Case:
    """The smallest case found within the time."""
    until = time.monotonic() + seconds
    smaller = True
    while smaller and time.monotonic() < until:
        smaller = False
        for candidate in _candidates(case):
            if time.monotonic() > until:
                break
            if fails(candidate):
                case, smaller = candidate, True
                break
    return case


def _candidates(case: Case) -> Iterator[Case]:
    """Simpler cases, the boldest first."""
    for table in case.tables:
        fewer = case.without([table.name])
        if fewer.tables:
            yield fewer
    if any(epoch != Epoch(epoch.rows, "small") for epoch in case.epochs):
        yield replace(case, epochs=tuple(Epoch(epoch.rows, "small") for epoch in case.epochs))
    for i, epoch in enumerate(case.epochs):
        calm = Epoch(epoch.rows, epoch.gear)
        for simpler in (
            calm,
            replace(calm, edited=epoch.edited),
            replace(calm, restart=epoch.restart),
            replace(epoch, edited=None),
        ):
            if simpler != epoch:
                yield _with(case, i, simpler)
    if case.sealed:
        yield replace(case, sealed=False)
    if case.partitions > 1:
        yield replace(case, partitions=1, by_key=False)
    if len(case.epochs) > 1:
        for i in range(len(case.epochs)):
            yield replace(case, epochs=case.epochs[:i] + case.epochs[i + 1 :])
    for i, epoch in enumerate(case.epochs):
        many = len(epoch.rows)
        for size in sorted({many // 2, many // 4, 1} - {0}, reverse=True):
            if many > 1:
                for at in range(0, many, size):
                    yield _with(case, i, replace(epoch, rows=epoch.rows[:at] + epoch.rows[at + size :]))
    if len(case.reference) > 1:
        for i in range(len(case.reference)):
            yield replace(case, reference=case.reference[:i] + case.reference[i + 1 :])
    for column in sorted(
        {name for epoch in case.epochs for _, row in epoch.rows for name, v in row.items() if v is not None} - {"id"}
    ):
        yield replace(case, epochs=tuple(_blank(epoch, column) for epoch in case.epochs))


def _with(case: Case, i: int, epoch: Epoch) -> Case:
    return replace(case, epochs=(*case.epochs[:i], epoch, *case.epochs[i + 1 :]))


def _blank(epoch: Epoch, column: str) -> Epoch:
    return replace(
        epoch, rows=tuple((topic, {**row, column: None}) if column in row else (topic, row) for topic, row in epoch.rows)
    )
