"""Reading the store from any process, while the app goes on: one epoch for as long as one likes.

A `Reader` never blocks the writer. A `Snapshot` stays on one epoch without holding a database snapshot: every page is a
read transaction of its own, which sees the epoch through current rows and history, and checks that the epoch is not
trimmed and that it is still part of the store's ledger.
"""

from __future__ import annotations

import datetime as dt
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from headrace.errors import EpochTrimmed, StoreReplaced, UsageError, WorldError
from headrace.store.base import Head, Registration, Reject
from headrace.store.ledger import COLUMNS, LedgerRow, broken
from headrace.store.query import COLLATION, Columns, Statement, allow_reading, explain, moment_text, prepare, teach
from headrace.store.sqlite import FileIdentity, file_identity, head_of, in_ledger, read_ledger, read_offsets
from headrace.store.tables import history_of, read_registrations
from headrace.store.values import Layout, present, quote, time_us

AsOf = int | dt.datetime | str | None
"""An epoch (as a number or its digits), a time (the newest epoch committed by then), or None for the newest epoch."""


@dataclass(frozen=True)
class Answer:
    """Rows of one epoch. `columns` are (name, type); a type is '' where nobody knows it."""

    columns: list[tuple[str, str]]
    rows: list[list[Any]]
    epoch: int
    committed_at: dt.datetime | None

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows by column name."""
        names = [name for name, _ in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class TableInfo:
    """One of the user's tables."""

    name: str
    lane: str
    rows: int
    key: tuple[str, ...] | None
    columns: T.StructType
    since: int
    history_from: int
    state: str


@dataclass(frozen=True)
class RowChange:
    """What an epoch did to one row. `key` holds the values of the key's columns, or the bytes of `_key` without one."""

    epoch: int
    key: tuple[Any, ...] | bytes
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass(frozen=True)
class RowVersion:
    """A row as it was from one epoch to another (exclusive; None: it is so now)."""

    since: int
    until: int | None
    row: dict[str, Any]


@dataclass(frozen=True)
class _Seen:
    """What one read transaction sees: the pinned epoch, and whether it is the newest."""

    db: sqlite3.Connection
    epoch: int
    newest: bool
    tables: Mapping[str, Registration]


