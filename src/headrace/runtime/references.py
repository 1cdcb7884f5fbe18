"""References: files read whole at start, kept as content-hashed copies for as long as the ledger names them.

Everything reads only the copy: the runner, batch and verify see the same rows, whatever happens to the file meanwhile.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.definitions import ReferenceDef
from headrace.errors import DefinitionError, WorldError
from headrace.place import Place
from headrace.schema import arrow_schema, encode_keys, nullable


@dataclass(frozen=True)
class Reference:
    """A reference as it was read: its rows, their types, the hash of its content and the copy."""

    name: str
    rows: pa.Table
    columns: T.StructType
    hash: str
    copy: Path


def load_reference(definition: ReferenceDef, place: Place, *, beside: Path | None = None) -> Reference:
    """Read a reference's file and keep a copy of it."""
    path = Path(definition.path)
    if not path.is_absolute() and beside is not None:
        path = beside / path
    rows, columns = _typed(definition, _read(definition, path))
    digest = content_hash(rows)
    copy = place.references / definition.name / f"{digest}.parquet"
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        unfinished = copy.with_suffix(f".{os.getpid()}.tmp")
        pq.write_table(rows, unfinished)
        with open(unfinished, "rb") as written:
            os.fsync(written.fileno())
        unfinished.replace(copy)
    return Reference(definition.name, rows, columns, digest, copy)


def open_copy(name: str, columns: T.StructType, digest: str, place: Place) -> Reference:
    """The copy of a reference that the ledger names."""
    copy = place.references / name / f"{digest}.parquet"
    if not copy.exists():
        raise WorldError(f'the copy of reference "{name}" is gone', details=[str(copy)], hint="restore it from a backup")
    return Reference(name, pq.read_table(copy).cast(arrow_schema(nullable(columns))), columns, digest, copy)


def content_hash(rows: pa.Table) -> str:
    """SHA-256 over the rows in their canonical encoding, sorted: files and databases give rows in any order."""
    digest = hashlib.sha256(repr([(f.name, str(f.type)) for f in rows.schema]).encode())
    for row in sorted(encode_keys(rows, rows.column_names)):
        digest.update(len(row).to_bytes(8, "big") + row)
    return digest.hexdigest()


def _read(definition: ReferenceDef, path: Path) -> pa.Table:
    before = _stamp(definition, path)
    try:
        if definition.format == "parquet":
            table = pq.read_table(path)
        elif definition.format == "csv":
            table = pacsv.read_csv(path)
        else:
            table = pajson.read_json(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise WorldError(
            f'reference "{definition.name}" cannot be read',
            details=[f"{path}: {error}"],
            origin=definition.origin,
            hint=f"a {definition.format} file that is whole",
        ) from error
    if _stamp(definition, path) != before:
        return _read(definition, path)
    return table


def _stamp(definition: ReferenceDef, path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise WorldError(
            f'the file of reference "{definition.name}" is not there',
            details=[str(path)],
            origin=definition.origin,
            hint="the right path",
        ) from error
    return found.st_size, found.st_mtime_ns


def _typed(definition: ReferenceDef, read: pa.Table) -> tuple[pa.Table, T.StructType]:
    """The rows in the types that travel; with a schema, its columns and no others."""
    try:
        if definition.schema is None:
            columns = from_arrow_schema(pa.schema([f.with_nullable(True) for f in read.schema]), prefer_timestamp_ntz=True)
            return read.cast(arrow_schema(nullable(columns))), columns
        missing = [f.name for f in definition.schema.fields if f.name not in read.column_names]
        if missing:
            raise DefinitionError(
                f'reference "{definition.name}" has no column "{missing[0]}"',
                details=[f"its file has {', '.join(read.column_names)}"],
                origin=definition.origin,
                hint="a column that the file has",
            )
        wanted = arrow_schema(nullable(definition.schema))
        return read.select(wanted.names).cast(wanted), definition.schema
    except (pa.ArrowException, TypeError) as error:
        raise DefinitionError(
            f'reference "{definition.name}" does not fit its schema',
            details=[str(error)],
            origin=definition.origin,
            hint="other types",
        ) from error
