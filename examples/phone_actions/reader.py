"""A reader that trusts nobody: `python reader.py` reads both tables again and again, and counts when they contradict.

Each read is of one epoch. In it no phone may have been closed more often than opened, and both tables, which count the same
events in different ways, must agree on how many opens and closes there were.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.store.reader import Reader

PAUSE_S = 0.005
REPORT_S = 0.25

QUERY = """
SELECT p.broken, p.opens, p.closes, a.opens AS opens_by_hour, a.closes AS closes_by_hour
FROM (SELECT count(CASE WHEN closes > opens THEN 1 END) AS broken, coalesce(sum(opens), 0) AS opens,
             coalesce(sum(closes), 0) AS closes
      FROM opens_and_closes) AS p
CROSS JOIN
     (SELECT coalesce(sum(CASE WHEN action = 'open' THEN "count(1)" END), 0) AS opens,
             coalesce(sum(CASE WHEN action = 'close' THEN "count(1)" END), 0) AS closes
      FROM actions_per_hour) AS a
"""


def is_broken(reader: Reader, as_of: int | None = None) -> bool:
    """Whether the tables contradict each other, at the newest epoch or an older one."""
    row = reader.query(QUERY, as_of).to_dicts()[0]
    together = row["opens"] == row["opens_by_hour"] and row["closes"] == row["closes_by_hour"]
    return bool(row["broken"]) or row["closes"] > row["opens"] or not together


def wait_for_tables(store: Path, stopped: threading.Event) -> Reader | None:
    """A reader, as soon as there is something to read."""
    while not stopped.wait(0.05):
        try:
            reader = Reader(store)
            if len(reader.tables()) == 2:
                return reader
            reader.close()
        except HeadraceError:
            continue
    return None


def main() -> None:
    """Read until asked to stop; print the counts four times a second, as JSON lines."""
    parser = argparse.ArgumentParser(description="Count the reads in which closes > opens.")
    parser.add_argument("store", type=Path, help="the app's store.db")
    store = parser.parse_args().store

    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    parent, reads, broken, reported = os.getppid(), 0, 0, 0.0
    reader = wait_for_tables(store, stopped)
    while reader is not None and not stopped.wait(PAUSE_S) and os.getppid() == parent:
        broken += is_broken(reader)
        reads += 1
        if time.monotonic() - reported >= REPORT_S:
            print(json.dumps({"reads": reads, "broken": broken}), flush=True)
            reported = time.monotonic()
    print(json.dumps({"reads": reads, "broken": broken}), flush=True)


if __name__ == "__main__":
    main()
