# SPDX-License-Identifier: Apache-2.0
"""Whether others used the host."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigurationError
from penstock.measuring.disturbance import DisturbanceLimits, HostLoad, HostReading, excess, load_between


def reading(busy: float, idle: float, steal: float = 0.0, ours: float | None = 0.0, runnable: int = 1) -> HostReading:
    """Counters of a host of two cores."""
    return HostReading(0.0, 2, busy, idle, steal, runnable, ours)


def test_shares_are_of_all_cpu_time() -> None:
    """Busy, stolen and others' time are divided by all time of all cores, idle included."""
    load = load_between(reading(100.0, 100.0, 1.0, 50.0), reading(130.0, 108.0, 3.0, 76.0), [4, 6])
    # 30 busy + 8 idle + 2 stolen = 40; ours 26, so others 4.
    assert load == HostLoad(busy=0.75, steal=0.05, others=0.1, runnable_per_core=1.5)


def test_unknown_processes_are_not_zero() -> None:
    """Where our own processes are not counted, what others used is not known."""
    load = load_between(reading(0.0, 0.0, ours=None), reading(10.0, 10.0, ours=None))
    assert load is not None
    assert load.others is None


def test_rounding_never_gives_less_than_nothing() -> None:
    """Our own time is read after the host's, and may come out larger."""
    load = load_between(reading(0.0, 0.0), reading(10.0, 10.0, ours=10.5))
    assert load is not None
    assert load.others == 0.0
    assert load_between(reading(5.0, 5.0), reading(5.0, 5.0)) is None


def test_each_limit_is_named() -> None:
    """What is too much is said; threads that are ready count only where processes cannot be distinguished."""
    limits = DisturbanceLimits(others=0.1, steal=0.05, runnable_per_core=3.0)
    assert limits.exceeded_by(HostLoad(0.9, 0.05, 0.1, 9.0)) is None
    assert "other processes used 20 %" in str(limits.exceeded_by(HostLoad(0.9, 0.0, 0.2, 1.0)))
    assert "steal" in str(limits.exceeded_by(HostLoad(0.9, 0.06, 0.0, 1.0)))
    assert "ready to run" in str(limits.exceeded_by(HostLoad(0.9, 0.0, None, 3.1)))
    assert excess(HostLoad(0.9, 0.1, 0.2, 1.0)) == pytest.approx(0.3)
    assert excess(None) == float("inf")
    with pytest.raises(ConfigurationError, match="others"):
        DisturbanceLimits(others=10)
