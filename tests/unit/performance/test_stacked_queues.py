# SPDX-License-Identifier: Apache-2.0
"""Many queues in one call: the same answers as one by one, saturated ones among them."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH, map2_from_moments, superpose
from penstock.performance.queueing.single_server import solve_many, solve_map_ph_1

ARRIVALS = [
    MAP.poisson(1.0),
    map2_from_moments(1.0, 6.0, 90.0, 0.9),
    map2_from_moments(1.0, 3.0, 15.0, -0.25).with_rate(1.5),
    superpose(MAP.poisson(0.2), MAP.mmpp([[-1e-3, 1e-3], [1e-3, -1e-3]], [0.1, 1.5])),
    MAP.renewal(PH.erlang(2, mean=1.0)),
]
SERVICES = [PH.erlang(2, mean=mean) for mean in (0.05, 0.5, 0.9, 1.2)] + [
    PH([0.0, 1.0], [[-9.0, 2.0], [0.0, -2.0]]),
    PH.hyperexponential([0.9, 0.1], [5.0, 0.5]),
]


def test_every_pair_as_alone() -> None:
    """Mean, percentiles, utilisation and stability of each pair are those of the queue solved alone."""
    answers = solve_many(ARRIVALS, SERVICES, [0.5, 0.95])
    assert answers.percentiles.shape == (5, 6, 2)
    for i, arrivals in enumerate(ARRIVALS):
        for j, service in enumerate(SERVICES):
            queue = solve_map_ph_1(arrivals, service)
            assert answers.stable[i, j] == queue.is_stable
            assert answers.utilisation[i, j] == pytest.approx(queue.utilisation, rel=1e-12)
            assert answers.mean[i, j] == pytest.approx(queue.mean, rel=1e-10)
            assert answers.percentiles[i, j] == pytest.approx(queue.percentiles([0.5, 0.95]), rel=1e-10)
    assert not answers.stable.all()
    assert not np.isnan(answers.percentiles).any()


def test_means_alone() -> None:
    """Without percentiles the third axis is empty."""
    answers = solve_many(ARRIVALS[:1], SERVICES[:2])
    assert answers.percentiles.shape == (1, 2, 0)
    # M/E2/1: the mean service time and 0.75 m^2 / (1 - m), the second moment being 1.5 m^2.
    assert answers.mean[0] == pytest.approx([m + 0.75 * m * m / (1 - m) for m in (0.05, 0.5)], rel=1e-12)


def test_nothing_to_solve() -> None:
    """No services, or saturated ones alone, is an answer too."""
    assert solve_many(ARRIVALS, []).mean.shape == (5, 0)
    assert solve_many(ARRIVALS[:1], [PH.exponential(mean=2.0)], [0.9]).percentiles.tolist() == [[[np.inf]]]


def test_bad_input_is_refused() -> None:
    """A percentile of 95, or a number in place of a service time, is refused by name."""
    with pytest.raises(ConfigurationError, match="percentiles: 95"):
        solve_many(ARRIVALS, SERVICES, [95])
    with pytest.raises(ConfigurationError, match="service: float is not a PH"):
        solve_many(ARRIVALS, [0.5])  # type: ignore[list-item]
