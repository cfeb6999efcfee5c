# SPDX-License-Identifier: Apache-2.0
"""Whatever was measured, models of throughput keep their promises."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.performance.throughput import MODELS, InverseTimeModel, PowerLawModel, select, validation_sizes
from penstock.ports import ThroughputModel
from penstock.records import Allocation, ThroughputSample

SHARES = (0.1, 0.4, 0.7, 1.0)

samples = st.lists(
    st.builds(
        ThroughputSample,
        st.builds(Allocation, st.integers(1, 200), st.sampled_from(SHARES)),
        st.floats(1e-3, 1e9),
        st.none() | st.floats(0.0, 1e9),
    ),
    min_size=1,
    max_size=12,
)
single = st.sampled_from([model for name, model in MODELS.items() if name != "ensemble"])


@given(single, samples, st.floats(0.01, 0.999))
@settings(max_examples=150, deadline=None)
def test_predictions_are_finite_ordered_and_rising(
    model: ThroughputModel, measured: list[ThroughputSample], coverage: float
) -> None:
    """However wild the samples, predictions are finite, in order, and no smaller for more executors or share."""
    fitted = model.fit(measured)
    rates = np.empty((5, len(SHARES)))
    for row, executors in enumerate((1, 2, 7, 40, 300)):
        for column, share in enumerate(SHARES):
            found = fitted.predict(Allocation(executors, share), coverage)
            assert 0.0 <= found.low <= found.records_per_second <= found.high < math.inf
            rates[row, column] = found.records_per_second
    assert (rates[1:] * (1.0 + 1e-9) >= rates[:-1]).all()
    assert (rates[:, 1:] * (1.0 + 1e-9) >= rates[:, :-1]).all()


@given(samples)
@settings(max_examples=15, deadline=None)
def test_the_ensemble_keeps_the_promises_of_its_members(measured: list[ThroughputSample]) -> None:
    """The same holds for the ensemble, whose weights sum to one."""
    fitted = MODELS["ensemble"].fit(measured)
    rates = [fitted.predict(Allocation(executors)) for executors in (1, 2, 7, 40, 300)]
    assert all(0.0 <= found.low <= found.records_per_second <= found.high < math.inf for found in rates)
    assert math.isclose(sum(fitted.parameters.values()), 1.0)


@given(single, samples, st.floats(1e-3, 1e3))
@example(
    PowerLawModel(),
    [
        ThroughputSample(Allocation(1, 0.1), 109591168.19080165),
        ThroughputSample(Allocation(1, 0.1), 0.001),
        ThroughputSample(Allocation(59, 0.1), 2.0),
    ],
    1.5,
)
@settings(max_examples=60, deadline=None)
def test_units_do_not_matter(model: ThroughputModel, measured: list[ThroughputSample], factor: float) -> None:
    """Counting records in dozens gives the same predictions in dozens."""
    scaled = [ThroughputSample(each.allocation, each.records_per_second * factor, each.at) for each in measured]
    one, other = model.fit(measured), model.fit(scaled)
    for allocation in (Allocation(1), Allocation(9, 0.4)):
        here, there = one.predict(allocation), other.predict(allocation)
        assert math.isclose(here.records_per_second * factor, there.records_per_second, rel_tol=1e-3)


@given(samples)
@settings(max_examples=30, deadline=None)
def test_validation_sizes_lie_beyond_training_and_within_the_limit(measured: list[ThroughputSample]) -> None:
    """Sizes worth a measurement are larger than all that were trained on, rising, and within the most allowed."""
    models = [MODELS[name].fit(measured) for name in ("inverse-time", "polynomial", "usl")]
    largest = max(each.allocation.executors for each in measured)
    found = validation_sizes(models, largest, largest + 30)
    assert all(largest < size <= largest + 30 for size in found)
    assert list(found) == sorted(set(found))


@given(samples)
@settings(max_examples=20, deadline=None)
def test_the_chosen_model_has_the_least_error(measured: list[ThroughputSample]) -> None:
    """By training errors, no model that was not chosen is better."""
    chosen = select([InverseTimeModel(), MODELS["usl"]], measured, without_validation="training")
    assert chosen.scores[0].training_error == min(score.training_error for score in chosen.scores)
    assert chosen.chosen == chosen.scores[0].name
