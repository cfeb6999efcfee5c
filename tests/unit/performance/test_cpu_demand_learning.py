# SPDX-License-Identifier: Apache-2.0
"""The demand of single records out of CPU used and records arrived."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError, NotReadyError
from penstock.performance.cpu_demand_learning import CpuDemandLearner
from penstock.records import Allocation


def test_cpu_per_record_is_learnt_whatever_the_rate() -> None:
    """Windows count by their records, and the error is that of their scatter."""
    rng = np.random.default_rng(5)
    learner = CpuDemandLearner(half_life_windows=1e9)
    rates = rng.uniform(50.0, 500.0, 400)
    for rate in rates:
        learner.observe(float(0.002 * rate * rng.uniform(0.8, 1.2)), float(rate))
    learnt = learner.learnt()
    assert learnt.cpu_seconds == pytest.approx(0.002, rel=0.02)
    # Residuals have a relative deviation of 0.4 / sqrt(12), weighted by rates.
    expected = 0.4 / np.sqrt(12) * np.sqrt((rates**2).sum()) / rates.sum()
    assert learnt.demand.spread == pytest.approx(expected, rel=0.1)
    assert learnt.windows == pytest.approx(400.0, rel=1e-4)


def test_the_answer_scales_with_the_unit_of_time() -> None:
    """The same windows in milliseconds give the same demand in milliseconds, with the same relative error."""
    seconds, milliseconds = CpuDemandLearner(), CpuDemandLearner()
    for cores, rate in ((0.2, 100.0), (0.5, 220.0), (0.3, 160.0), (0.1, 40.0)):
        seconds.observe(cores, rate)
        milliseconds.observe(cores, rate / 1e3)
    one, other = seconds.learnt().demand, milliseconds.learnt().demand
    assert other.service.mean == pytest.approx(1e3 * one.service.mean)
    assert other.spread == pytest.approx(one.spread)


def test_a_record_is_assumed_to_vary_like_an_exponential_time() -> None:
    """The assumption that is written down: SCV 1, and a share stretches it."""
    learner = CpuDemandLearner()
    for _ in range(3):
        learner.observe(0.3, 100.0)
    demand = learner.learnt().demand
    assert demand.service.scv == pytest.approx(1.0)
    assert demand.at(Allocation(2, 0.5)).mean == pytest.approx(0.006)
    assert demand.spread == pytest.approx(0.0, abs=1e-7)


def test_an_executor_with_several_tasks_is_a_faster_server() -> None:
    """Two tasks at once serve twice the records; CPU per record stays what it is."""
    learner = CpuDemandLearner(tasks_per_executor=2.0)
    for _ in range(3):
        learner.observe(0.3, 100.0)
    learnt = learner.learnt()
    assert learnt.cpu_seconds == pytest.approx(0.003)
    assert learnt.demand.service.mean == pytest.approx(0.0015)


def test_old_windows_fade() -> None:
    """After a change of cost the new one is believed."""
    learner = CpuDemandLearner(half_life_windows=2.0)
    for cores in [0.5] * 20 + [0.1] * 20:
        learner.observe(cores, 100.0)
    assert learner.learnt().cpu_seconds == pytest.approx(0.001, rel=0.01)


def test_too_little_is_not_an_answer() -> None:
    """Windows without records teach nothing, and neither do two, or any without CPU."""
    learner = CpuDemandLearner()
    for _ in range(9):
        learner.observe(0.1, 0.0)
    learner.observe(0.0, 10.0)
    learner.observe(0.0, 10.0)
    with pytest.raises(NotReadyError, match="2 windows of CPU and arrivals so far; 3 are needed"):
        learner.learnt()
    learner.observe(0.0, 10.0)
    with pytest.raises(NotReadyError, match="no CPU use so far"):
        learner.learnt()


@pytest.mark.parametrize(("cores", "rate"), [(-0.1, 5.0), (0.1, float("nan")), (float("inf"), 5.0)])
def test_what_cannot_be_is_refused(cores: float, rate: float) -> None:
    """Negative and infinite numbers are no measurements."""
    with pytest.raises(ConfigurationError):
        CpuDemandLearner().observe(cores, rate)
    with pytest.raises(ConfigurationError, match="half_life_windows"):
        CpuDemandLearner(half_life_windows=0.0)


def _taught(seconds: float, rate: float = 100.0, windows: int = 40) -> CpuDemandLearner:
    learner = CpuDemandLearner(half_life_windows=8.0)
    for k in range(windows):
        learner.observe(seconds * rate * (1.0 + 0.1 * (-1) ** k), rate)
    return learner


def test_a_later_run_begins_with_what_an_earlier_one_was_taught() -> None:
    """The demand is known at once, with an error that covers a machine half as fast."""
    memory = _taught(0.002).memory
    assert memory is not None
    later = CpuDemandLearner(tasks_per_executor=2.0, half_life_windows=8.0)
    later.begin_with(memory)
    learnt = later.learnt()
    assert learnt.cpu_seconds == pytest.approx(0.002, rel=0.02)
    assert learnt.demand.service.mean == pytest.approx(0.001, rel=0.02)
    assert learnt.windows == pytest.approx(3.0)
    assert learnt.demand.spread == pytest.approx(0.5, rel=0.02)
    assert later.memory is not None


@pytest.mark.parametrize("now", [0.001, 0.002, 0.004])
def test_what_is_measured_now_soon_counts_for_more(now: float) -> None:
    """Whatever the machine is like now, the interval covers it all the time and is narrow after some windows."""
    memory = _taught(0.002).memory
    assert memory is not None
    later = CpuDemandLearner(half_life_windows=8.0)
    later.begin_with(memory)
    for _ in range(40):
        later.observe(now * 100.0, 100.0)
        learnt = later.learnt()
        assert learnt.cpu_seconds / (1.0 + 2.0 * learnt.demand.spread) <= now
        assert now <= learnt.cpu_seconds * (1.0 + 2.0 * learnt.demand.spread)
    assert learnt.cpu_seconds == pytest.approx(now, rel=0.02)
    assert learnt.demand.spread < 0.02


def test_an_earlier_run_does_not_take_the_place_of_what_was_seen() -> None:
    """It is a start; and what has no answer is nothing to begin with."""
    memory = _taught(0.002).memory
    assert memory is not None
    learner = _taught(0.008)
    before = learner.learnt()
    learner.begin_with(memory)
    assert learner.learnt() == before
    assert _taught(0.002, windows=2).memory is None
    assert _taught(0.0).memory is None
