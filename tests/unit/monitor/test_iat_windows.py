# SPDX-License-Identifier: Apache-2.0
"""The ring buffer of inter-arrival times and its windows."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ConfigurationError
from penstock.monitor.iat_windows import IatWindows


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(0.0, 10.0), max_size=9), max_size=12), st.integers(2, 7))
def test_the_buffer_holds_the_newest_intervals_however_they_come(parts: list[list[float]], capacity: int) -> None:
    """Whatever the portions, the buffer holds the last N_E intervals of the whole stream."""
    buffer = IatWindows(capacity)
    times = np.cumsum(np.array([gap for part in parts for gap in part]))
    done = 0
    for part in parts:
        buffer.add_times(times[done : done + len(part)])
        done += len(part)
    told = buffer.snapshot()
    np.testing.assert_array_equal(told.iats, np.diff(times)[-capacity:] if times.size else [])
    assert told.seen == max(times.size - 1, 0)
    assert told.out_of_order == 0


def test_windows_are_the_newest_parts_of_the_capacity() -> None:
    """A half-filled buffer gives the sub-window its full length; a smaller one gives one window only."""
    buffer = IatWindows(100, parts=(1.0, 0.5, 0.25))
    buffer.add_iats(np.arange(20.0))
    assert buffer.snapshot().sizes == (20,)
    buffer.add_iats(np.arange(40.0))
    told = buffer.snapshot()
    assert told.sizes == (60, 50, 25)
    assert told.windows[2].tolist() == list(np.arange(15.0, 40.0))
    assert told.shares == (1.0, 50 / 60, 25 / 60)


def test_an_empty_buffer_has_no_window() -> None:
    """One arrival makes no interval, and silence is unknown before it."""
    buffer = IatWindows(10)
    assert buffer.snapshot().silence_seconds(5.0) is None
    buffer.add_times([3.0])
    told = buffer.snapshot()
    assert told.windows == ()
    assert told.silence_seconds(5.0) == 2.0


def test_an_interruption_is_no_interval() -> None:
    """The time over which arrivals may have been missed is left out, and counted once."""
    buffer = IatWindows(10)
    buffer.add_times([0.0, 1.0])
    buffer.interrupt()
    buffer.interrupt()
    buffer.add_times([100.0, 103.0])
    told = buffer.snapshot()
    assert told.iats.tolist() == [1.0, 3.0]
    assert told.breaks == 1


def test_late_arrivals_keep_the_count_and_are_told() -> None:
    """An arrival with an older time counts as coming together with the newest."""
    buffer = IatWindows(10)
    buffer.add_times([0.0, 4.0, 3.0])
    buffer.add_times([2.0, 5.0])
    told = buffer.snapshot()
    assert told.iats.tolist() == [4.0, 0.0, 0.0, 1.0]
    assert told.out_of_order == 2


def test_a_snapshot_does_not_change() -> None:
    """What arrives later, from another thread too, leaves a snapshot as it was."""
    buffer = IatWindows(1000)
    buffer.add_iats(np.ones(1000))
    told = buffer.snapshot()

    def pour() -> None:
        for _ in range(300):
            buffer.add_iats(np.full(7, 2.0))

    threads = [threading.Thread(target=pour) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told.iats.tolist() == [1.0] * 1000
    assert buffer.snapshot().iats.tolist() == [2.0] * 1000
    assert buffer.snapshot().seen == 1000 + 2 * 7 * 300


@pytest.mark.parametrize("wrong", [[0.0, float("nan")], [float("inf")]])
def test_times_that_are_none_are_refused(wrong: list[float]) -> None:
    """NaN and infinity are refused by name, and nothing is taken in."""
    buffer = IatWindows(10)
    with pytest.raises(ConfigurationError, match=r"times\["):
        buffer.add_times(wrong)
    assert buffer.snapshot().newest_at is None


def test_bad_sizes_are_refused() -> None:
    """A capacity below 2, a part above 1 and a negative interval are errors that name the field."""
    with pytest.raises(ConfigurationError, match="capacity"):
        IatWindows(1)
    with pytest.raises(ConfigurationError, match="parts"):
        IatWindows(10, parts=(1.5,))
    with pytest.raises(ConfigurationError, match="negative"):
        IatWindows(10).add_iats([-1.0])
