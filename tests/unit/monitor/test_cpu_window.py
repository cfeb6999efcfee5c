# SPDX-License-Identifier: Apache-2.0
"""Utilisation out of cumulative counters."""

from dataclasses import replace

import pytest

from penstock.monitor.cpu import CpuWindow
from penstock.records import CpuReading, ExecutorState, Telemetry


def a_look(at: float, used: float, quota: float | None, executors: int = 1, throttled: float = 0.0) -> Telemetry:
    """Telemetry with cgroup counters."""
    states = tuple(ExecutorState(str(i), "h", 1, True, 0, 0.0) for i in range(executors))
    return Telemetry("a", at, executors=states, cpu=CpuReading(at, used, throttled, quota, executors))


def test_utilisation_is_used_over_allowed() -> None:
    """4 CPU seconds in 10 s under a quota of half a core: 4 / 5."""
    window = CpuWindow(60.0)
    window.add(a_look(0.0, 100.0, 0.5))
    window.add(a_look(10.0, 104.0, 0.5, throttled=2.0))
    use = window.use(10.0)
    assert use is not None
    assert use.utilisation == pytest.approx(0.8)
    assert use.used_cores == pytest.approx(0.4)
    assert use.throttled_fraction == pytest.approx(0.2)
    assert use.source == "cgroup"


def test_without_quota_the_executors_cores_are_allowed() -> None:
    """Two uncapped executors of one core: 10 CPU seconds in 10 s are a half."""
    window = CpuWindow(60.0)
    window.add(a_look(0.0, 0.0, None, executors=2))
    window.add(a_look(10.0, 10.0, None, executors=2))
    use = window.use(10.0)
    assert use is not None
    assert use.utilisation == pytest.approx(0.5)


def test_a_quota_changed_in_the_window_is_weighed_by_time() -> None:
    """Allowed CPU is the integral of the quota: 5 s x 0.4 + 5 s x 1.0 = 7."""
    window = CpuWindow(60.0)
    window.add(a_look(0.0, 0.0, 0.4))
    window.add(a_look(5.0, 2.0, 0.4))
    window.add(a_look(10.0, 5.5, 1.0))
    use = window.use(10.0)
    assert use is not None
    assert use.utilisation == pytest.approx(5.5 / 7.0)


def test_one_reading_is_not_enough() -> None:
    """Without two readings there is no utilisation, and it is not zero."""
    window = CpuWindow(60.0)
    assert window.use(0.0) is None
    window.add(a_look(0.0, 5.0, 1.0))
    assert window.use(0.0) is None


def test_old_readings_are_no_utilisation() -> None:
    """When no reading came within the window the answer is None, not the last known value."""
    window = CpuWindow(10.0)
    window.add(a_look(0.0, 0.0, 1.0))
    window.add(a_look(5.0, 1.0, 1.0))
    assert window.use(16.0) is None


def test_counters_that_fall_start_anew() -> None:
    """A counter that was reset gives no negative utilisation."""
    window = CpuWindow(60.0)
    window.add(a_look(0.0, 50.0, 1.0))
    window.add(a_look(5.0, 1.0, 1.0))
    assert window.use(5.0) is None
    window.add(a_look(10.0, 3.0, 1.0))
    use = window.use(10.0)
    assert use is not None
    assert use.utilisation == pytest.approx(0.4)


def test_a_gap_is_not_averaged_over() -> None:
    """Ten minutes nobody watched say nothing of the load after them."""
    window = CpuWindow(15.0)
    window.add(a_look(0.0, 0.0, 1.0))
    window.add(a_look(600.0, 60.0, 1.0))
    assert window.use(600.0) is None
    window.add(a_look(601.0, 61.0, 1.0))
    use = window.use(601.0)
    assert use is not None
    assert use.utilisation == pytest.approx(1.0)


def test_a_clock_set_back_starts_anew() -> None:
    """Samples from before the step are dropped, not kept for ever."""
    window = CpuWindow(15.0)
    window.add(a_look(5000.0, 0.0, 1.0))
    window.add(a_look(5001.0, 1.0, 1.0))
    window.add(a_look(1400.0, 1.0, 1.0))
    window.add(a_look(1410.0, 2.0, 1.0))
    use = window.use(1410.0)
    assert use is not None
    assert use.utilisation == pytest.approx(0.1)


def test_somebody_elses_cap_bounds_what_is_allowed() -> None:
    """Four uncapped executors inside a limit of two cores may use two."""
    window = CpuWindow(60.0)
    for at, used in ((0.0, 0.0), (10.0, 18.0)):
        look = a_look(at, used, None, executors=4)
        assert look.cpu is not None
        window.add(replace(look, cpu=replace(look.cpu, parents_quota_cores=2.0)))
    use = window.use(10.0)
    assert use is not None
    assert use.utilisation == pytest.approx(0.9)


def test_without_cgroups_time_in_tasks_counts() -> None:
    """Two executors: one gained 3 s, the other left; the one that left takes nothing away."""
    window = CpuWindow(60.0)
    both = (ExecutorState("1", "h", 1, True, 0, 10.0), ExecutorState("2", "h", 1, True, 0, 20.0))
    window.add(Telemetry("a", 0.0, executors=both))
    window.add(Telemetry("a", 10.0, executors=(ExecutorState("1", "h", 1, True, 0, 13.0),)))
    use = window.use(10.0)
    assert use is not None
    assert use.source == "task time"
    assert use.utilisation == pytest.approx(0.3)  # 3 s over 10 s x 1 core
    assert use.used_cores is None


def test_counters_that_fail_are_not_replaced_by_time_in_tasks() -> None:
    """Under a cap, time in tasks over all cores would read as idle: once there were counters, the window waits."""
    window = CpuWindow(60.0)
    window.add(a_look(0.0, 0.0, 0.5))
    window.add(replace(a_look(5.0, 0.0, 0.5), cpu=None))
    window.add(replace(a_look(8.0, 0.0, 0.5), cpu=None))
    assert window.use(8.0) is None
    window.add(a_look(10.0, 4.0, 0.5))
    use = window.use(10.0)
    assert use is not None
    assert use.utilisation == pytest.approx(0.8)  # 4 s over 10 s x half a core: the counters went on counting


def test_a_cap_whose_use_cannot_be_seen_leaves_time_in_tasks() -> None:
    """On Kubernetes the cap is known and the use is not: 4 s in tasks of 10 s on one core."""
    window = CpuWindow(60.0)
    for at, seconds in ((0.0, 100.0), (10.0, 104.0)):
        executor = ExecutorState("1", "h", 1, True, 0, seconds)
        window.add(Telemetry("a", at, executors=(executor,), cpu=CpuReading(at, None, None, 0.5, 1)))
    use = window.use(10.0)
    assert use is not None
    assert use.utilisation == pytest.approx(0.4)
    assert (use.used_cores, use.source) == (None, "task time")


def test_counters_without_some_executors_are_not_their_use() -> None:
    """Where executors are not held, counters that stand still are no idle executors: 4 s in tasks of 10 s count."""
    window = CpuWindow(60.0)
    for at, seconds in ((0.0, 100.0), (10.0, 104.0)):
        executor = ExecutorState("1", "h", 1, True, 0, seconds)
        cpu = CpuReading(at, 0.0, 0.0, None, 0)
        window.add(Telemetry("a", at, executors=(executor,), cpu=cpu, why_no_shares="another Penstock holds it"))
    use = window.use(10.0)
    assert use is not None
    assert use.source == "task time"
    assert use.utilisation == pytest.approx(0.4)
