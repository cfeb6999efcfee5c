# SPDX-License-Identifier: Apache-2.0
"""Scheduling that learns: it knows no more than it may, mends shortages, and comes near to the truth's own cost."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.evaluation.elastic_schedule import Workload, account, least_machines
from penstock.evaluation.learning_schedule import LearningSchedule, learn_and_schedule
from penstock.performance.throughput.curve_belief import CurveBelief
from penstock.ports import FloatArray

SIZES = np.arange(1.0, 65.0)
RATES = 300.0 + 120.0 * np.sin(2.0 * np.pi * np.arange(240) / 24.0)


def schedule(truth: FloatArray, rates: FloatArray = RATES, draws: int = 3, **options: bool) -> LearningSchedule:
    """By a belief in ten for each machine, give or take a tenth; samples scatter by 6 %."""
    expected = np.tile(10.0 * SIZES, (draws, 1))
    belief = CurveBelief(SIZES, expected, np.full_like(expected, 0.1), np.full(draws, 0.06))
    return learn_and_schedule(
        Workload(rates), truth, belief, noise=0.06, coverage=0.9, generator=np.random.default_rng(2), **options
    )


def test_it_comes_near_to_what_the_truth_itself_would_take() -> None:
    """Where machines do 8 % more or less than was believed, it ends within 6 % of the fewest that do."""
    for factor in (0.92, 1.08):
        truth = factor * 10.0 * SIZES
        last = schedule(truth).corrected[:, -24:].mean()
        ideal = least_machines(truth, RATES[-24:]).mean()
        assert ideal <= last < 1.06 * ideal


def test_a_shortage_is_mended_and_not_made_again() -> None:
    """Machines that do far less than believed are too few in the first period for minutes, and hardly ever after."""
    workload, truth = Workload(RATES), 7.5 * SIZES
    found = schedule(truth)
    assert (found.short_seconds[:, 0] >= 120.0).all()
    assert (found.corrected[:, 0] > found.machines[:, 0]).all()
    assert (found.short_seconds[:, 24:] > 0.0).mean() < 0.05
    assert max(one.account.violation_percent for one in found.policies(workload, truth)) < 0.5


def test_without_seeing_the_backlog_a_shortage_lasts_the_period() -> None:
    """The same machines stay for the hour, and violations are many."""
    workload, truth = Workload(RATES), 7.5 * SIZES
    blind = schedule(truth, sees_backlog=False, asks_ahead=False)
    assert (blind.corrected == blind.machines).all()
    assert (blind.ahead == blind.machines).all()
    mended = schedule(truth).policies(workload, truth)
    for one, other in zip(blind.policies(workload, truth), mended, strict=True):
        assert one.account.violation_percent > 3.0 * other.account.violation_percent


def test_what_comes_later_changes_nothing_before() -> None:
    """Two loads that part after a hundred periods are scheduled alike until then."""
    other = RATES.copy()
    other[100:] *= 0.5
    one, two = schedule(9.0 * SIZES), schedule(9.0 * SIZES, other)
    assert (one.machines[:, :100] == two.machines[:, :100]).all()
    assert (one.ahead[:, :99] == two.ahead[:, :99]).all()


def test_a_mended_shortage_is_accounted_for_to_the_second() -> None:
    """One machine where two are needed: three minutes short in all, and the second is paid from when it was asked."""
    found = account(
        Workload(np.array([20.0])), np.array([10.0, 20.0]), np.array([1]), corrected=np.array([2]),
        short_seconds=np.array([120.0]),
    )  # fmt: skip
    assert found.violation_percent == pytest.approx(100.0 * 180.0 / 3600.0)
    assert found.cost_per_hour == pytest.approx(0.10 * (1.0 + (3600.0 - 120.0) / 3600.0))
    assert found.machines_max == 2


def test_machines_that_bring_nothing_are_not_taken() -> None:
    """On a curve that is flat from eight machines on, far fewer than all are taken, however unsure it is."""
    flat = np.minimum(10.0 * SIZES, 80.0)
    belief = CurveBelief(SIZES, flat[None, :], np.full((1, 64), 0.1), np.array([0.06]))
    found = learn_and_schedule(
        Workload(np.full(40, 78.0)), flat, belief, noise=0.06, coverage=0.9, generator=np.random.default_rng(0)
    )
    assert np.median(found.machines) <= 16
