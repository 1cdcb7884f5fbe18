"""The store's contract: what an epoch writes, what comes back, and who may write.

One process writes, in one transaction per epoch; it holds a `Generation`, which every transaction checks. Whatever is
committed is committed whole: tables, memory, rejects and the ledger row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql.types import StructType

from headrace.errors import WorldError
from headrace.store.ledger import LedgerRow
from headrace.store.process import Process
from headrace.store.values import Layout, layout

TableKind = Literal["table", "parts", "rows", "index"]
State = Literal["live", "removed", "filling"]
_PREFIX: Mapping[str, str] = {"table": "", "parts": "_m_", "rows": "_r_", "index": "_x_"}


def physical(name: str, kind: TableKind) -> str:
    """What a table is called in the database.

    >>> physical("opens", "table"), physical("opens", "parts"), physical("events", "rows"), physical("events_0", "index")
    ('opens', '_m_opens', '_r_events', '_x_events_0')
    """
    return _PREFIX[kind] + name


@dataclass(frozen=True)
class TableSpec:
    """What a table of the store holds.

    `table`: current rows and history, found by `_key`. `parts`: merge parts, current rows only, found by `_key`.
    `rows`: copies of a source's rows, found by `_hr_row`; `columns` are the storage columns. `index`: row identities of
    an input by partition tuple; no columns, and `name` is `<input>_<n>`.
    """

    name: str
    columns: StructType
    key: tuple[str, ...] | None = None
    kind: TableKind = "table"

    @property
    def physical(self) -> str:
        """What it is called in the database."""
        return physical(self.name, self.kind)

    @cached_property
    def layout(self) -> Layout:
        """How its columns lie in the database."""
        return layout(self.columns)


@dataclass(frozen=True)
class Registration:
    """A table and how it is kept. `layout` describes the memory: another one rebuilds the memory, not the table.

    `history_from`: history is whole from this epoch on. `since`: the epoch that created it or swapped it in.
    """

    spec: TableSpec
    lane: str = ""
    layout: str = ""
    fingerprint: str = ""
    hidden: bool = False
    since: int = 0
    history_from: int = 0
    state: State = "live"


@dataclass(frozen=True)
class Change:
    """What one table does in one epoch: first the removed keys go, then the rows come; `rows[i]` belongs to `keys[i]`.

    A key that comes while it is stored and not removed is a key given twice, an error; with `upsert` it replaces the row.
    """

    removed: Sequence[bytes]
    keys: Sequence[bytes]
    rows: pa.Table
    upsert: bool = False


@dataclass(frozen=True)
class IndexChange:
    """What one index does in one epoch: entries of removed rows go, then `rows[i]` is entered under `tuples[i]`."""

    removed_rows: Sequence[Any] = ()
    tuples: Sequence[bytes] = ()
    rows: Sequence[Any] = ()


@dataclass(frozen=True)
class Reject:
    """A row kept aside with its reason; `table` is '' where the row is unusable for all tables."""

    source: str
    partition: int
    offset: int
    table: str
    step: str
    reason: str
    message: str
    raw: bytes | None = None
    epoch: int = 0


@dataclass(frozen=True)
class Finish:
    """The end of a rebuild: a filled table takes the place of the one of its name.

    `difference`: an ordinary change of the old table, so that its history goes on (same columns, same key).
    `swap`: names are swapped, history starts anew.
    """

    name: str
    how: Literal["difference", "swap"]
    kind: TableKind = "table"


@dataclass(frozen=True)
class Writes:
    """Everything that one epoch writes; applied in the order of the fields.

    `forgive` names tables whose rejects are judged anew: the old ones go.
    """

    create: Sequence[Registration] = ()
    finish: Sequence[Finish] = ()
    tables: Mapping[str, Change] = field(default_factory=dict)
    parts: Mapping[str, Change] = field(default_factory=dict)
    copies: Mapping[str, pa.Table] = field(default_factory=dict)
    index: Mapping[str, IndexChange] = field(default_factory=dict)
    forgive: Sequence[str] = ()
    rejects: Sequence[Reject] = ()
    steps_ms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Head:
    """The newest epoch and its hash; epoch 0 is before the first one."""

    epoch: int = 0
    hash: str = ""


@dataclass(frozen=True)
class Generation:
    """One run of an app's code at work: the fence that every transaction checks."""

    number: int
    nonce: str
    lineage: str
    lineage_number: int
    process: Process


class CommitUnknown(WorldError):
    """A commit whose outcome is not known. Resolve it with `Store.resolve`; never repeat it blindly."""

    code = "commit_unknown"


Decide = Callable[[Generation | None, Head, Callable[[int, str], bool]], tuple[str, int]]
"""(generation, head, whether (epoch, hash) is in the ledger) -> (lineage, its number), within the takeover's transaction."""


