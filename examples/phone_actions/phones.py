"""Phones that are opened, used and closed for ever: `python phones.py --rate 1000` appends their events to the topic.

Each phone's own events are appended in the order in which they happened to it. The times that phones write on them are out of
order, by up to hours: clocks are wrong, and some report late.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

WHILE_OPEN = ("call", "message", "photo", "scroll", "scroll")
WHILE_CLOSED = ("charge", "ring")
BATCHES_PER_SECOND = 20


class Phone:
    """One phone: closed at first, then opened and closed in turns, with something done in between."""

    def __init__(self, phone_id: str, chance: random.Random) -> None:
        self.phone_id = phone_id
        self._chance = chance
        self._open = False

    def act(self, now: dt.datetime) -> dict[str, Any]:
        """What happens to the phone next."""
        if self._chance.random() < 0.5:
            self._open = not self._open
            action = "open" if self._open else "close"
        else:
            action = self._chance.choice(WHILE_OPEN if self._open else WHILE_CLOSED)
        late = self._chance.expovariate(1 / 1800) if self._chance.random() < 0.5 else 0.0
        return {"phone_id": self.phone_id, "time": now - dt.timedelta(seconds=min(late, 6 * 3600.0)), "action": action}


def events(now: dt.datetime, *, phones: int = 300, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Events without end, of phones drawn at random; the same seed gives the same events.

    >>> start = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)
    >>> stream = events(start, phones=2)
    >>> next(stream)["phone_id"]
    'phone-000'
    """
    chance = random.Random(seed)
    crowd = [Phone(f"phone-{number:03}", chance) for number in range(phones)]
    began = time.monotonic()
    while True:
        yield chance.choice(crowd).act(now + dt.timedelta(seconds=time.monotonic() - began))


def main() -> None:
    """Append events until asked to stop, and say how many there were."""
    parser = argparse.ArgumentParser(description="Append the events of phones to the topic `events`.")
    parser.add_argument("--rate", type=int, default=1000, help="events per second")
    parser.add_argument("--phones", type=int, default=300)
    options = parser.parse_args()

    from app import events as topic  # the app's topic; reading the functions above needs no app

    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    parent = os.getppid()
    size = max(1, options.rate // BATCHES_PER_SECOND)
    stream = events(dt.datetime.now(dt.timezone.utc), phones=options.phones, seed=random.randrange(2**32))
    appended, due = 0, time.monotonic()
    # Who started the phones may have died without a word; then nobody wants their events.
    while not stopped.is_set() and os.getppid() == parent:
        topic.append([next(stream) for _ in range(size)])
        appended += size
        due = max(due + 1 / BATCHES_PER_SECOND, time.monotonic() - 1)
        stopped.wait(max(0.0, due - time.monotonic()))
    print(json.dumps({"appended": appended}), flush=True)


if __name__ == "__main__":
    main()
