"""The runner over real files, with the store copied back, replaced and deleted, and its folders gone."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.errors import AlreadyRunning, StoreReplaced, StoreRestored
from headrace.live import Run
from headrace.place import Place
from headrace.runtime.runner import Event, Runner
from headrace.settings import Settings
from headrace.store.reader import Reader
from headrace.topics import open_topic
from headrace.verify import verify


@dataclass
class Shop:
    """An app in a folder, run in this process."""

    folder: Path
    said: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        app = hr.App("shop")
        app.topic("sales", schema="item STRING, n INT", partitions=2)
        app.sql("sold", key=["item"], query="SELECT item, sum(n) AS n FROM sales GROUP BY item")
        self.app = app.definition()
        self.place = Place.of("shop", self.folder)
        self.rows = 0

    def sell(self, count: int = 1) -> dict[int, int]:
        """Append rows; returns the ends of the topic."""
        topic = open_topic(self.place, self.app.topics["sales"])
        for _ in range(count):
            topic.producer().append([{"item": "pen", "n": 1}])
            self.rows += 1
        return dict(enumerate(topic.ends()))

    def runner(self) -> Runner:
        """A runner that remembers what it says."""
        return Runner(self.app, self.place, Settings(), report=self.said.append)

    def run_once(self, **options: Any) -> None:
        """Take what is there."""
        self.runner().run(once=True, **options)

    @contextlib.contextmanager
    def running(self) -> Iterator[Run]:
        """The app at work in a thread."""
        runner = self.runner()
        ready = threading.Event()
        runner._report = lambda event: (self.said.append(event), ready.set() if event.message == "running" else None)
        run = Run(runner, self.place).begin()
        try:
            assert ready.wait(60)
            yield run
        finally:
            runner.stop()
            with contextlib.suppress(Exception):
                run.join()

    @property
    def sold(self) -> int:
        """What the table says."""
        with Reader(self.place.store) as reader:
            return int(reader.query("SELECT coalesce(sum(n), 0) FROM sold").rows[0][0])

    def keep(self, beside: Path) -> None:
        """A backup of the store."""
        with contextlib.closing(sqlite3.connect(self.place.store)) as db, contextlib.closing(sqlite3.connect(beside)) as copy:
            db.backup(copy)

    def put_back(self, saved: Path) -> None:
        """A backup in the store's place, as the docs say it is done."""
        self.drop_store()
        shutil.copy(saved, self.place.store)

    def drop_store(self) -> None:
        """The store and what belongs to it."""
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.place.store}{suffix}").unlink(missing_ok=True)

    def heard(self, text: str) -> bool:
        """Whether the runner has said this."""
        return any(text in event.message for event in self.said)


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_yesterdays_copy_is_refused_and_goes_on_when_asked(shop: Shop, tmp_path: Path) -> None:
    shop.sell(3)
    shop.run_once()
    shop.keep(tmp_path / "yesterday.db")
    shop.sell(2)
    shop.run_once()
    assert shop.sold == 5
    shop.put_back(tmp_path / "yesterday.db")
    with pytest.raises(StoreRestored) as refused:
        shop.run_once()
    assert refused.value.exit_code == 3
    assert "--restored" in str(refused.value.hint)
    assert shop.sold == 3
    shop.run_once(restored=True)
    assert shop.heard("a new lineage begins")
    assert shop.sold == 5
    with Reader(shop.place.store) as reader:
        assert len({row.lineage for row in reader.ledger()}) == 2
    shop.sell()
    shop.run_once()
    assert shop.sold == 6
    assert verify(shop.app, shop.place, Settings()).ok


@pytest.mark.parametrize("how", ["replaced", "deleted"])
def test_the_store_goes_under_a_running_app(shop: Shop, tmp_path: Path, how: str) -> None:
    shop.sell(3)
    shop.run_once()
    shop.keep(tmp_path / "copy.db")
    with shop.running() as run:
        if how == "replaced":
            shop.put_back(tmp_path / "copy.db")
        else:
            shop.drop_store()
        with pytest.raises(StoreReplaced) as stopped:
            run.join()
    assert stopped.value.exit_code == 3
    assert how in str(stopped.value)
    if how == "deleted":
        # That is no failure of the past: the next start makes it anew from the log.
        shop.run_once()
        assert shop.sold == 3


def test_a_deleted_store_is_made_anew_from_the_log(shop: Shop) -> None:
    shop.sell(4)
    shop.run_once()
    assert shop.heard("the store is new")
    shop.said.clear()
    shop.drop_store()
    shop.run_once()
    assert shop.heard("the store is new: it begins from the log")
    assert shop.sold == 4
    assert verify(shop.app, shop.place, Settings()).ok


def test_folders_that_may_go_are_gone(shop: Shop) -> None:
    """`run/` may go at any time, `tmp/` while nothing runs; the second start needs neither."""
    shop.sell()
    with shop.running() as run:
        shutil.rmtree(shop.place.run)
        shutil.rmtree(shop.place.tmp, ignore_errors=True)
        topic = open_topic(shop.place, shop.app.topics["sales"])
        shop.sell(2)
        run.wait(topic.position(), timeout=60)
        assert shop.sold == 3
    shutil.rmtree(shop.place.run, ignore_errors=True)
    shutil.rmtree(shop.place.tmp, ignore_errors=True)
    shop.sell()
    shop.run_once()
    assert shop.sold == 4


def test_a_second_run_is_refused_and_the_first_goes_on(shop: Shop) -> None:
    with shop.running() as run:
        with pytest.raises(AlreadyRunning, match="process"):
            shop.run_once()
        topic = open_topic(shop.place, shop.app.topics["sales"])
        shop.sell()
        run.wait(topic.position(), timeout=60)
    assert shop.sold == 1


def test_after_a_failure_the_same_process_may_begin_again_at_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook lives on after its app failed, and nobody should have to wait there for a heartbeat to grow old."""
    shop.sell()
    runner = shop.runner()
    fail: Callable[..., None] = lambda *_: (_ for _ in ()).throw(RuntimeError("the world ended"))  # noqa: E731
    monkeypatch.setattr(runner, "_keep_up", fail)
    with pytest.raises(RuntimeError):
        runner.run()
    shop.run_once()
    assert shop.sold == 1