class Store(ABC):
    """The database of one app. Methods may be called from several threads; one process at a time is its writer."""

    # --- who writes ---

    @abstractmethod
    def generation(self) -> Generation | None:
        """The generation that took over last; None in a store that nobody took over yet."""

    @abstractmethod
    def take_over(self, judged: Generation | None, process: Process, decide: Decide) -> Generation:
        """Become the writer, in one transaction, if `judged` is still the generation that holds the store.

        `headrace.store.fence.take_over` is the whole ceremony; this is its transaction.
        """

    @abstractmethod
    def release(self, fence: Generation) -> None:
        """Record that nobody holds the store any more, after a clean end."""

    @abstractmethod
    def check(self, fence: Generation, expected: Head) -> None:
        """Raise unless the store is the file that was opened, `fence` holds it, and `expected` is its newest epoch."""

    @abstractmethod
    def check_file(self) -> None:
        """Raise `StoreReplaced` when the store's path no longer leads to the file that was opened."""

    # --- epochs ---

    @abstractmethod
    def head(self) -> Head:
        """The newest epoch."""

    @abstractmethod
    def ledger(self, after: int = 0, upto: int | None = None) -> Iterator[LedgerRow]:
        """The ledger's rows, oldest first."""

    @abstractmethod
    def offsets(self) -> dict[str, dict[int, int]]:
        """The prefix of the head: source -> partition -> exclusive end."""

    @abstractmethod
    def commit(self, fence: Generation, expected: Head, entry: LedgerRow, writes: Writes) -> Head:
        """Write one epoch, in one transaction that checks the fence and that `expected` is the newest epoch.

        `Fenced`: a newer generation took over. `StoreReplaced`, `StoreRestored`: this is not the store that we know.
        `FunctionFailed`: two rows with one key. `CommitUnknown`: call `resolve`. In every case but the last nothing
        was written.
        """

    @abstractmethod
    def resolve(self, fence: Generation, expected: Head, entry: LedgerRow) -> tuple[Generation, Head]:
        """After `CommitUnknown`: the fence with a new nonce, and the head: the entry's, or `expected` when it is not there."""

    @abstractmethod
    def rejects(self) -> list[Reject]:
        """The rows that tables rejected, which is not those that are unusable for all."""

    @abstractmethod
    def definitions(self) -> dict[str, Any]:
        """What each table is made by, as its newest creation or rebuild recorded it."""

    @abstractmethod
    def unusable(self) -> dict[str, int]:
        """How many rows of each source are unusable for all tables."""

    # --- rows ---

    @abstractmethod
    def fetch(self, table: str, keys: Sequence[bytes], kind: TableKind = "table") -> tuple[list[bytes], pa.Table]:
        """The current rows of these keys, those that exist, in no particular order."""

    @abstractmethod
    def fetch_all(self, table: str, kind: TableKind = "table", chunk: int = 50_000) -> Iterator[tuple[list[Any], pa.Table]]:
        """All current rows, in chunks; of copies with their row identities. Nothing may be committed in between."""

    @abstractmethod
    def fetch_rows(self, input: str, rows: Sequence[Any]) -> pa.Table:
        """Rows of a source (copies) or of a table, by identity, with the column `_hr_row` in front."""

    @abstractmethod
    def lookup(self, index: str, tuples: Sequence[bytes]) -> list[Any]:
        """Identities of the rows that stand under these partition tuples."""

    # --- tables ---

    @abstractmethod
    def registrations(self) -> dict[str, Registration]:
        """Every table of the store by its physical name, without unfinished fills."""

    @abstractmethod
    def update(self, fence: Generation, registration: Registration) -> None:
        """Record another lane, layout, fingerprint or state (`removed` hides a table, `live` shows it again)."""

    @abstractmethod
    def drop(self, fence: Generation, physical_names: Sequence[str]) -> None:
        """Delete tables with their history."""

    @abstractmethod
    def begin_fill(self, fence: Generation, registration: Registration, prefix: int) -> Any:
        """Begin to fill a table beside, or go on: the recorded progress of a fill of the same fingerprint and prefix."""

    @abstractmethod
    def fill(self, fence: Generation, name: str, kind: TableKind, rows: Change | pa.Table | IndexChange, progress: Any) -> None:
        """Write a chunk of a fill and its progress, in one transaction."""

    @abstractmethod
    def drop_fills(self, fence: Generation) -> None:
        """Forget every unfinished fill."""

    @abstractmethod
    def trim(self, fence: Generation, policies: Mapping[str, timedelta | None], hold: int | None = None) -> int:
        """Delete replaced rows that need not be kept, at most 5,000; returns how many, 0 when there are none left.

        `policies` maps tables to how long their history is kept. `hold`: history from this epoch on stays.
        """

    def checkpoint(self) -> None:  # noqa: B027 - a database that tidies itself has nothing to do
        """Do what the database puts off, beside the epochs; `tidy` calls it every few seconds."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""