def _connect(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise WorldError(f"there is no store at {path}", hint="headrace run")
    db: sqlite3.Connection | None = None
    try:
        db = sqlite3.connect(
            path.absolute().as_uri() + "?mode=ro", uri=True, timeout=5, isolation_level=None, check_same_thread=False
        )
        db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
    except sqlite3.OperationalError as error:
        if db is not None:
            db.close()
        raise WorldError(f"the store {path} cannot be read", details=[str(error)], hint="headrace doctor") from error
    db.execute("PRAGMA cache_size = -16384")
    teach(db)
    return db


class Reader:
    """Reads a store. Each call sees one epoch: the newest, or the one that `as_of` names.

    Thread-safe; a program that reads much in several threads opens several.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._lock = threading.RLock()
        self._db = _connect(self.path)
        self._identity: FileIdentity | None = file_identity(self.path)
        self._prepared: dict[tuple[str, tuple[tuple[str, str], ...]], Statement] = {}

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- epochs ---

    def at(self, as_of: AsOf = None) -> Snapshot:
        """Stay on one epoch: its tables, page by page, for as long as its history is kept."""
        with self.transaction() as db:
            return Snapshot(self, *_find_epoch(db, as_of))

    def head(self) -> Head:
        """The newest epoch."""
        with self.transaction() as db:
            return head_of(db)

    @property
    def epoch(self) -> int:
        """The number of the newest epoch; 0 before the first one."""
        return self.head().epoch

    @property
    def committed_at(self) -> dt.datetime | None:
        """When the newest epoch was committed."""
        return self.at().committed_at

    def ledger(self, after: int = 0, upto: int | None = None) -> list[LedgerRow]:
        """The ledger's rows, oldest first."""
        with self.transaction() as db:
            return list(read_ledger(db, after, upto))

    def offsets(self, as_of: AsOf = None) -> dict[str, dict[int, int]]:
        """The prefix of an epoch: source -> partition -> exclusive end."""
        with self.transaction() as db:
            head, _ = _find_epoch(db, as_of)
            return read_offsets(db, head.epoch)

    def wait_newer(self, than: int, timeout_s: float | None = None, *, wait: Callable[[float], None] = time.sleep) -> Head | None:
        """Wait for an epoch after `than`; None when there was none in time. Costs a few microseconds every 5 ms."""
        due = None if timeout_s is None else time.monotonic() + timeout_s
        version = None
        while True:
            with self._lock:
                now = self._data_version()
            if now != version:
                version = now
                head = self.head()
                if head.epoch > than:
                    return head
            if due is not None and time.monotonic() >= due:
                return None
            wait(0.005)

    def _data_version(self) -> tuple[int, FileIdentity | None]:
        # Another file in the store's place has versions of its own.
        return self._db.execute("PRAGMA data_version").fetchone()[0], file_identity(self.path)

    # --- the newest epoch, or another one, in one call ---

    def query(self, sql: str, as_of: AsOf = None) -> Answer:
        """The answer of a SELECT over the tables of one epoch; `headrace.store.query` says what is exact."""
        return self.at(as_of).query(sql)

    def table(
        self, name: str, as_of: AsOf = None, where: str | None = None, order: str | None = None, limit: int | None = None
    ) -> Answer:
        """Rows of a table. `where` and `order` are SQL."""
        return self.at(as_of).table(name, where, order, limit)

    def read_arrow(self, name: str, as_of: AsOf = None, chunk: int = 50_000) -> Iterator[pa.Table]:
        """A table's rows in chunks, ordered by key, with the column `_key`."""
        return self.at(as_of).read_arrow(name, chunk)

    def tables(self, as_of: AsOf = None) -> list[TableInfo]:
        """The user's tables; removed ones among them, with that state."""
        return self.at(as_of).tables()

    def changes(self, name: str, after: int, upto: int | None = None) -> list[RowChange]:
        """What epochs after `after` did to a table, in order of epochs; rows replaced in between are all there."""
        return self.at(upto).changes(name, after)

    def history(self, name: str, key: Sequence[Any]) -> list[RowVersion]:
        """The versions of one row that are kept, oldest first. A window in the key is its start."""
        return self.at().history(name, key)

    def rejects(
        self,
        source: str | None = None,
        table: str | None = None,
        reason: str | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> list[Reject]:
        """Rows kept aside, by epoch and position; those without a table concern all."""
        wanted = {"source": source, '"table"': table, "reason": reason}
        conditions = ["epoch > ?", *(f"{column} = ?" for column, value in wanted.items() if value is not None)]
        values = [after, *(value for value in wanted.values() if value is not None), -1 if limit is None else limit]
        select = (
            'SELECT source, partition, "offset", "table", step, reason, message, raw, epoch FROM _rejects '
            f'WHERE {" AND ".join(conditions)} ORDER BY epoch, source, partition, "offset", "table" LIMIT ?'
        )
        with self.transaction() as db:
            return [Reject(*row) for row in db.execute(select, values)]

    def prepared(self, sql: str, tables: Mapping[str, Registration], columns: Mapping[str, Columns]) -> Statement:
        """The statement as `prepare` makes it, remembered while the tables are the same: it takes milliseconds."""
        key = (sql, tuple((name, r.spec.columns.json()) for name, r in tables.items() if name.lower() in sql.lower()))
        found = self._prepared.get(key)
        if found is None:
            found = prepare(sql, columns)
            if len(self._prepared) >= 256:
                self._prepared.clear()
            self._prepared[key] = found
        return found

    # --- transactions ---

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A read transaction on the file that is at the path now."""
        with self._lock:
            self._follow_file()
            try:
                self._db.execute("BEGIN")
                try:
                    yield self._db
                finally:
                    with suppress(sqlite3.Error):
                        self._db.execute("ROLLBACK")
            except sqlite3.DatabaseError as error:
                raise WorldError(f"the store {self.path} cannot be read", details=[str(error)], hint="headrace doctor") from error

    def _follow_file(self) -> None:
        identity = file_identity(self.path)
        if identity != self._identity:
            self._db.close()
            self._db = _connect(self.path)
            self._identity = identity


def _find_epoch(db: sqlite3.Connection, as_of: AsOf) -> tuple[Head, dt.datetime | None]:
    newest = head_of(db)
    if as_of is None:
        epoch = newest.epoch
    elif isinstance(as_of, int) or (isinstance(as_of, str) and as_of.isdigit()):
        epoch = int(as_of)
    else:
        epoch = _epoch_at(db, as_of)
    if epoch > newest.epoch:
        raise UsageError(f"epoch {epoch} is not there yet", details=[f"the newest one is {newest.epoch}"])
    row = db.execute("SELECT hash, committed_at FROM _ledger WHERE epoch = ?", (epoch,)).fetchone()
    return (Head(epoch, row[0]), _moment(row[1])) if row else (Head(), None)


def _moment(text: str) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=time_us(text))


def _epoch_at(db: sqlite3.Connection, moment: dt.datetime | str) -> int:
    text = moment_text(moment if isinstance(moment, str) else moment.isoformat())
    if text is None:
        raise UsageError(f'"{moment}" is neither an epoch nor a time', hint="120, or 2026-01-31T10:00:00Z")
    # Committed times may go back with the machine's clock: epochs do not.
    row = db.execute("SELECT max(epoch) FROM _ledger WHERE committed_at <= ?", (text,)).fetchone()
    if row[0] is None:
        raise EpochTrimmed(f"at {text} UTC there was no epoch yet", hint="a later time")
    return int(row[0])


class Snapshot:
    """The tables of one epoch."""

    def __init__(self, reader: Reader, head: Head, committed_at: dt.datetime | None) -> None:
        self._reader, self._head, self.committed_at = reader, head, committed_at

    @property
    def epoch(self) -> int:
        """The epoch's number."""
        return self._head.epoch

    # --- pages ---

    @contextmanager
    def _page(self) -> Iterator[_Seen]:
        with self._reader.transaction() as db:
            if not in_ledger(db, self._head.epoch, self._head.hash):
                raise StoreReplaced(
                    f"epoch {self.epoch} is not part of {self._reader.path} any more",
                    details=["another store, or an older copy, stands in its place"],
                    hint="read again from its newest epoch",
                )
            newest = head_of(db).epoch == self.epoch
            yield _Seen(db, self.epoch, newest, _users(read_registrations(db)))

    def _found(self, seen: _Seen, name: str) -> tuple[str, Registration]:
        by_name = {known.lower(): known for known in seen.tables}
        known = by_name.get(name.lower())
        if known is None:
            columns = {n: dict(r.spec.layout.kinds()) for n, r in seen.tables.items()}
            raise explain(sqlite3.OperationalError(f"no such table: {name}"), columns)
        registration = seen.tables[known]
        _refuse_trimmed(known, registration, seen.epoch)
        return known, registration

    # --- whole tables ---

    def tables(self) -> list[TableInfo]:
        """The user's tables."""
        with self._page() as seen:
            return [self._info(seen, name, r) for name, r in seen.tables.items()]

    def _info(self, seen: _Seen, name: str, r: Registration) -> TableInfo:
        rows = 0
        if seen.epoch >= max(r.since, r.history_from):
            rows = seen.db.execute(f"SELECT count(*) FROM ({_select('1', name, seen)})").fetchone()[0]
        return TableInfo(name, r.lane, rows, r.spec.key, r.spec.columns, r.since, r.history_from, r.state)

    def read_arrow(self, name: str, chunk: int = 50_000) -> Iterator[pa.Table]:
        """A table's rows in chunks, ordered by key, with the column `_key`."""
        last: bytes | None = None
        while True:
            with self._page() as seen:
                found, registration = self._found(seen, name)
                lay = registration.spec.layout
                columns = f"_key, {lay.names}" if lay.columns else "_key"
                select = _select(columns, found, seen, "_key > ?" if last is not None else None)
                values = () if last is None else (last,) if seen.newest else (last, last)
                rows = seen.db.execute(f"{select} ORDER BY _key LIMIT {chunk}", values).fetchall()
            if rows or last is None:
                yield _with_keys(lay, rows)
            if len(rows) < chunk:
                return
            last = rows[-1][0]

    def table(self, name: str, where: str | None = None, order: str | None = None, limit: int | None = None) -> Answer:
        """Rows of a table. `where` and `order` are SQL."""
        with self._page() as seen:
            found, _ = self._found(seen, name)
        clauses = [f"SELECT * FROM {quote(found)}"]
        clauses += [f"WHERE ({where})"] if where else []
        clauses += [f"ORDER BY {order}"] if order else []
        clauses += [f"LIMIT {int(limit)}"] if limit is not None else []
        return self.query(" ".join(clauses))

    # --- SQL ---

    def query(self, sql: str) -> Answer:
        """The answer of a SELECT over this epoch's tables, under the names that the user gave them."""
        with self._page() as seen:
            live = {name: r for name, r in seen.tables.items() if r.state == "live"}
            columns = {name: dict(r.spec.layout.kinds()) for name, r in live.items()}
            statement = self._reader.prepared(sql, live, columns)
            # Whole words: "opens" is not mentioned by "opens_per_hour", and may be younger than the epoch asked for.
            mentioned = set(re.findall(r"\w+", sql.lower()))
            with _views(seen, {name: r for name, r in live.items() if name.lower() in mentioned}):
                return self._run(seen.db, statement, columns)

    def _run(self, db: sqlite3.Connection, statement: Statement, columns: Mapping[str, Columns]) -> Answer:
        known = {name.lower() for name in columns}
        inside = [name for (name,) in db.execute("SELECT name FROM main.sqlite_schema") if name.lower() not in known]
        db.set_authorizer(allow_reading(inside))
        try:
            cursor = db.execute(statement.text)
            names = [column[0] for column in cursor.description or ()]
            rows = cursor.fetchall()
            if statement.text != statement.given:
                names = _names(db, statement.given)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise explain(error if isinstance(error, sqlite3.Error) else sqlite3.OperationalError(str(error)), columns) from error
        finally:
            db.set_authorizer(_allow_all)
        kinds: Sequence[T.DataType | None] = statement.types or ()
        if len(kinds) != len(names):
            kinds = [None] * len(names)
        shown = [[_shown(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in rows]
        types = [(name, "" if kind is None else _type_name(kind)) for name, kind in zip(names, kinds, strict=True)]
        return Answer(types, shown, self.epoch, self.committed_at)

    # --- the past ---

    def changes(self, name: str, after: int) -> list[RowChange]:
        """What the epochs after `after`, up to this one, did to a table."""
        with self._page() as seen:
            found, registration = self._found(seen, name)
            untrimmed = registration.history_from <= registration.since
            if after < registration.history_from and not (after == 0 and untrimmed):
                _refuse_trimmed(found, registration, after)
            lay = registration.spec.layout
            versions = _versions(seen, found, lay, after)
        return _as_changes(registration, lay, versions, after, self.epoch)

    def history(self, name: str, key: Sequence[Any]) -> list[RowVersion]:
        """The versions of one row that are kept, oldest first."""
        with self._page() as seen:
            found, registration = self._found(seen, name)
            lay = registration.spec.layout
            condition, values = _key_condition(registration, lay, key)
            names = f", {lay.names}" if lay.columns else ""
            past = f"SELECT _from, _to{names} FROM {quote(history_of(found))} WHERE {condition} AND _from <= ?"
            now = f"SELECT _from, NULL{names} FROM {quote(found)} WHERE {condition} AND _from <= ?"
            rows = seen.db.execute(f"{past} UNION ALL {now} ORDER BY 1", [*values, self.epoch] * 2).fetchall()
        until = [row[1] if row[1] is not None and row[1] <= self.epoch else None for row in rows]
        return [RowVersion(row[0], to, _as_dict(lay, row[2:])) for row, to in zip(rows, until, strict=True)]


# --- helpers -----------------------------------------------------------------------------------------------------------


def _allow_all(*_: object) -> int:
    return sqlite3.SQLITE_OK


def _users(registrations: Mapping[str, Registration]) -> dict[str, Registration]:
    return {n: r for n, r in registrations.items() if r.spec.kind == "table" and not r.hidden and r.state != "filling"}


def _refuse_trimmed(name: str, r: Registration, epoch: int) -> None:
    if epoch < r.since:
        raise EpochTrimmed(
            f'table "{name}" begins with epoch {r.since}', details=[f"epoch {epoch} was before it was made, or remade"]
        )
    if epoch < r.history_from:
        raise EpochTrimmed(
            f'epoch {epoch} of table "{name}" is no longer kept',
            details=[f"its history begins with epoch {r.history_from}"],
            hint='a later epoch, or @app.table(..., history="7 days") to keep more from now on',
        )


def _select(columns: str, name: str, seen: _Seen, condition: str | None = None) -> str:
    """Rows of a table as of the epoch; a condition's values are given once for the newest epoch, else twice."""
    extra = f" AND {condition}" if condition else ""
    if seen.newest:
        return f"SELECT {columns} FROM main.{quote(name)} WHERE 1{extra}"
    n = int(seen.epoch)
    return (
        f"SELECT {columns} FROM main.{quote(name)} WHERE _from <= {n}{extra} UNION ALL "
        f"SELECT {columns} FROM main.{quote(history_of(name))} WHERE _from <= {n} AND _to > {n}{extra}"
    )


@contextmanager
def _views(seen: _Seen, tables: Mapping[str, Registration]) -> Iterator[None]:
    """Temporary views with the user's names, over the user's columns of this epoch."""
    made: list[str] = []
    try:
        for name, r in tables.items():
            _refuse_trimmed(name, r, seen.epoch)
            kinds = dict(r.spec.layout.kinds())
            if not kinds:
                continue
            columns = ", ".join(_view_column(column, kind) for column, kind in kinds.items())
            seen.db.execute(f"CREATE TEMP VIEW {quote(name)} AS {_select(columns, name, seen)}")
            made.append(name)
        yield
    finally:
        for name in made:
            seen.db.execute(f"DROP VIEW temp.{quote(name)}")


def _view_column(column: str, kind: T.DataType) -> str:
    collated = f" COLLATE {COLLATION}" if isinstance(kind, T.DecimalType) else ""
    return f"{quote(column)}{collated} AS {quote(column)}"


def _names(db: sqlite3.Connection, sql: str) -> list[str]:
    """The names of a statement's columns, without running it any further than to its first row."""
    cursor = db.execute(sql)
    names = [column[0] for column in cursor.description or ()]
    cursor.close()
    return names


def _shown(value: Any, kind: T.DataType | None) -> Any:
    try:
        return present(value, kind)
    except (ValueError, ArithmeticError):
        # The inferred type was wrong; the value itself never is.
        return value


def _type_name(kind: T.DataType) -> str:
    if isinstance(kind, T.StructType):
        return "json"
    return kind.simpleString()


def _with_keys(lay: Layout, rows: Sequence[Sequence[Any]]) -> pa.Table:
    table = lay.decode(rows, skip=1)
    keys: Any = pa.array([row[0] for row in rows], pa.binary())
    return table.append_column(pa.field("_key", pa.binary()), keys)


def _as_dict(lay: Layout, values: Sequence[Any]) -> dict[str, Any]:
    out, at = {}, 0
    for column in lay.columns:
        width = len(column.stored)
        out[column.name] = column.present(values[at : at + width])
        at += width
    return out


def _versions(seen: _Seen, name: str, lay: Layout, after: int) -> list[tuple[Any, ...]]:
    """(key, from, to or None, columns...) of all rows that came or went after an epoch."""
    columns = f", {lay.names}" if lay.columns else ""
    table, past = f"main.{quote(name)}", f"main.{quote(history_of(name))}"
    gone = seen.db.execute(f"SELECT _key, _from, _to{columns} FROM {past} WHERE _to > ?", (after,)).fetchall()
    # A current row that came after the epoch is either a key that is new since then, and these have the highest rowids,
    # or it replaced a row, which is in the history.
    first = seen.db.execute("SELECT min(first_rowid) FROM _inserted WHERE name = ? AND epoch > ?", (name, after)).fetchone()[0]
    new = []
    if first is not None:
        select = f"SELECT _key, _from, NULL{columns} FROM {table} WHERE _from > ? AND "
        new = seen.db.execute(select + "rowid >= ?", (after, first)).fetchall()
        replaced = f"_key IN (SELECT _key FROM {past} WHERE _to > ?) AND rowid < ?"
        new += seen.db.execute(select + replaced, (after, after, first)).fetchall()
    return gone + new


def _as_changes(r: Registration, lay: Layout, versions: Sequence[Sequence[Any]], after: int, upto: int) -> list[RowChange]:
    before: dict[tuple[int, bytes], Sequence[Any]] = {}
    come: dict[tuple[int, bytes], Sequence[Any]] = {}
    for key, since, until, *values in versions:
        if after < since <= upto:
            come[since, key] = values
        if until is not None and after < until <= upto:
            before[until, key] = values
    changes = []
    for epoch, key in sorted(before.keys() | come.keys()):
        old, new = before.get((epoch, key)), come.get((epoch, key))
        was, now = (None if v is None else _as_dict(lay, v) for v in (old, new))
        changes.append(RowChange(epoch, _key_values(r, now or was or {}, key), was, now))
    return changes


def _key_values(r: Registration, row: Mapping[str, Any], key: bytes) -> tuple[Any, ...] | bytes:
    return key if r.spec.key is None else tuple(row.get(name) for name in r.spec.key)


def _key_condition(r: Registration, lay: Layout, key: Sequence[Any]) -> tuple[str, list[Any]]:
    if r.spec.key is None:
        if len(key) == 1 and isinstance(key[0], bytes):
            return "_key = ?", [key[0]]
        raise UsageError(f'table "{r.spec.name}" has no key: its rows are known by the position of their source row')
    if len(key) != len(r.spec.key):
        raise UsageError(
            f'the key of table "{r.spec.name}" is {", ".join(r.spec.key)}', details=[f"{len(key)} values were given"]
        )
    columns = {column.name: column for column in lay.columns}
    kinds = dict(lay.kinds())
    stored = [columns[name].stored[0] for name in r.spec.key]
    values = [_as_stored(value, kinds[name]) for value, name in zip(key, stored, strict=True)]
    return " AND ".join(f"{quote(name)} IS ?" for name in stored), values


def _as_stored(value: Any, kind: T.DataType) -> Any:
    """A key's value, as Python or the command line gives it, as the store has it."""
    if value is None:
        return None
    try:
        if isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
            return moment_text(value.isoformat() if isinstance(value, dt.datetime) else str(value)) or value
        if isinstance(kind, T.DecimalType):
            return format(Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale)), "f")
        if isinstance(kind, T.BooleanType):
            return int(value if isinstance(value, bool) else str(value).lower() == "true")
        if isinstance(kind, T.IntegralType):
            return int(value)
        if isinstance(kind, T.FractionalType):
            number = float(value)
            return "NaN" if number != number else number
        if isinstance(kind, T.BinaryType):
            return value if isinstance(value, bytes) else str(value).encode()
    except (ValueError, ArithmeticError):
        raise UsageError(f"{value!r} is no {kind.simpleString()}") from None
    return str(value)


def check_ledger(path: Path | str, ends: Mapping[str, Mapping[int, int]] | None = None) -> list[str]:
    """What is wrong with a store's ledger, in sentences; `ends` are the ends of the log by source and partition."""
    with Reader(path) as reader, reader.transaction() as db:
        names = ", ".join(map(quote, COLUMNS))
        stored = [dict(zip(COLUMNS, row, strict=True)) for row in db.execute(f"SELECT {names} FROM _ledger ORDER BY epoch")]
    return [f"epoch {epoch}: {what}" for epoch, what in broken(stored, ends)]
