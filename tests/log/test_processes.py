"""Real processes and real kills: producers that die in the middle of a frame while others go on, and readers beside them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.log import Topic
from headrace.schema import parse_schema

SCHEMA = parse_schema("who BIGINT, n BIGINT, pad STRING")
ROWS = 20

PRODUCER = """
import sys
from pathlib import Path
from headrace.log import RealDisk, Topic
from headrace.log.disk import RealFile

folder, who, first, last, die_at = Path(sys.argv[1]), *map(int, sys.argv[2:6])


class DyingFile(RealFile):
    writes = 0

    def write(self, at, data):
        if len(data) > 100:
            DyingFile.writes += 1
            if DyingFile.writes == die_at:
                import os, signal
                super().write(at, data[: len(data) * who // 7])
                os.kill(os.getpid(), signal.SIGKILL)
        super().write(at, data)


class DyingDisk(RealDisk):
    def open(self, path, *, create=False):
        file = super().open(path, create=create)
        fd, file._fd = file._fd, -1
        return DyingFile(fd)


topic = Topic.open(folder, disk=DyingDisk(), segment_bytes=40_000)
producer = topic.producer(f"p{who}")
for n in range(first, last):
    rows = [{"who": who, "n": n * 20 + i, "pad": "x" * (n % 50)} for i in range(20)]
    print(n, producer.append(rows, sequence=n).token, flush=True)
"""

READER = """
import sys
import time
from pathlib import Path
from headrace.log import Topic

folder, wanted = Path(sys.argv[1]), int(sys.argv[2])
topic, seen = Topic.open(folder), 0
newest = {}
while seen < wanted:
    time.sleep(0.005)  # the pace of a reader; nothing waits for it
    (end,) = topic.ends()
    assert end >= seen, (end, seen)
    for row in topic.read(0, seen, end).select(["who", "n", "_offset"]).to_pylist():
        assert row["_offset"] == seen
        assert row["n"] == newest.get(row["who"], -1) + 1, row
        newest[row["who"]] = row["n"]
        seen += 1
print(seen)
"""


def start(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_producers_die_in_the_middle_of_a_frame_while_others_go_on_and_readers_read(tmp_path):
    folder, batches = tmp_path / "events", 40
    Topic.create(folder, name="events", schema=SCHEMA)
    wanted = 3 * batches * ROWS
    readers = [start(READER, folder, wanted) for _ in range(1)]
    living = start(PRODUCER, folder, 1, 0, batches, -1)
    answers = {}
    for who, deaths in ((2, [7]), (5, [12])):
        first = 0
        for die_at in [*deaths, -1]:
            child = start(PRODUCER, folder, who, first, batches, die_at)
            out, err = child.communicate()
            assert child.returncode == (-signal.SIGKILL if die_at > 0 else 0), err
            for line in out.splitlines():
                n, token = line.split()
                assert answers.setdefault((who, n), token) == token
                first = int(n)  # the last acknowledged one is repeated, too
    out, err = living.communicate()
    assert living.returncode == 0, err
    for reader in readers:
        out, err = reader.communicate()
        assert (reader.returncode, out.strip()) == (0, str(wanted)), err
    topic = Topic.open(folder)
    table = topic.read(0, 0, topic.ends()[0])
    for who in (1, 2, 5):
        mine = table.filter(pa.compute.equal(table.column("who"), who)).column("n").to_pylist()
        assert mine == list(range(batches * ROWS))
    topic.seal()  # who rolled a segment seals it in the background, and may have ended before
    assert topic.stats().partitions[0].segments_sealed > 0


def test_a_lock_is_released_by_the_death_of_its_holder(tmp_path):
    folder = tmp_path / "events"
    topic = Topic.create(folder, name="events", schema=SCHEMA)
    holder = start(
        "import sys, time\nfrom pathlib import Path\nfrom headrace.log import RealDisk\n"
        "with RealDisk().lock(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(600)\n",
        folder / "0" / "lock",
    )
    assert holder.stdout.readline() == "held\n"
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    assert topic.producer().append([{"who": 1}]).ends == {0: 1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_may_use_what_its_parent_opened(tmp_path):
    topic = Topic.create(tmp_path / "events", name="events", schema=SCHEMA)
    producer = topic.producer()
    producer.append([{"who": 0}])
    pids = []
    for who in (1, 2):
        pid = os.fork()
        if pid == 0:
            for n in range(20):
                producer.append([{"who": who, "n": n}])
            os._exit(0)
        pids.append(pid)
    for n in range(20):
        producer.append([{"who": 3, "n": n}])
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0]
    table = Topic.open(Path(tmp_path / "events")).read(0, 0, 61)
    for who in (1, 2, 3):
        assert table.filter(pa.compute.equal(table.column("who"), who)).column("n").to_pylist() == list(range(20))
