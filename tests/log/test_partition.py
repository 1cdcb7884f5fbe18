"""Each sentence of the log's rules against the real code: appends, the published end, repair, damage, roll, seal, sweep."""

from __future__ import annotations

import struct
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.clock import ManualClock
from headrace.errors import LogDamaged, UsageError, WorldError
from headrace.log import RealDisk, Topic, frame
from headrace.log.manifest import Manifest
from headrace.log.partition import Partition
from headrace.schema import parse_schema

from .forgetful import Died, ForgetfulDisk

SCHEMA = parse_schema("n BIGINT, word STRING")
FOLDER = Path("/log/events")


def rows(*numbers):
    return [{"n": n, "word": f"word {n}"} for n in numbers]


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def disk(clock):
    return ForgetfulDisk(clock, seed=1)


def make(disk, clock, **options):
    return Topic.create(FOLDER, name="events", schema=SCHEMA, disk=disk, clock=clock, **options)


def again(disk, clock, **options):
    """Another process opens the topic."""
    return Topic.open(FOLDER, disk=disk, clock=clock, **options)


def hot(disk):
    current = Manifest.decode(disk.read_whole(FOLDER / "0" / "manifest.json"), FOLDER)
    return disk.inode(FOLDER / "0" / current.hot.name)


def numbers(topic):
    return topic.read(0, 0, topic.ends()[0]).column("n").to_pylist()


# --- the published end ---------------------------------------------------------------------------------------------------


def test_an_append_is_durable_before_it_returns(disk, clock):
    topic = make(disk, clock)
    topic.producer().append(rows(1, 2))
    disk.power_cut()
    topic = again(disk, clock)
    topic.recover()
    assert numbers(topic) == [1, 2]


def test_the_end_is_eight_bytes_and_their_checksum(tmp_path):
    topic = Topic.create(tmp_path / "events", name="events", schema=SCHEMA)
    topic.producer().append(rows(1, 2, 3))
    data = (tmp_path / "events/0/end").read_bytes()
    assert len(data) == 12
    assert struct.unpack("<Q", data[:8]) == (3,)


def test_nobody_reads_beyond_the_end(disk, clock):
    topic = make(disk, clock)
    topic.producer().append(rows(1))
    with pytest.raises(UsageError, match="not a range of published rows"):
        topic.read(0, 0, 2)


def test_a_whole_frame_that_was_not_published_is_not_read_before_it_is_fsynced(disk, clock):
    topic = make(disk, clock)
    topic.producer().append(rows(1))
    content = bytes(hot(disk).content)
    topic.producer().append(rows(2))
    whole = bytes(hot(disk).content)
    disk.inode(FOLDER / "0/end").content[:] = struct.pack("<QI", 1, __import__("crc32c").crc32c(struct.pack("<Q", 1)))
    hot(disk).settle(content)
    hot(disk).apply(("write", 0, whole))
    other = again(disk, clock)
    assert other.ends() == (1,)
    before = disk.steps
    other.recover()
    assert other.ends() == (2,), "a whole frame is kept"
    assert disk.steps > before
    disk.power_cut()
    last = again(disk, clock)
    last.recover()
    assert numbers(last) == [1, 2], "it was fsynced before it was published"


@pytest.mark.parametrize("damage", ["absent", "torn", "old", "empty"])
def test_a_lost_end_is_the_start_of_the_last_segment_until_somebody_opens(disk, clock, damage):
    topic = make(disk, clock, segment_bytes=1)
    topic.producer().append(rows(1, 2))
    topic.producer().append(rows(3))
    old = bytes(disk.inode(FOLDER / "0/end").content)
    topic.producer().append(rows(4))
    if damage == "absent":
        disk.unlink(FOLDER / "0/end")
    else:
        disk.inode(FOLDER / "0/end").content[:] = {"torn": b"\7" * 12, "old": old, "empty": b""}[damage]
    for reader in (topic, again(disk, clock)):
        assert reader.ends() == (3,)
    topic.recover()
    assert topic.ends() == (4,)
    assert numbers(topic) == [1, 2, 3, 4]


