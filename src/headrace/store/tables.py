"""One table in SQLite: its DDL, and how a change becomes rows.

Functions over a connection that is inside a transaction; who may write has been checked before.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace import schema
from headrace.errors import FunctionFailed
from headrace.store.base import Change, IndexChange, Registration, TableSpec
from headrace.store.values import Layout, quote

PARTITION_STEP = 2**48
"""A source row's identity is partition * PARTITION_STEP + offset."""

STAGE = "CREATE TEMP TABLE IF NOT EXISTS _hr_keys (_hr_k PRIMARY KEY) WITHOUT ROWID"


def history_of(name: str) -> str:
    """The table that holds the replaced rows of a table.

    >>> history_of("opens")
    'opens__history'
    """
    return f"{name}__history"


def create(db: sqlite3.Connection, spec: TableSpec, name: str) -> None:
    """Create the table, under this physical name."""
    for statement in _ddl(spec, name):
        db.execute(statement)


def _ddl(spec: TableSpec, name: str) -> Iterator[str]:
    lay, table = spec.layout, quote(name)
    # Names of indexes carry a random part: a table that is renamed in a swap keeps the names of its indexes.
    mark = secrets.token_hex(4)
    columns = f"{lay.declarations}, " if lay.columns else ""
    if spec.kind == "table":
        yield f"CREATE TABLE {table} ({columns}_from INTEGER NOT NULL, _key BLOB NOT NULL PRIMARY KEY)"
        yield from history_ddl(spec, name)
    elif spec.kind == "parts":
        yield f"CREATE TABLE {table} ({columns}_key BLOB NOT NULL PRIMARY KEY)"
    elif spec.kind == "rows":
        yield f'CREATE TABLE {table} ({columns}"_hr_row" INTEGER PRIMARY KEY)'
    else:
        yield f"CREATE TABLE {table} (tuple BLOB NOT NULL, row NOT NULL, PRIMARY KEY (tuple, row)) WITHOUT ROWID"
        yield f"CREATE INDEX {quote(f'_i_{name}_row_{mark}')} ON {table} (row)"


def history_ddl(spec: TableSpec, name: str) -> Iterator[str]:
    """The statements that create the table of replaced rows."""
    lay, past = spec.layout, history_of(name)
    columns = f"{lay.declarations}, " if lay.columns else ""
    yield f"CREATE TABLE {quote(past)} ({columns}_from INTEGER NOT NULL, _to INTEGER NOT NULL, _key BLOB NOT NULL)"
    mark = secrets.token_hex(4)
    yield f"CREATE INDEX {quote(f'_i_{past}_to_{mark}')} ON {quote(past)} (_to)"


def drop(db: sqlite3.Connection, name: str) -> None:
    """Delete the table and its history."""
    db.execute(f"DROP TABLE IF EXISTS {quote(name)}")
    db.execute(f"DROP TABLE IF EXISTS {quote(history_of(name))}")
    db.execute("DELETE FROM _inserted WHERE name = ?", (name,))


def rename(db: sqlite3.Connection, spec: TableSpec, old: str, new: str) -> None:
    """Give a table, and its history, another name; nothing may have that name."""
    db.execute(f"ALTER TABLE {quote(old)} RENAME TO {quote(new)}")
    if spec.kind == "table":
        db.execute(f"ALTER TABLE {quote(history_of(old))} RENAME TO {quote(history_of(new))}")


# --- registrations -----------------------------------------------------------------------------------------------------


def write_registration(db: sqlite3.Connection, name: str, r: Registration) -> None:
    """Record a table."""
    shape = {"columns": schema.to_json(r.spec.columns), "key": r.spec.key, "kind": r.spec.kind, "name": r.spec.name}
    db.execute(
        'INSERT OR REPLACE INTO _tables (name, hidden, lane, layout, fingerprint, "schema", since, history_from, state) '
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (name, int(r.hidden), r.lane, r.layout, r.fingerprint, json.dumps(shape), r.since, r.history_from, r.state),
    )


