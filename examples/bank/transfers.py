"""Random transfers between accounts: `python transfers.py 1000 | headrace send transfers -`."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from decimal import Decimal


def transfers(count: int, *, accounts: int = 50, seed: int = 1) -> Iterator[dict[str, str | Decimal]]:
    """So many transfers; the same seed gives the same ones.

    >>> sorted(next(transfers(1)))
    ['amount', 'source', 'target']
    """
    chance = random.Random(seed)
    for _ in range(count):
        source, target = chance.sample(range(accounts), 2)
        amount = Decimal(chance.randrange(1, 100_000)) / 100
        yield {"source": f"account-{source:03}", "target": f"account-{target:03}", "amount": amount}


def main() -> None:
    """Print transfers as JSON lines; amounts are text, so that nothing on their way makes floats of them."""
    for transfer in transfers(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, seed=random.randrange(2**32)):
        print(json.dumps(transfer, default=str))


if __name__ == "__main__":
    main()
