# SPDX-License-Identifier: Apache-2.0
"""Tests of joint moments, autocorrelation, bicovariance and the dispersion of intervals."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import InvalidProcessError
from penstock.markov import MAP, PH

PROCESS = MAP(
    [[-5.0, 1.0, 0.5], [0.2, -2.0, 0.3], [0.0, 0.4, -1.0]], [[3.0, 0.5, 0.0], [0.5, 0.7, 0.3], [0.1, 0.0, 0.5]]
)


def test_autocorrelation_follows_from_joint_moments() -> None:
    """rho_k is (E[X_0 X_k] - m^2) / Var X."""
    m1, m2 = PROCESS.moments(2)
    for k in (1, 2, 9):
        expected = (PROCESS.joint_moment([1, 1], [k]) - m1 * m1) / (m2 - m1 * m1)
        assert PROCESS.autocorrelation(k) == pytest.approx(expected, abs=1e-13)


def test_lag_zero_is_one_and_shape_is_kept() -> None:
    """An array of lags gives an array of the same shape, 1 at lag 0."""
    values = PROCESS.autocorrelation([[0, 1], [2, 3]])
    assert values.shape == (2, 2)
    assert values[0, 0] == 1.0


def test_far_lags_agree_with_near_ones() -> None:
    """A few scattered far lags, computed by binary powers, agree with the whole run of lags."""
    slow = MAP.mmpp([[-1e-4, 1e-4], [3e-4, -3e-4]], [8.0, 1.0])
    together = slow.autocorrelation(np.arange(60_001))
    scattered = slow.autocorrelation([60_000, 17, 12_345])
    assert scattered == pytest.approx(together[[60_000, 17, 12_345]], rel=1e-9)
    assert slow.autocorrelation([10**12]) == pytest.approx([0.0], abs=1e-15)


def test_renewal_process_has_no_correlation() -> None:
    """Independent intervals are uncorrelated at every lag, and so are triples."""
    renewal = MAP.renewal(PH.hyperexponential([0.1, 0.9], [0.1, 2.0]))
    assert renewal.autocorrelation(np.arange(1, 50)) == pytest.approx(np.zeros(49), abs=1e-13)
    assert renewal.bicovariance([1, 2], [1, 5]) / renewal.mean**3 == pytest.approx([0.0, 0.0], abs=1e-12)


def test_bicovariance_follows_from_joint_moments() -> None:
    """The centred triple moment is the raw one less the pairs plus twice the cube of the mean."""
    m = PROCESS.mean
    for i, j in ((1, 1), (2, 5)):
        raw = PROCESS.joint_moment([1, 1, 1], [i, j])
        pairs = sum(PROCESS.joint_moment([1, 1], [k]) for k in (i, j, i + j))
        assert PROCESS.bicovariance(i, j, centred=False) == pytest.approx(raw, rel=1e-12)
        assert PROCESS.bicovariance(i, j) == pytest.approx(raw - m * pairs + 2 * m**3, rel=1e-9, abs=1e-12)


def test_bicovariance_broadcasts_its_gaps() -> None:
    """A column of gaps against a row of gaps gives a table."""
    assert PROCESS.bicovariance([[1], [2]], [1, 2, 3]).shape == (2, 3)


def test_joint_moment_of_zero_powers_is_one() -> None:
    """Powers of zero leave a probability of one."""
    assert PROCESS.joint_moment([0, 0], [3]) == pytest.approx(1.0, rel=1e-14)


def test_dispersion_of_intervals_sums_the_autocorrelations() -> None:
    """IDI(n) is c^2 (1 + 2 sum (1 - k/n) rho_k), for short and for long n."""
    rho = PROCESS.autocorrelation(np.arange(1, 6000))
    for n in (1, 2, 10, 4096, 4097, 5999):
        k = np.arange(1, n)
        expected = PROCESS.scv * (1 + 2 * np.sum((1 - k / n) * rho[: n - 1]))
        assert PROCESS.idi(n) == pytest.approx(expected, rel=1e-10)


def test_dispersion_of_intervals_tends_to_that_of_counts() -> None:
    """For long runs the dispersions of intervals and of counts meet."""
    assert PROCESS.idi(10**9) == pytest.approx(PROCESS.asymptotic_idc, rel=1e-8)


def test_bad_lags_are_named() -> None:
    """Lags are whole numbers, not negative, and gaps are at least one."""
    with pytest.raises(InvalidProcessError, match="at = -1 must be a whole number of at least 0"):
        PROCESS.autocorrelation([1, -1])
    with pytest.raises(InvalidProcessError, match=r"at = 1\.5"):
        PROCESS.autocorrelation(1.5)
    with pytest.raises(InvalidProcessError, match="at = nan"):
        PROCESS.autocorrelation([float("nan")])
    with pytest.raises(InvalidProcessError, match="i = 0 must be a whole number of at least 1"):
        PROCESS.bicovariance(0, 1)
    with pytest.raises(InvalidProcessError, match="2 powers need 1 gaps between them, not 0"):
        PROCESS.joint_moment([1, 1], [])
    with pytest.raises(InvalidProcessError, match="count = 0"):
        PROCESS.idi(0)
