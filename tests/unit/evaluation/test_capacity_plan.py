# SPDX-License-Identifier: Apache-2.0
"""Capacity plans: models trained on samples, curves, the size for a rate, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.evaluation.capacity_plan import ThroughputTable, fit_capacity, size_for
from penstock.performance.throughput import InverseTimeModel, PolynomialModel
from penstock.records import Allocation, ThroughputSample

PAPER = ("inverse-time", "polynomial")


def saturating(m: float) -> float:
    """Grep of the paper."""
    return 1.0 / (0.01617 + 1.04913 / m)


def drawn(curve: Callable[[float], float], sizes: tuple[int, ...], noise: float = 0.02) -> list[ThroughputSample]:
    """Four samples of each size."""
    generator = np.random.default_rng(5)
    return [
        ThroughputSample(Allocation(m), curve(m) * float(np.exp(noise * generator.standard_normal())))
        for m in sizes
        for _ in range(4)
    ]


def test_the_model_that_fits_is_chosen_by_validation() -> None:
    """Validated at a size where the models part, the model that the samples are of is chosen, and sees all samples."""
    samples, validation = drawn(saturating, (3, 4, 6, 8, 24)), drawn(saturating, (60,))
    found = fit_capacity(samples, validation, models=PAPER, most=128)
    assert (found.selection.chosen, found.selection.judged_by) == ("inverse-time", "validation")
    assert found.predict(100).records_per_second == pytest.approx(saturating(100), rel=0.1)
    assert found.most == 128
    assert fit_capacity(samples, models=PAPER).most == 120


def test_the_curve_has_every_size_until_there_are_many() -> None:
    """A curve of up to 200 sizes is whole; a longer one is thinned out, with both ends."""
    samples = drawn(saturating, (3, 4, 6, 8, 24))
    assert [p["executors"] for p in fit_capacity(samples, models=PAPER, most=30).curve()] == list(range(1, 31))
    long = [p["executors"] for p in fit_capacity(samples, models=PAPER, most=10_000).curve()]
    assert (long[0], long[-1]) == (1, 10_000)
    assert len(long) <= 200


def test_a_table_of_many_sizes_is_the_model() -> None:
    """Between the sizes that the model was asked for, straight lines are within a thousandth of it."""
    model = InverseTimeModel().fit(drawn(saturating, (3, 4, 6, 8, 24)))
    table = ThroughputTable.of(model, 10_000)
    for size in (1, 512, 777, 5003, 10_000):
        told = model.predict(Allocation(size))
        assert table.expected[size - 1] == pytest.approx(told.records_per_second, rel=1e-3)
    assert (np.diff(table.low) >= 0.0).all()


def test_the_size_is_the_fewest_that_will_do() -> None:
    """The lower end reaches the rate, that of one executor less does not; by expectation fewer are enough."""
    found = fit_capacity(drawn(saturating, (3, 4, 6, 8, 24)), models=PAPER, most=128)
    answer = size_for(found, 12.0)
    assert answer.is_enough
    assert answer.prediction.low >= 12.0
    assert answer.smaller is not None
    assert answer.smaller.low < 12.0
    assert answer.smaller_falls_short_by == pytest.approx((12.0 - answer.smaller.low) / 12.0)
    expected = size_for(found, 12.0, by_interval=False)
    assert expected.executors == answer.expected_executors
    assert expected.executors <= answer.executors
    assert expected.prediction.records_per_second >= 12.0


def test_the_smallest_size_has_none_below() -> None:
    """One executor for a small rate: there is no next smaller one to fall short."""
    found = fit_capacity(drawn(saturating, (1, 2, 4, 8)), models=PAPER)
    answer = size_for(found, 0.1)
    assert (answer.executors, answer.smaller, answer.smaller_falls_short_by) == (1, None, None)


def test_a_rate_that_no_size_reaches_is_said_so() -> None:
    """The answer is for the most executors, and is not enough: never a number that looks like a plan."""
    answer = size_for(fit_capacity(drawn(saturating, (3, 4, 6, 8, 24)), models=PAPER, most=64), 1000.0)
    assert (answer.executors, answer.is_enough, answer.expected_executors) == (64, False, None)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    """Rates are finite and above zero."""
    found = fit_capacity(drawn(saturating, (3, 8)), models=PAPER)
    with pytest.raises(ConfigurationError, match="rate"):
        size_for(found, rate)


def test_all_that_is_wrong_is_said_at_once() -> None:
    """One size, an unknown model, no executors and an impossible coverage are four mistakes in one error."""
    with pytest.raises(ConfigurationError, match="4 mistakes") as fault:
        fit_capacity(drawn(saturating, (3,)), models=("nonesuch",), most=0, coverage=1.5)
    for word in ("one size (3 executors)", "nonesuch", "max: 0", "coverage: 1.5"):
        assert word in str(fault.value)


def test_too_few_samples_are_refused() -> None:
    """Two samples say too little."""
    with pytest.raises(ConfigurationError, match="there are 2, and 3 are needed"):
        fit_capacity(drawn(saturating, (3,))[:2])


def test_several_shares_are_planned_with_the_largest() -> None:
    """Samples with half and whole cores train one model; a note says which share the sizes are for."""
    half = [
        ThroughputSample(Allocation(m, 0.5), sample.records_per_second / 2.0)
        for m, sample in zip((3, 4, 6, 8), drawn(saturating, (3, 4, 6, 8))[::4], strict=True)
    ]
    found = fit_capacity([*drawn(saturating, (3, 4, 6, 8)), *half], models=("polynomial",))
    assert found.cpu_share == 1.0
    assert any("several CPU shares" in note for note in found.notes)
    assert isinstance(found.model, PolynomialModel)