def test_a_deleted_end_is_seen_by_who_had_it_open(tmp_path):
    topic = Topic.create(tmp_path / "events", name="events", schema=SCHEMA)
    topic.producer().append(rows(1))
    assert topic.ends() == (1,)
    (tmp_path / "events/0/end").unlink()
    assert topic.ends() == (0,)
    Topic.open(tmp_path / "events").producer().append(rows(2))
    assert topic.ends() == (2,)
    topic.producer().append(rows(3))
    assert topic.ends() == (3,)


# --- torn tails and damage -----------------------------------------------------------------------------------------------


def test_a_tail_torn_at_every_possible_byte_is_cut_and_the_log_goes_on(disk, clock):
    topic = make(disk, clock)
    topic.producer().append(rows(1))
    whole_before = bytes(hot(disk).content)
    end_before = bytes(disk.inode(FOLDER / "0/end").content)
    topic.producer("p").append(rows(2, 3), sequence=1)
    whole = bytes(hot(disk).content)
    for cut in range(len(whole_before), len(whole)):
        hot(disk).settle(whole[:cut])
        disk.inode(FOLDER / "0/end").settle(end_before)
        other = again(disk, clock)
        assert other.ends() == (1,)
        assert other.producer("p").append(rows(2, 3), sequence=1).ends == {0: 3}
        assert numbers(other) == [1, 2, 3]
        assert len(hot(disk).content) == len(whole)


def test_zeros_where_data_should_be_are_a_torn_tail_too(disk, clock):
    topic = make(disk, clock)
    topic.producer().append(rows(1))
    hot(disk).content.extend(bytes(4096))
    other = again(disk, clock)
    other.recover()
    assert other.producer().append(rows(2)).ends == {0: 2}
    assert numbers(other) == [1, 2]


def test_a_bit_flipped_anywhere_before_the_end_is_found(disk, clock):
    topic = make(disk, clock)
    topic.producer().append(rows(1, 2))
    topic.producer().append(rows(3))
    good = bytes(hot(disk).content)
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1 << (at % 8)
        hot(disk).settle(bad)
        with pytest.raises(LogDamaged, match="damaged at offset"):
            again(disk, clock).recover()
        with pytest.raises(LogDamaged):
            again(disk, clock).producer().append(rows(4))
        with pytest.raises(LogDamaged):
            again(disk, clock).read(0, 0, 3)
        assert bytes(hot(disk).content) == bytes(bad), "nothing is cut"
    hot(disk).settle(good)
    assert again(disk, clock).producer().append(rows(4)).ends == {0: 4}


def test_without_an_end_a_wrong_frame_that_a_later_group_follows_is_damage(disk, clock):
    topic = make(disk, clock)
    topic.producer().append(rows(1))
    first = len(hot(disk).content)
    topic.producer().append(rows(2))
    hot(disk).content[first - 9] ^= 1
    disk.unlink(FOLDER / "0/end")
    before = bytes(hot(disk).content)
    with pytest.raises(LogDamaged):
        again(disk, clock).recover()
    assert bytes(hot(disk).content) == before


def test_without_an_end_a_wrong_frame_that_its_own_group_follows_is_a_torn_tail(disk, clock):
    """Frames of one group reach the disk in any order: the second may be whole when the first is not."""
    topic = make(disk, clock)
    batch = pa.RecordBatch.from_pylist(rows(1), schema=pa.schema([("n", pa.int64()), ("word", pa.string())]))
    payload = frame.Payload.of(batch, schema=0, flags=0)
    group = [frame.encode(payload, base=b, appended=1, producer=bytes(16), sequence=b, group=0) for b in (0, 1)]
    broken = bytearray(group[0])
    broken[-1] ^= 1
    hot(disk).settle(bytes(broken) + group[1])
    topic.recover()
    assert topic.ends() == (0,)
    assert len(hot(disk).content) == 0


