"""The law of rows: what becomes of a line, a record, a dict or an Arrow row that wants into a topic.

Each line is a row and takes an offset, wrong ones too. A missing nullable field is null. Fields that the schema does not
know go to `_extra` as JSON. A row is a reject, with all of the user's columns null, a reason, a message that names the
column, and its first 4 KB kept raw, when

| reason | because |
|---|---|
| `not_utf8` | its bytes, or the half of a surrogate pair in it, are no text |
| `not_json`, `not_csv` | it cannot be read; NaN and Infinity without quotes are no JSON |
| `not_object` | it is JSON, but no object |
| `too_long` | it is longer than 16 MB: it was never held in memory |
| `too_deep` | it is nested deeper than 100 levels |
| `duplicate_field` | a name is given twice, at any depth |
| `missing` | a NOT NULL field is missing or null |
| `type` | a value has another type: 1.0 for a BIGINT, a number for a time, an unknown field in a STRUCT |
| `range` | a value has the type but does not fit: too large, or a fraction that a DECIMAL cannot hold exactly |
| `columns` | a record has more or fewer fields than its header; a name stands twice in a header |
| `unreadable` | a file ends in the middle of its format |

Values: integers have no fraction and no exponent. DOUBLE and FLOAT take numbers and the texts "NaN", "Infinity",
"-Infinity". DECIMAL takes numbers and texts, exactly. BINARY is base64. DATE is 2026-01-31. TIMESTAMP is ISO 8601, in UTC
where it names no zone, cut to microseconds; TIMESTAMP_NTZ is the same without a zone. MAP keys are the names of an object.

Blank lines and headers take no offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import types as T

from headrace import schema as schemas
from headrace.errors import RowsRefused, UsageError
from headrace.log import columns, csv_text, json_text
from headrace.log.clean_json import CleanJson, NotClean
from headrace.log.columns import Column
from headrace.log.values import MICROS_MAX, MICROS_MIN, Judge, Wrong, judge_of, kind_of

LINE_BYTES_MAX = 16 << 20
RAW_BYTES = 4096
FORMATS = ("json", "csv", "text", "arrow", "parquet")

_READ_BYTES = 1 << 20
_CHUNK_LINES = 4096
_FEW = 16
_BLANK = b" \t\r"


class Reject(NamedTuple):
    """Why a row cannot be used, and its beginning."""

    reason: str
    message: str
    raw: bytes


class _Row(NamedTuple):
    """A judged row: its values in the order of the columns, and the unknown fields as JSON."""

    values: Sequence[Any]
    extra: str | None


_Judged = _Row | Reject


class RowReader:
    """Turns lines, records, dicts and Arrow rows into landing columns: the user's, `_extra`, `_reason`, `_message`, `_raw`.

    >>> reader = RowReader(schemas.parse_schema("id BIGINT NOT NULL, note STRING"))
    >>> rows = reader.json_lines(b'{"id": 1, "colour": "red"}\\n{"id": 1.0}\\n')
    >>> rows.column("id").to_pylist(), rows.column("_extra").to_pylist(), rows.column("_reason").to_pylist()
    ([1, None], ['{"colour":"red"}', None], [None, 'type'])
    """

    def __init__(self, schema: T.StructType) -> None:
        self.schema = schema
        self.landing = columns.landing_schema(schema)
        self._names = schema.names
        self._types: list[Any] = [f.type for f in columns.user_fields(schema)]
        self._nullable = [f.nullable for f in schema.fields]
        self._json_judges = self._judges()
        self._python_judges = self._judges(python=True)
        self._csv_judges = self._judges(text=True)
        self._clean = CleanJson(schema)

    def _judges(self, *, text: bool = False, python: bool = False) -> list[Judge]:
        return [judge_of(f.dataType, f.name, text=text, python=python) for f in self.schema.fields]

    # --- whole inputs ------------------------------------------------------------------------------------------------

    def json_lines(self, data: bytes) -> pa.Table:
        """The rows of JSON lines."""
        return self._joined(self._json_chunk(lines) for lines in _chunks(_lines_of([data], last=True)))

    def csv(self, data: bytes, header: Sequence[str] | None = None) -> pa.Table:
        """The rows of CSV, the first record of which is the header where none is given."""
        return self._joined(self._csv(iter([data]), header))

    def text(self, data: bytes) -> pa.Table:
        """The rows of text, one per line, for a schema of one STRING column."""
        self._needs_one_text_column()
        return self._joined(self._text_chunk(lines) for lines in _chunks(_lines_of([data], last=True)))

    def read(self, file: BinaryIO, format: str) -> Iterator[pa.Table]:
        """The rows of an open file, a piece at a time: memory stays bounded whatever the file holds."""
        if format == "json":
            return (self._json_chunk(lines) for lines in _chunks(_lines_of(_pieces(file), last=True)))
        if format == "text":
            self._needs_one_text_column()
            return (self._text_chunk(lines) for lines in _chunks(_lines_of(_pieces(file), last=True)))
        if format == "csv":
            return self._csv(_pieces(file), None)
        if format == "arrow":
            return self._batches(lambda: _arrow_batches(file))
        if format == "parquet":
            return self._batches(lambda: pq.ParquetFile(pa.PythonFile(cast(Any, file), mode="r")).iter_batches())
        raise UsageError(f"{format!r} is no format of rows", hint=", ".join(FORMATS))

    def read_path(self, path: Path, format: str) -> Iterator[pa.Table]:
        """The rows of a file, a piece at a time."""
        with path.open("rb") as file:
            yield from self.read(file, format)

    # --- Python and Arrow ----------------------------------------------------------------------------------------------

    def from_dicts(self, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
        """Rows from Python, all or none: `RowsRefused` names every wrong one.

        Values may be Python's own (datetime, date, Decimal, bytes; a datetime without a zone is UTC) or what JSON holds.
        """
        judged = [self._judge_dict(row) for row in rows]
        wrong = [(n, row.reason, row.message) for n, row in enumerate(judged) if isinstance(row, Reject)]
        if wrong:
            raise refused(wrong, len(judged))
        return self._table(judged)

    def from_arrow(self, rows: pa.Table | pa.RecordBatch, *, refuse: bool = False) -> pa.Table:
        """Rows from Arrow by safe casts; wrong rows become rejects or, with `refuse`, refuse the whole call."""
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        landed = self._landed(table)
        if refuse and landed.num_rows:
            reasons: Column = landed.column("_reason")
            if reasons.null_count < len(reasons):
                at: list[int] = pc.indices_nonzero(reasons.is_valid()).to_pylist()
                messages: Column = landed.column("_message")
                raise refused([(n, reasons[n].as_py(), messages[n].as_py()) for n in at], landed.num_rows)
        return landed

    # --- JSON ----------------------------------------------------------------------------------------------------------

    def _json_chunk(self, lines: Sequence[bytes]) -> pa.Table:
        """The fast way for whatever is clean, the exact way for the rest, in the order of the lines."""
        plain = [n for n, line in enumerate(lines) if b"\\" not in line and not isinstance(line, LongLine)]
        numbers, tables = [], []
        for found, arrays in self._clean_runs(lines, plain):
            numbers += found
            tables.append(self._of_columns(arrays, len(found)))
        if numbers == list(range(len(lines))):
            return pa.concat_tables(tables) if tables else self.landing.empty_table()
        taken = set(numbers)
        rest = [n for n in range(len(lines)) if n not in taken]
        exact = self._table([self._judge_json(lines[n]) for n in rest])
        order = pc.sort_indices(pa.array(numbers + rest, pa.int64()))
        return pa.concat_tables([*tables, exact]).take(order)

    def _clean_runs(self, lines: Sequence[bytes], numbers: list[int]) -> Iterator[tuple[list[int], list[Column]]]:
        """Runs of clean lines, found by halving, so that one wrong line does not slow all others down."""
        if not numbers:
            return
        try:
            yield numbers, self._clean.columns([lines[n] for n in numbers])
        except NotClean:
            if len(numbers) > _FEW:
                middle = len(numbers) // 2
                yield from self._clean_runs(lines, numbers[:middle])
                yield from self._clean_runs(lines, numbers[middle:])

    def _of_columns(self, found: Sequence[Column], rows: int) -> pa.Table:
        if not found:
            return self.landing.empty_table()
        hidden = [pa.nulls(rows, f.type) for f in columns.HIDDEN]
        return pa.Table.from_arrays([*found, *hidden], schema=self.landing)

    def _judge_json(self, line: bytes) -> _Judged:
        try:
            if isinstance(line, LongLine):
                raise Wrong("too_long", f"the line is longer than {LINE_BYTES_MAX >> 20} MB")
            value = json_text.parse(line)
            if not isinstance(value, dict):
                raise Wrong("not_object", f"the line is {kind_of(value)}, not an object")
            return self._judge(value, self._json_judges)
        except Wrong as wrong:
            return Reject(wrong.reason, wrong.message, line[:RAW_BYTES])

    def _judge(self, fields: Mapping[str, Any], judges: Sequence[Judge]) -> _Row:
        values, found = [], 0
        for name, nullable, judge in zip(self._names, self._nullable, judges, strict=True):
            value = fields.get(name)
            if value is not None:
                found += 1
                values.append(judge(value))
            elif nullable:
                found += name in fields
                values.append(None)
            else:
                raise Wrong("missing", f"column {name!r} is NOT NULL and {'null' if name in fields else 'missing'}")
        if found == len(fields):
            return _Row(values, None)
        known = set(self._names)
        return _Row(values, json_text.dumps({name: value for name, value in fields.items() if name not in known}))

    def _judge_dict(self, row: Any) -> _Judged:
        try:
            if not isinstance(row, Mapping):
                raise Wrong("not_object", f"the row is {kind_of(row)}, not a dict")
            return self._judge(row, self._python_judges)
        except Wrong as wrong:
            return Reject(wrong.reason, wrong.message, b"")

    # --- text and CSV --------------------------------------------------------------------------------------------------

    def _needs_one_text_column(self) -> None:
        if len(self.schema.fields) != 1 or not isinstance(self.schema.fields[0].dataType, T.StringType):
            raise UsageError(
                "text lines need a topic of one STRING column",
                details=[f"this one has {schemas.ddl(self.schema)}"],
                hint='a topic with schema "value STRING", or another format',
            )

    def _text_chunk(self, lines: Sequence[bytes]) -> pa.Table:
        return self._table([self._judge_text(line) for line in lines])

    def _judge_text(self, line: bytes) -> _Judged:
        if isinstance(line, LongLine):
            return Reject("too_long", f"the line is longer than {LINE_BYTES_MAX >> 20} MB", line[:RAW_BYTES])
        try:
            return _Row([line.removesuffix(b"\r").decode()], None)
        except UnicodeDecodeError as error:
            return Reject("not_utf8", f"the bytes are no UTF-8 (byte {error.start})", line[:RAW_BYTES])

    def _csv(self, pieces: Iterator[bytes], header: Sequence[str] | None) -> Iterator[pa.Table]:
        names = list(header) if header is not None else None
        for found in _chunks(_records_of(pieces)):
            rows = list(found)
            if names is None:
                names = _header(rows.pop(0))
            if rows:
                yield self._table([self._judge_record(record, names) for record in rows])

    def _judge_record(self, record: csv_text.Record, names: Sequence[str]) -> _Judged:
        try:
            if record.wrong is not None:
                raise Wrong("too_long" if isinstance(record.raw, LongLine) else "not_csv", record.wrong)
            if len(set(names)) < len(names):
                raise Wrong("columns", "the header has a name twice")
            if len(record.fields) != len(names):
                raise Wrong("columns", f"the header names {len(names)} fields, this record has {len(record.fields)}")
            return self._judge(self._csv_fields(record, names), self._csv_judges)
        except Wrong as wrong:
            return Reject(wrong.reason, wrong.message, record.raw[:RAW_BYTES])

    def _csv_fields(self, record: csv_text.Record, names: Sequence[str]) -> dict[str, Any]:
        """The record as fields; nested columns hold JSON, and an empty quoted field is text and nothing else."""
        try:
            fields: dict[str, Any] = {
                name: None if field is None else field.decode() for name, field in zip(names, record.fields, strict=True)
            }
        except UnicodeDecodeError as error:
            raise Wrong("not_utf8", f"the bytes are no UTF-8 (byte {error.start} of a field)") from None
        for field in self.schema.fields:
            text = fields.get(field.name)
            if text is not None and isinstance(field.dataType, (T.ArrayType, T.MapType, T.StructType)):
                fields[field.name] = json_text.parse(text.encode())
        return fields

    # --- Arrow ---------------------------------------------------------------------------------------------------------

    def _batches(self, batches: Callable[[], Iterable[pa.RecordBatch]]) -> Iterator[pa.Table]:
        """Batches of a file that may break off: used up to the break, then one reject."""
        try:
            for batch in batches():
                yield self.from_arrow(batch)
        except (pa.ArrowInvalid, OSError) as error:
            yield self._table([Reject("unreadable", f"the file breaks off: {str(error).splitlines()[0]}", b"")])

    def _landed(self, table: pa.Table) -> pa.Table:
        if len(set(table.schema.names)) < table.num_columns:
            return self._all_wrong(table, "columns", "a column's name is there twice")
        arrays, wrong = [], dict[int, Wrong]()
        for field in self.schema.fields:
            if field.name not in table.schema.names:
                if not field.nullable and table.num_rows:
                    return self._all_wrong(table, "missing", f"column {field.name!r} is NOT NULL and missing")
                arrays.append(_nulls(table.num_rows, schemas.arrow_type(field.dataType)))
                continue
            try:
                arrays.append(_cast(table.column(field.name), field, wrong))
            except Wrong as reason:
                return self._all_wrong(table, reason.reason, reason.message)
        hidden = [self._extra(table, wrong), *(_nulls(table.num_rows, f.type) for f in columns.REJECTS)]
        landed = pa.Table.from_arrays([*arrays, *hidden], schema=self.landing)
        return landed if not wrong else self._with_rejects(landed, table, wrong)

    def _extra(self, table: pa.Table, wrong: dict[int, Wrong]) -> Column:
        unknown = [name for name in table.schema.names if name not in self._names]
        if not unknown:
            return pa.chunked_array([pa.nulls(table.num_rows, pa.string())])
        texts = _json_of(table.select(unknown))
        for n, text in enumerate(texts):
            if text is None:
                wrong.setdefault(n, Wrong("range", "a column that the schema does not know holds what JSON cannot"))
        return pa.chunked_array([pa.array(texts, pa.string())])

    def _with_rejects(self, landed: pa.Table, table: pa.Table, wrong: Mapping[int, Wrong]) -> pa.Table:
        good = pa.array([n not in wrong for n in range(table.num_rows)])
        at = sorted(wrong)
        raws = [(text or "").encode()[:RAW_BYTES] for text in _json_of(table.take(pa.array(at)))]
        rejects = self._table([Reject(wrong[n].reason, wrong[n].message, raw) for n, raw in zip(at, raws, strict=True)])
        kept = [n for n in range(table.num_rows) if n not in wrong]
        order = pc.sort_indices(pa.array(kept + at, pa.int64()))
        return pa.concat_tables([landed.filter(good), rejects]).take(order)

    def _all_wrong(self, table: pa.Table, reason: str, message: str) -> pa.Table:
        return self._table([Reject(reason, message, b"")] * table.num_rows)

    # --- tables --------------------------------------------------------------------------------------------------------

    def _table(self, judged: Sequence[_Judged]) -> pa.Table:
        nothing = [None] * len(self._names)
        values = [nothing if isinstance(row, Reject) else row.values for row in judged]
        by_column = list(zip(*values, strict=True)) if values else [()] * len(self._names)
        arrays = [pa.array(column, kind) for column, kind in zip(by_column, self._types, strict=True)]
        extra = pa.array([None if isinstance(row, Reject) else row.extra for row in judged], pa.string())
        rejects: list[Any] = [row if isinstance(row, Reject) else (None, None, None) for row in judged]
        kinds: list[Any] = [f.type for f in columns.REJECTS]
        hidden: list[Column] = [pa.array([row[n] for row in rejects], kind) for n, kind in enumerate(kinds)]
        return pa.Table.from_arrays([*arrays, extra, *hidden], schema=self.landing)

    def _joined(self, tables: Iterable[pa.Table]) -> pa.Table:
        found = list(tables)
        return pa.concat_tables(found) if found else self.landing.empty_table()


def refused(wrong: Sequence[tuple[int, str, str]], rows: int) -> RowsRefused:
    """The error for a call of which at least one row is wrong."""
    return RowsRefused(
        f"{len(wrong)} of {rows} rows cannot be taken, so none was",
        wrong=wrong,
        hint="`headrace send` takes them and keeps wrong ones as rejects",
    )


# --- lines -----------------------------------------------------------------------------------------------------------------


class LongLine(bytes):
    """The beginning of a line that was too long to be held."""


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_READ_BYTES):
        yield piece


def _lines_of(pieces: Iterable[bytes], *, last: bool) -> Iterator[bytes]:
    """The lines that are not blank; of one that is too long, its beginning as a `LongLine`."""
    rest: list[bytes] = []
    size, long = 0, False
    for piece in pieces:
        *whole, tail = piece.split(b"\n")
        for line in whole:
            if rest:
                size += len(line)
                rest.append(line)
                line, long = _line(rest, long or size > LINE_BYTES_MAX), False
                rest, size = [], 0
            elif len(line) > LINE_BYTES_MAX:
                line = LongLine(line[:RAW_BYTES])
            if isinstance(line, LongLine) or line.strip(_BLANK):
                yield line
        if tail:
            size += len(tail)
            rest.append(tail)
            if size > LINE_BYTES_MAX:
                rest, long = [b"".join(rest)[:RAW_BYTES]], True
    if rest:
        line = _line(rest, long or size > LINE_BYTES_MAX)
        if isinstance(line, LongLine) or line.strip(_BLANK):
            yield line


def _line(parts: Sequence[bytes], long: bool) -> bytes:
    return LongLine(b"".join(parts)[:RAW_BYTES]) if long else b"".join(parts)


def _records_of(pieces: Iterable[bytes]) -> Iterator[csv_text.Record]:
    """CSV records of bytes that come in pieces; one of more than 16 MB gives up its first line, as unreadable."""
    rest = b""
    for piece in pieces:
        rest += piece
        used = 0
        for found in csv_text.records(rest, last=False):
            if isinstance(found, int):
                used = found
            else:
                yield found
        rest = rest[used:]
        while len(rest) > LINE_BYTES_MAX:
            stop = rest.find(b"\n")
            if stop < 0:
                yield csv_text.Record(LongLine(rest[:RAW_BYTES]), (), f"the line is longer than {LINE_BYTES_MAX >> 20} MB")
                rest = b""
                break
            yield csv_text.Record(rest[:stop], (), "a quote that never closes")
            rest = rest[stop + 1 :]
    for found in csv_text.records(rest, last=True):
        if not isinstance(found, int):
            yield found


def _chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    chunk: list[Any] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += len(item)
        if len(chunk) == _CHUNK_LINES or size > LINE_BYTES_MAX:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _header(record: csv_text.Record) -> list[str]:
    try:
        names = [(field or b"").decode() for field in record.fields]
    except UnicodeDecodeError:
        names = []
    if not names or record.wrong is not None:
        raise UsageError("the CSV header cannot be read", details=[repr(bytes(record.raw[:80]))], hint="a first line with names")
    return [names[0].removeprefix("\ufeff"), *names[1:]]


# --- casts -----------------------------------------------------------------------------------------------------------------


def _nulls(rows: int, kind: Any) -> Column:
    return pa.chunked_array([pa.nulls(rows, kind)])


def _json_of(table: pa.Table) -> list[str | None]:
    """Each row as JSON; None for one that Python cannot hold: bytes that are no text, a year beyond 9999."""
    try:
        return [json_text.dumps(row) for row in table.to_pylist()]
    except (ValueError, OverflowError, pa.ArrowException):
        if table.num_rows <= 1:
            return [None] * table.num_rows
        middle = table.num_rows // 2
        return _json_of(table.slice(0, middle)) + _json_of(table.slice(middle))


def _arrow_batches(file: Any) -> Iterator[pa.RecordBatch]:
    """A stream or a file of Arrow's own format."""
    head = file.read(6)
    file.seek(0)
    if head == b"ARROW1":
        reader = pa.ipc.open_file(file)
        yield from (reader.get_batch(n) for n in range(reader.num_record_batches))
    else:
        yield from pa.ipc.open_stream(file)


