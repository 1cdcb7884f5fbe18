"""The store in one SQLite file: WAL, synchronous=FULL, one writer, any number of readers.

A transaction is acknowledged when the WAL is fsynced. A table is a plain table of current rows, so that any SQLite
client can read it; `docs/internals.md` lists the tables that are ours.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.clock import Clock, SystemClock
from headrace.errors import AlreadyRunning, Fenced, StoreReplaced, StoreRestored, WorldError
from headrace.log.disk import RealDisk
from headrace.store import history, tables
from headrace.store.base import (
    Change,
    CommitUnknown,
    Decide,
    Finish,
    Generation,
    Head,
    IndexChange,
    Registration,
    Reject,
    Store,
    TableKind,
    Writes,
    physical,
)
from headrace.store.ledger import COLUMNS, LedgerRow, fold, folded
from headrace.store.process import Process
from headrace.store.values import quote

VERSION = 1
FILL = "_n_"
STATS_KEPT = 10_000
WAL_PAGES = 25_000
_LEDGER_COLUMNS = ", ".join(map(quote, COLUMNS))
_BASE = f"""
CREATE TABLE _ledger (epoch INTEGER PRIMARY KEY, kind TEXT NOT NULL, generation INTEGER NOT NULL, lineage TEXT NOT NULL,
    clock TEXT NOT NULL, committed_at TEXT NOT NULL, {", ".join(f"{quote(c)} TEXT NOT NULL" for c in COLUMNS[6:])});
CREATE TABLE _generation (number INTEGER NOT NULL, nonce TEXT NOT NULL, lineage TEXT NOT NULL, lineage_number INTEGER NOT NULL,
    pid INTEGER NOT NULL, host TEXT NOT NULL, process_started TEXT NOT NULL);
CREATE TABLE _tables (name TEXT PRIMARY KEY COLLATE NOCASE, hidden INTEGER NOT NULL, lane TEXT NOT NULL, layout TEXT NOT NULL,
    fingerprint TEXT NOT NULL, "schema" TEXT NOT NULL, since INTEGER NOT NULL, history_from INTEGER NOT NULL,
    state TEXT NOT NULL);
CREATE TABLE _inserted (name TEXT NOT NULL COLLATE NOCASE, epoch INTEGER NOT NULL, first_rowid INTEGER NOT NULL,
    PRIMARY KEY (name, epoch)) WITHOUT ROWID;
CREATE TABLE _fills (name TEXT PRIMARY KEY COLLATE NOCASE, prefix INTEGER NOT NULL, progress TEXT NOT NULL);
CREATE TABLE _rejects (source TEXT NOT NULL, partition INTEGER NOT NULL, "offset" INTEGER NOT NULL, "table" TEXT NOT NULL,
    epoch INTEGER NOT NULL, step TEXT NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL, raw BLOB);
CREATE INDEX _i_rejects_epoch ON _rejects (epoch);
CREATE INDEX _i_rejects_row ON _rejects (source, partition, "offset");
CREATE TABLE _sinks (name TEXT PRIMARY KEY, lineage TEXT, epoch INTEGER, hash TEXT, state TEXT, error TEXT);
CREATE TABLE _files ("table" TEXT NOT NULL, path TEXT PRIMARY KEY, epoch INTEGER, rows INTEGER, bytes INTEGER, min_max TEXT,
    replaced_by INTEGER);
CREATE TABLE _taken (source TEXT NOT NULL, number INTEGER NOT NULL, path TEXT NOT NULL, size INTEGER, mtime INTEGER, crc INTEGER,
    first_offset INTEGER, rows INTEGER, done INTEGER, state TEXT, PRIMARY KEY (source, number));
CREATE TABLE _stats (epoch INTEGER PRIMARY KEY, steps_ms TEXT NOT NULL);
PRAGMA user_version = {VERSION};
"""

FileIdentity = tuple[int, int]


def file_identity(path: Path) -> FileIdentity | None:
    """Device and inode of a file: another file in its place has others."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino


def _is_locked(error: sqlite3.Error) -> bool:
    # SQLite's two messages for it are "database is locked" and "database table is locked"; 3.10 has no error codes.
    return isinstance(error, sqlite3.OperationalError) and "is locked" in str(error)


