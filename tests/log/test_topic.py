"""A topic's description, its race to be made, columns added, keys to partitions, positions, statistics."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import crc32c
import pyarrow as pa
import pytest
from pyspark.sql import types as T

from headrace.clock import ManualClock
from headrace.errors import DefinitionError, LogDamaged, RowsRefused, UsageError
from headrace.log import Position, RealDisk, RowReader, Topic
from headrace.log.columns import storage_schema
from headrace.log.producer import partitions_of
from headrace.schema import encode_key, parse_schema

from .forgetful import ForgetfulDisk

SCHEMA = parse_schema("id BIGINT NOT NULL, word STRING, time TIMESTAMP")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "app" / "log" / "events"


def make(folder, **options):
    return Topic.create(folder, **{"name": "events", "schema": SCHEMA, **options})


def test_a_topic_is_made_with_the_folders_above_it_and_opened(folder):
    made = make(folder, partitions=3, partition_by=["word"], event_time="time")
    opened = Topic.open(folder)
    assert opened.spec == made.spec
    assert opened.spec.schema == SCHEMA
    assert (opened.ends(), opened.starts()) == ((0, 0, 0), (0, 0, 0))
    assert [path.name for path in folder.parent.iterdir()] == ["events"], "nothing is left beside"


def test_there_is_no_topic(folder):
    with pytest.raises(UsageError, match="there is no topic"):
        Topic.open(folder)


def test_making_it_again_compares_the_descriptions(folder):
    first = make(folder, partitions=2, partition_by=["word"])
    assert make(folder, partitions=2, partition_by=["word"]).spec.id == first.spec.id
    for wrong in (
        {"partitions": 3, "partition_by": ["word"]},
        {"partitions": 2},
        {"partitions": 2, "schema": parse_schema("x INT")},
    ):
        with pytest.raises(DefinitionError, match="another description"):
            make(folder, **wrong)
    assert Topic.open(folder).spec == first.spec


@pytest.mark.parametrize(
    "wrong",
    [{"partitions": 0}, {"partition_by": ["nope"]}, {"event_time": "nope"}, {"event_time": "word"}, {"schema": T.StructType([])}],
)
def test_descriptions_that_make_no_sense(folder, wrong):
    with pytest.raises(DefinitionError, match="cannot be made"):
        make(folder, **wrong)
    assert not folder.exists()


def test_many_make_one_topic(folder):
    began, made = threading.Barrier(8), []

    def race():
        began.wait()
        made.append(make(folder, partitions=2).spec.id)

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert len(set(made)) == 1
    assert [path.name for path in folder.parent.iterdir()] == ["events"]


def test_a_flipped_description_is_found(folder):
    make(folder)
    (folder / "topic.json").write_text("{")
    with pytest.raises(LogDamaged):
        Topic.open(folder)
    (folder / "topic.json").write_text('{"version": 99}')
    with pytest.raises(LogDamaged, match="version 99"):
        Topic.open(folder)


# --- columns added -------------------------------------------------------------------------------------------------------

WIDER = parse_schema("id BIGINT NOT NULL, word STRING, time TIMESTAMP, price DECIMAL(8,2)")


def test_nullable_columns_may_be_added_and_old_rows_have_nulls(folder):
    topic, old = make(folder, segment_bytes=1), Topic.open(folder, segment_bytes=1)
    topic.producer().append([{"id": 1}])
    topic.evolve(WIDER)
    topic.producer().append([{"id": 2, "price": "1.50"}])
    old.producer().append([{"id": 3}])  # this process has not heard of it
    topic.producer().append([{"id": 4, "price": 2}])
    topic.seal()
    for reader in (topic, old, Topic.open(folder)):
        table = reader.read(0, 0, 4)
        assert table.column("id").to_pylist() == [1, 2, 3, 4]
    table = Topic.open(folder).read(0, 0, 4)
    assert [None if v is None else str(v) for v in table.column("price").to_pylist()] == [None, "1.50", None, "2.00"]
    assert table.schema == storage_schema(WIDER)


def test_evolving_to_the_same_is_nothing(folder):
    topic = make(folder)
    topic.evolve(SCHEMA)
    assert len(topic.spec.schemas) == 1


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("id BIGINT NOT NULL, word STRING", "columns are never removed"),
        ("id INT NOT NULL, word STRING, time TIMESTAMP", "types never change"),
        ("id BIGINT, word STRING, time TIMESTAMP", "that never changes"),
        ("id BIGINT NOT NULL, word STRING NOT NULL, time TIMESTAMP", "that never changes"),
        ("id BIGINT NOT NULL, word STRING, time TIMESTAMP, more INT NOT NULL", "NOT NULL"),
        ("word STRING, id BIGINT NOT NULL, time TIMESTAMP", "order"),
    ],
)
def test_anything_else_is_refused_with_the_reason(folder, ddl, why):
    topic = make(folder)
    with pytest.raises(DefinitionError) as error:
        topic.evolve(parse_schema(ddl))
    assert any(why in detail for detail in error.value.details)
    assert len(Topic.open(folder).spec.schemas) == 1


def test_two_add_columns_at_once(folder):
    make(folder)
    topics = [Topic.open(folder) for _ in range(2)]
    began, errors = threading.Barrier(2), []

    def evolve(topic, ddl):
        began.wait()
        try:
            topic.evolve(parse_schema(ddl))
        except DefinitionError as error:
            errors.append(error)

    wanted = [f"id BIGINT NOT NULL, word STRING, time TIMESTAMP, {name} INT" for name in ("a", "b")]
    threads = [threading.Thread(target=evolve, args=pair) for pair in zip(topics, wanted, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 1, "the second would remove the first one's column"
    assert len(Topic.open(folder).spec.schemas) == 2


def test_an_added_column_survives_a_power_cut():
    clock = ManualClock()
    disk, folder = ForgetfulDisk(clock), Path("/log/events")
    topic = make(folder, disk=disk, clock=clock)
    topic.evolve(WIDER)
    topic.producer().append([{"id": 1, "price": 1}])
    disk.power_cut()
    again = Topic.open(folder, disk=disk, clock=clock)
    assert again.spec.schemas == (SCHEMA, WIDER)


# --- partitions ----------------------------------------------------------------------------------------------------------


def test_a_row_goes_where_its_canonical_key_points(folder):
    topic = make(folder, partitions=4, partition_by=["word"])
    rows = [{"id": n, "word": f"w{n % 10}"} for n in range(100)] + [{"id": 100}]
    position = topic.producer().append(rows)
    assert position.ends == {p: end for p, end in enumerate(topic.ends()) if end}
    for partition, end in enumerate(topic.ends()):
        found = topic.read(partition, 0, end)
        assert set(found.column("_partition").to_pylist()) <= {partition}
        ids = found.column("id").to_pylist()
        assert ids == sorted(ids), "rows of a partition keep their order"
        for word in set(found.column("word").to_pylist()):
            assert crc32c.crc32c(encode_key([word])) % 4 == partition
    assert sum(topic.ends()) == 101


@pytest.mark.parametrize("names", [["word"], ["d"], ["tags"], ["word", "d"]])
def test_partitions_of_columns_are_those_of_each_key_alone(names):
    table = pa.table(
        {
            "word": ["a", None, "a", "b "] * 5,
            "d": [0.0, -0.0, math.nan, None] * 5,
            "tags": pa.array([["a"], [], None, ["a"]] * 5, pa.list_(pa.string())),
        }
    )
    wanted = [crc32c.crc32c(encode_key([row[n] for n in names])) % 7 for row in table.to_pylist()]
    assert list(partitions_of(table, names, 7)) == wanted
    assert list(partitions_of(table.to_batches()[0], names, 7)) == wanted


def test_without_a_key_a_batch_goes_where_its_sequence_points(folder):
    topic = make(folder, partitions=4)
    first = [topic.producer("p").append([{"id": n}, {"id": n}], sequence=n) for n in range(5)]
    again = [Topic.open(folder).producer("p").append([{"id": n}, {"id": n}], sequence=n) for n in range(5)]
    assert first == again
    assert sum(topic.ends()) == 10
    assert all(len(position.ends) == 1 for position in first)


def test_a_batch_that_was_written_in_part_is_completed_by_repeating_it():
    """A crash can leave some partitions of a batch written."""
    from .forgetful import Died

    rows = [{"id": n, "word": f"w{n}"} for n in range(20)]
    for after in range(1, 40):
        clock = ManualClock()
        disk = ForgetfulDisk(clock, seed=after)
        topic = make(Path("/log/events"), partitions=4, partition_by=["word"], disk=disk, clock=clock)
        disk.arm("kill", after)
        try:
            topic.producer("p").append(rows, sequence=1)
        except Died:
            disk.restart()
        else:
            assert after > 8
            return
        other = Topic.open(Path("/log/events"), disk=disk, clock=clock)
        position = other.producer("p").append(rows, sequence=1)
        assert position.covered_by(dict(enumerate(other.ends())))
        found = [i for p, end in enumerate(other.ends()) for i in other.read(p, 0, end).column("id").to_pylist()]
        assert sorted(found) == list(range(20))
    pytest.fail("an append has fewer operations than this")


# --- appends, positions, statistics --------------------------------------------------------------------------------------


def test_one_wrong_row_and_nothing_is_written(folder):
    topic = make(folder, partitions=2, partition_by=["id"])
    with pytest.raises(RowsRefused):
        topic.producer().append([{"id": 1}, {"word": "x"}, {"id": 3}])
    assert topic.ends() == (0, 0)
    assert topic.producer().append([]).ends == {}


def test_rejects_take_offsets(folder):
    topic = make(folder)
    rows = RowReader(SCHEMA).json_lines(b'{"id": 1}\nnope\n{"id": 2, "x": [1]}\n')
    assert topic.producer().append_parsed(rows).ends == {0: 3}
    found = topic.read(0, 0, 3)
    assert found.column("_reason").to_pylist() == [None, "not_json", None]
    assert found.column("_extra").to_pylist() == [None, None, '{"x":[1]}']
    assert found.column("_raw").to_pylist() == [None, b"nope", None]
    assert found.schema == storage_schema(SCHEMA)


def test_every_range_of_offsets_can_be_read(folder):
    topic = make(folder, segment_bytes=1500)
    for n in range(0, 40, 4):
        topic.producer().append([{"id": n + i, "word": "x" * (n % 7)} for i in range(4)])
    topic.seal()
    for start in range(41):
        for stop in range(start, 41):
            assert topic.read(0, start, stop).column("id").to_pylist() == list(range(start, stop))
            slices = topic.slices(0, start, stop)
            assert sum(high - low for _, low, high in slices.sealed) + slices.rest.num_rows == stop - start
    files = [(low, high) for _, low, high in topic.slices(0, 0, 40).sealed]
    assert topic.sealed_ranges(0) == files
    assert len(files) > 1


def test_positions_travel_as_text(folder):
    topic = make(folder)
    position = topic.producer().append([{"id": 1}])
    assert position.token.startswith("p.")
    assert Position.parse(position.token) == position
    assert position.covered_by({0: 1})
    assert not position.covered_by({0: 0})
    assert not position.covered_by({})
    assert topic.position() == position
    for wrong in ("", "12", "p.", "p.!!!", "p." + "e30", "p.bm9wZQ", position.token[:-4], "q" + position.token[1:]):
        with pytest.raises(UsageError, match="not a position token"):
            Position.parse(wrong)


def test_statistics_are_a_frozen_record(folder):
    topic = make(folder, partitions=2)
    topic.producer("p").append([{"id": 1}, {"id": 2}], sequence=1)
    stats = topic.stats()
    assert (stats.name, stats.rows) == ("events", 2)
    assert stats.bytes > 0
    assert [p.end - p.start for p in stats.partitions] == list(topic.ends())
    with pytest.raises(AttributeError):
        stats.rows = 3


def test_polling_the_ends_opens_nothing(folder):
    class Counting(RealDisk):
        opened = 0

        def open(self, path, *, create=False):
            self.opened += 1
            return super().open(path, create=create)

    disk = Counting()
    make(folder, partitions=3).producer().append([{"id": 1}])
    topic = Topic.open(folder, disk=disk)
    topic.recover()
    topic.ends()
    disk.opened = 0
    for _ in range(100):
        topic.ends()
    assert disk.opened == 0


def test_every_type_comes_back_from_hot_and_sealed_segments(folder):
    schema = parse_schema(
        "b BOOLEAN, t TINYINT, d DOUBLE, f FLOAT, money DECIMAL(38,10), word STRING, blob BINARY, day DATE, time TIMESTAMP, "
        "local TIMESTAMP_NTZ, tags ARRAY<STRING>, scores MAP<STRING, INT>, place STRUCT<lat: DOUBLE NOT NULL, name: STRING>"
    )
    lines = (
        b'{"b":true,"t":-1,"d":"NaN","f":"-Infinity","money":"1234567890123456789012345678.0123456789","word":"\xc3\xa9","blob":"AAE=",'
        b'"day":"0001-01-01","time":"9999-12-31T23:59:59.999999Z","local":"1900-01-01 00:00:00",'
        b'"tags":["a",null],"scores":{"a":null},"place":{"lat":1}}\n{}\n{"place":{"lat":2,"name":"x"},"more":1}\nwrong\n'
    )
    topic = Topic.create(folder, name="events", schema=schema, segment_bytes=1)
    for _ in range(2):
        topic.producer().append_parsed(RowReader(schema).json_lines(lines))
    hot = topic.read(0, 0, 8)
    topic.seal()
    assert topic.stats().partitions[0].segments_sealed == 1
    sealed = Topic.open(folder).read(0, 0, 8)
    assert sealed.schema == hot.schema == storage_schema(schema)
    assert repr(sealed.to_pylist()) == repr(hot.to_pylist())
    assert hot.column("place").to_pylist()[:3] == [{"lat": 1.0, "name": None}, None, {"lat": 2.0, "name": "x"}]
    assert hot.column("_reason").to_pylist()[:4] == [None, None, None, "not_json"]
