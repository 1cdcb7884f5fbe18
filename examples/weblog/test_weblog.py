"""The log against plain Python over the same lines."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from types import ModuleType

WRONG = 400


def test_requests_errors_slow_urls_and_the_top_ten(example: ModuleType, project: Path) -> None:
    app, log = example.app, (project / "access.log").read_text().splitlines()
    with app.start() as run:
        for start in range(0, len(log), 50):
            run.wait(example.lines.append([{"value": line} for line in log[start : start + 50]]), timeout=60)

    requests = [line.split() for line in log if len(line.split()) == 6]
    first = app.read("requests", where="url = '/codemove/TTCENCUFMH3C'").to_dicts()[0]
    assert first == {
        "time": dt.datetime(2016, 12, 6, 8, 58, 35, 318000, tzinfo=dt.timezone.utc),
        "address": "37.139.9.11",
        "status": 404,
        "method": "GET",
        "url": "/codemove/TTCENCUFMH3C",
        "seconds": Decimal("0.026"),
    }
    assert len(app.read("requests")) == len(requests)
    assert app.read("unreadable").to_dicts() == [{"lines": len(log) - len(requests)}]

    asked = Counter(address for _, address, *_ in requests)
    wrong = Counter(address for _, address, status, *_ in requests if int(status) >= WRONG)
    found = {row["address"]: row for row in app.read("addresses").to_dicts()}
    assert {address: (row["requests"], row["errors"]) for address, row in found.items()} == {
        address: (n, wrong[address]) for address, n in asked.items()
    }
    assert all(abs(row["percent"] - Decimal(100 * row["errors"]) / row["requests"]) <= Decimal("0.005") for row in found.values())

    seconds = defaultdict(list)
    for *_, url, took in requests:
        seconds[url].append(Decimal(took))
    slowest = {row["url"]: row["slowest"] for row in app.read("slowest_urls").to_dicts()}
    assert slowest == {url: max(took) for url, took in seconds.items()}

    top = sorted(asked.items(), key=lambda item: (-item[1], item[0]))[:10]
    assert {(row["address"], row["requests"]) for row in app.read("top_ten").to_dicts()} == set(top)
    assert app.verify().ok