def head_of(db: sqlite3.Connection) -> Head:
    """The newest epoch in the ledger."""
    row = db.execute("SELECT epoch, hash FROM _ledger ORDER BY epoch DESC LIMIT 1").fetchone()
    return Head(*row) if row else Head()


def generation_of(db: sqlite3.Connection) -> Generation | None:
    """The row of `_generation`."""
    row = db.execute("SELECT number, nonce, lineage, lineage_number, pid, host, process_started FROM _generation").fetchone()
    return Generation(row[0], row[1], row[2], row[3], Process(*row[4:])) if row else None


def in_ledger(db: sqlite3.Connection, epoch: int, digest: str) -> bool:
    """Whether this epoch, with this hash, is part of the store's history; epoch 0 is part of every history."""
    return epoch == 0 or db.execute("SELECT 1 FROM _ledger WHERE epoch = ? AND hash = ?", (epoch, digest)).fetchone() is not None


def read_ledger(db: sqlite3.Connection, after: int = 0, upto: int | None = None) -> Iterator[LedgerRow]:
    """Ledger rows, oldest first."""
    select = f"SELECT {_LEDGER_COLUMNS} FROM _ledger WHERE epoch > ? AND epoch <= ? ORDER BY epoch"
    return map(LedgerRow.of, db.execute(select, (after, 2**62 if upto is None else upto)))


def read_offsets(db: sqlite3.Connection, upto: int | None = None) -> dict[str, dict[int, int]]:
    """The prefix of an epoch, from the ledger."""
    last = 2**62 if upto is None else upto
    return folded(text for (text,) in db.execute("SELECT ranges FROM _ledger WHERE epoch <= ? ORDER BY epoch", (last,)))


