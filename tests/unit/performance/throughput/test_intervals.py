# SPDX-License-Identifier: Apache-2.0
"""Intervals hold what they promise, at sizes that were never trained on."""

from __future__ import annotations

import pytest
from tests.unit.performance.throughput.synthetic_applications import FAMILIES, covered, of_any_family

from penstock.performance.throughput import MODELS, EnsembleModel, InverseTimeModel
from penstock.records import Allocation, ThroughputSample


@pytest.mark.parametrize("noise", [0.02, 0.08])
@pytest.mark.parametrize("name", FAMILIES)
def test_intervals_cover_applications_of_the_models_own_kind(name: str, noise: float) -> None:
    """Of new measurements at unseen sizes, up to twice the largest, 90 % intervals hold 85 to 95 %."""
    assert 0.85 <= covered(MODELS[name], FAMILIES[name], 150, noise=noise) <= 0.95


@pytest.mark.parametrize("name", FAMILIES)
def test_intervals_cover_where_larger_sizes_were_seen(name: str) -> None:
    """The same holds for the paper's training sizes."""
    found = covered(
        MODELS[name],
        FAMILIES[name],
        150,
        trained_on=(3, 4, 6, 8, 24),
        asked_about=(2, 5, 10, 16, 32, 48),
        repeats=2,
        seed=1,
    )
    assert 0.85 <= found <= 0.95


@pytest.mark.parametrize("coverage", [0.5, 0.8])
def test_other_coverages_are_kept_too(coverage: float) -> None:
    """Half means half, within 5 points."""
    found = covered(MODELS["usl"], FAMILIES["usl"], 200, coverage=coverage, seed=2)
    assert abs(found - coverage) <= 0.05


def test_the_ensemble_covers_applications_of_any_kind() -> None:
    """Without knowing which form an application has, the ensemble's 90 % intervals hold 85 to 95 %."""
    assert 0.85 <= covered(EnsembleModel(), of_any_family, 60, seed=3) <= 0.95


@pytest.mark.parametrize("name", FAMILIES)
def test_a_wrong_form_still_covers_most(name: str) -> None:
    """On applications of any kind a single model loses no more than 8 points: its misfit widens its intervals."""
    assert covered(MODELS[name], of_any_family, 100, seed=4) >= 0.82


def test_few_samples_give_wide_intervals() -> None:
    """Two samples leave an interval several times as wide as ten."""
    rates = {1: 100.0, 2: 190.0, 4: 350.0, 8: 640.0, 12: 900.0}
    few = InverseTimeModel().fit([ThroughputSample(Allocation(m), rates[m]) for m in (1, 2)])
    many = InverseTimeModel().fit(
        [ThroughputSample(Allocation(m), rate) for m, rate in rates.items() for _ in range(2)]
    )
    wide, narrow = few.predict(Allocation(6)), many.predict(Allocation(6))
    assert wide.high / wide.low > 3.0 * narrow.high / narrow.low


@pytest.mark.parametrize("name", MODELS)
def test_extrapolation_widens(name: str) -> None:
    """Four times beyond the largest sampled size, every model's interval is wider than at that size."""
    model = MODELS[name].fit(
        [
            ThroughputSample(Allocation(m), 100.0 * m / (1.0 + 0.05 * m) * (1.03 if second else 0.97))
            for m in (1, 2, 4, 8)
            for second in (False, True)
        ]
    )
    inside, outside = model.predict(Allocation(8)), model.predict(Allocation(32))
    assert outside.high / outside.low > 1.02 * inside.high / inside.low


@pytest.mark.parametrize("name", MODELS)
def test_repeats_that_scatter_widen(name: str) -> None:
    """The spread of repeated measurements at one size is in the interval."""
    calm = MODELS[name].fit([ThroughputSample(Allocation(2), rate) for rate in (99.0, 100.0, 101.0, 100.0)])
    wild = MODELS[name].fit([ThroughputSample(Allocation(2), rate) for rate in (70.0, 100.0, 140.0, 100.0)])
    assert wild.predict(Allocation(2)).high > 1.2 * calm.predict(Allocation(2)).high
