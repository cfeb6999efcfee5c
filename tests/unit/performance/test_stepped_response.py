# SPDX-License-Identifier: Apache-2.0
"""Times as ticks of a Poisson clock, against phase-type distributions, and mixtures of times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from penstock.errors import ConfigurationError, ConvergenceError
from penstock.markov import PH
from penstock.performance.queueing import stepped_response
from penstock.performance.queueing.mixture import Mixture
from penstock.performance.queueing.phase_type_response import PhaseTypeResponse
from penstock.performance.queueing.stepped_response import stepped


def survival(distribution: PH, q: float) -> Iterator[float]:
    """Survival of the distribution after each tick at rate q."""
    stay = np.eye(distribution.order) + distribution.T / q
    state = distribution.alpha
    while True:
        yield float(state.sum())
        state = state @ stay


@pytest.mark.parametrize(
    "distribution",
    [PH.erlang(5, mean=3.0), PH.hyperexponential([0.9, 0.1], [2.0, 0.05]), PH.coxian([3.0, 0.5], [0.2])],
)
def test_stepped_times_are_those_of_the_chain(distribution: PH) -> None:
    """Moments, distribution and percentiles agree with the phase-type distribution, deep into the tail."""
    answer = stepped(0.5, 10.0, survival(distribution, 10.0))
    assert answer.mean == pytest.approx(distribution.mean, rel=1e-9)
    assert answer.variance == pytest.approx(distribution.variance, rel=1e-7)
    times = np.array([0.0, 0.01, 1.0, 10.0, 300.0])
    assert answer.cdf(times) == pytest.approx(distribution.cdf(times), rel=1e-9, abs=1e-12)
    ps = [0.01, 0.5, 0.95, 0.999999]
    assert answer.percentiles(ps) == pytest.approx(distribution.quantile(ps), rel=1e-6)


def test_no_tick_is_no_time() -> None:
    """A share of the records that needs no tick has percentile zero up to that share."""
    answer = stepped(0.5, 1.0, iter([0.25, 0.0]))
    assert answer.percentile(0.7) == 0.0
    assert answer.percentile(0.9) > 0.0
    assert answer.cdf([-1.0, 0.0]).tolist() == [0.0, 0.75]


def test_a_survival_that_never_settles_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is neither gone nor geometric after the most ticks is given up with an error, not cut off."""
    monkeypatch.setattr(stepped_response, "MOST_TICKS", 500)
    with pytest.raises(ConvergenceError, match="rates too far apart"):
        stepped(0.5, 1.0, (1.0 / (1.0 + n) for n in range(10_000)))


def test_mixtures_lie_between_their_parts() -> None:
    """Moments and percentiles of a mixture of exponential times are those of the hyperexponential distribution."""
    parts = tuple(PhaseTypeResponse(load, PH.exponential(mean=mean)) for load, mean in ((0.2, 1.0), (0.6, 5.0)))
    mixed, whole = Mixture((0.7, 0.3), parts), PH.hyperexponential([0.7, 0.3], [1.0, 0.2])
    assert (mixed.mean, mixed.variance) == pytest.approx((whole.mean, whole.variance), rel=1e-12)
    assert mixed.percentiles([0.1, 0.95]) == pytest.approx(whole.quantile([0.1, 0.95]), rel=1e-8)
    assert mixed.is_stable
    assert mixed.utilisation == 0.6


def test_weights_that_are_no_probabilities_are_refused() -> None:
    """Weights of a mixture must sum to one, and a share of records that wait must be a probability."""
    part = PhaseTypeResponse(0.5, PH.exponential(mean=1.0))
    with pytest.raises(ConfigurationError, match="weights"):
        Mixture((0.5, 0.6), (part, part))
    with pytest.raises(ConfigurationError, match="chance"):
        PhaseTypeResponse(0.5, PH.exponential(mean=1.0), chance=1.5)
