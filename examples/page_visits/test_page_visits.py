"""Visits and visitors, row by row and all at once."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from types import ModuleType
from typing import Any

FIRST, SECOND = dt.date(2026, 3, 1), dt.date(2026, 3, 2)


def counts(rows: list[dict[str, Any]], what: str) -> dict[tuple[str, dt.date], int]:
    return {(row["page"], row["day"]): row[what] for row in rows}


def test_visits_and_visitors_per_page_and_day(example: ModuleType, project: Path) -> None:
    app = example.app
    rows = [json.loads(line) for line in (project / "visits.jsonl").read_text().splitlines()]
    with app.start() as run:
        for part in (rows[:3], rows[3:4], rows[4:]):
            run.wait(example.visits.append(part), timeout=60)
    expected = {("/", FIRST): 3, ("/docs", FIRST): 2, ("/", SECOND): 1, ("/docs", SECOND): 2}
    assert counts(app.read("visits_per_day").to_dicts(), "visits") == expected
    # Ada came twice on the first day; the visitor without a name counts as a visit, and as nobody.
    expected = {("/", FIRST): 2, ("/docs", FIRST): 2, ("/", SECOND): 1, ("/docs", SECOND): 1}
    assert counts(app.read("visitors_per_day").to_dicts(), "visitors") == expected
    assert app.verify().ok
