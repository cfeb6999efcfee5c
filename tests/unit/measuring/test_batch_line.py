# SPDX-License-Identifier: Apache-2.0
"""What a record takes, by batches of several sizes."""

from __future__ import annotations

import pytest

from penstock.measuring.batch_line import BatchLine


def a_line(*batches: tuple[int, float]) -> BatchLine:
    """The line through these."""
    line = BatchLine()
    for rows, seconds in batches:
        line.add(rows, seconds)
    return line


def test_the_records_that_take_a_time_are_found() -> None:
    """Of 1.5 s and a millisecond a record, 500 take 2 s; proportion would say 533 of 400 in 1.9 s."""
    line = a_line((400, 1.9), (100, 1.6), (800, 2.3))
    assert line.is_known
    assert line.seconds_per_record == pytest.approx(0.001)
    assert line.rows_for(2.0, 400, 1.9) == pytest.approx(500.0)


def test_one_batch_that_was_held_up_moves_it_little() -> None:
    """A second lost by one of five."""
    line = a_line((100, 1.6), (200, 1.7), (400, 2.9), (800, 2.3), (1600, 3.1))
    assert line.seconds_per_record == pytest.approx(0.001, rel=0.1)


@pytest.mark.parametrize(
    ("batches", "is_known"),
    [
        ([(100, 1.0)], False),
        ([(100, 1.0), (100, 2.0)], False),  # of one size: nothing but chance
        ([(100, 1.0), (150, 1.1)], False),
        ([(100, 1.0), (150, 1.3)], True),
        ([(100, 1.0), (900, 1.0)], True),
    ],
)
def test_it_is_known_once_sizes_differ_enough(batches: list[tuple[int, float]], *, is_known: bool) -> None:
    """By time, or so much by records that these are seen to take hardly any."""
    assert a_line(*batches).is_known is is_known


def test_a_record_takes_something_and_no_more_than_its_part() -> None:
    """Larger batches that took less time, or far more than in proportion, give no slope below or beyond these."""
    falling, steep = a_line((100, 1.0), (900, 0.5)), a_line((100, 1.0), (200, 9.0))
    assert falling.seconds_per_record == pytest.approx(0.01 * 1.5 / 1000)
    assert steep.seconds_per_record == pytest.approx(10.0 / 300)
