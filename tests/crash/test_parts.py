"""Parts of a running app end: its JVM, a Python worker. The app goes on, and nothing is lost or comes twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .kit import App, Project, wait_until

SABOTAGE = Path(__file__).with_name("sabotage.py")


def send(words: Project, *rows: dict[str, object]) -> None:
    """Append rows as a user does."""
    words.call("send", "words", "-", given="".join(json.dumps(row) + "\n" for row in rows).encode())


def wait_counts(words: Project, app: App, wanted: list[list[object]]) -> None:
    """Wait until the table has these rows."""

    def there() -> bool:
        assert app.process.poll() is None, app.text
        return words.rows("SELECT capitals, n FROM counts ORDER BY capitals") == wanted

    wait_until(there, f"{wanted}")


def test_a_worker_and_the_jvm_die_in_the_middle_of_an_epoch(project: Callable[..., Project]) -> None:
    words = project(SABOTAGE)
    send(words, {"word": "a"}, {"word": "b"})
    app = words.start().wait_running()
    wait_counts(words, app, [["A", 1], ["B", 1]])
    first = app.jvm()
    send(words, {"word": "a"}, {"word": "c", "victim": "worker", "times": 1})
    wait_counts(words, app, [["A", 2], ["B", 1], ["C", 1]])
    assert len(app.events("a Python worker died")) == 1
    assert app.jvm() == first
    send(words, {"word": "b"}, {"word": "d", "victim": "jvm", "times": 1})
    wait_counts(words, app, [["A", 2], ["B", 2], ["C", 1], ["D", 1]])
    assert len(app.events("(1 of 3)")) == 2
    assert app.jvm() != first
    assert words.rows("SELECT letter, n FROM letters ORDER BY letter") == [["A", 2], ["B", 2], ["C", 1], ["D", 1]]
    assert app.stop() == 143


@pytest.mark.slow
def test_the_jvm_dies_too_often(project: Callable[..., Project]) -> None:
    words = project(SABOTAGE)
    send(words, {"word": "a", "victim": "jvm", "times": 4})
    app = words.start()
    assert app.wait_ended() == 3, app.text
    assert len(app.events("starting another one")) == 3
    assert app.error["code"] == "spark_died"
    assert "died 4 times" in app.error["message"]
    assert "HEADRACE_SPARK_MEMORY" in app.error["try"]
    again = words.start().wait_running()
    wait_counts(words, again, [["A", 1]])
    assert again.stop() == 143
    words.verify()


@pytest.mark.slow
def test_a_worker_dies_too_often(project: Callable[..., Project]) -> None:
    words = project(SABOTAGE)
    send(words, {"word": "a", "victim": "worker", "times": 4})
    app = words.start()
    assert app.wait_ended() == 3, app.text
    assert app.error["code"] == "worker_died"
    assert words.rows("SELECT count(*) FROM counts") == [[0]]
    again = words.start().wait_running()
    wait_counts(words, again, [["A", 1]])
    assert again.stop() == 143