def _cast(column: Column, field: T.StructField, wrong: dict[int, Wrong]) -> Column:
    """The column in its type by a safe cast; rows that do not fit go to `wrong`."""
    target = schemas.arrow_type(field.dataType)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not field.nullable and column.null_count:
        for n in pc.indices_nonzero(column.is_null()).to_pylist():
            wrong.setdefault(n, Wrong("missing", f"column {field.name!r} is NOT NULL and null"))
    if not _castable(column.type, target):
        what = field.dataType.simpleString().upper()
        raise Wrong("type", f"column {field.name!r} is {what}, and Arrow's {column.type} is no such type")
    before: Column = column
    try:
        if column.type != target:
            column = column.cast(target, safe=True)
        if _may_hold_text(target):
            for chunk in column.chunks:
                chunk.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _cast_each(before, target, field, wrong)
    return _in_range(before, column, field, wrong)


def _cast_each(column: Column, target: Any, field: T.StructField, wrong: dict[int, Wrong]) -> Column:
    parts = []
    for n in range(len(column)):
        one = column.slice(n, 1).combine_chunks()
        try:
            fits = one.cast(target, safe=True)
            fits.validate(full=True)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            reason = "not_utf8" if "utf8" in str(error).lower() else "range"
            what = field.dataType.simpleString().upper()
            wrong.setdefault(n, Wrong(reason, f"column {field.name!r} is {what}: {str(error).splitlines()[0]}"))
            fits = pa.nulls(1, target)
        parts.append(fits)
    return _in_range(column, pa.chunked_array(parts, target), field, wrong)


