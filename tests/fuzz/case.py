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
    """Rows that come together; `gear` is None where the engine chooses; `crash` and `restart` say what happens to it."""

    rows: tuple[tuple[str, dict[str, Any]], ...]
    gear: str | None = None
    restart: bool = False
    crash: str | None = None
    verify: bool = False


@dataclass(frozen=True)
class Case:
    """Everything that decides what happens."""

    seed: int
    partitions: int
    by_key: bool
    reference: tuple[dict[str, Any], ...]
    tables: tuple[Made, ...]
    epochs: tuple[Epoch, ...]

    @property
    def size(self) -> int:
        return sum(len(epoch.rows) for epoch in self.epochs)

    def without(self, names: Iterable[str]) -> Case:
        """The case without these tables and those that read them."""
        gone = set(names)
        for table in self.tables:
            if any(table.reads(name) for name in gone):
                gone.add(table.name)
        return replace(self, tables=tuple(table for table in self.tables if table.name not in gone))

    def show(self) -> str:
        """For people."""
        lines = [f"seed {self.seed}, {self.partitions} partitions{', by k' if self.by_key else ''}"]
        lines += [f"  reference {r}" for r in self.reference]
        lines += [f"  table {t.name} key {t.key}: {t.text}" for t in self.tables]
        for number, epoch in enumerate(self.epochs, 1):
            marks = [f"gear {epoch.gear}"] + ["restart"] * epoch.restart + [f"crash {epoch.crash}"] * bool(epoch.crash)
            lines.append(f"  epoch {number} ({', '.join(marks)})")
            lines += [f"    {topic} { ({k: v for k, v in row.items() if v is not None}) }" for topic, row in epoch.rows]
        return "\n".join(lines)


def case_of(seed: int, tables: int = 5) -> Case:
    """The case of a seed."""
    rng = Random(seed)
    maker = Tables(rng)
    made = tuple(maker.table(f"t{i}") for i in range(tables))
    epochs, number = [], 0
    for _ in range(rng.choice([2, 3, 4])):
        some = []
        for _ in range(rng.choice([1, 2, 5, 9])):
            topic = rng.choice(["a", "a", "c"])
            number += 1
            some.append((topic, rows.row(rng, rows.SCHEMAS[topic], number)))
        gear = rng.choice([None, "small", "large"])
        crash = rng.choice([None, None, None, None, "before:commit", "after:commit"])
        epochs.append(Epoch(tuple(some), gear, rng.random() < 0.15, crash, rng.random() < 0.2))
    reference = tuple(rows.row(rng, rows.R, None) for _ in range(rng.choice([1, 3, 5])))
    return Case(seed, rng.choice([1, 2]), rng.random() < 0.5, reference, made, tuple(epochs))
