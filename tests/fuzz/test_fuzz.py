"""Random apps against batch: a few dozen tables in `make test`, thousands in `make test-all`.

A failure prints the smallest case that was found, and the command that runs its seed again.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.fuzz.campaign import Campaign

SEED = int(os.environ.get("HEADRACE_FUZZ_SEED", "1"))
FEW, MANY = 24, 1000


def campaign(first: int, cases: int, *, tables: int, seconds: float, shrink_seconds: float) -> Campaign:
    """So many cases, or as many as there is time for."""
    done, until = Campaign(tables, shrink_seconds), time.monotonic() + seconds
    for seed in range(first, first + cases):
        found = done.run(seed)
        assert found is None, found
        if time.monotonic() > until:
            break
    return done


@pytest.mark.usefixtures("spark")
def test_random_apps_equal_batch():
    done = campaign(SEED, FEW, tables=3, seconds=60, shrink_seconds=60)
    assert done.refused_share < 0.2, done.summary()


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_thousands_of_random_tables_equal_batch():
    done = campaign(SEED + FEW, MANY, tables=5, seconds=float("inf"), shrink_seconds=600)
    assert done.refused_share < 0.2, done.summary()