def read_registrations(db: sqlite3.Connection) -> dict[str, Registration]:
    """Every recorded table, fills included, by physical name."""
    select = 'SELECT name, hidden, lane, layout, fingerprint, "schema", since, history_from, state FROM _tables ORDER BY name'
    return {row[0]: _registration(row) for row in db.execute(select)}


@lru_cache(maxsize=4096)  # readers ask with every page
def _registration(row: tuple[Any, ...]) -> Registration:
    shape = json.loads(row[5])
    key = None if shape["key"] is None else tuple(shape["key"])
    spec = TableSpec(shape["name"], schema.from_json(shape["columns"]), key, shape["kind"])
    return Registration(spec, row[2], row[3], row[4], bool(row[1]), row[6], row[7], row[8])


# --- writing -----------------------------------------------------------------------------------------------------------


def _stage(db: sqlite3.Connection, keys: Iterable[Any]) -> None:
    db.execute("DELETE FROM temp._hr_keys")
    db.executemany("INSERT OR IGNORE INTO temp._hr_keys VALUES (?)", zip(keys))


def _placeholders(n: int) -> str:
    return ", ".join("?" * n)


def as_stored(rows: pa.Table, lay: Layout) -> list[list[Any]]:
    """The SQLite columns of an Arrow table, whose columns may be more, and of types that cast."""
    wanted = pa.schema([pa.field(c.name, schema.arrow_type(c.kind)) for c in lay.columns])
    chosen = rows.select(wanted.names)
    if chosen.schema.types != wanted.types:
        chosen = chosen.cast(wanted)
    return lay.encode(chosen)


def apply(db: sqlite3.Connection, spec: TableSpec, name: str, change: Change, epoch: int, *, keep_history: bool) -> None:
    """Write a change of a `table`: rows that go move to the history, then rows come with `_from` = epoch.

    A row that is replaced is updated in place: one page is written for it, and rowids stay in the order in which keys
    first came; `_inserted` remembers where an epoch's begin, so that changes are found without an index on `_from`.
    """
    assert len(change.keys) == change.rows.num_rows, f"{spec.name}: as many keys as rows"
    empty = db.execute(f"SELECT 1 FROM {quote(name)} LIMIT 1").fetchone() is None
    gone = [] if empty else [*change.removed, *(change.keys if change.upsert else ())]
    coming = set(change.keys) if gone else set()
    if gone and len(coming) < len(change.keys):
        raise _given_twice(db, spec, name, change, epoch)
    if gone:
        _stage(db, gone)
        if keep_history:
            _move_to_history(db, spec, name, epoch)
        db.executemany(f"DELETE FROM {quote(name)} WHERE _key = ?", ((k,) for k in change.removed if k not in coming))
    if len(change.keys):
        _remember_first(db, name, epoch)
        _insert(db, spec, name, change, epoch, set(gone))


def _remember_first(db: sqlite3.Connection, name: str, epoch: int) -> None:
    """Note which rowid the next new row gets: asked after the deletions, since SQLite gives the highest ones again."""
    first = f"(SELECT ifnull(max(rowid), 0) + 1 FROM {quote(name)})"
    db.execute(f"INSERT OR REPLACE INTO _inserted VALUES (?, ?, {first})", (name, epoch))


def _move_to_history(db: sqlite3.Connection, spec: TableSpec, name: str, epoch: int) -> None:
    """Copy the rows of the staged keys to the history: they go, or are replaced, in this epoch."""
    lay = spec.layout
    columns = f"{lay.names}, " if lay.columns else ""
    db.execute(
        f"INSERT INTO {quote(history_of(name))} ({columns}_from, _to, _key) "
        f"SELECT {columns}_from, ?, _key FROM temp._hr_keys CROSS JOIN {quote(name)} ON _key = _hr_k",
        (epoch,),
    )


