"""The benchmarks' own arithmetic: what they publish must be what was measured."""

from __future__ import annotations

import json
import sqlite3
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from bench.blip import seconds_until_back
from bench.events import KEYS, Campaigns, events, expected, views_in
from bench.picture import Curve, Mark, draw
from bench.questions import BENCHES
from bench.results import Result, publish
from bench.traffic import BATCH, PER_SECOND, Probe


def test_a_ratio_is_judged_by_its_limit():
    assert Result("q", "ms", 100.0, 400.0, 1 / 3).as_entry()["met"] is True
    assert Result("q", "ms", 200.0, 400.0, 1 / 3).as_entry()["met"] is False
    assert Result("q", "events/s", 5.0, 4.0, 1.0, "more").as_entry()["met"] is True
    assert Result("q", "s", 11.0, limit=10).as_entry()["met"] is False
    assert Result("q", "s", None, limit=10).as_entry()["met"] is False
    assert Result("q", "s", 11.0).as_entry()["met"] is None


def test_a_value_is_judged_although_there_is_a_baseline():
    entry = Result("q", "rows/s", 600_000, 900_000, 500_000, "more", judged_by_value=True).as_entry()
    assert (entry["met"], entry["ratio"], entry["target"]) == (True, 0.667, ">= 500,000 rows/s")


def test_one_benchmark_again_keeps_the_entries_of_others(tmp_path):
    order = [question for bench in BENCHES for question in bench.questions]
    first, second = BENCHES[0].questions[0], BENCHES[1].questions[0]
    publish([Result(first, "ms", 1.0), Result("no longer asked", "ms", 1.0)], order=order, folder=tmp_path)
    publish([Result(second, "ms", 2.0)], order=order, folder=tmp_path)
    publish([Result(first, "ms", 3.0)], order=order, folder=tmp_path)
    entries = json.loads((tmp_path / "benchmarks.json").read_text())
    assert [(entry["question"], entry["value"]) for entry in entries] == [(first, 3.0), (second, 2.0)]
    assert set(entries[0]) == {"question", "unit", "value", "baseline", "ratio", "target", "met", "hardware", "date"}
    assert f"| {first} | 3 ms |" in (tmp_path / "benchmarks.md").read_text()


def test_every_question_is_asked_once():
    questions = [question for bench in BENCHES for question in bench.questions]
    assert len(set(questions)) == len(questions)


def test_latency_ends_when_every_table_holds_the_rows(tmp_path):
    file = tmp_path / "t.db"
    db = sqlite3.connect(file, isolation_level=None)
    db.executescript("CREATE TABLE a (k, n, s); CREATE TABLE b (k, n, s); INSERT INTO a VALUES (1, 500, 0)")
    probe = Probe(file, ["a", "b"])
    assert probe.look() == 0
    db.execute("INSERT INTO b VALUES (1, 500, 0)")
    assert probe.look() == BATCH
    late = probe.latencies_ms(np.array([probe.when[-1] - 0.25, probe.when[-1]]))
    assert late[0] == pytest.approx(250)
    assert np.isinf(late[1])


def test_what_five_tables_hold():
    rows = events(1000)
    for table in KEYS:
        held = expected(rows, table)
        assert sum(n for _, n, _ in held) == 1000
        assert sum(s for _, _, s in held) == sum(rows["value"].to_pylist())


def test_campaigns_are_the_same_again():
    assert Campaigns().rows(0, 100).equals(Campaigns().rows(0, 100))
    assert 0 < views_in(Campaigns().rows(0, 100)) < 100


def test_back_is_the_first_window_as_good_as_before():
    late = np.full(60 * PER_SECOND, 100.0)
    late[20 * PER_SECOND : 30 * PER_SECOND] = 5_000
    assert seconds_until_back(late, 20.0, 100.0) == 10.0
    assert seconds_until_back(late, 20.0, 50.0) is None


def test_a_picture_is_svg():
    picture = draw("t", [Curve("a < b", [(0, 1), (100, 5000)], dots=True)], marks=[Mark(50, "here")], level=Mark(10, "usual"))
    assert ET.fromstring(picture).tag.endswith("svg")
