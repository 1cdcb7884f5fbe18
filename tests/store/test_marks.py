"""Marks: forward only, durable, and what they say about a store that went back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.clock import ManualClock
from headrace.errors import Fenced, StoreReplaced
from headrace.store.base import Generation, Head
from headrace.store.marks import Mark, Marks, standing
from headrace.store.process import Process

from ..log.forgetful import Died, ForgetfulDisk

ME = Process.mine()
OURS = Mark("a", 2, 5, 7, "h7", {"events": {0: 12, 1: 3}})


def fine() -> None:
    """A store that is the one we have open."""


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    return Marks(tmp_path, "app", [tmp_path / "log" / "events", tmp_path / "log" / "clicks"])


def test_a_mark_is_written_beside_each_topic(tmp_path: Path, marks: Marks) -> None:
    assert marks.missing()
    marks.write(OURS, fine)
    assert marks.read() == [OURS, OURS]
    assert not marks.missing()
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()) == [
        "log/clicks/readers/app",
        "log/events/readers/app",
        "marks.lock",
    ]


def test_an_app_without_topics_has_a_mark_of_its_own(tmp_path: Path) -> None:
    Marks(tmp_path, "app").write(OURS, fine)
    assert Mark.of((tmp_path / "readers.json").read_bytes()) == OURS


@pytest.mark.parametrize(
    "newer",
    [
        Mark("a", 2, 5, 8, "h8"),
        Mark("a", 2, 6, 7, "h7"),
        Mark("a", 2, 6, 1, "h1"),
        Mark("b", 2, 1, 1, "x"),
        Mark("b", 3, 1, 1, "x"),
    ],
)
def test_marks_move_forward_only(marks: Marks, newer: Mark) -> None:
    marks.write(newer, fine) if newer.lineage == "a" else marks.claim(newer.number - 1, lambda n: newer, fine)
    with pytest.raises(Fenced, match="a newer one has written its mark"):
        marks.write(OURS, fine)
    assert marks.read() == [newer, newer]


def test_a_newer_history_goes_over_an_older_one(marks: Marks) -> None:
    marks.write(OURS, fine)
    newer = Mark("b", 3, 1, 1, "x")
    marks.write(newer, fine)
    assert marks.read() == [newer, newer]


def test_nothing_is_written_for_a_store_that_is_gone(marks: Marks) -> None:
    def gone() -> None:
        raise StoreReplaced("gone")

    with pytest.raises(StoreReplaced):
        marks.write(OURS, gone)
    assert marks.read() == []


def test_a_claim_is_higher_than_all(marks: Marks) -> None:
    marks.write(OURS, fine)
    assert marks.claim(0, lambda number: Mark("b", number, 1, 0, ""), fine).number == 3
    assert marks.claim(9, lambda number: Mark("c", number, 1, 0, ""), fine).number == 10


def test_a_strangers_mark_is_noticed(marks: Marks) -> None:
    marks.write(OURS, fine)
    marks.check(OURS)
    with pytest.raises(Fenced, match="the mark of another"):
        marks.check(Mark("a", 2, 4, 7, "h7"))


def test_a_mark_that_cannot_be_read_is_missing(tmp_path: Path, marks: Marks) -> None:
    marks.write(OURS, fine)
    (tmp_path / "log" / "events" / "readers" / "app").write_bytes(b"{")
    assert marks.read() == [OURS]
    assert marks.missing()
    marks.check(OURS)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([], "ours"),
        ([Mark("a", 2, 5, 7, "h7")], "ours"),
        ([Mark("a", 2, 4, 6, "h6")], "ours"),
        ([Mark("z", 1, 99, 99, "x")], "ours"),  # an older history: written anew
        ([Mark("a", 2, 5, 8, "h8")], "restored"),  # an epoch that the ledger does not have
        ([Mark("a", 2, 5, 7, "other")], "restored"),  # the same epoch, another one
        ([Mark("a", 2, 6, 7, "h7")], "restored"),  # a generation that the store does not know
        ([Mark("b", 2, 1, 7, "h7")], "restored"),  # another history with the same number
        ([Mark("b", 3, 6, 7, "h7")], "claimed"),  # a new lineage began exactly here
        ([Mark("b", 3, 6, 6, "h6")], "restored"),
        ([Mark("z", 1, 9, 9, "x"), Mark("a", 2, 5, 7, "h7")], "ours"),  # one topic's mark was not written in time
        ([Mark("b", 3, 6, 9, "x"), Mark("a", 2, 5, 7, "h7")], "restored"),
    ],
)
def test_what_marks_say(found: list[Mark], said: str) -> None:
    ledger = {6: "h6", 7: "h7"}
    generation = Generation(5, "nonce", "a", 2, ME)
    assert standing(found, generation, Head(7, "h7"), lambda epoch, digest: epoch == 0 or ledger.get(epoch) == digest) == said


@pytest.mark.parametrize("strike", ["cut", "kill", "eio"])
@pytest.mark.parametrize("after", range(1, 16))
def test_a_mark_that_was_written_survives_and_none_is_ever_torn(strike: str, after: int) -> None:
    disk = ForgetfulDisk(ManualClock(), seed=after)
    marks = Marks(Path("/app"), "app", [Path("/app/log/events"), Path("/app/log/clicks")], disk=disk)
    newer = replace(OURS, epoch=8, hash="h8")
    marks.write(OURS, fine)
    disk.power_cut()
    assert marks.read() == [OURS, OURS]
    disk.arm(strike, after)
    try:
        marks.write(newer, fine)
        written = True
    except (Died, OSError):
        written = False
    disk.restart()
    if written:
        disk.power_cut()
        assert marks.read() == [newer, newer]
    found = marks.read()
    assert len(found) == 2
    assert set(map(Mark.as_bytes, found)) <= {OURS.as_bytes(), newer.as_bytes()}
    marks.write(newer, fine)
    disk.power_cut()
    assert marks.read() == [newer, newer]
