# SPDX-License-Identifier: Apache-2.0
"""Tests of the counts of arrivals in an interval."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from penstock.errors import InvalidProcessError
from penstock.markov import MAP, PH, counting

PROCESS = MAP(
    [[-5.0, 1.0, 0.5], [0.2, -2.0, 0.3], [0.0, 0.4, -1.0]], [[3.0, 0.5, 0.0], [0.5, 0.7, 0.3], [0.1, 0.0, 0.5]]
)


@pytest.mark.parametrize("t", [1e-9, 0.3, 40.0, 1e5, 1e9])
def test_mmpp_dispersion_has_its_closed_form(t: float) -> None:
    """The dispersion of a 2-phase modulated Poisson process is that of Heffes and Lucantoni, at any length."""
    # Heffes and Lucantoni, "A Markov modulated characterization of packetized voice and data traffic", IEEE Journal
    # on Selected Areas in Communications 4, 1986, with phase 1 left at r1 and phase 2 at r2.
    r1, r2, one, two = 0.3, 0.05, 7.0, 0.4
    spread = 2 * r1 * r2 * (one - two) ** 2 / ((r1 + r2) ** 2 * (one * r2 + two * r1))
    expected = 1 + spread * (1 + np.expm1(-(r1 + r2) * t) / ((r1 + r2) * t))
    process = MAP.mmpp([[-r1, r1], [r2, -r2]], [one, two])
    assert process.idc(t) == pytest.approx(expected, rel=1e-9)
    assert process.asymptotic_idc == pytest.approx(1 + spread, rel=1e-12)


def test_dispersion_is_continuous_where_the_method_changes() -> None:
    """On both sides of the length at which another formula serves, the dispersion is the same."""
    edge = 1e4 / float(np.max(-PROCESS.Q.diagonal()))
    near, far = PROCESS.idc([edge * 0.999999, edge * 1.000001])
    assert near == pytest.approx(far, rel=1e-8)


def test_dispersion_starts_at_one() -> None:
    """An interval of no length has at most one arrival: dispersion 1."""
    assert PROCESS.idc(0.0) == 1.0


def test_dispersion_of_a_stiff_process() -> None:
    """Modulation 1e12 times slower than arrivals gives the closed form."""
    slow = MAP.mmpp([[-1e-9, 1e-9], [1e-9, -1e-9]], [1e3, 1.0])
    r, t = 1e-9, 1e8
    spread = 2 * r * r * 999.0**2 / (4 * r * r * (1001.0 * r))
    expected = 1 + spread * (1 + np.expm1(-2 * r * t) / (2 * r * t))
    assert slow.idc(t) == pytest.approx(expected, rel=1e-6)


def test_renewal_dispersion_tends_to_the_scv() -> None:
    """Over long intervals a renewal process's counts have the dispersion of its SCV."""
    assert MAP.renewal(PH.erlang(4, mean=1.0)).asymptotic_idc == pytest.approx(0.25, rel=1e-12)


def test_poisson_counts_are_poisson() -> None:
    """The counts of a Poisson process have the Poisson distribution, as far as the tolerance asks."""
    counts = MAP.poisson(3.0).count_distribution(2.0)
    assert counts == pytest.approx(stats.poisson(6.0).pmf(np.arange(counts.size)), abs=1e-14)
    assert 1.0 - counts.sum() < 1e-12


def test_counts_have_the_rate_and_the_dispersion() -> None:
    """Mean and variance of the distribution are the rate times the length, and that times the dispersion."""
    t = 7.0
    counts = PROCESS.count_distribution(t, tolerance=1e-14)
    k = np.arange(counts.size)
    mean = k @ counts
    assert mean == pytest.approx(PROCESS.rate * t, rel=1e-11)
    assert (k - mean) ** 2 @ counts / mean == pytest.approx(float(PROCESS.idc(t)), rel=1e-9)


def test_two_methods_agree() -> None:
    """Uniformisation and inversion of the generating function give the same distribution."""
    arguments = (12.0, PROCESS.D0, PROCESS.D1, PROCESS.theta, 90)
    one, other = counting.uniformised_counts(*arguments), counting.transformed_counts(*arguments)
    assert one == pytest.approx(other, abs=1e-13)


def test_long_intervals_are_answered() -> None:
    """Over an interval of thousands of arrivals the distribution still sums to one and has the mean."""
    t = 3000 / PROCESS.rate
    counts = PROCESS.count_distribution(t)
    assert counts.sum() == pytest.approx(1.0, abs=1e-10)
    assert np.arange(counts.size) @ counts == pytest.approx(3000.0, rel=1e-8)


def test_largest_cuts_without_distorting() -> None:
    """Asking for the first counts only gives the same numbers as asking for all."""
    assert PROCESS.count_distribution(5.0, largest=3) == pytest.approx(PROCESS.count_distribution(5.0)[:4], abs=1e-14)


def test_no_time_has_no_arrivals() -> None:
    """In no time nothing arrives."""
    assert PROCESS.count_distribution(0.0, largest=2).tolist() == [1.0, 0.0, 0.0]


def test_bad_arguments_are_named() -> None:
    """Lengths are finite and not negative."""
    with pytest.raises(InvalidProcessError, match="t = -1 must be a finite length"):
        PROCESS.idc([1.0, -1.0])
    with pytest.raises(InvalidProcessError, match="t = nan"):
        PROCESS.count_distribution(float("nan"))
    with pytest.raises(InvalidProcessError, match="tolerance = 0"):
        PROCESS.count_distribution(1.0, tolerance=0.0)
    with pytest.raises(InvalidProcessError, match="largest = -1"):
        PROCESS.count_distribution(1.0, largest=-1)
