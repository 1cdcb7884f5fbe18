"""Searches, joined with clicks that come before, after, and never."""

from __future__ import annotations

import datetime as dt
from types import ModuleType
from typing import Any


def at(minute: int) -> dt.datetime:
    return dt.datetime(2026, 2, 1, 10, minute, tzinfo=dt.timezone.utc)


def pairs(rows: list[dict[str, Any]]) -> set[tuple[int, str | None]]:
    return {(row["query_id"], row["url"]) for row in rows}


def test_a_search_is_shown_at_once_and_its_click_replaces_the_empty_row(example: ModuleType) -> None:
    app, searches, clicks = example.app, example.searches, example.clicks
    with app.start() as run:
        run.wait(clicks.append([{"query_id": 3, "url": "/early", "time": at(9)}]), timeout=60)
        assert pairs(app.read("clicked").to_dicts()) == set()

        asked = [{"query_id": n, "words": "tent" if n == 3 else "red shoes", "time": at(n)} for n in (1, 2, 3)]
        run.wait(searches.append(asked), timeout=60)
        assert pairs(app.read("clicked").to_dicts()) == {(1, None), (2, None), (3, "/early")}

        run.wait(clicks.append([{"query_id": 1, "url": url, "time": at(20)} for url in ("/shoes/7", "/shoes/9")]), timeout=60)
        assert pairs(app.read("clicked").to_dicts()) == {(1, "/shoes/7"), (1, "/shoes/9"), (2, None), (3, "/early")}
    assert app.read("success", where="words = 'red shoes'").to_dicts() == [{"words": "red shoes", "searches": 2, "with_click": 1}]
    gone = [change for change in app.changes("clicked") if change.after is None]
    assert [(change.before["query_id"], change.before["url"]) for change in gone if change.before] == [(1, None)]
    assert app.verify().ok
