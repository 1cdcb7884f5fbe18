"""One case: an app, its rows cut into epochs, and what each epoch goes through. Data only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.fuzz import rows
from tests.fuzz.apps import Made, Tables


@dataclass(frozen=True)
class Epoch:
    """Rows that come together; `gear` is None where the engine chooses; `crash` and `restart` say what happens to it.

    `edited`: the tables that the app has from this epoch on. `malformed`: lines that become rejects, by topic.
    """

    rows: tuple[tuple[str, dict[str, Any]], ...]
    gear: str | None = None
    restart: bool = False
    crash: str | None = None
    verify: bool = False
    edited: tuple[Made, ...] | None = None
    malformed: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class Case:
    """Everything that decides what happens."""

    seed: int
    partitions: int
    by_key: bool
    reference: tuple[dict[str, Any], ...]
    tables: tuple[Made, ...]
    epochs: tuple[Epoch, ...]
    sealed: bool = False
    """Whether each append is a segment of its own, so that all but the newest are Parquet files."""

    @property
    def size(self) -> int:
        return sum(len(epoch.rows) for epoch in self.epochs)

    def without(self, names: Iterable[str]) -> Case:
        """The case without these tables and those that read them."""
        gone = set(names)
        epochs = tuple(
            epoch if epoch.edited is None else replace(epoch, edited=_without(epoch.edited, gone)) for epoch in self.epochs
        )
        return replace(self, tables=_without(self.tables, gone), epochs=epochs)

    def show(self) -> str:
        """For people."""
        lines = [f"seed {self.seed}, {self.partitions} partitions{', by k' * self.by_key}{', sealed' * self.sealed}"]
        lines += [f"  reference {r}" for r in self.reference]
        lines += _shown(self.tables)
        for number, epoch in enumerate(self.epochs, 1):
            marks = [f"gear {epoch.gear}"] + ["restart"] * epoch.restart + [f"crash {epoch.crash}"] * bool(epoch.crash)
            lines.append(f"  epoch {number} ({', '.join(marks)})")
            lines += [f"    malformed {topic} {line!r}" for topic, line in epoch.malformed]
            lines += ["    edited:", *_shown(epoch.edited)] if epoch.edited is not None else []
            lines += [f"    {topic} { ({k: v for k, v in row.items() if v is not None}) }" for topic, row in epoch.rows]
        return "\n".join(lines)


def _without(tables: tuple[Made, ...], names: set[str]) -> tuple[Made, ...]:
    gone = set(names)
    for table in tables:
        if any(table.reads(name) for name in gone):
            gone.add(table.name)
    return tuple(table for table in tables if table.name not in gone)


def _shown(tables: tuple[Made, ...]) -> list[str]:
    return [f"  table {t.name} key {t.key}{' rejects' * t.rejects}: {t.text}" for t in tables]


def _edited(rng: Random, tables: tuple[Made, ...], maker: Tables) -> tuple[Made, ...]:
    """The tables with one removed, one changed or one added."""
    what = rng.choice(["removed", "changed", "added"])
    loose = [t for t in tables if not any(other.reads(t.name) for other in tables if other is not t)]
    if what == "removed" and len(tables) > 1 and loose:
        return _without(tables, {rng.choice(loose).name})
    if what == "changed" and loose:
        old = rng.choice(loose)
        maker.known = {name: known for name, known in maker.known.items() if name != old.name}
        return (*(t for t in tables if t is not old), maker.table(old.name))
    return (*tables, maker.table(f"t{len(tables)}"))


def case_of(seed: int, tables: int = 5) -> Case:
    """The case of a seed."""
    rng = Random(seed)
    maker = Tables(rng)
    made = tuple(maker.table(f"t{i}") for i in range(tables))
    epochs, number = [], 0
    now = made
    for _ in range(rng.choice([2, 3, 4])):
        some = []
        for _ in range(rng.choice([1, 2, 5, 9])):
            topic = rng.choice(["a", "a", "c"])
            number += 1
            some.append((topic, rows.row(rng, rows.SCHEMAS[topic], number)))
        gear = rng.choice([None, "small", "large"])
        crash = rng.choice([None, None, None, None, "before:commit", "after:commit"])
        edited = None
        if epochs and rng.random() < 0.1:
            now = edited = _edited(rng, now, maker)
        wrong = [(rng.choice(["a", "c"]), line) for line in rows.malformed(rng)] if rng.random() < 0.15 else []
        epochs.append(Epoch(tuple(some), gear, rng.random() < 0.15, crash, rng.random() < 0.2, edited, tuple(wrong)))
    reference = tuple(rows.row(rng, rows.R, None) for _ in range(rng.choice([1, 3, 5])))
    return Case(seed, rng.choice([1, 2, 3]), rng.random() < 0.5, reference, made, tuple(epochs), rng.random() < 0.4)