def _insert(db: sqlite3.Connection, spec: TableSpec, name: str, change: Change, epoch: int, replaced: set[bytes]) -> None:
    lay, table = spec.layout, quote(name)
    columns = f"{lay.names}, " if lay.columns else ""
    rows = zip(*as_stored(change.rows, lay), repeat(epoch), change.keys)
    insert = f"INSERT INTO {table} ({columns}_from, _key) VALUES ({_placeholders(len(lay.stored) + 2)})"
    update = ", ".join(f"{column} = excluded.{column}" for column in (*map(quote, lay.stored), "_from"))
    try:
        if not replaced:
            db.executemany(insert, rows)
            return
        fresh: list[tuple[Any, ...]] = []
        known: list[tuple[Any, ...]] = []
        for row in rows:
            (known if row[-1] in replaced else fresh).append(row)
        db.executemany(f"{insert} ON CONFLICT (_key) DO UPDATE SET {update}", known)
        db.executemany(insert, fresh)
    except sqlite3.IntegrityError as error:
        raise _given_twice(db, spec, name, change, epoch) from error


def _given_twice(db: sqlite3.Connection, spec: TableSpec, name: str, change: Change, epoch: int) -> FunctionFailed:
    """The error that names table and both rows of a key that came twice."""
    seen: dict[bytes, int] = {}
    lay = spec.layout
    for number, key in enumerate(change.keys):
        row = f"SELECT {lay.names or '1'} FROM {quote(name)} WHERE _key = ? AND _from < ?"
        stored = db.execute(row, (key, epoch)).fetchone()
        if key in seen:
            first, second = _shown(change.rows, seen[key]), _shown(change.rows, number)
            break
        if stored is not None:
            first = _shown(lay.decode([stored]), 0)
            second = _shown(change.rows, number)
            break
        seen[key] = number
    else:  # pragma: no cover - the database saw a key twice
        raise AssertionError(f"{name}: a key was refused that is there once")
    key_text = ", ".join(spec.key) if spec.key else "its position"
    return FunctionFailed(
        f'table "{spec.name}" has two rows with one key',
        details=[f"key {key_text}", f"one row:   {first}", f"the other: {second}"],
        hint='a key that tells them apart, or hr.latest(rows, by="...", order="...") for the newest row per key',
    )


def _shown(rows: pa.Table, number: int) -> str:
    row = schema.readable_rows(rows.slice(number, 1))[0]
    text = ", ".join(f"{name}={value!r}" for name, value in row.items())
    return text if len(text) <= 400 else text[:397] + "..."


def apply_parts(db: sqlite3.Connection, spec: TableSpec, name: str, change: Change) -> None:
    """Write a change of merge parts: current rows only, and a key that comes replaces the one that is there."""
    assert len(change.keys) == change.rows.num_rows, f"{spec.name}: as many keys as parts"
    lay, table = spec.layout, quote(name)
    columns = f"{lay.names}, " if lay.columns else ""
    db.executemany(f"DELETE FROM {table} WHERE _key = ?", zip(change.removed))
    if len(change.keys):
        insert = f"INSERT OR REPLACE INTO {table} ({columns}_key) VALUES ({_placeholders(len(lay.stored) + 1)})"
        db.executemany(insert, zip(*as_stored(change.rows, lay), change.keys, strict=True))


def identities_of(rows: pa.Table) -> Any:
    """The identities of a source's rows, from their positions."""
    partitions = pc.multiply(rows.column("_partition").cast(pa.int64()), PARTITION_STEP)
    return pc.add(partitions, rows.column("_offset").cast(pa.int64()))


def insert_copies(db: sqlite3.Connection, spec: TableSpec, name: str, rows: pa.Table) -> None:
    """Keep a source's rows, under their identities."""
    lay = spec.layout
    identities = identities_of(rows).to_pylist()
    insert = f'INSERT INTO {quote(name)} ({lay.names}, "_hr_row") VALUES ({_placeholders(len(lay.stored) + 1)})'
    db.executemany(insert, zip(*as_stored(rows, lay), identities, strict=True))


def apply_index(db: sqlite3.Connection, name: str, change: IndexChange) -> None:
    """Write a change of an index."""
    table = quote(name)
    db.executemany(f"DELETE FROM {table} WHERE row = ?", zip(change.removed_rows))
    db.executemany(f"INSERT OR IGNORE INTO {table} (tuple, row) VALUES (?, ?)", zip(change.tuples, change.rows, strict=True))


