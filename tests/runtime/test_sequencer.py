"""How large epochs get: few rows when caught up, growing ones when behind, and what long epochs teach."""

from __future__ import annotations

from headrace.runtime.sequencer import FIRST_ROWS, Sequencer


def behind(rows: int = 100_000_000) -> dict[str, dict[int, int]]:
    return {"events": {0: rows}}


def taken(sequencer: Sequencer) -> int:
    ((start, stop),) = sequencer.ranges({}, behind())["events"].values()
    return stop - start


def test_everything_there_is_when_caught_up():
    assert Sequencer(4_000_000).ranges({"events": {0: 7}}, {"events": {0: 10, 1: 4}}) == {"events": {0: (7, 10), 1: (0, 4)}}


def test_quick_epochs_grow_to_the_most():
    sequencer, sizes = Sequencer(4_000_000), []
    for _ in range(4):
        sizes.append(taken(sequencer))
        sequencer.took(sizes[-1], 0.3)
    assert sizes == [FIRST_ROWS, 800_000, 4_000_000, 4_000_000]


def test_an_epoch_that_ends_with_a_file_counts_as_full():
    sequencer = Sequencer(4_000_000)
    sequencer.took(FIRST_ROWS * 3 // 4, 0.3)
    assert taken(sequencer) == 8 * FIRST_ROWS


def test_few_rows_teach_nothing():
    sequencer = Sequencer(4_000_000)
    for _ in range(10):
        sequencer.took(500, 0.2)
    assert taken(sequencer) == FIRST_ROWS


def test_rows_that_take_long_make_small_epochs():
    sequencer = Sequencer(4_000_000)
    for _ in range(20):
        rows = taken(sequencer)
        sequencer.took(rows, rows / 1_000)  # a thousand rows per second
    assert 1_000 <= taken(sequencer) <= 20_000


def test_epochs_that_take_long_whatever_their_size_do_not_shrink():
    sequencer = Sequencer(4_000_000)
    for _ in range(10):
        sequencer.took(taken(sequencer), 5 + taken(sequencer) / 1_000_000)
    assert taken(sequencer) == 4_000_000


def test_partitions_share():
    sequencer = Sequencer(100)
    assert sequencer.ranges({}, {"a": {0: 10, 1: 1000}, "b": {0: 1000}}) == {"a": {0: (0, 10), 1: (0, 45)}, "b": {0: (0, 45)}}
