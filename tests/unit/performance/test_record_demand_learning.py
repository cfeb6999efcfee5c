# SPDX-License-Identifier: Apache-2.0
"""Service demand learnt from samples of records' times."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError, NotReadyError
from penstock.performance.record_demand_learning import RecordDemandLearner
from penstock.records import Allocation


def test_mean_and_variability_are_found_for_full_share() -> None:
    """Under shares that change, the distribution at full share comes out, with an honest standard error."""
    rng = np.random.default_rng(1)
    learner = RecordDemandLearner()
    for k in range(100):
        share = (1.0, 0.4)[k % 2]
        learner.observe(rng.gamma(2.0, 0.005, 300) / share, Allocation(1, share))
    learnt = learner.learnt()
    assert learnt.demand.service.mean == pytest.approx(0.01, rel=0.03)
    assert learnt.demand.service.scv == pytest.approx(0.5, rel=0.1)
    assert abs(learnt.demand.service.mean / 0.01 - 1.0) < 4.0 * learnt.demand.spread
    assert learnt.demand.spread == pytest.approx(np.sqrt(0.5 / learnt.samples), rel=0.6)
    assert learnt.moved == ()


def test_pauses_are_no_work() -> None:
    """Times far beyond all others are counted apart, and the mean stays."""
    rng = np.random.default_rng(2)
    samples = rng.gamma(2.0, 0.005, 20_000)
    held_up = rng.choice(np.arange(1_000, 20_000), 40, replace=False)
    samples[held_up] += 2.0
    learner = RecordDemandLearner()
    learner.observe(samples, Allocation(1))
    learnt = learner.learnt()
    assert learnt.pauses == 40
    assert learnt.demand.service.mean == pytest.approx(0.01, rel=0.05)


def test_a_changed_demand_is_no_pause() -> None:
    """When all records take a hundred times as long, that is learnt and not set aside."""
    learner = RecordDemandLearner(half_life_records=500)
    learner.observe(np.full(2_000, 0.001), Allocation(1))
    learner.observe(np.full(10_000, 0.1), Allocation(1))
    learnt = learner.learnt()
    assert learnt.demand.service.mean == pytest.approx(0.1, rel=0.01)
    assert learnt.pauses == 0


def test_neighbours_that_depend_on_each_other_widen_the_error() -> None:
    """Slow and fast spells make the mean less certain than as many independent records would."""
    rng = np.random.default_rng(3)
    spells = np.repeat(rng.choice([0.005, 0.015], 100), 200)
    learner, shuffled = RecordDemandLearner(half_life_records=1e9), RecordDemandLearner(half_life_records=1e9)
    learner.observe(spells, Allocation(1))
    shuffled.observe(rng.permutation(spells), Allocation(1))
    assert learner.learnt().demand.spread > 3.0 * shuffled.learnt().demand.spread


def test_too_few_samples_and_coarse_clocks_are_told() -> None:
    """Before enough records, and when all times are zero, it is not ready and says why."""
    learner = RecordDemandLearner()
    learner.observe(np.full(120, 0.01), Allocation(1))
    with pytest.raises(NotReadyError) as caught:
        learner.learnt()
    assert (caught.value.needed, caught.value.available) == (400, 120)
    coarse = RecordDemandLearner()
    coarse.observe(np.zeros(1_000), Allocation(1))
    with pytest.raises(NotReadyError, match="coarse"):
        coarse.learnt()


def test_steady_times_get_the_steadiest_distribution_allowed() -> None:
    """Times that hardly vary are given an Erlang distribution of few phases, and that is said."""
    learner = RecordDemandLearner(most_phases=4)
    learner.observe(np.full(1_000, 0.01), Allocation(1))
    learnt = learner.learnt()
    assert learnt.demand.service.order == 4
    assert learnt.scv == pytest.approx(0.0, abs=1e-9)
    assert learnt.moved


def test_wrong_input_is_refused() -> None:
    """Negative times, times that are none, and settings out of range are errors that name the field."""
    for wrong in ([-1.0], [float("nan")], [float("inf")]):
        with pytest.raises(ConfigurationError, match="seconds"):
            RecordDemandLearner().observe(wrong, Allocation(1))
    with pytest.raises(ConfigurationError, match="half_life"):
        RecordDemandLearner(half_life_records=0)
    with pytest.raises(ConfigurationError, match="pause_factor"):
        RecordDemandLearner(pause_factor=1.0)
