# SPDX-License-Identifier: Apache-2.0
"""Learning sample by sample, and the curve without a form."""

from __future__ import annotations

import pytest

from penstock.performance.throughput import MODELS, InverseTimeModel, LearntModel, MonotoneModel
from penstock.records import Allocation, ThroughputSample


def a_sample(rate: float, executors: int, share: float = 1.0) -> ThroughputSample:
    """A sample without time."""
    return ThroughputSample(Allocation(executors, share), rate)


@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_graded_before_they_are_learnt(name: str) -> None:
    """The first sample has nothing to be graded with; each further one is compared with what was predicted for it."""
    model = MODELS[name]
    assert isinstance(model, LearntModel)
    first = model.update(a_sample(100.0, 1))
    assert first.progressive.mean is None
    second = first.update(a_sample(80.0, 1))  # 100 were predicted: an error of a quarter
    assert second.progressive.mean == pytest.approx(0.25)
    assert second.progressive.count == 1


def test_coverage_is_graded_too() -> None:
    """A sample within the interval counts as covered, one far outside does not."""
    model = InverseTimeModel().fit([a_sample(rate, 2) for rate in (98.0, 100.0, 102.0, 99.0)])
    assert model.update(a_sample(100.0, 2)).progressive.covered == 1
    assert model.update(a_sample(300.0, 2)).progressive.covered == 0


def test_memory_is_bounded() -> None:
    """A model keeps its newest samples and no more."""
    model = InverseTimeModel(max_samples=3)
    for rate in (1.0, 10.0, 11.0, 12.0):
        model = model.update(a_sample(rate, 1))
    assert [sample.records_per_second for sample in model.samples] == [10.0, 11.0, 12.0]


def test_the_monotone_model_follows_a_ceiling_that_no_formula_has() -> None:
    """A sharp ceiling between sampled sizes is met within 5 % on both sides."""
    model = MonotoneModel().fit([a_sample(100.0 * min(m, 6), m) for m in (1, 2, 3, 4, 6, 8, 12, 16) for _ in range(2)])
    for executors in (1, 2, 5, 6, 10, 14):
        predicted = model.predict(Allocation(executors)).records_per_second
        assert predicted == pytest.approx(100.0 * min(executors, 6), rel=0.05)


def test_the_monotone_model_says_where_it_guesses() -> None:
    """Beyond the samples its interval widens with every step, and its notes name the range."""
    model = MonotoneModel().fit([a_sample(100.0 * m**0.8, m) for m in (1, 2, 4, 8)])
    widths = [found.high / found.low for found in (model.predict(Allocation(m)) for m in (8, 12, 16, 32, 64))]
    assert widths == sorted(widths)
    assert widths[-1] > 2.0 * widths[0]
    assert "sampled from 1 to 8 effective executors" in model.notes[0]


def test_the_monotone_model_learns_what_a_share_is_worth() -> None:
    """Samples whose throughput goes with the square root of the share give an exponent near a half."""
    model = MonotoneModel().fit([a_sample(100.0 * m * s**0.5, m, s) for m in (1, 2, 4, 8) for s in (0.25, 0.5, 1.0)])
    assert model.parameters["share_exponent"] == pytest.approx(0.5, abs=0.051)
