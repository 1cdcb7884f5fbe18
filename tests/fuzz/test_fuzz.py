"""Random apps against batch: a few dozen tables in `make test`, thousands in `make test-all`.

A failure prints the smallest case that was found, and the command that runs its seed again.
"""

from __future__ import annotations

import os

import pytest

from tests.fuzz.campaign import Campaign

SEED = int(os.environ.get("HEADRACE_FUZZ_SEED", "1"))
FEW, MANY = 6, 1000


def campaign(first: int, cases: int, shrink_seconds: float) -> Campaign:
    done = Campaign(shrink_seconds=shrink_seconds)
    for seed in range(first, first + cases):
        found = done.run(seed)
        assert found is None, found
    return done


@pytest.mark.usefixtures("spark")
def test_random_apps_equal_batch():
    done = campaign(SEED, FEW, shrink_seconds=60)
    assert done.refused_share < 0.2, done.summary()


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_thousands_of_random_tables_equal_batch():
    done = campaign(SEED + FEW, MANY, shrink_seconds=600)
    assert done.refused_share < 0.2, done.summary()
