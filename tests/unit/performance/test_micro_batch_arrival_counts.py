# SPDX-License-Identifier: Apache-2.0
"""Counts of a MAP in given times: against the distribution computed another way, and against exact means."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.markov import MAP
from penstock.performance.queueing.micro_batch.arrival_counts import count_matrices, expected_counts, windows
from penstock.performance.queueing.micro_batch.spectra import Spectra

BURSTY = MAP.mmpp([[-0.5, 0.5], [2.0, -2.0]], [20.0, 160.0])


def test_counts_are_those_of_the_process() -> None:
    """With as many frequencies as counts the inversion agrees with uniformisation."""
    t = 0.4
    counts = count_matrices(Spectra(BURSTY), np.array([t]), 256, 1e-12)
    assert counts.exact[0]
    found = np.einsum("i,sij->s", BURSTY.theta, counts.mass[0])
    found[counts.at[0] == 0] += BURSTY.theta @ counts.none[0].sum(axis=1)
    known = BURSTY.count_distribution(t, largest=120)
    by_count = dict(zip(counts.at[0].astype(int).tolist(), found.tolist(), strict=True))
    assert [by_count.get(n, 0.0) for n in range(121)] == pytest.approx(known.tolist(), abs=1e-10)


@pytest.mark.parametrize("uneven", [1.0, 400.0])
def test_coarse_samples_keep_mass_and_mean(uneven: float) -> None:
    """Counts too many for the frequencies keep total and mean, for even and for very uneven processes."""
    arrivals = MAP.mmpp([[-0.01, 0.01], [1.0, -1.0]], [50.0, 50.0 * uneven])
    times = np.array([10.0, 40.0])
    counts = count_matrices(Spectra(arrivals), times, 128, 1e-10)
    assert not counts.exact.any()
    mean = (counts.mass * counts.at[:, :, None, None]).sum(axis=(1, 3))
    assert (counts.mass.sum(axis=(1, 3)) + counts.none.sum(axis=2)) == pytest.approx(np.ones((2, 2)), rel=1e-8)
    assert mean == pytest.approx(expected_counts(Spectra(arrivals), times)[0], rel=0.03)


def test_windows_hold_the_counts() -> None:
    """The window of a Poisson count leaves out no more than was asked, and is no wider than 20 deviations."""
    low, high = windows(Spectra(MAP.poisson(100.0)), np.array([100.0]), 1e-10)
    assert low[0] < 10_000 - 6 * 100
    assert high[0] > 10_000 + 6 * 100
    assert high[0] - low[0] < 20 * 100


def test_expected_counts_of_poisson() -> None:
    """A Poisson process brings rate t records, of mean age t / 2."""
    count, area = expected_counts(Spectra(MAP.poisson(3.0)), np.array([2.0]))
    assert count[0, 0] == pytest.approx(6.0)
    assert area[0, 0] == pytest.approx(6.0)
