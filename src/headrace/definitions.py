"""What decorators and SQL make: frozen data that remember the file and line that made them.

Nothing here runs anything. `headrace.app.App` collects definitions, `headrace.runtime` keeps tables by them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql.types import StructType

from headrace.origin import Origin

OnError = Literal["stop", "reject"]
OnTie = Literal["warn", "stop"]


@dataclass(frozen=True)
class TopicDef:
    """A topic of the embedded log, as the app declares it."""

    name: str
    schema: StructType
    partitions: int
    partition_by: tuple[str, ...]
    event_time: str | None
    lateness: str | None
    origin: Origin


@dataclass(frozen=True)
class ReferenceDef:
    """A file that is read whole at start: a constant until the next start."""

    name: str
    path: str
    format: str
    schema: StructType | None
    origin: Origin


@dataclass(frozen=True)
class TableDef:
    """A function of sources, references and other tables, with a key.

    `inputs` maps what the function calls an input (a parameter, or a name in FROM) to the name of a definition.
    Exactly one of `function` and `query` is set.
    """

    name: str
    key: tuple[str, ...] | None
    inputs: tuple[tuple[str, str], ...]
    function: Callable[..., Any] | None
    query: str | None
    on_error: OnError
    on_tie: OnTie
    history: str | None
    origin: Origin

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the definitions that the table reads, each once."""
        return tuple(dict.fromkeys(name for _, name in self.inputs))

    def call(self, frames: Mapping[str, Any]) -> Any:
        """What the function returns for `frames`, which are named as the function calls its inputs."""
        assert self.function is not None, f"{self.name} is SQL"
        by_position = [
            name
            for name, parameter in inspect.signature(self.function).parameters.items()
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY and name in frames
        ]
        by_name = {name: frame for name, frame in frames.items() if name not in by_position}
        return self.function(*(frames[name] for name in by_position), **by_name)


@dataclass(frozen=True)
class AppDef:
    """Everything that an app is."""

    name: str
    timezone: str
    file: str | None
    topics: Mapping[str, TopicDef] = field(default_factory=dict)
    references: Mapping[str, ReferenceDef] = field(default_factory=dict)
    tables: Mapping[str, TableDef] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def in_order(self) -> list[TableDef]:
        """Tables after the tables that they read (validation has shown that there is such an order)."""
        done: dict[str, TableDef] = {}

        def add(table: TableDef) -> None:
            for name in table.reads:
                if name in self.tables and name not in done:
                    add(self.tables[name])
            done.setdefault(table.name, table)

        for table in self.tables.values():
            add(table)
        return list(done.values())

    def levels(self) -> list[list[TableDef]]:
        """Tables by depth: those of one level read only sources, references and tables of levels before."""
        depth: dict[str, int] = {}
        for table in self.in_order():
            depth[table.name] = 1 + max((depth[name] for name in table.reads if name in depth), default=-1)
        out: list[list[TableDef]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
        for table in self.in_order():
            out[depth[table.name]].append(table)
        return out
