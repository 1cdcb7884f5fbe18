"""Editing the app: each edit ends equal to batch, and history goes on where columns and key are as they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headrace import App
from headrace.errors import EpochTrimmed
from headrace.runtime.protocol import CrashPoint
from headrace.store.reader import Reader
from headrace.testing import Trial
from headrace.testing.trial import Abandoned

ROWS = [{"k": "a", "n": 1}, {"k": "b", "n": 2}, {"k": "a", "n": 3}]
BY_K = "SELECT k, count(*) AS n FROM events GROUP BY k"


@pytest.fixture(autouse=True)
def shared_spark(spark: SparkSession) -> SparkSession:
    return spark


def names(folder: Path, **of: str) -> None:
    """Write the reference."""
    pq.write_table(pa.table({"k": list(of), "name": list(of.values())}), folder / "names.parquet")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Trial]:
    names(tmp_path, a="Ann")
    definition = base(tmp_path)
    with Trial(definition.definition(), tmp_path / "data") as trial:
        for row in ROWS:
            trial.append("events", [row])
            trial.epoch()
        yield trial


def base(folder: Path, *, counts: str = BY_K, key: list[str] | None = None, without: str = "", also: str = "") -> App:
    """The app, perhaps edited."""
    made = App("edited")
    made.topic("events", "k STRING, n INT")
    made.reference("names", folder / "names.parquet")
    made.sql("counts", counts, key=key)
    if without != "over":
        made.sql("over", "SELECT n, count(*) AS groups FROM counts GROUP BY n")
    if without != "pairs":
        made.sql("pairs", "SELECT x.k, x.n, y.n AS m FROM events x JOIN events y ON x.k = y.k", key=["k", "n", "m"])
    made.sql("named", "SELECT e.k, e.n, r.name FROM events e JOIN names r ON e.k = r.k", key=["k", "n"])
    if also:
        made.sql("added", also)
    return made


def edited(running: Trial, made: App, n: int = 2) -> None:
    """Start again with the edited app, take one more row, and compare with batch."""
    running.restart(made.definition())
    assert running.verify().ok, running.verify()
    running.append("events", [{"k": "c", "n": n}])
    running.epoch()
    assert running.verify().ok, running.verify()


def test_an_edited_function_changes_its_table_and_those_over_it(running: Trial, tmp_path: Path):
    edited(running, base(tmp_path, counts="SELECT k, count(*) + 10 AS n FROM events WHERE n > 1 GROUP BY k"))
    assert running.rows("counts") == [{"k": "a", "n": 11}, {"k": "b", "n": 11}, {"k": "c", "n": 11}]
    assert running.rows("over") == [{"n": 11, "groups": 3}]
    assert running.rows("counts", as_of=4) == [{"k": "a", "n": 2}, {"k": "b", "n": 1}], "history goes on"
    with Reader(running.place.store) as reader:
        (a,) = [c for c in reader.changes("counts", after=4, upto=5) if c.key == ("a",)]
        assert (a.before["n"], a.after["n"]) == (2, 11)
        assert [row.kind for row in reader.ledger()][4] == "rebuild"


def test_nothing_is_rebuilt_for_a_comment_or_a_restart(running: Trial, tmp_path: Path):
    before = running.head.epoch
    running.restart(base(tmp_path, counts="SELECT k, count(*) AS n -- per key\nFROM events   GROUP BY k").definition())
    assert running.head.epoch == before


def test_an_added_table_is_filled_from_the_log(running: Trial, tmp_path: Path):
    edited(running, base(tmp_path, also="SELECT k, sum(n) AS s, max(n) AS m FROM events GROUP BY k"))
    assert [(row["k"], row["s"]) for row in running.rows("added")] == [("a", 4), ("b", 2), ("c", 2)]
    with pytest.raises(EpochTrimmed, match="begins"):
        running.rows("added", as_of=3)


def test_a_removed_table_is_hidden_and_may_come_back(running: Trial, tmp_path: Path):
    edited(running, base(tmp_path, without="pairs"))
    with Reader(running.place.store) as reader:
        assert {info.name: info.state for info in reader.tables()}["pairs"] == "removed"
    edited(running, base(tmp_path), n=9)
    assert len(running.rows("pairs")) == 4 + 1 + 4


def test_a_changed_key_begins_a_new_history(running: Trial, tmp_path: Path):
    edited(running, base(tmp_path, counts=BY_K.replace("count(*)", "count(*) * 0 + max(n)"), key=["k", "n"]))
    assert [(row["k"], row["n"]) for row in running.rows("counts")] == [("a", 3), ("b", 2), ("c", 2)]
    with pytest.raises(EpochTrimmed):
        running.rows("counts", as_of=4)


def test_new_columns_swap_the_table(running: Trial, tmp_path: Path):
    edited(running, base(tmp_path, counts="SELECT k, count(*) AS n, max(n) AS most FROM events GROUP BY k"))
    assert [row["most"] for row in running.rows("counts")] == [3, 2, 2]


def test_a_reference_with_new_content_restates_what_reads_it(running: Trial, tmp_path: Path):
    assert {row["name"] for row in running.rows("named")} == {"Ann"}
    names(tmp_path, a="Anna", b="Bob", c="Cy")
    edited(running, base(tmp_path))
    assert sorted(row["name"] for row in running.rows("named")) == ["Anna", "Anna", "Bob", "Cy"]
    assert {row["name"] for row in running.rows("named", as_of=4)} == {"Ann"}


@pytest.mark.parametrize("crash", ["before:commit", "after:commit"])
def test_a_rebuild_that_is_killed_is_made_again(running: Trial, tmp_path: Path, crash: str):
    made = base(tmp_path, counts="SELECT k, sum(n) AS n FROM events GROUP BY k")
    with pytest.raises(Abandoned):
        running.restart(made.definition(), crash=CrashPoint.parse(crash))
    running.abandon()
    edited(running, made)
    assert running.rows("counts") == [{"k": "a", "n": 4}, {"k": "b", "n": 2}, {"k": "c", "n": 2}]
