"""A process that goes on paying in and moving money: `python teller.py LOG NAME`, until its standard input ends.

Each append has a sequence, so a teller that is killed and started again under its name goes on where it was. At its end it
says how much it has paid in.
"""

from __future__ import annotations

import random
import select
import sys
from pathlib import Path

from headrace.log.topic import Topic

ACCOUNTS = 40
ROWS = 5
PAUSE_S = 0.02


def main(log: Path, name: str) -> None:
    """Pay in and move, some rows at a time."""
    chance = random.Random(name)
    deposits, transfers = (Topic.open(log / topic).producer(name) for topic in ("deposits", "transfers"))
    paid_in = 0
    for sequence in range(sys.maxsize):
        rows = [{"account": f"a{chance.randrange(ACCOUNTS)}", "amount": chance.randint(1, 100)} for _ in range(ROWS)]
        paid_in += sum(row["amount"] for row in rows)
        deposits.append(rows, sequence=sequence)
        moved = [(f"a{chance.randrange(ACCOUNTS)}", f"a{chance.randrange(ACCOUNTS)}") for _ in range(ROWS)]
        transfers.append([{"source": s, "target": t, "amount": chance.randint(1, 100)} for s, t in moved], sequence=sequence)
        # Waiting for the end of standard input is what paces the teller.
        if select.select([sys.stdin], [], [], PAUSE_S)[0]:
            break
    print(paid_in, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
