"""Where a crash point strikes, and what is said of one that is not understood."""

from __future__ import annotations

import pytest

from headrace.errors import UsageError
from headrace.runtime.protocol import STEPS, CrashPoint, Steps


class Struck(Exception):
    """In the place of kill -9."""


def strike() -> None:
    raise Struck


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("side", ["before", "after"])
def test_every_step_is_struck_on_both_sides(step: str, side: str) -> None:
    steps = Steps(CrashPoint.parse(f"{side}:{step}:7"), strike=strike)
    reached: list[tuple[int, str]] = []

    def run() -> None:
        for epoch in (6, 7, 8):
            for each in STEPS:
                with steps.step(each, epoch):
                    reached.append((epoch, each))

    with pytest.raises(Struck):
        run()
    before = [(6, each) for each in STEPS] + [(7, each) for each in STEPS[: STEPS.index(step)]]  # type: ignore[arg-type]
    assert reached == before + ([(7, step)] if side == "after" else [])


def test_tidy_is_struck_when_it_comes() -> None:
    point = CrashPoint.parse("after:tidy:7")
    assert [epoch for epoch in range(5, 10) if point.strikes("after", "tidy", epoch)] == [7, 8, 9]
    assert CrashPoint.parse("after:tidy").strikes("after", "tidy", 1)


@pytest.mark.parametrize("text", ["after", "after:", "during:commit", "after:commit:x", "after:lunch:1"])
def test_a_crash_point_that_is_not_understood(text: str) -> None:
    with pytest.raises(UsageError, match="HEADRACE_CRASH"):
        CrashPoint.parse(text)