# --- reading -----------------------------------------------------------------------------------------------------------


def by_keys(db: sqlite3.Connection, spec: TableSpec, name: str, keys: Sequence[Any], identity: str) -> tuple[list[Any], pa.Table]:
    """Rows by key (`_key`) or identity (`_hr_row`), those that exist."""
    lay = spec.layout
    columns = f", {lay.names}" if lay.columns else ""
    rows: list[tuple[Any, ...]]
    if len(keys) <= 50:
        select = f"SELECT {identity}{columns} FROM {quote(name)} WHERE {identity} IN ({_placeholders(len(keys))})"
        rows = db.execute(select, list(keys)).fetchall()
    else:
        _stage(db, keys)
        rows = db.execute(
            f"SELECT {identity}{columns} FROM temp._hr_keys CROSS JOIN {quote(name)} ON {identity} = _hr_k"
        ).fetchall()
    return [row[0] for row in rows], lay.decode(rows, skip=1)


def chunks(db: sqlite3.Connection, spec: TableSpec, name: str, size: int, identity: str) -> Iterator[tuple[list[Any], pa.Table]]:
    """All rows, in chunks, in the order of their keys; each chunk is a read of its own."""
    lay = spec.layout
    columns = f", {lay.names}" if lay.columns else ""
    last: Any = None
    while True:
        beyond = "" if last is None else f"WHERE {identity} > ?"
        select = f"SELECT {identity}{columns} FROM {quote(name)} {beyond} ORDER BY {identity} LIMIT {size}"
        rows = db.execute(select, () if last is None else (last,)).fetchall()
        if rows:
            last = rows[-1][0]
            yield [row[0] for row in rows], lay.decode(rows, skip=1)
        if len(rows) < size:
            return


def tuples_to_rows(db: sqlite3.Connection, name: str, tuples: Sequence[bytes]) -> list[Any]:
    """Identities of the rows under these partition tuples, each once."""
    _stage(db, tuples)
    select = f"SELECT DISTINCT row FROM temp._hr_keys CROSS JOIN {quote(name)} ON tuple = _hr_k"
    return [row for (row,) in db.execute(select)]


def with_identity(identities: Sequence[Any], rows: pa.Table, spec: TableSpec) -> pa.Table:
    """The rows with the column `_hr_row` in front."""
    kind = pa.int64() if spec.kind == "rows" else pa.binary()
    return rows.add_column(0, pa.field("_hr_row", kind), pa.array(identities, kind))


# --- the end of a rebuild ----------------------------------------------------------------------------------------------


def take_difference(db: sqlite3.Connection, spec: TableSpec, filled: str, name: str, epoch: int) -> None:
    """Write what a filled table has otherwise to the table, as an ordinary change, and delete the filled one."""
    lay, old, new = spec.layout, quote(name), quote(filled)
    columns = f"{lay.names}, " if lay.columns else ""
    differs = " OR ".join(f"o.{quote(c)} IS NOT n.{quote(c)}" for c in lay.stored) or "0"
    db.execute("DELETE FROM temp._hr_keys")
    db.execute(
        f"INSERT INTO temp._hr_keys SELECT o._key FROM {old} AS o LEFT JOIN {new} AS n ON n._key = o._key "
        f"WHERE n._key IS NULL OR {differs}"
    )
    _move_to_history(db, spec, name, epoch)
    db.execute(f"DELETE FROM {old} WHERE _key IN (SELECT _hr_k FROM temp._hr_keys WHERE _hr_k NOT IN (SELECT _key FROM {new}))")
    _remember_first(db, name, epoch)
    update = ", ".join(f"{column} = excluded.{column}" for column in (*map(quote, lay.stored), "_from"))
    db.execute(
        f"INSERT INTO {old} ({columns}_from, _key) SELECT {columns}?, _key FROM {new} "
        f"WHERE _key IN (SELECT _hr_k FROM temp._hr_keys) OR _key NOT IN (SELECT _key FROM {old}) "
        f"ON CONFLICT (_key) DO UPDATE SET {update}",
        (epoch,),
    )
    drop(db, filled)
