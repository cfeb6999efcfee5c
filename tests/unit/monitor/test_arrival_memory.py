# SPDX-License-Identifier: Apache-2.0
"""What is remembered of the arrivals of the last minutes."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.monitor.arrival_memory import ArrivalMemory


def test_rates_of_every_time_are_kept_however_many_records_came() -> None:
    """Of a minute with a burst of 300,000 records, burst and lull keep their numbers in at most 20,000 points."""
    memory = ArrivalMemory(120.0)
    memory.add_times(1000.0 + np.sort(np.random.default_rng(1).uniform(0.0, 50.0, 5_000)))
    memory.add_times(np.linspace(1050.0, 1060.0, 300_000, endpoint=False))
    known = memory.recall()
    assert known.times.size <= 20_000
    burst = known.records_each * np.count_nonzero(known.times >= 50.0)
    lull = known.records_each * np.count_nonzero(known.times < 50.0)
    assert burst == pytest.approx(300_000, rel=0.01)
    assert lull == pytest.approx(5_000, rel=0.02)


def test_what_is_older_is_forgotten() -> None:
    """A burst leaves the memory when it is older than what is remembered, also if nothing came since."""
    memory = ArrivalMemory(60.0)
    memory.add_times(np.linspace(0.0, 1.0, 1000))
    memory.add_times(np.linspace(30.0, 59.0, 30))
    assert memory.recall().times.size == 1030
    memory.add_times([62.0])
    assert memory.recall().times.size == 31
    memory.add_times([500.0])
    assert memory.recall().times.size == 1


def test_an_interruption_takes_no_time() -> None:
    """Nobody knows what arrived while nobody watched, so that time is neither a lull nor a reason to forget."""
    memory = ArrivalMemory(60.0)
    memory.add_times([0.0, 10.0])
    memory.interrupt()
    memory.add_times([1000.0, 1005.0])
    assert memory.recall().times == pytest.approx([0.0, 10.0, 10.0, 15.0], abs=0.05)


def test_arrivals_out_of_order_count_with_the_newest() -> None:
    """Partitions that are read by turns, or a clock that was set back, lose no record."""
    memory = ArrivalMemory(60.0)
    memory.add_times([10.0, 20.0])
    memory.add_times([5.0, 19.0])
    assert memory.recall().times == pytest.approx([0.0, 10.0, 10.0, 10.0], abs=0.05)


def test_nothing_is_recalled_of_nothing() -> None:
    """Before the first record there is nothing to be ready for."""
    memory = ArrivalMemory(60.0)
    memory.add_times([])
    memory.interrupt()
    assert memory.recall().times.size == 0


def test_a_look_back_without_end_is_refused() -> None:
    """More than a day would take memory for nothing."""
    with pytest.raises(ConfigurationError, match="look_back"):
        ArrivalMemory(1e6)
