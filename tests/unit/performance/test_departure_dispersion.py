# SPDX-License-Identifier: Apache-2.0
"""The dispersion of departures in closed form is that of the process built from the same runs."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.markov import MAP, PH, map2_from_moments, superpose
from penstock.performance.queueing.departure_process import _assembled, _busy_runs, _dispersion, _kinds

BURSTY = map2_from_moments(1.0, 6.0, 64.0, 0.8)
SLOW = MAP.mmpp([[-0.002, 0.002], [0.005, -0.005]], [0.3, 4.0])


@pytest.mark.parametrize("load", [0.1, 0.6, 0.95])
@pytest.mark.parametrize(
    "arrivals",
    [MAP.poisson(1.0), BURSTY, superpose(BURSTY, SLOW), MAP.renewal(PH.erlang(3, mean=1.0))],
    ids=["poisson", "bursty", "both", "regular"],
)
def test_dispersion_is_that_of_the_process_built(arrivals: MAP, load: float) -> None:
    """Whatever part of the runs' variability is kept, closed form and process agree to ten digits."""
    coming = arrivals.with_rate(1.0)
    for service in (PH.erlang(2, mean=load), PH.hyperexponential([0.9, 0.1], [1.8 / load, 0.2 / load])):
        runs = _busy_runs(coming, service, None)
        of_runs = _dispersion(runs, service)
        for eta in (0.0, 0.5, 1.0, 16.0):
            kinds = _kinds(eta, runs)
            unchecked = _assembled(kinds, runs, service, of_runs.frequency)
            built = MAP(unchecked.D0, unchecked.D1)
            assert unchecked.rate == pytest.approx(1.0, rel=1e-9)
            assert built.rate == pytest.approx(1.0, rel=1e-9)
            found = of_runs.of(kinds.start, kinds.chance, kinds.ends)
            assert found == pytest.approx(built.asymptotic_idc, rel=1e-10)


def test_variable_runs_have_the_higher_dispersion() -> None:
    """The more of the runs' variability is kept, the higher the dispersion."""
    service = PH.exponential(mean=0.7)
    runs = _busy_runs(BURSTY, service, None)
    of_runs = _dispersion(runs, service)
    made = [_kinds(eta, runs) for eta in (0.0, 0.5, 1.0, 2.0)]
    assert np.all(np.diff([of_runs.of(kinds.start, kinds.chance, kinds.ends) for kinds in made]) > 0.0)
