# SPDX-License-Identifier: Apache-2.0
"""Percentiles by doubling against closed forms and the transient solution, in both tails and for stiff chains."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from penstock.markov import PH
from penstock.markov.conditions import FloatArray
from penstock.markov.tails import Tails

SHARES = np.array([1e-9, 1e-3, 0.05, 0.5, 0.95, 0.999, 1.0 - 1e-9])


def tails(*distributions: PH) -> Tails:
    """The distributions as a stack."""
    return Tails(np.stack([d.T for d in distributions]), np.stack([d.exits for d in distributions]))


def quantiles(distribution: PH, shares: FloatArray = SHARES) -> FloatArray:
    """The percentiles of one distribution."""
    return np.asarray(tails(distribution).quantiles(distribution.alpha[None], shares[None])[0])


@pytest.mark.parametrize("phases", [1, 2, 10])
def test_erlang_percentiles(phases: int) -> None:
    """Percentiles of Erlang distributions are those of the gamma distribution, however far out."""
    expected = stats.gamma.ppf(SHARES, phases, scale=1.0 / phases)
    expected[-1] = stats.gamma.isf(1.0 - SHARES[-1], phases, scale=1.0 / phases)
    assert quantiles(PH.erlang(phases, mean=1.0)) == pytest.approx(expected, rel=1e-8)


def test_stiff_chain_keeps_its_slow_tail() -> None:
    """Rates eight orders apart: the tail is that of the slow phase, to ten digits."""
    mixed = PH.hyperexponential([0.5, 0.5], [1e8, 1.0])
    shares = np.array([0.75, 0.95, 0.9999])
    assert quantiles(mixed, shares) == pytest.approx(-np.log(2.0 * (1.0 - shares)), rel=1e-10)


def test_percentiles_invert_the_distribution() -> None:
    """The share within a percentile, from the transient solution, is the share asked for."""
    distribution = PH.coxian([5.0, 0.3, 2.0], [0.6, 0.9])
    shares = np.linspace(0.01, 0.99, 25)
    times = quantiles(distribution, shares)
    assert distribution.cdf(times) == pytest.approx(shares, rel=1e-12)
    assert np.all(np.diff(times) > 0)


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_unit_of_time_does_not_matter(factor: float) -> None:
    """Percentiles scale with the time unit."""
    distribution = PH.coxian([5.0, 0.3], [0.6])
    scaled = quantiles(distribution.time_scaled(factor))
    assert scaled == pytest.approx(factor * quantiles(distribution), rel=1e-12)


def test_stack_equals_single_distributions() -> None:
    """Distributions of very different length are found together as each alone."""
    several = [PH.erlang(2, mean=mean) for mean in (1.0, 1e-5)] + [PH.hyperexponential([0.9, 0.1], [1e4, 1e-3])]
    together = tails(*several).quantiles(np.stack([d.alpha for d in several]), np.tile(SHARES, (3, 1)))
    for found, one in zip(together, several, strict=True):
        assert found == pytest.approx(quantiles(one), rel=1e-12)


@pytest.mark.parametrize(("step", "count"), [(0.01, 1), (0.01, 7), (0.3, 100), (5.0, 1024)])
def test_equidistant_times_are_absorbed_as_any_others(step: float, count: int) -> None:
    """Shares on a grid are those of the same times asked for one by one, for several chains at once."""
    A = np.array([[[0.0, 1.0], [0.5, 0.0]], [[0.0, 20.0], [0.1, 0.0]]])
    a = np.array([[0.3, 0.0], [0.0, 2.0]])
    start = np.array([[0.2, 0.8], [1.0, 0.0]])
    times = np.tile(step * np.arange(count), (2, 1))
    tails = Tails(A, a)
    assert tails.absorbed_on_grid(start, step, count) == pytest.approx(tails.absorbed(start, times), abs=1e-13)
