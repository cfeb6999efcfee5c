# SPDX-License-Identifier: Apache-2.0
"""When executors count as warm."""

from __future__ import annotations

from penstock.measuring.warm_up import WarmUp


def end_of_warm_up(warm_up: WarmUp, work_of_batch: list[float], *, is_cpu_known: bool = True) -> int | None:
    """After which batch of 100 records and a second each it is over; None: after none of them."""
    at = work = 0.0
    for number, seconds in enumerate(work_of_batch, start=1):
        at += 1.0
        work += seconds
        warm_up.see(at if is_cpu_known else work, 100 * number, work if is_cpu_known else None)
        if warm_up.is_over(at if is_cpu_known else work):
            return number
    return None


def test_falling_work_is_not_over() -> None:
    """A record that takes a tenth less with every batch is waited for, and the first level that stays ends it."""
    falling = [2.0 * 0.9**i for i in range(10)]
    assert end_of_warm_up(WarmUp(1, 0.0, 1000.0), falling) is None
    # From the eleventh batch on 0.7 s each: two windows of 3 s take at most ten more.
    found = end_of_warm_up(WarmUp(1, 0.0, 1000.0), falling + [0.7] * 20)
    assert found is not None
    assert 15 <= found <= 21


def test_a_steady_application_is_warm_after_two_windows() -> None:
    """The first batch does not count; 3 s of work of each executor are compared with 3 s before: 1 + 6 batches."""
    assert end_of_warm_up(WarmUp(1, 0.0, 1000.0), [20.0] + [1.0] * 20) == 8
    assert end_of_warm_up(WarmUp(2, 0.0, 1000.0), [20.0] + [1.0] * 20) == 14


def test_time_bounds_it_on_both_sides() -> None:
    """It is not over before the least time, and over after the most whatever the work does."""
    assert end_of_warm_up(WarmUp(1, 15.0, 1000.0), [1.0] * 30) == 16
    assert end_of_warm_up(WarmUp(1, 0.0, 5.0), [50.0 * 0.5**i for i in range(30)]) == 6


def test_without_cpu_readings_time_stands_for_work() -> None:
    """Where the kernel cannot be asked, the time of batches is compared: here each takes 1 s of one executor."""
    assert end_of_warm_up(WarmUp(1, 0.0, 1000.0), [1.0] * 20, is_cpu_known=False) == 8


def test_what_was_before_another_size_of_batches_is_forgotten() -> None:
    """Larger batches take less work a record: the fall that they bring is no sign of compiling, nor is a rise."""
    warm_up = WarmUp(1, 0.0, 1000.0)
    for number in range(1, 8):
        warm_up.see(float(number), 100 * number, float(number))
    warm_up.forget()
    assert not warm_up.is_over(7.0)
    for number in range(8, 14):
        warm_up.see(float(number), 700 + 300 * (number - 7), float(number))
    assert warm_up.is_over(13.0)
