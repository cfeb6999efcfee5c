# SPDX-License-Identifier: Apache-2.0
"""Percentiles of sums of independent times."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.markov import PH
from penstock.performance.path_sum import Laws, sum_percentiles
from penstock.performance.queueing.phase_type_response import PhaseTypeResponse
from penstock.performance.queueing.response import Saturated


def laws(*means: float) -> Laws:
    """Exponential times, one for each process."""
    return Laws([PhaseTypeResponse(0.5, PH.exponential(mean=mean)) for mean in means])


@pytest.mark.parametrize("bound", [1e-9, 0.01, 1.0, 3.0, 40.0, 1e5])
@pytest.mark.parametrize("p", [0.5, 0.95, 0.99])
def test_sums_have_the_percentiles_of_the_exact_distribution(bound: float, p: float) -> None:
    """Two exponential times, alike or far apart, against their phase-type sum, whatever the bound of interest."""
    found = sum_percentiles([laws(1.0, 1.0), laws(1.0, 0.01)], p, bound)
    exact = [PH.series([1.0, 1.0]).quantile(p), PH.series([1.0, 0.01]).quantile(p)]
    np.testing.assert_allclose(found, np.ravel(exact), rtol=2e-3)


def test_many_parts_add_up() -> None:
    """Eight exponential times make an Erlang distribution."""
    found = sum_percentiles([laws(0.5)] * 8, 0.95, 7.0)
    np.testing.assert_allclose(found, PH.erlang(8, mean=4.0).quantile([0.95]), rtol=1e-3)


def test_what_is_saturated_never_ends() -> None:
    """One saturated part makes a process's sum infinite and leaves the other processes alone."""
    mixed = Laws([Saturated(1.2), PhaseTypeResponse(0.5, PH.exponential(mean=1.0))])
    found = sum_percentiles([laws(1.0, 1.0), mixed], 0.95, 1.0)
    assert found[0] == np.inf
    assert np.isfinite(found[1])
    assert sum_percentiles([Laws([Saturated(2.0)])], 0.5, 1.0).tolist() == [np.inf]


def test_shorter_parts_never_make_a_longer_sum() -> None:
    """Percentiles rise with a part's mean through all grids, from far below the bound to far beyond."""
    means = np.geomspace(1e-6, 1e6, 70)
    found = [float(sum_percentiles([laws(1e-7), laws(float(mean))], 0.95, 1.0)[0]) for mean in means]
    assert (np.diff(found) > 0).all()