def test_a_file_shorter_than_the_end_says_is_damage(disk, clock):
    topic = make(disk, clock)
    topic.producer().append(rows(1))
    topic.producer().append(rows(2))
    hot(disk).settle(bytes(hot(disk).content[: len(hot(disk).content) // 2]))
    with pytest.raises(LogDamaged):
        again(disk, clock).recover()
    with pytest.raises(LogDamaged):
        topic.producer().append(rows(3))


def test_a_flipped_bit_in_the_manifest_is_found(disk, clock):
    make(disk, clock)
    path = FOLDER / "0" / "manifest.json"
    good = disk.read_whole(path)
    for at in range(len(good)):
        disk.inode(path).content[at] ^= 1
        with pytest.raises(LogDamaged):
            again(disk, clock).recover()
        disk.inode(path).content[at] ^= 1


def test_a_remembered_position_is_read_back_before_it_is_used(disk, clock):
    """Somebody puts an older copy of the hot file in its place under a living producer."""
    topic = make(disk, clock)
    producer = topic.producer()
    producer.append(rows(1))
    old = bytes(hot(disk).content)
    producer.append(rows(2))
    hot(disk).settle(old)
    with pytest.raises(LogDamaged):
        producer.append(rows(3))
    assert bytes(hot(disk).content) == old


# --- failing operations --------------------------------------------------------------------------------------------------


def fail_at(disk, action, what):
    """Run `action` with the first operation named `what` failing."""
    for after in range(1, 50):
        disk.arm("eio", after)
        disk.struck.clear()
        try:
            action()
        except WorldError as error:
            if disk.struck == [("eio", what)]:
                disk.strike_at = None
                return error
        disk.strike_at = None
    raise AssertionError(f"nothing did {what}")


def test_after_a_failed_fsync_the_segment_is_cut_and_takes_no_more(disk, clock):
    topic = make(disk, clock)
    producer = topic.producer("p")
    producer.append(rows(1), sequence=1)
    before, name = bytes(hot(disk).content), hot(disk)
    error = fail_at(disk, lambda: topic.producer("p").append(rows(2), sequence=2), "fsync")
    assert "could not be made durable" in error.message
    assert topic.ends() == (1,)
    assert bytes(name.content) == before, "cut to the published end"
    assert hot(disk) is not name, "rolled"
    assert producer.append(rows(2), sequence=2).ends == {0: 2}
    disk.power_cut()
    other = again(disk, clock)
    other.recover()
    assert numbers(other) == [1, 2]


@pytest.mark.parametrize("end_lost", [False, True])
def test_frames_of_a_dead_writer_whose_fsync_fails_go_into_another_file(disk, clock, end_lost):
    """They may be acknowledged ones, when `end` is lost: they are neither cut nor trusted to the file that failed."""
    topic = make(disk, clock)
    topic.producer("p").append(rows(1), sequence=1)
    failed = hot(disk)
    disk.arm("kill", 3)  # write, fsync, publish
    with pytest.raises(Died):
        topic.producer("p").append(rows(2), sequence=2)
    disk.restart()
    if end_lost:
        disk.unlink(FOLDER / "0" / "end")
    other = again(disk, clock)
    disk.arm("eio", 2)  # of the folder, then of the file
    other.recover()
    assert disk.struck[-1] == ("eio", "fsync")
    assert hot(disk) is not failed
    assert numbers(other) == [1, 2]
    disk.strike_at = None
    assert other.producer("p").append(rows(2), sequence=2).ends == {0: 2}
    disk.power_cut()
    last = again(disk, clock)
    last.recover()
    assert numbers(last) == [1, 2]


def test_a_full_disk_leaves_no_torn_tail(disk, clock):
    topic = make(disk, clock)
    topic.producer().append(rows(1))
    before = bytes(hot(disk).content)
    fail_at(disk, lambda: topic.producer().append(rows(2)), "write")
    assert bytes(hot(disk).content) == before
    assert topic.producer().append(rows(2)).ends == {0: 2}


def test_everybody_fsyncs_the_folder_of_a_manifest_not_seen_before(disk, clock):
    """Its writer may have died between the rename and the fsync of the folder."""
    topic = make(disk, clock, segment_bytes=1)
    topic.producer().append(rows(1))
    fsynced = []
    real = disk.fsync_folder
    disk.fsync_folder = lambda path: (fsynced.append(path), real(path))[1]
    other = again(disk, clock, segment_bytes=10**6)
    other.recover()
    assert FOLDER / "0" in fsynced
    fsynced.clear()
    other.recover()
    assert fsynced == [], "once seen, not again"
    topic.producer().append(rows(2))  # rolls: the counter is another one
    fsynced.clear()
    other.producer().append(rows(3))
    assert fsynced == [FOLDER / "0"]


# --- sequences -----------------------------------------------------------------------------------------------------------


def test_a_repeated_sequence_is_answered_with_its_first_position(disk, clock):
    topic = make(disk, clock)
    first = topic.producer("p").append(rows(1, 2), sequence=7)
    topic.producer("q").append(rows(3), sequence=7)
    assert topic.producer("p").append(rows(1, 2), sequence=7) == first
    assert again(disk, clock).producer("p").append(rows(1, 2), sequence=7) == first
    assert numbers(topic) == [1, 2, 3]


def test_gaps_are_allowed_and_a_sequence_that_is_not_kept_is_an_error(disk, clock):
    topic = make(disk, clock)
    producer = topic.producer("p")
    producer.append(rows(1), sequence=10)
    producer.append(rows(2), sequence=20)
    with pytest.raises(UsageError, match="older than what is kept"):
        producer.append(rows(3), sequence=15)
    assert numbers(topic) == [1, 2]


def test_a_sequence_with_another_number_of_rows_is_refused(disk, clock):
    producer = make(disk, clock).producer("p")
    producer.append(rows(1), sequence=1)
    with pytest.raises(UsageError, match="used before"):
        producer.append(rows(1, 2), sequence=1)


def test_a_rolled_segment_leaves_the_newest_five_sequences_for_seven_days(disk, clock):
    topic = make(disk, clock, segment_bytes=10**6)
    for sequence in range(1, 9):
        topic.producer("p").append(rows(sequence), sequence=sequence)
    small = again(disk, clock, segment_bytes=1)
    small.producer("q").append(rows(9), sequence=1)
    small.seal()
    for sequence in range(4, 9):
        assert small.producer("p").append(rows(sequence), sequence=sequence).ends == {0: sequence}
    with pytest.raises(UsageError, match="older than what is kept"):
        small.producer("p").append(rows(3), sequence=3)
    clock.advance(seconds=8 * 24 * 3600)
    small.producer("q").append(rows(10), sequence=2)  # rolls: what p wrote is forgotten now
    assert small.producer("p").append(rows(11), sequence=3).ends == {0: 11}


def test_a_sequence_needs_a_name_and_a_frame(disk, clock):
    topic = make(disk, clock)
    with pytest.raises(UsageError, match="needs a producer with a name"):
        topic.producer().append(rows(1), sequence=1)
    big = pa.table({"n": [1, 2], "word": ["x" * (33 << 20)] * 2})
    with pytest.raises(UsageError, match="more than a frame of 64 MB"):
        topic.producer("p").append(big, sequence=1)
    assert topic.ends() == (0,)


def test_more_than_a_frame_is_several_appends(tmp_path):
    topic = Topic.create(tmp_path / "events", name="events", schema=SCHEMA)
    big = pa.table({"n": [1, 2, 3], "word": ["x" * (33 << 20)] * 3})
    assert topic.producer().append(big).ends == {0: 3}
    assert topic.read(0, 1, 3).column("n").to_pylist() == [2, 3]
    with pytest.raises(UsageError, match="a row of more than 64 MB"):
        topic.producer().append(pa.table({"n": [1], "word": ["x" * (65 << 20)]}))


# --- roll, seal, sweep ---------------------------------------------------------------------------------------------------


def test_whoever_rolls_a_segment_seals_it_behind(tmp_path):
    topic = Topic.create(tmp_path / "events", name="events", schema=SCHEMA, segment_bytes=1)
    for n in range(5):
        topic.producer().append(rows(n))
    topic.seal()
    assert numbers(topic) == [0, 1, 2, 3, 4]
    stats = topic.stats().partitions[0]
    assert (stats.segments_sealed, stats.segments_hot) == (4, 1)
    sealed = sorted((tmp_path / "events/0").glob("*.parquet"))
    table = pq.read_table(sealed[0])
    assert table.schema.names == ["n", "word", "_extra", "_reason", "_message", "_raw", "_offset", "_appended"]
    assert table.column("_offset").to_pylist() == [0]


def test_a_reader_that_finds_a_file_missing_rereads_the_manifest(disk, clock):
    topic = make(disk, clock)
    reader = again(disk, clock)
    topic.producer().append(rows(1))
    assert numbers(reader) == [1]
    small = again(disk, clock, segment_bytes=1)
    small.producer().append(rows(2))
    small.seal()
    clock.advance(seconds=3700)
    small.tidy()
    late = again(disk, clock)
    assert numbers(late) == [1, 2]
    assert numbers(reader) == [1, 2], "it knew an older manifest and files that are gone"


def test_replaced_files_go_after_an_hour_and_orphans_after_a_day(disk, clock):
    topic = make(disk, clock, segment_bytes=1)
    topic.producer().append(rows(1))
    topic.producer().append(rows(2))
    topic.seal()

    def files(suffix):
        return [name for name in disk.names(FOLDER / "0") if name.endswith(suffix)]

    disk.open(FOLDER / "0" / "00000000000000000000-orphan.parquet", create=True)
    assert (len(files(".hot")), len(files(".parquet"))) == (2, 2)
    clock.advance(seconds=3590)
    topic.tidy()
    assert (len(files(".hot")), len(files(".parquet"))) == (2, 2)
    clock.advance(seconds=20)
    topic.tidy()
    assert (len(files(".hot")), len(files(".parquet"))) == (1, 2)
    clock.advance(seconds=24 * 3600)
    topic.tidy()
    assert (len(files(".hot")), len(files(".parquet"))) == (1, 1)
    assert numbers(topic) == [1, 2]


def test_tidy_seals_what_lies_unsealed_for_a_minute(disk, clock, monkeypatch):
    monkeypatch.setattr(Partition, "_seal_behind", lambda self: None)  # who rolled it has died
    topic = make(disk, clock, segment_bytes=1)
    topic.producer().append(rows(1))
    topic.producer().append(rows(2))
    topic.tidy()
    assert topic.stats().partitions[0].segments_sealed == 0
    clock.advance(seconds=61)
    topic.tidy()
    assert topic.stats().partitions[0].segments_sealed == 1
    assert numbers(topic) == [1, 2]


def test_a_damaged_segment_is_not_sealed(disk, clock, monkeypatch):
    monkeypatch.setattr(Partition, "_seal_behind", lambda self: None)
    topic = make(disk, clock, segment_bytes=1)
    topic.producer().append(rows(1))
    old = hot(disk)
    topic.producer().append(rows(2))
    old.content[100] ^= 1
    with pytest.raises(LogDamaged):
        again(disk, clock).seal()
    assert again(disk, clock).stats().partitions[0].segments_sealed == 0


def test_slices_name_sealed_files_and_bring_the_rest(tmp_path):
    topic = Topic.create(tmp_path / "events", name="events", schema=SCHEMA, segment_bytes=1)
    for n in range(0, 9, 3):
        topic.producer().append(rows(n, n + 1, n + 2))
    topic.seal()
    slices = topic.slices(0, 1, 8)
    assert [(start, stop) for _, start, stop in slices.sealed] == [(1, 3), (3, 6)]
    assert slices.rest.column("n").to_pylist() == [6, 7]
    for path, start, stop in slices.sealed:
        offsets = pq.read_table(path).column("_offset").to_pylist()
        assert offsets[0] <= start
        assert offsets[-1] + 1 >= stop


def test_append_times_never_go_back(disk, clock):
    topic = make(disk, clock, segment_bytes=1)
    topic.producer().append(rows(1))
    earlier = ManualClock(start_us=0)
    late = again(disk, earlier, segment_bytes=1)
    late.producer().append(rows(2))
    topic.producer().append(rows(3))
    times = topic.read(0, 0, 3).column("_appended").to_pylist()
    assert times == sorted(times)


def test_frames_keep_their_range_of_event_times(disk, clock):
    schema = parse_schema("n BIGINT, time TIMESTAMP")
    folder = Path("/log/timed")
    topic = Topic.create(folder, name="timed", schema=schema, event_time="time", disk=disk, clock=clock)
    times = ["1970-01-01T00:00:02Z", None, "1970-01-01T00:00:01Z"]
    topic.producer().append([{"time": t} for t in times])
    topic.producer().append([{"n": 1}])
    current = Manifest.decode(disk.read_whole(folder / "0" / "manifest.json"), folder)
    data = disk.read_whole(folder / "0" / current.hot.name)
    first = frame.decode_header(data)
    assert (first.time_min, first.time_max) == (1_000_000, 2_000_000)
    second = frame.decode_header(data, first.bytes)
    assert (second.time_min, second.time_max) == frame.NO_TIME


# --- together ------------------------------------------------------------------------------------------------------------


def test_threads_share_fsyncs_and_lose_nothing(tmp_path):
    class Counting(RealDisk):
        """Counts group commits: one lock each."""

        groups = 0

        def lock(self, path):
            self.groups += 1
            return super().lock(path)

    disk = Counting()
    topic = Topic.create(tmp_path / "events", name="events", schema=SCHEMA, disk=disk)
    producer = topic.producer()
    began = threading.Barrier(8)
    disk.groups = 0

    def work(who):
        began.wait()
        for n in range(25):
            producer.append(rows(who * 1000 + n))

    threads = [threading.Thread(target=work, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = numbers(topic)
    assert sorted(found) == sorted(who * 1000 + n for who in range(8) for n in range(25))
    for who in range(8):
        mine = [n for n in found if n // 1000 == who]
        assert mine == sorted(mine), "each thread's appends keep their order"
    assert disk.groups < 200, "some appends shared a group"


def test_one_bad_sequence_does_not_spoil_the_group(disk, clock):
    topic = make(disk, clock)
    producer = topic.producer("p")
    producer.append(rows(1), sequence=5)
    with pytest.raises(UsageError):
        producer.append(rows(2), sequence=3)
    assert producer.append(rows(3), sequence=6).ends == {0: 2}


def test_a_producer_that_dies_in_the_middle_of_a_frame(disk, clock):
    topic = make(disk, clock)
    topic.producer("p").append(rows(1), sequence=1)
    disk.arm("kill", 1)
    with pytest.raises(Died):
        topic.producer("p").append(rows(2), sequence=2)
    disk.restart()
    other = again(disk, clock)
    assert other.producer("q").append(rows(3), sequence=1).ends == {0: 2}
    assert other.producer("p").append(rows(2), sequence=2).ends == {0: 3}
    assert numbers(other) == [1, 3, 2]
