"""A campaign from the command line."""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.campaign import Campaign


def main() -> int:
    """Run cases; 1 when one of them found something."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the first case; the next ones count on")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--tables", type=int, default=5)
    parser.add_argument("--shrink", type=float, default=120, help="seconds for making a failing case smaller")
    parser.add_argument("--keep-going", action="store_true")
    given = parser.parse_args()
    campaign = Campaign(given.tables, given.shrink)
    until = time.monotonic() + given.seconds
    for seed in range(given.seed, given.seed + given.cases):
        if time.monotonic() > until:
            break
        finding = campaign.run(seed)
        if finding:
            print(finding, flush=True)
            if not given.keep_going:
                break
        if seed % 5 == 0:
            print(campaign.summary(), file=sys.stderr, flush=True)
    print(campaign.summary())
    return 1 if campaign.findings else 0


sys.exit(main())
