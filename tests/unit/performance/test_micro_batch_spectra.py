# SPDX-License-Identifier: Apache-2.0
"""Exponentials of an arrival process: with and without a basis of eigenvectors, and kept from one call to the next."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from penstock.markov import MAP, PH
from penstock.performance.queueing.micro_batch.spectra import Spectra, exponentials

BURSTY = MAP.mmpp([[-0.5, 0.5], [2.0, -2.0]], [20.0, 160.0])
STAGES = MAP.renewal(PH.erlang(6, mean=0.5))
"""Equal stages in a row: without arrivals no basis of eigenvectors."""


def chain(stages: int = 12) -> MAP:
    """Give a process of slow equal stages, each hardly ever left, and a burst after the last."""
    D0 = np.diag([-80.0] * (stages - 1) + [-4000.0])
    D1 = np.diag([79.92] * (stages - 1) + [3960.0]) + np.diag([0.08] * (stages - 1), 1)
    D1[-1, 0] = 40.0
    return MAP(D0, D1)


@pytest.mark.parametrize("arrivals", [BURSTY, STAGES, chain()], ids=["bursty", "stages", "chain"])
def test_exponentials_are_those_of_the_process(arrivals: MAP) -> None:
    """At every angle and time, to what the parting of equal phases and the steps between times leave."""
    times = np.array([0.3, 1.0, 1.7]) * 5 / arrivals.rate
    found = Spectra(arrivals).on_circle(5, 64, times)
    for q in range(5):
        for k, t in enumerate(times):
            known = expm((arrivals.D0 + np.exp(2j * np.pi * q / 64) * arrivals.D1) * t)
            assert found[q, k] == pytest.approx(known, abs=2e-4)


def test_parted_phases_keep_the_rate() -> None:
    """Where phases are made faster and slower, as many records come as before and rows still sum to zero."""
    spectra = Spectra(STAGES)
    used = MAP(spectra.D0, spectra.D1)
    assert used.rate == pytest.approx(STAGES.rate, rel=1e-12)
    assert np.abs(spectra.D0 / np.where(STAGES.D0 == 0, 1.0, STAGES.D0)).max() == pytest.approx(1.0, abs=3e-3)


def test_what_is_kept_is_what_is_found_anew() -> None:
    """Frequencies that another number of parts had too come out the same from what was kept."""
    kept, times = Spectra(BURSTY), np.array([0.05, 0.2])
    kept.on_circle(5, 16, times)
    assert kept.on_circle(9, 32, times) == pytest.approx(Spectra(BURSTY).on_circle(9, 32, times), abs=1e-13)


def test_summed_exponentials_are_exact() -> None:
    """Scaling and squaring agrees with Pade's approximation, small norms and large."""
    matrix = BURSTY.D0 + BURSTY.D1
    times = np.array([1e-6, 0.1, 30.0])
    found = exponentials(np.broadcast_to(matrix, (3, 2, 2)), times)
    for k, t in enumerate(times):
        assert found[k] == pytest.approx(expm(matrix * t), abs=1e-12)
