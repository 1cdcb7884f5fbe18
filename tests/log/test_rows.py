"""The law of rows: each reason, each type, both ways of judging JSON, CSV, text, Arrow, Parquet and Python."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import tracemalloc
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import RowsRefused, UsageError
from headrace.log.clean_json import CleanJson, NotClean
from headrace.log.rows import LINE_BYTES_MAX, RowReader
from headrace.schema import parse_schema

UTC = dt.timezone.utc
EVERYTHING = parse_schema(
    "id BIGINT, i INT, s SMALLINT, t TINYINT, d DOUBLE, f FLOAT, word STRING, yes BOOLEAN, money DECIMAL(10,2), bytes BINARY, "
    "day DATE, time TIMESTAMP, local TIMESTAMP_NTZ, tags ARRAY<STRING>, scores MAP<STRING, INT>, by_day MAP<DATE, DOUBLE>, "
    "place STRUCT<lat: DOUBLE NOT NULL, name: STRING>"
)


def judge(line, schema=EVERYTHING):
    """The one row that a line becomes."""
    data = line if isinstance(line, bytes) else line.encode()
    (row,) = RowReader(schema).json_lines(data).to_pylist()
    return row


def value(column, text):
    row = judge(f'{{"{column}": {text}}}')
    assert row["_reason"] is None, row["_message"]
    return row[column]


def reason(column, text):
    row = judge(f'{{"{column}": {text}}}')
    assert row["_reason"] is not None, f"{text} was taken as {row[column]!r}"
    assert all(row[name] is None for name in EVERYTHING.names)
    assert repr(column) in row["_message"] or f"'{column}" in row["_message"]
    assert row["_raw"] == f'{{"{column}": {text}}}'.encode()[:4096]
    return row["_reason"]


@pytest.mark.parametrize(
    ("column", "text", "wanted"),
    [
        ("id", "9223372036854775807", 2**63 - 1),
        ("id", "-9223372036854775808", -(2**63)),
        ("id", "-0", 0),
        ("i", "2147483647", 2**31 - 1),
        ("s", "-32768", -32768),
        ("t", "127", 127),
        ("d", "1", 1.0),
        ("d", "1.5e300", 1.5e300),
        ("d", '"Infinity"', math.inf),
        ("d", '"-Infinity"', -math.inf),
        ("d", "123456789012345678901234567890", 1.2345678901234568e29),
        ("f", "0.5", 0.5),
        ("f", '"Infinity"', math.inf),
        ("word", '""', ""),
        ("word", '"a\\u00e9\\n\\ud83d\\ude00"', "aé\n😀"),
        ("word", '" x "', " x "),
        ("yes", "true", True),
        ("money", "12.50", Decimal("12.50")),
        ("money", '"12.5"', Decimal("12.50")),
        ("money", "1.250e1", Decimal("12.50")),
        ("money", "12.5000", Decimal("12.50")),
        ("money", "-0.00", Decimal("0.00")),
        ("money", "99999999.99", Decimal("99999999.99")),
        ("money", "0e5000", Decimal("0.00")),
        ("bytes", '"AAEC"', b"\0\1\2"),
        ("bytes", '""', b""),
        ("day", '"2024-02-29"', dt.date(2024, 2, 29)),
        ("time", '"2026-01-01T10:00:00Z"', dt.datetime(2026, 1, 1, 10, tzinfo=UTC)),
        ("time", '"2026-01-01T10:00:00+01:00"', dt.datetime(2026, 1, 1, 9, tzinfo=UTC)),
        ("time", '"2026-01-01 10:00:00.123456"', dt.datetime(2026, 1, 1, 10, 0, 0, 123456, tzinfo=UTC)),
        ("time", '"2016-12-06T08:58:35.318+0000"', dt.datetime(2016, 12, 6, 8, 58, 35, 318000, tzinfo=UTC)),
        ("time", '"2026-01-01T10:00:00.123456999Z"', dt.datetime(2026, 1, 1, 10, 0, 0, 123456, tzinfo=UTC)),
        ("time", '"2026-01-01"', dt.datetime(2026, 1, 1, tzinfo=UTC)),
        ("local", '"2026-01-01T10:00:00"', dt.datetime(2026, 1, 1, 10)),
        ("tags", '["a", null, "b"]', ["a", None, "b"]),
        ("tags", "[]", []),
        ("scores", '{"a": 1, "b": null}', [("a", 1), ("b", None)]),
        ("by_day", '{"2026-01-01": 1.5}', [(dt.date(2026, 1, 1), 1.5)]),
        ("place", '{"lat": 1}', {"lat": 1.0, "name": None}),
        ("id", "null", None),
        ("place", "null", None),
    ],
)
def test_values_that_are_taken(column, text, wanted):
    found = value(column, text)
    assert found == wanted
    assert type(found) is type(wanted)


def test_nan_is_taken_as_text():
    assert math.isnan(value("d", '"NaN"'))
    assert math.isnan(value("f", '"NaN"'))


@pytest.mark.parametrize(
    ("column", "text", "wanted"),
    [
        ("id", "1.0", "type"),
        ("id", "1e2", "type"),
        ("id", '"1"', "type"),
        ("id", "true", "type"),
        ("id", "9223372036854775808", "range"),
        ("id", "9" * 5000, "range"),
        ("i", "2147483648", "range"),
        ("s", "32768", "range"),
        ("t", "-129", "range"),
        ("d", "1e999", "range"),
        ("d", "-1e999", "range"),
        ("d", "9" * 400, "range"),
        ("d", '"1.5"', "type"),
        ("d", '"nan"', "type"),
        ("d", "true", "type"),
        ("f", "1e39", "range"),
        ("f", "3.4028236e38", "range"),
        ("word", "1", "type"),
        ("word", "{}", "type"),
        ("word", '"\\ud800"', "not_utf8"),
        ("yes", "1", "type"),
        ("yes", '"true"', "type"),
        ("money", "12.505", "range"),
        ("money", "100000000", "range"),
        ("money", "1e400", "range"),
        ("money", "1e99999", "range"),
        ("money", '"NaN"', "type"),
        ("money", '"1_0"', "type"),
        ("money", '" 1"', "type"),
        ("money", "true", "type"),
        ("bytes", '"AAE"', "type"),
        ("bytes", '"AA E="', "type"),
        ("bytes", "[1]", "type"),
        ("day", '"2026-02-30"', "range"),
        ("day", '"2026-1-1"', "type"),
        ("day", "20260101", "type"),
        ("time", "1767225600", "type"),
        ("time", '"yesterday"', "type"),
        ("time", '"2026-01-01T25:00:00Z"', "range"),
        ("time", '"0001-01-01T00:00:00+01:00"', "range"),
        ("time", '"0000-01-01T00:00:00Z"', "range"),
        ("local", '"2026-01-01T10:00:00Z"', "type"),
        ("tags", '["a", 1]', "type"),
        ("tags", '"a"', "type"),
        ("scores", '{"a": 1.5}', "type"),
        ("scores", "[]", "type"),
        ("by_day", '{"x": 1}', "type"),
        ("place", '{"name": "x"}', "missing"),
        ("place", '{"lat": 1, "lon": 2}', "type"),
        ("place", "[1]", "type"),
    ],
)
def test_values_that_are_rejects(column, text, wanted):
    assert reason(column, text) == wanted


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (b"nope", "not_json"),
        (b'{"id": 1', "not_json"),
        (b'{"id": 01}', "not_json"),
        (b"{'id': 1}", "not_json"),
        (b'{"d": NaN}', "not_json"),
        (b'{"d": Infinity}', "not_json"),
        (b'{"word": "a\tb"}', "not_json"),
        (b'{"id": 1} {"id": 2}', "not_json"),
        (b'{"id": 1}{"id": 2}', "not_json"),
        (b"[1]", "not_object"),
        (b"1", "not_object"),
        (b"null", "not_object"),
        (b'"text"', "not_object"),
        (b'{"word": "\xff"}', "not_utf8"),
        (b'{"\xff": 1}', "not_utf8"),
        (b'{"id": 1, "id": 1}', "duplicate_field"),
        (b'{"other": 1, "other": 2}', "duplicate_field"),
        (b'{"place": {"lat": 1, "lat": 1}}', "duplicate_field"),
        (b'{"other": {"a": [{"b": 1, "b": 2}]}}', "duplicate_field"),
        (b'{"id": 1, "i\\u0064": 1}', "duplicate_field"),
        (b'{"scores": {"a": 1, "a": 2}}', "duplicate_field"),
        (b'{"other": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "too_deep"),
        (b'{"other": ' + b"[" * 10_000, "too_deep"),
        (b'{"tags": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"}", "too_deep"),
    ],
)
def test_lines_that_are_rejects(line, wanted):
    row = judge(line)
    assert row["_reason"] == wanted, row["_message"]
    assert row["_raw"] == line[:4096]
    assert row["_message"]
    assert row["_extra"] is None


def test_brackets_in_text_are_not_depth():
    assert judge(json.dumps({"word": "[{" * 5000}))["word"] == "[{" * 5000
    assert judge(json.dumps({"word": '\\"[' * 5000}))["_reason"] is None


def test_a_missing_not_null_field_is_a_reject():
    schema = parse_schema("id BIGINT NOT NULL, money DECIMAL(5,1) NOT NULL")
    assert judge('{"money": 1}', schema)["_message"] == "column 'id' is NOT NULL and missing"
    assert judge('{"id": 1, "money": null}', schema)["_message"] == "column 'money' is NOT NULL and null"
    assert judge('{"id": 1, "money": 2}', schema)["money"] == Decimal("2.0")


def test_unknown_fields_are_kept_as_they_were_written():
    row = judge('{"id": 1, "Id": 2, "x": {"n": 1.50, "big": 1e400, "t": "é\\n", "half": "\\ud800"}, "y": [true, null]}')
    assert row["id"] == 1
    assert row["_extra"] == '{"Id":2,"x":{"n":1.50,"big":1e400,"t":"é\\n","half":"\\ud800"},"y":[true,null]}'


def test_blank_lines_take_no_offset_and_order_is_kept():
    data = b'\n{"id": 1}\r\n  \t\nbad\n\n{"id": 2, "x": 1}\n{"id": 3}'
    table = RowReader(EVERYTHING).json_lines(data)
    assert table.column("id").to_pylist() == [1, None, 2, 3]
    assert table.column("_reason").to_pylist() == [None, "not_json", None, None]
    assert RowReader(EVERYTHING).json_lines(b"").num_rows == 0


def test_times_with_and_without_zones_in_one_chunk():
    schema = parse_schema("time TIMESTAMP")
    data = b'{"time": "2026-01-01T00:00:00Z"}\n{"time": "2026-01-01T00:00:00"}\n' * 40
    found = RowReader(schema).json_lines(data).column("time").to_pylist()
    assert found == [dt.datetime(2026, 1, 1, tzinfo=UTC)] * 80


# --- long lines and bounded memory ---------------------------------------------------------------------------------------


def endless_file(size):
    """A file of one line of `size` bytes between two rows, without holding it."""

    class Endless(io.RawIOBase):
        parts = iter([b'{"id": 1}\n{"word": "', *[b"x" * (1 << 20)] * (size >> 20), b'"}\n{"id": 2}\n'])

        def read(self, n=-1):
            return next(self.parts, b"")

    return Endless()


@pytest.mark.parametrize("format", ["json", "csv"])
def test_a_line_of_64_mb_is_a_reject_and_memory_stays_bounded(format):
    reader = RowReader(parse_schema("id BIGINT, word STRING"))
    file = endless_file(64 << 20)
    if format == "csv":
        file.parts = iter([b"id,word\n1,a\n2,", *[b"x" * (1 << 20)] * 64, b"\n3,c\n"])
    tracemalloc.start()
    tables = list(reader.read(file, format))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    table = pa.concat_tables(tables)
    assert table.column("_reason").to_pylist()[1] == "too_long"
    assert table.column("id").to_pylist()[0] == 1
    assert table.column("id").to_pylist()[-1] == (2 if format == "json" else 3)
    assert len(table.column("_raw").to_pylist()[1]) == 4096
    assert peak < 4 * LINE_BYTES_MAX


def test_a_long_line_in_one_piece_is_a_reject_too():
    reader = RowReader(parse_schema("id BIGINT, word STRING"))
    line = b'{"id": 1, "word": "' + b"x" * LINE_BYTES_MAX + b'"}'
    table = reader.json_lines(line + b'\n{"id": 2}\n' + line)
    assert table.column("_reason").to_pylist() == ["too_long", None, "too_long"]
    fits = b'{"id": 1, "word": "' + b"x" * (LINE_BYTES_MAX - 100) + b'"}'
    assert reader.json_lines(fits).column("_reason").to_pylist() == [None]


# --- the fast way is only fast -------------------------------------------------------------------------------------------

_numbers = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        "-0 -0.0 0 1.0 1e2 1E-400 1e999 01 1. .5 - +1 0.1 3.4028235677973366e38 1e39 127 128 -128 12.50 12.505".split()
    ),
)
_times = st.one_of(
    st.datetimes(timezones=st.sampled_from([None, UTC, dt.timezone(dt.timedelta(hours=5, minutes=30))])).map(
        dt.datetime.isoformat
    ),
    st.dates().map(str),
    st.from_regex(
        r"[0-2][0-9]{3}-[01][0-9]-[0-3][0-9]"
        r"([T ][0-2][0-9](:?[0-5][0-9](:?[0-6][0-9](\.[0-9]{1,10})?)?)?(Z|[+-][0-2][0-9](:?[0-6][0-9])?)?)?",
        fullmatch=True,
    ),
)
_texts = st.one_of(
    st.text(max_size=6), st.sampled_from(["NaN", "Infinity", "", "AAEC", "AAE", "1.5", " 1", "a:b", "{", '"']), _times
).map(lambda text: json.dumps(text, ensure_ascii=False))
_values = st.one_of(
    _numbers,
    _texts,
    st.sampled_from(
        ["null", "true", "false", "NaN", "[]", '["a"]', '{"a": 1}', '{"lat": 1}', "{", "\x0b", '"\\u00e9"', '"\\ud800"']
    ),
)
_fields = st.tuples(st.sampled_from([*EVERYTHING.names, "other", "Id"]), _values)
_spaces = st.sampled_from(["", " ", "\t"])
_lines = st.builds(
    lambda fields, space, tail: "{" + ",".join(f'"{name}"{space}:{space}{text}' for name, text in fields) + "}" + tail,
    st.lists(_fields, max_size=4),
    _spaces,
    st.sampled_from(["", "", "", " ", "{}", ",", "\r"]),
).map(lambda line: line.encode("utf-8", "surrogatepass").replace(b"\n", b" "))

_READER = RowReader(EVERYTHING)
_CLEAN = CleanJson(EVERYTHING)


@settings(max_examples=500, deadline=None)
@given(st.lists(_lines, min_size=1, max_size=3))
def test_what_the_fast_way_takes_the_exact_way_takes_alike(lines):
    lines = [line for line in lines if b"\\" not in line]
    if not lines:
        return
    try:
        fast = _READER._of_columns(_CLEAN.columns(lines), len(lines))
    except NotClean:
        return
    exact = _READER._table([_READER._judge_json(line) for line in lines])
    assert fast.column("_reason").null_count == exact.column("_reason").null_count, exact.column("_message").to_pylist()
    assert repr(fast.to_pylist()) == repr(exact.to_pylist())


@settings(max_examples=100, deadline=None)
@given(st.lists(_lines, max_size=40))
def test_lines_together_are_judged_as_each_alone(lines):
    lines = [line for line in lines if line.strip(b" \t\r")]
    together = _READER.json_lines(b"\n".join(lines))
    alone = [row for line in lines for row in _READER._table([_READER._judge_json(line)]).to_pylist()]
    assert repr(together.to_pylist()) == repr(alone)


def test_clean_lines_do_go_the_fast_way():
    line = (
        b'{"id":1,"i":2,"s":3,"t":4,"d":1,"f":2.5,"word":"x:{y","yes":true,"money":"1.50","bytes":"AAEC","day":"2026-01-01",'
        b'"time":"2026-01-01T00:00:00Z","local":"2026-01-01 00:00:00","tags":["a"],"scores":{"a":1},"place":{"lat":1}}'
    )
    assert len(_CLEAN.columns([line] * 3)) == len(EVERYTHING.names)
    assert len(_CLEAN.columns([b"{}", b'{"id":null}'])[0]) == 2


# --- CSV and text --------------------------------------------------------------------------------------------------------


def test_csv_by_rfc_4180():
    schema = parse_schema("id BIGINT, word STRING, d DOUBLE, yes BOOLEAN, day DATE, tags ARRAY<STRING>")
    data = (
        b"id,word,d,yes,day,tags,more\r\n"
        b'1,"a ""quoted"", text\r\nover two lines",1.5,true,2026-01-01,"[""a"", null]",x\r\n'
        b'2,,,,,,\r\n3,"",NaN,false,,,\n\n'
        b"4,x\n"
        b'5,a"b,1,true,,,\n'
        b'6,"a"b,1,true,,,\n'
        b"7.0,,,,,,\n"
        b"8,,,yes,,,\n"
        b'9,\xff,,,,,\n10,"",,,,"[1]",\n11,"open,,,,,\n12,last,,,,,'
    )
    table = RowReader(schema).csv(data)
    rows = table.to_pylist()
    assert [row["_reason"] for row in rows] == [
        None, None, None, "columns", "not_csv", "not_csv", "type", "type", "not_utf8", "type", "not_csv", None,
    ]  # fmt: skip
    assert rows[0]["word"] == 'a "quoted", text\r\nover two lines'
    assert rows[0]["tags"] == ["a", None]
    assert rows[0]["_extra"] == '{"more":"x"}'
    assert rows[1] | {"_extra": None} == dict.fromkeys(table.schema.names) | {"id": 2}
    assert rows[2]["word"] == ""
    assert math.isnan(rows[2]["d"])
    assert rows[11]["word"] == "last"


def test_csv_in_pieces_is_csv_whole():
    schema = parse_schema("id BIGINT, word STRING")
    data = b"id,word\n" + b"".join(b'%d,"w,%d\n"\n%d,x\n' % (n, n, n) for n in range(50))
    whole = RowReader(schema).csv(data)
    assert whole.num_rows == 100

    class Drip(io.RawIOBase):
        at = 0

        def read(self, n=-1):
            self.at += 7
            return data[self.at - 7 : self.at]

    assert pa.concat_tables(RowReader(schema).read(Drip(), "csv")).combine_chunks() == whole.combine_chunks()


def test_a_csv_header_that_names_a_column_twice():
    rows = RowReader(parse_schema("a STRING")).csv(b"a,a\n1,2\n").to_pylist()
    assert rows[0]["_reason"] == "columns"
    with pytest.raises(UsageError, match="header"):
        RowReader(parse_schema("a STRING")).csv(b'"a\n1\n')


def test_text_lines():
    rows = RowReader(parse_schema("value STRING")).text(b"one\r\n\ntwo  \n\xff\n{}").to_pylist()
    assert [row["value"] for row in rows] == ["one", "two  ", None, "{}"]
    assert [row["_reason"] for row in rows] == [None, None, "not_utf8", None]
    with pytest.raises(UsageError, match="one STRING column"):
        RowReader(EVERYTHING).text(b"one")
    with pytest.raises(UsageError, match="no format"):
        RowReader(EVERYTHING).read(io.BytesIO(), "xml")


# --- Arrow and Parquet ---------------------------------------------------------------------------------------------------


def test_arrow_by_safe_casts():
    reader = RowReader(parse_schema("n INT, d DOUBLE, f FLOAT, word STRING, time TIMESTAMP, money DECIMAL(5,2), day DATE"))
    table = pa.table(
        {
            "n": pa.array([1, 2**40, None], pa.int64()),
            "d": pa.array([1, 2, 3], pa.int32()),
            "f": pa.array([1.5, 2.0, 1e300], pa.float64()),
            "word": pa.array(["a", "b", "c"]).dictionary_encode(),
            "time": pa.array([1, 2, 3], pa.timestamp("s")),
            "money": pa.array([Decimal("1.5"), Decimal("2.5"), Decimal("3.5")], pa.decimal128(10, 1)),
            "day": pa.array([0, 1, 2], pa.date32()).cast(pa.date64()),
            "more": [1, None, 3],
        }
    )
    rows = reader.from_arrow(table).to_pylist()
    assert [row["_reason"] for row in rows] == [None, "range", "range"]
    assert rows[0]["time"] == dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert rows[0]["money"] == Decimal("1.50")
    assert rows[0]["word"] == "a"
    assert rows[0]["_extra"] == '{"more":1}'
    assert b'"n":1099511627776' in rows[1]["_raw"]
    with pytest.raises(RowsRefused) as error:
        reader.from_arrow(table, refuse=True)
    assert [(n, reason) for n, reason, _ in error.value.wrong] == [(1, "range"), (2, "range")]


@pytest.mark.parametrize(
    ("column", "array"),
    [
        ("id", pa.array([1.0])),
        ("id", pa.array(["1"])),
        ("id", pa.array([True])),
        ("word", pa.array([1])),
        ("time", pa.array([1])),
        ("time", pa.array(["2026-01-01"])),
        ("local", pa.array([1], pa.timestamp("us", "UTC"))),
        ("tags", pa.array([[1]])),
        ("place", pa.array([{"lat": 1.0}])),
    ],
)
def test_arrow_of_another_type_is_refused(column, array):
    with pytest.raises(RowsRefused) as error:
        RowReader(EVERYTHING).from_arrow(pa.table({column: array}), refuse=True)
    assert error.value.wrong[0][1] == "type"


def test_arrow_that_is_not_text_and_years_beyond_9999():
    buffers = [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")]
    text = pa.Array.from_buffers(pa.string(), 2, buffers)
    rows = RowReader(parse_schema("word STRING")).from_arrow(pa.table({"word": text})).to_pylist()
    assert [row["_reason"] for row in rows] == [None, "not_utf8"]
    times = pa.array([0, 2**62], pa.timestamp("us", "UTC"))
    found = RowReader(parse_schema("time TIMESTAMP")).from_arrow(pa.table({"time": times}))
    assert found.column("_reason").to_pylist() == [None, "range"]


def test_not_null_columns_of_arrow():
    reader = RowReader(parse_schema("id BIGINT NOT NULL"))
    assert reader.from_arrow(pa.table({"id": [1, None]})).column("_reason").to_pylist() == [None, "missing"]
    assert reader.from_arrow(pa.table({"x": [1]})).column("_reason").to_pylist() == ["missing"]


def test_parquet_and_arrow_files(tmp_path):
    table = pa.table({"id": list(range(10)), "word": ["x"] * 10})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    with pa.OSFile(str(tmp_path / "a.arrows"), "wb") as out, pa.ipc.new_stream(out, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=4):
            writer.write_batch(batch)
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    reader = RowReader(parse_schema("id BIGINT, word STRING"))
    for name, format in (("a.parquet", "parquet"), ("a.arrows", "arrow"), ("a.arrow", "arrow")):
        found = pa.concat_tables(reader.read_path(tmp_path / name, format))
        assert found.column("id").to_pylist() == list(range(10))
    whole = (tmp_path / "a.arrows").read_bytes()
    broken = pa.concat_tables(reader.read(io.BytesIO(whole[: len(whole) - 100]), "arrow"))
    assert broken.column("_reason").to_pylist()[-1] == "unreadable"
    assert broken.column("id").to_pylist()[:4] == [0, 1, 2, 3]


# --- Python --------------------------------------------------------------------------------------------------------------


def test_python_values_as_a_user_would_expect():
    row = {
        "id": 1, "i": 2, "d": 3, "f": 0.5, "word": "x", "yes": True, "money": Decimal("1.5"), "bytes": b"\0",
        "day": dt.date(2026, 1, 1),
        "time": dt.datetime(2026, 1, 1, 10, tzinfo=dt.timezone(dt.timedelta(hours=1))), "local": dt.datetime(2026, 1, 1),
        "tags": ("a", None), "scores": {"a": 1}, "by_day": {dt.date(2026, 1, 1): 1.0}, "place": {"lat": 1.0},
        "more": dt.date(2026, 1, 2),
    }  # fmt: skip
    (found,) = RowReader(EVERYTHING).from_dicts([row]).to_pylist()
    assert found["time"] == dt.datetime(2026, 1, 1, 9, tzinfo=UTC)
    assert found["money"] == Decimal("1.50")
    assert found["tags"] == ["a", None]
    assert found["by_day"] == [(dt.date(2026, 1, 1), 1.0)]
    assert found["_extra"] == '{"more":"2026-01-02"}'
    again = RowReader(EVERYTHING).from_dicts([{"time": "2026-01-01T10:00:00Z", "money": 3, "d": math.nan, "bytes": "AAEC"}])
    assert again.column("time").to_pylist() == [dt.datetime(2026, 1, 1, 10, tzinfo=UTC)]
    assert again.column("bytes").to_pylist() == [b"\0\1\2"]


def test_numbers_of_numpy_are_numbers():
    import numpy as np

    (found,) = RowReader(EVERYTHING).from_dicts([{"id": np.int64(3), "d": np.float32(0.5), "yes": np.bool_(True)}]).to_pylist()
    assert (found["id"], found["d"], found["yes"]) == (3, 0.5, True)


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ({"id": 1.0}, "type"),
        ({"id": True}, "type"),
        ({"id": 2**63}, "range"),
        ({"money": 1.5}, "type"),
        ({"money": Decimal("NaN")}, "type"),
        ({"time": dt.date(2026, 1, 1)}, "type"),
        ({"day": dt.datetime(2026, 1, 1)}, "type"),
        ({"local": dt.datetime(2026, 1, 1, tzinfo=UTC)}, "type"),
        ({"word": b"x"}, "type"),
        ({"d": 10**400}, "range"),
        ([1], "not_object"),
    ],
)
def test_python_values_that_refuse_the_call(row, wanted):
    with pytest.raises(RowsRefused) as error:
        RowReader(EVERYTHING).from_dicts([{"id": 1}, row])
    assert [(n, reason) for n, reason, _ in error.value.wrong] == [(1, wanted)]
    assert "row 1" in str(error.value)


_python_rows = st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "d": st.none() | st.floats(),
        "word": st.text(st.characters(exclude_categories=["Cs"])),
        "money": st.decimals(min_value=-99999999, max_value=99999999, places=2),
        "bytes": st.binary(max_size=8),
        "day": st.dates(),
        "time": st.datetimes(timezones=st.just(UTC)),
        "tags": st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=3),
    },
)


@settings(max_examples=100, deadline=None)
@given(st.lists(_python_rows, max_size=5))
def test_what_goes_in_from_python_comes_out(rows):
    found = _READER.from_dicts(rows).to_pylist()
    for row, got in zip(rows, found, strict=True):
        for name in EVERYTHING.names:
            assert repr(got[name]) == repr(row.get(name)) or got[name] == row.get(name)
