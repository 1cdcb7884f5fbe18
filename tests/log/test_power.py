"""Power cuts, kills and failing fsyncs at every operation of a story of appends, rolls, seals and sweeps.

Checked each time: what was acknowledged is there, once, where it was said to be; what a reader has seen never changes;
repeating unacknowledged sequences completes them; the log goes on.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.clock import ManualClock
from headrace.errors import HeadraceError
from headrace.log import Topic
from headrace.log.partition import Partition
from headrace.schema import parse_schema

from .forgetful import Died, ForgetfulDisk

FOLDER = Path("/data/app/log/events")
SCHEMA = parse_schema("n BIGINT, word STRING")
LAST = 9


@pytest.fixture(autouse=True)
def sealing_where_the_story_says_so(monkeypatch):
    """Rolled segments are sealed by the story itself, so that the n-th operation is the same one each time."""
    monkeypatch.setattr(Partition, "_seal_behind", lambda self: None)


def rows_of(sequence):
    return [{"n": sequence * 100 + i, "word": f"w{sequence}"} for i in range(1 + sequence % 3)]


class Story:
    """One producer's life, remembered outside the machine that may lose its power."""

    def __init__(self, seed):
        self.clock = ManualClock()
        self.disk = ForgetfulDisk(self.clock, seed)
        self.acknowledged = {}
        self.seen = []
        self.topic = None

    def open(self):
        self.topic = Topic.create(FOLDER, name="events", schema=SCHEMA, disk=self.disk, clock=self.clock, segment_bytes=900)
        self.topic.recover()
        return self.topic

    def look(self):
        """A reader reads everything that is published: it must begin with all that it saw before."""
        end = self.topic.ends()[0]
        found = self.topic.read(0, 0, end).column("n").to_pylist()
        assert found[: len(self.seen)] == self.seen, "an offset that was read changed its content"
        assert len(found) >= len(self.seen), "rows that were read are gone"
        self.seen = found

    def run(self):
        topic = self.open()
        producer = topic.producer("p")
        for sequence in range(1, LAST + 1):
            if sequence in self.acknowledged and sequence < max(self.acknowledged):
                continue
            position = producer.append(rows_of(sequence), sequence=sequence)
            assert self.acknowledged.setdefault(sequence, position.ends) == position.ends, "a repetition has another answer"
            self.look()
            if sequence % 4 == 0:
                topic.seal()
                self.clock.advance(seconds=4000)
                topic.tidy()
                self.look()

    def check(self):
        self.look()
        words = self.topic.read(0, 0, self.topic.ends()[0])
        n, at = words.column("n").to_pylist(), {}
        for sequence in range(1, LAST + 1):
            wanted = [row["n"] for row in rows_of(sequence)]
            at[sequence] = n.index(wanted[0])
            assert n[at[sequence] : at[sequence] + len(wanted)] == wanted, "a frame is not whole"
            assert self.acknowledged[sequence] == {0: at[sequence] + len(wanted)}, "a row is not where it was said to be"
        assert len(n) == sum(len(rows_of(s)) for s in range(1, LAST + 1)), "rows are doubled"
        assert words.column("_offset").to_pylist() == list(range(len(n)))
        appended = words.column("_appended").to_pylist()
        assert appended == sorted(appended), "append times went back"


def operations():
    story = Story(0)
    story.run()
    story.check()
    return story.disk.steps


def seeds(few, many):
    """A few for everyday, many for `make test-all`."""
    return [*range(few), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(few, many))]


OPERATIONS = 400
"""More than the story has, as the next test asserts."""


def test_the_campaigns_cover_the_story():
    assert 80 < operations() < OPERATIONS


@pytest.mark.parametrize("strike", ["cut", "kill", "eio"])
@pytest.mark.parametrize("seed", seeds(few=2, many=10))
def test_a_strike_at_every_operation_loses_and_doubles_nothing(strike, seed):
    for after in range(1, operations() + 1):
        story = Story(seed * 1000 + after)
        story.disk.arm(strike, after)
        for _ in range(4):
            try:
                story.run()
                break
            except (Died, HeadraceError, OSError) as error:
                if strike != "eio" and not isinstance(error, Died):
                    raise
                story.disk.restart()
        else:
            pytest.fail(f"did not get well again after {strike} at operation {after}: {story.disk.struck}")
        story.check()
        if strike == "eio":  # what was acknowledged after the failure must be on the disk, not only in its cache
            story.disk.power_cut()
            story.open()
            story.check()


@pytest.mark.parametrize("seed", seeds(few=100, many=1000))
def test_strike_upon_strike(seed):
    story = Story(seed)
    rng = story.disk.rng
    for _ in range(40):
        story.disk.arm(rng.choice(("cut", "cut", "kill", "eio")), rng.randrange(1, 60))
        try:
            story.run()
            story.disk.strike_at = None
            break
        except (Died, HeadraceError, OSError):
            story.disk.restart()
            if rng.random() < 0.2 and story.disk.exists(FOLDER / "0" / "end"):
                story.disk.unlink(FOLDER / "0" / "end")
    story.disk.strike_at = None
    story.run()
    story.check()
