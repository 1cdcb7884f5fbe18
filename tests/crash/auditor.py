"""A process that goes on reading the bank's books: `python auditor.py STORE`, until its standard input ends.

Each look is at one epoch of three tables. At its end it says how many looks there were, at how many epochs, and what was
wrong.
"""

from __future__ import annotations

import json
import select
import sys
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.store.reader import Reader

BOOKS = "SELECT (SELECT sum(balance) FROM accounts), (SELECT sum(amount) FROM paid_in), (SELECT sum(balance) FROM total)"
PAUSE_S = 0.005


def main(store: Path) -> None:
    """Look until told to end."""
    looks, epochs, wrong, last = 0, set(), [], 0
    reader = None
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        try:
            reader = reader or Reader(store)
            answer = reader.query(BOOKS)
        except HeadraceError as error:
            # The app is only being made: there is no store yet, or no table in it.
            if epochs:
                wrong.append(str(error))
            continue
        looks += 1
        epochs.add(answer.epoch)
        if len(set(answer.rows[0])) != 1 or answer.epoch < last:
            wrong.append(f"epoch {answer.epoch} after {last}: {answer.rows[0]}")
        last = answer.epoch
    print(json.dumps({"looks": looks, "epochs": len(epochs), "wrong": wrong[:10]}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
