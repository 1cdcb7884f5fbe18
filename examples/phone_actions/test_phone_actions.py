"""The pasted query and the table of opens and closes, over events whose times are out of order."""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter
from types import ModuleType

from phones import events as phone_events
from reader import is_broken

from headrace.store.reader import Reader

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)


def hour_of(time: dt.datetime) -> dt.datetime:
    return time.replace(minute=0, second=0, microsecond=0)


def test_a_phones_events_come_in_its_order_with_times_that_do_not() -> None:
    stream = list(itertools.islice(phone_events(NOON, phones=5), 2000))
    times = [event["time"] for event in stream]
    assert times != sorted(times)
    assert max(times) - min(times) > dt.timedelta(hours=1)
    balance: Counter[str] = Counter()
    for event in stream:
        balance[event["phone_id"]] += {"open": 1, "close": -1}.get(event["action"], 0)
        assert balance[event["phone_id"]] in (0, 1)


def test_the_pasted_query_counts_every_hour_and_no_epoch_has_more_closes_than_opens(example: ModuleType) -> None:
    app, stream = example.app, phone_events(NOON, phones=20)
    batches = [list(itertools.islice(stream, size)) for size in (1, 7, 200, 30)]
    with app.start() as run:
        for batch in batches:
            run.wait(example.events.append(batch), timeout=60)
    with Reader(app.place().store) as reader:
        assert reader.epoch > len(batches)
        assert not any(is_broken(reader, as_of=epoch) for epoch in range(1, reader.epoch + 1))
    expected = Counter((event["action"], hour_of(event["time"])) for batch in batches for event in batch)
    rows = app.read("actions_per_hour").to_dicts()
    assert {(row["action"], row["window"]["start"]): row["count(1)"] for row in rows} == expected
    assert all(row["window"]["end"] - row["window"]["start"] == dt.timedelta(hours=1) for row in rows)
    assert app.verify().ok


def test_the_reader_sees_what_it_is_there_to_see(example: ModuleType) -> None:
    with example.app.start() as run:
        run.wait(example.events.append([{"phone_id": "a", "time": NOON, "action": "close"}]), timeout=60)
    with Reader(example.app.place().store) as reader:
        assert is_broken(reader)
