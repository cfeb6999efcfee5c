# SPDX-License-Identifier: Apache-2.0
"""Intervals around predictions: their width at the start, what they cover in the long run, and how they are kept."""

from __future__ import annotations

import json

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.performance.adaptive_interval import KEPT, AdaptiveInterval


def judged(interval: AdaptiveInterval, errors: np.ndarray, predicted: float = 1.0) -> None:
    """Measure one prediction after the other, each off by a factor of exp(error)."""
    for error in errors:
        interval.update(predicted, predicted * float(np.exp(error)), interval.margin)


def test_the_first_plan_has_a_margin_that_is_neither_zero_nor_paralysing() -> None:
    """Before anything was measured the upper end is about a fifth above the prediction, and the lower one below it."""
    low, high = AdaptiveInterval(0.9, bound_seconds=2.0).margin.around(1.0)
    assert 1.15 < high < 1.25
    assert 0.8 < low < 0.9
    # A higher confidence is wider, and so is what an error is small against.
    assert AdaptiveInterval(0.95, bound_seconds=2.0).margin.around(1.0)[1] > high


@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_upper_end_covers_as_much_as_was_asked_for(confidence: float, seed: int) -> None:
    """Whether errors are wide, skewed, or change in the middle of the run: in the long run the coverage is right."""
    rng = np.random.default_rng(seed)
    wide = rng.normal(-0.2, 0.5, 300)
    skewed = rng.gamma(1.0, 0.3, 300) - 0.4
    interval = AdaptiveInterval(confidence, bound_seconds=2.0)
    judged(interval, np.concatenate([wide, skewed, wide + 0.6]))
    assert interval.judged == 900
    assert interval.coverage == pytest.approx(confidence, abs=0.03)


def test_errors_that_grow_are_followed_within_a_few_plans() -> None:
    """After five misses the largest error seen is counted on, however good predictions were before."""
    interval = AdaptiveInterval(0.9, bound_seconds=2.0)
    judged(interval, np.zeros(80))
    assert interval.margin.around(1.0)[1] == pytest.approx(1.0)
    judged(interval, np.full(5, 1.0))
    assert interval.margin.around(1.0)[1] == pytest.approx(np.exp(1.0))


def test_predictions_that_are_too_high_have_an_upper_end_below_them() -> None:
    """The interval says what is expected, also where the prediction is for something worse."""
    interval = AdaptiveInterval(0.9, bound_seconds=2.0)
    judged(interval, np.random.default_rng(4).normal(-1.0, 0.1, 60))
    low, high = interval.margin.around(1.0)
    assert low < high < 0.6


def test_where_nothing_queues_small_times_do_not_widen_the_interval() -> None:
    """Four milliseconds instead of one are no error beside a bound of two seconds."""
    interval = AdaptiveInterval(0.9, bound_seconds=2.0)
    judged(interval, np.full(50, np.log(4.0)), predicted=0.001)
    assert interval.margin.around(1.0)[1] < 1.05
    assert interval.margin.around(0.001)[1] == pytest.approx(0.004, abs=1e-6)


def test_an_endless_prediction_has_an_endless_interval() -> None:
    """Nothing is promised of an operator that cannot keep up."""
    assert AdaptiveInterval(0.9, 1.0).margin.around(float("inf")) == (float("inf"), float("inf"))


def test_history_is_bounded_and_old_errors_are_forgotten() -> None:
    """As many errors as are kept displace all before them; the counts go on."""
    interval = AdaptiveInterval(0.9, bound_seconds=2.0)
    judged(interval, np.full(50, 1.5))
    judged(interval, np.zeros(3 * KEPT))
    assert interval.margin.around(1.0)[1] == pytest.approx(1.0)
    assert interval.judged == 50 + 3 * KEPT
    assert len(json.loads(interval.as_text("x"))["scores"]) == KEPT


def test_what_was_learnt_is_kept_and_taken_up() -> None:
    """Margin, coverage and error of the text are those of the interval it was made from."""
    before, after = (AdaptiveInterval(0.9, bound_seconds=2.0) for _ in range(2))
    judged(before, np.random.default_rng(5).normal(0.1, 0.3, 40))
    assert after.begin_with("logs", before.as_text("logs"))
    assert after.margin.around(1.0) == pytest.approx(before.margin.around(1.0), abs=1e-5)
    assert (after.judged, after.coverage) == (before.judged, before.coverage)
    assert after.error == before.error


@pytest.mark.parametrize(
    "text",
    [
        None, "", "no JSON", "[]", "{}", AdaptiveInterval(0.9, 1.0).as_text("another query"),
        json.dumps({"version": 1, "about": "logs"}),
        json.dumps({**json.loads(AdaptiveInterval(0.9, 1.0).as_text("logs")), "scores": ["x"]}),
        json.dumps({**json.loads(AdaptiveInterval(0.9, 1.0).as_text("logs")), "scores": [float("nan")]}),
        json.dumps({**json.loads(AdaptiveInterval(0.9, 1.0).as_text("logs")), "covered": 7}),
        json.dumps({**json.loads(AdaptiveInterval(0.9, 1.0).as_text("logs")), "judged": float("inf")}),
        json.dumps({**json.loads(AdaptiveInterval(0.9, 1.0).as_text("logs")), "absolute": 10**400}), "[" * 100_000,
        json.dumps({**json.loads(AdaptiveInterval(0.9, 1.0).as_text("logs")), "misses_allowed": {"low": 9, "high": 0}}),
    ],
)  # fmt: skip
def test_what_is_about_something_else_or_damaged_is_not_used(text: str | None) -> None:
    """Nothing is learnt from it, and nothing fails."""
    interval = AdaptiveInterval(0.9, 1.0)
    fresh = interval.margin
    assert not interval.begin_with("logs", text)
    assert (interval.margin, interval.judged, interval.coverage) == (fresh, 0, None)


@pytest.mark.parametrize("confidence", [0.0, 0.4, 1.0, 2.0, float("nan")])
def test_a_confidence_that_is_none_is_refused(confidence: float) -> None:
    """The message names the option."""
    with pytest.raises(ConfigurationError, match="confidence"):
        AdaptiveInterval(confidence, 1.0)