class SqliteStore(Store):
    """The store as its writer sees it. `lock_timeout_s`: how long to wait while another process writes."""

    def __init__(self, path: Path | str, *, clock: Clock | None = None, lock_timeout_s: float = 5.0) -> None:
        self.path = Path(path)
        self.clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._db = self._connect(lock_timeout_s)
        identity = file_identity(self.path)
        assert identity is not None, "SQLite has just opened it"
        self._identity = identity
        self._tables: dict[str, Registration] | None = None
        self._offsets: tuple[Head, dict[str, dict[int, int]]] | None = None

    def _connect(self, lock_timeout_s: float) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(
            self.path, timeout=lock_timeout_s, isolation_level=None, check_same_thread=False, cached_statements=512
        )
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA temp_store = MEMORY")
            db.execute("PRAGMA cache_size = -65536")
            # `checkpoint` moves pages from the WAL to the file beside the epochs; this is for who never calls it.
            db.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
            db.execute(tables.STAGE)
            self._create(db)
        except sqlite3.DatabaseError as error:
            db.close()
            raise self._unusable(error) from error
        return db

    def _create(self, db: sqlite3.Connection) -> None:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            # Two starters may both see an empty file; the second one finds the tables inside its transaction.
            db.execute("BEGIN IMMEDIATE")
            if db.execute("PRAGMA user_version").fetchone()[0] == 0:
                for statement in _BASE.split(";\n"):
                    db.execute(statement)
            db.execute("COMMIT")
            version = VERSION
        if version != VERSION:
            raise WorldError(
                f"the store {self.path} has format {version}; this version of Headrace knows format {VERSION}",
                hint="the version of Headrace that wrote it",
            )

    def _unusable(self, error: sqlite3.Error) -> WorldError:
        if _is_locked(error):
            return AlreadyRunning(
                f"the store {self.path} is locked by another process", details=[self._known()], hint="headrace status"
            )
        return WorldError(
            f"the store {self.path} cannot be used",
            details=[str(error)],
            hint="headrace doctor; who restores an old copy removes store.db-wal and store.db-shm first",
        )

    def _known(self) -> str:
        """Who is known to hold the store, for a message."""
        try:
            db = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=0)
            holder = generation_of(db)
            db.close()
        except sqlite3.Error:
            holder = None
        return f"its newest generation is {holder.number}, {holder.process}" if holder else "nobody is known to hold it"

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the fence ---

    def check_file(self) -> None:
        """Raise when the path no longer leads to the file that is open."""
        identity = file_identity(self.path)
        if identity is None:
            raise StoreReplaced(f"the store {self.path} was deleted under the running app", hint=_START_AGAIN)
        if identity != self._identity:
            raise StoreReplaced(f"the store {self.path} was replaced by another file under the running app", hint=_START_AGAIN)

    def generation(self) -> Generation | None:
        """The generation that took over last."""
        with self._lock:
            return generation_of(self._db)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction. When COMMIT itself fails, its outcome is unknown."""
        with self._lock:
            self.check_file()
            try:
                self._db.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise self._unusable(error) from error
            try:
                yield self._db
            except sqlite3.Error as error:
                # A full disk, a damaged page: nothing of the epoch is there.
                self._roll_back()
                raise self._unusable(error) from error
            except BaseException:
                self._roll_back()
                raise
            try:
                self._commit()
            except sqlite3.Error as error:
                self._roll_back()
                raise CommitUnknown(f"whether the store {self.path} committed is unknown", details=[str(error)]) from error

    def _commit(self) -> None:
        """The one statement after which an epoch is there; tests make it fail."""
        self._db.execute("COMMIT")

    def _roll_back(self) -> None:
        self._tables = None
        if self._db.in_transaction:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")

    @contextmanager
    def _fenced(self, fence: Generation, expected: Head | None = None) -> Iterator[sqlite3.Connection]:
        """A write transaction of the generation that holds the store."""
        with self._transaction() as db:
            self._check(db, fence, expected)
            yield db

    def _check(self, db: sqlite3.Connection, fence: Generation, expected: Head | None) -> None:
        row = db.execute("SELECT number, nonce FROM _generation").fetchone()
        if row != (fence.number, fence.nonce):
            raise _fenced(self.path, fence, generation_of(db))
        if expected is not None and (found := head_of(db)) != expected:
            # A nonce alone comes back with a restored copy of the file.
            raise StoreRestored(
                f"the store {self.path} went back under the running app",
                details=[f"its newest epoch is {found.epoch}, this generation has written {expected.epoch}"],
                hint=_START_AGAIN,
            )

    def check(self, fence: Generation, expected: Head) -> None:
        """Raise unless the store is still the one that this generation holds, at `expected`."""
        self.check_file()
        with self._lock:
            self._check(self._db, fence, expected)

    def take_over(self, judged: Generation | None, process: Process, decide: Decide) -> Generation:
        """Become the writer, if `judged` still holds the store."""
        with self._transaction() as db:
            found = generation_of(db)
            if found != judged:
                who = str(found.process) if found else "nobody"
                raise AlreadyRunning(f"another start was quicker: {who} took over {self.path}", hint="headrace status")
            lineage, number = decide(found, head_of(db), lambda epoch, digest: in_ledger(db, epoch, digest))
            new = Generation((found.number if found else 0) + 1, secrets.token_hex(16), lineage, number, process)
            db.execute("DELETE FROM _generation")
            db.execute(
                "INSERT INTO _generation VALUES (?, ?, ?, ?, ?, ?, ?)",
                (new.number, new.nonce, lineage, number, process.pid, process.host, process.started),
            )
        self._tables = self._offsets = None
        # What a new file is called, and its folders, must survive a power cut, too.
        RealDisk().fsync_way(self.path)
        return new

    def release(self, fence: Generation) -> None:
        """Record that nobody holds the store any more."""
        with self._fenced(fence) as db:
            db.execute("UPDATE _generation SET pid = 0, process_started = '', nonce = ?", (secrets.token_hex(16),))

    # --- epochs ---

    def head(self) -> Head:
        """The newest epoch."""
        with self._lock:
            return head_of(self._db)

    def ledger(self, after: int = 0, upto: int | None = None) -> Iterator[LedgerRow]:
        """The ledger's rows, oldest first."""
        with self._lock:
            return iter(list(read_ledger(self._db, after, upto)))

    def offsets(self) -> dict[str, dict[int, int]]:
        """The prefix of the head; folded once, then moved on by each commit."""
        with self._lock:
            if self._offsets is None:
                self._offsets = (head_of(self._db), read_offsets(self._db))
            return {source: dict(parts) for source, parts in self._offsets[1].items()}

    def commit(self, fence: Generation, expected: Head, entry: LedgerRow, writes: Writes) -> Head:
        """Write one epoch in one transaction."""
        assert entry.epoch == expected.epoch + 1, "epochs have no gaps"
        assert (entry.generation, entry.lineage) == (fence.number, fence.lineage), "an entry is written by its own generation"
        sealed = entry.sealed(expected.hash)
        with self._lock:
            self.offsets()
            with self._fenced(fence, expected) as db:
                self._apply(db, writes, entry.epoch)
                db.execute(
                    f"INSERT INTO _ledger ({_LEDGER_COLUMNS}) VALUES ({', '.join('?' * len(COLUMNS))})",
                    [sealed.columns()[name] for name in COLUMNS],
                )
            self._moved_on(sealed)
        return Head(sealed.epoch, sealed.hash)

    def _moved_on(self, sealed: LedgerRow) -> None:
        assert self._offsets is not None
        fold(self._offsets[1], sealed.ranges)
        self._offsets = (Head(sealed.epoch, sealed.hash), self._offsets[1])

    def resolve(self, fence: Generation, expected: Head, entry: LedgerRow) -> tuple[Generation, Head]:
        """Learn what became of a commit, by taking our own fence again."""
        sealed = entry.sealed(expected.hash)
        while True:
            nonce = secrets.token_hex(16)
            try:
                with self._transaction() as db:
                    # Waits for the lost transaction; a nonce of its own says that none of ours is on its way any more.
                    hit = db.execute(
                        "UPDATE _generation SET nonce = ? WHERE number = ? AND nonce = ?", (nonce, fence.number, fence.nonce)
                    )
                    if hit.rowcount != 1:
                        raise _fenced(self.path, fence, generation_of(db))
                    found, there = head_of(db), in_ledger(db, sealed.epoch, sealed.hash)
                    if not there and found != expected:
                        raise StoreRestored(f"the store {self.path} went back under the running app", hint=_START_AGAIN)
                break
            except CommitUnknown:
                # The new nonce may be there or not: the row says which of ours it is.
                held = self.generation()
                if held is not None and (held.number, held.nonce) == (fence.number, nonce):
                    fence = Generation(fence.number, nonce, fence.lineage, fence.lineage_number, fence.process)
        self._tables = self._offsets = None
        new = Generation(fence.number, nonce, fence.lineage, fence.lineage_number, fence.process)
        return new, Head(sealed.epoch, sealed.hash) if there else expected

    def _apply(self, db: sqlite3.Connection, writes: Writes, epoch: int) -> None:
        for registration in writes.create:
            self._create_table(db, registration, epoch)
        for finish in writes.finish:
            self._finish(db, finish, epoch)
        for name, change in writes.tables.items():
            tables.apply(db, self._spec(name, "table"), name, change, epoch, keep_history=True)
        for name, change in writes.parts.items():
            tables.apply_parts(db, self._spec(name, "parts"), physical(name, "parts"), change)
        for name, rows in writes.copies.items():
            tables.insert_copies(db, self._spec(name, "rows"), physical(name, "rows"), rows)
        for name, entries in writes.index.items():
            self._spec(name, "index")
            tables.apply_index(db, physical(name, "index"), entries)
        db.executemany('DELETE FROM _rejects WHERE "table" = ?', [(name,) for name in writes.forgive])
        self._write_rejects(db, writes.rejects, epoch)
        if writes.steps_ms:
            db.execute("INSERT OR REPLACE INTO _stats VALUES (?, ?)", (epoch, json.dumps(dict(writes.steps_ms))))
            db.execute("DELETE FROM _stats WHERE epoch <= ?", (epoch - STATS_KEPT,))

    def _write_rejects(self, db: sqlite3.Connection, rejects: Sequence[Reject], epoch: int) -> None:
        db.executemany(
            "INSERT INTO _rejects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ((r.source, r.partition, r.offset, r.table, epoch, r.step, r.reason, r.message, r.raw) for r in rejects),
        )

    def rejects(self) -> list[Reject]:
        """The rows that tables rejected."""
        columns = 'source, partition, "offset", "table", step, reason, message, raw, epoch'
        with self._lock:
            return [Reject(*row) for row in self._db.execute(f"SELECT {columns} FROM _rejects WHERE \"table\" <> ''")]

    def definitions(self) -> dict[str, Any]:
        """What each table is made by."""
        with self._lock:
            rows = self._db.execute("SELECT definitions FROM _ledger WHERE kind <> 'epoch' ORDER BY epoch").fetchall()
        return {name: made for (text,) in rows for name, made in json.loads(text).items()}

    def unusable(self) -> dict[str, int]:
        """How many rows of each source are unusable for all tables."""
        with self._lock:
            return dict(self._db.execute("SELECT source, count(*) FROM _rejects WHERE \"table\" = '' GROUP BY source").fetchall())

    # --- rows ---

    def fetch(self, table: str, keys: Sequence[bytes], kind: TableKind = "table") -> tuple[list[bytes], pa.Table]:
        """The current rows of these keys."""
        with self._lock:
            return tables.by_keys(self._db, self._spec(table, kind), physical(table, kind), keys, "_key")

    def fetch_all(self, table: str, kind: TableKind = "table", chunk: int = 50_000) -> Iterator[tuple[list[Any], pa.Table]]:
        """All current rows, in chunks."""
        identity = '"_hr_row"' if kind == "rows" else "_key"
        spec = self._spec(table, kind)
        found = tables.chunks(self._db, spec, physical(table, kind), chunk, identity)
        while True:
            with self._lock:
                part = next(found, None)
            if part is None:
                return
            yield part

    def fetch_rows(self, input: str, rows: Sequence[Any]) -> pa.Table:
        """Rows of a source or a table, by identity."""
        with self._lock:
            kind: TableKind = "rows" if physical(input, "rows") in self.registrations() else "table"
            spec = self._spec(input, kind)
            identity = '"_hr_row"' if kind == "rows" else "_key"
            found, answer = tables.by_keys(self._db, spec, physical(input, kind), rows, identity)
            return tables.with_identity(found, answer, spec)

    def lookup(self, index: str, tuples: Sequence[bytes]) -> list[Any]:
        """Identities of the rows under these partition tuples."""
        with self._lock:
            return tables.tuples_to_rows(self._db, physical(index, "index"), tuples)

    # --- tables ---

    def registrations(self) -> dict[str, Registration]:
        """Every table of the store, without unfinished fills."""
        return {name: r for name, r in self._all_tables().items() if r.state != "filling"}

    def _all_tables(self) -> dict[str, Registration]:
        with self._lock:
            if self._tables is None:
                self._tables = tables.read_registrations(self._db)
            return self._tables

    def _spec(self, name: str, kind: TableKind) -> Any:
        found = self._all_tables().get(physical(name, kind))
        assert found is not None, f"{physical(name, kind)} was never created"
        return found.spec

    def _create_table(self, db: sqlite3.Connection, registration: Registration, epoch: int) -> None:
        name = registration.spec.physical
        assert name not in self._all_tables(), f"{name} exists"
        tables.create(db, registration.spec, name)
        self._register(db, name, _at(registration, since=epoch, history_from=epoch))

    def _register(self, db: sqlite3.Connection, name: str, registration: Registration) -> None:
        tables.write_registration(db, name, registration)
        self._tables = None

    def update(self, fence: Generation, registration: Registration) -> None:
        """Record another lane, layout, fingerprint or state."""
        with self._fenced(fence) as db:
            name = registration.spec.physical
            old = self._all_tables()[name]
            assert old.spec == registration.spec, f"{name}: other columns or another key need a rebuild"
            self._register(db, name, _at(registration, since=old.since, history_from=old.history_from))

    def drop(self, fence: Generation, physical_names: Sequence[str]) -> None:
        """Delete tables with their history."""
        with self._fenced(fence) as db:
            for name in physical_names:
                self._drop(db, name)

    def _drop(self, db: sqlite3.Connection, name: str) -> None:
        tables.drop(db, name)
        db.execute("DELETE FROM _tables WHERE name = ?", (name,))
        db.execute("DELETE FROM _fills WHERE name = ?", (name,))
        self._tables = None

    # --- rebuilds ---

    def begin_fill(self, fence: Generation, registration: Registration, prefix: int) -> Any:
        """Begin to fill a table beside the one of its name, or go on with an unfinished fill."""
        name = FILL + registration.spec.physical
        with self._fenced(fence) as db:
            old = self._all_tables().get(name)
            row = db.execute("SELECT prefix, progress FROM _fills WHERE name = ?", (name,)).fetchone()
            if old is not None and row is not None and _same_fill(old, registration) and row[0] == prefix:
                return json.loads(row[1])
            self._drop(db, name)
            tables.create(db, registration.spec, name)
            self._register(db, name, _at(registration, since=prefix, history_from=prefix, state="filling"))
            db.execute("INSERT INTO _fills VALUES (?, ?, 'null')", (name, prefix))
            return None

    def fill(self, fence: Generation, name: str, kind: TableKind, rows: Change | pa.Table | IndexChange, progress: Any) -> None:
        """Write a chunk of a fill and how far it has come."""
        filled = FILL + physical(name, kind)
        with self._fenced(fence) as db:
            spec = self._all_tables()[filled].spec
            if isinstance(rows, IndexChange):
                tables.apply_index(db, filled, rows)
            elif isinstance(rows, pa.Table):
                tables.insert_copies(db, spec, filled, rows)
            elif kind == "parts":
                tables.apply_parts(db, spec, filled, rows)
            else:
                prefix = db.execute("SELECT prefix FROM _fills WHERE name = ?", (filled,)).fetchone()[0]
                tables.apply(db, spec, filled, rows, prefix, keep_history=False)
            db.execute("UPDATE _fills SET progress = ? WHERE name = ?", (json.dumps(progress), filled))

    def drop_fills(self, fence: Generation) -> None:
        """Forget every unfinished fill."""
        with self._fenced(fence) as db:
            for name, registration in list(self._all_tables().items()):
                if registration.state == "filling":
                    self._drop(db, name)

    def _finish(self, db: sqlite3.Connection, finish: Finish, epoch: int) -> None:
        name = physical(finish.name, finish.kind)
        filled = FILL + name
        new, old = self._all_tables()[filled], self._all_tables().get(name)
        if finish.how == "difference":
            assert old is not None, f"{name}: there is nothing to compare with"
            assert finish.kind == "table", f"{name}: memory is swapped"
            assert old.spec == new.spec, f"{name}: other columns or another key need a swap"
            tables.take_difference(db, new.spec, filled, name, epoch)
            since, history_from = old.since, old.history_from
        else:
            tables.drop(db, name)
            tables.rename(db, new.spec, filled, name)
            since = history_from = epoch
        db.execute("DELETE FROM _tables WHERE name = ?", (filled,))
        db.execute("DELETE FROM _fills WHERE name = ?", (filled,))
        self._register(db, name, _at(new, since=since, history_from=history_from))

    def checkpoint(self) -> None:
        """Move pages from the WAL to the file, over a connection of its own, so that no epoch waits for it."""
        self.check_file()
        other = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        try:
            other.execute("PRAGMA synchronous = FULL")
            other.execute("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.OperationalError as error:
            if not _is_locked(error):
                raise self._unusable(error) from error
        finally:
            other.close()

    # --- history ---

    def trim(self, fence: Generation, policies: Mapping[str, timedelta | None], hold: int | None = None) -> int:
        """Delete replaced rows that need not be kept, at most 5,000."""
        with self._fenced(fence) as db:
            kept = [(n, r) for n, r in self.registrations().items() if r.spec.kind == "table"]
            for name, registration in kept:
                gone, upto = history.trim(db, name, policies.get(name), self.clock.now_us(), hold)
                if gone:
                    self._register(db, name, _at(registration, since=registration.since, history_from=upto))
                    return gone
            return max((history.forget_insertions(db, name, self.clock.now_us()) for name, _ in kept), default=0)


_START_AGAIN = "stop everything that restores or moves files there, then headrace run"


def _fenced(path: Path, fence: Generation, found: Generation | None) -> Fenced:
    who = f"generation {found.number}, {found.process}, took over" if found else "its generation is gone"
    return Fenced(f"generation {fence.number} may not write to {path} any more", details=[who])


def _at(r: Registration, *, since: int, history_from: int, state: str | None = None) -> Registration:
    kept: Any = state or ("live" if r.state == "filling" else r.state)
    return Registration(r.spec, r.lane, r.layout, r.fingerprint, r.hidden, since, history_from, kept)


def _same_fill(old: Registration, new: Registration) -> bool:
    return (old.spec, old.lane, old.layout, old.fingerprint) == (new.spec, new.lane, new.layout, new.fingerprint)