def _in_range(before: Column, column: Column, field: T.StructField, wrong: dict[int, Wrong]) -> Column:
    """What Arrow casts without an error and the law does not take: a finite value that becomes infinite, a year beyond 9999."""
    if pa.types.is_float32(column.type) and pa.types.is_float64(before.type):
        outside: Column = pc.and_(pc.is_inf(column), pc.invert(pc.is_inf(before)))
    elif pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        micros: Column = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=False).cast(pa.int64())
        outside = pc.or_(pc.less(micros, pa.scalar(MICROS_MIN)), pc.greater(micros, pa.scalar(MICROS_MAX)))
    else:
        return column
    at: list[int] = pc.indices_nonzero(outside.fill_null(False)).to_pylist()
    for n in at:
        what = field.dataType.simpleString().upper()
        wrong.setdefault(n, Wrong("range", f"column {field.name!r} is {what}, which its value does not fit"))
    return column


def _may_hold_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_nested(kind)


def _castable(source: Any, target: Any) -> bool:
    """Whether each value of one type, where it fits, is a value of the other by the law."""
    is_ = pa.types
    if source == target or is_.is_null(source):
        return True
    if is_.is_integer(target):
        return bool(is_.is_integer(source))
    if is_.is_floating(target):
        return bool(is_.is_floating(source) or is_.is_integer(source))
    if is_.is_decimal(target):
        return bool(is_.is_decimal(source) or is_.is_integer(source))
    if is_.is_string(target):
        return bool(is_.is_string(source) or is_.is_large_string(source) or source == pa.string_view())
    if is_.is_binary(target):
        return bool(is_.is_large_binary(source) or is_.is_fixed_size_binary(source) or source == pa.binary_view())
    if is_.is_date32(target):
        return bool(is_.is_date(source))
    if is_.is_timestamp(target):
        return bool(is_.is_timestamp(source) and (target.tz is not None or source.tz is None))
    if is_.is_map(target):
        return bool(
            is_.is_map(source) and _castable(source.key_type, target.key_type) and _castable(source.item_type, target.item_type)
        )
    if is_.is_list(target):
        lists = is_.is_list(source) or is_.is_large_list(source) or is_.is_fixed_size_list(source)
        return bool(lists and _castable(source.value_type, target.value_type))
    if is_.is_struct(target):
        return bool(
            is_.is_struct(source)
            and [f.name for f in source] == [f.name for f in target]
            and all(_castable(source.field(n).type, target.field(n).type) for n in range(target.num_fields))
        )
    return False
