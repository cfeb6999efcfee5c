# SPDX-License-Identifier: Apache-2.0
"""Several executors: what splitting does to arrivals, and candidates compared."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH
from penstock.performance.queueing.multi_server import Executors, compare_executors, solve_executors
from penstock.performance.queueing.partitions import every_nth, split_by_hash, split_round_robin

BURSTY = MAP.mmpp([[-0.05, 0.05], [0.1, -0.1]], [0.5, 3.0]).with_rate(1.0)
HYPER = MAP.renewal(PH.hyperexponential([0.9, 0.1], [2.0, 0.2])).with_rate(1.0)


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_every_nth_arrival_has_sums_of_intervals(parts: int) -> None:
    """Intervals of every n-th arrival are sums of n: their variability is the index of dispersion for intervals."""
    part = every_nth(BURSTY, parts)
    assert part.rate == pytest.approx(BURSTY.rate / parts, rel=1e-12)
    assert part.scv == pytest.approx(float(BURSTY.idi(parts)) / parts, rel=1e-9)
    assert part.asymptotic_idc == pytest.approx(1.0 / parts * BURSTY.asymptotic_idc, rel=1e-9)


def test_round_robin_calms_renewal_arrivals_as_their_number() -> None:
    """For independent intervals the SCV falls by the number of executors, and there is no correlation."""
    burstiness = split_round_robin(HYPER, 4).burstiness
    assert burstiness.scv == pytest.approx(HYPER.scv / 4, rel=1e-10)
    assert burstiness.lag_1 == pytest.approx(0.0, abs=1e-10)


def test_a_hash_thins_the_dispersion() -> None:
    """Of a part with share w the dispersion of counts is 1 + w (I - 1), so bursts reach every part."""
    for part in split_by_hash(BURSTY, [1, 3]):
        expected = 1.0 + part.share * (BURSTY.asymptotic_idc - 1.0)
        assert part.burstiness.dispersion == pytest.approx(expected, rel=1e-10)
        assert part.is_exact


def test_bounded_order_keeps_moments_and_says_so() -> None:
    """Above the states allowed two phases take the place, with the same first moments."""
    exact, small = split_round_robin(BURSTY, 6, most_states=64), split_round_robin(BURSTY, 6, most_states=8)
    assert exact.is_exact
    assert not small.is_exact
    assert small.arrivals.order <= 2
    assert small.arrivals.moments(2) == pytest.approx(exact.arrivals.moments(2), rel=1e-6)
    with pytest.raises(ConfigurationError, match="allow more states"):
        split_round_robin(MAP.poisson(1.0), 100)


def test_taking_turns_is_better_than_a_hash_and_one_queue_is_best() -> None:
    """For the same executors a shared queue is no slower than turns, and turns no slower than a hash."""
    for arrivals in (MAP.poisson(1.0), HYPER, BURSTY):
        shared, turns, hashed = (
            solve_executors(arrivals, PH.erlang(2, mean=2.4), Executors(3), dispatch=dispatch).response
            for dispatch in ("shared queue", "round robin", "hash")
        )
        assert shared.mean <= turns.mean * (1 + 1e-9) <= hashed.mean * (1 + 2e-9)
        assert shared.percentile(0.95) <= hashed.percentile(0.95)


def test_a_hash_of_poisson_arrivals_gives_queues_of_their_own() -> None:
    """Poisson arrivals by hash over exponential executors are M/M/1 queues, mixed by weight."""
    candidate = solve_executors(
        MAP.poisson(1.0), PH.exponential(mean=1.0), Executors(2), dispatch="hash", weights=[0.75, 0.25]
    )
    assert candidate.response.mean == pytest.approx(0.75 / 0.25 + 0.25 / 0.75, rel=1e-9)
    assert candidate.response.utilisation == pytest.approx(0.75)
    beyond = 0.75 * np.exp(-0.25 * 4.0) + 0.25 * np.exp(-0.75 * 4.0)
    assert candidate.response.cdf([4.0])[0] == pytest.approx(1.0 - beyond, rel=1e-9)
    full = solve_executors(
        MAP.poisson(1.0), PH.exponential(mean=1.5), Executors(2), dispatch="hash", weights=[0.75, 0.25]
    )
    assert full.response.mean == np.inf


def test_share_and_number_are_compared_by_one_model() -> None:
    """Of candidates with the same CPUs the one with fewer, faster executors is faster; a larger share always helps."""
    candidates = [Executors(1, 2.0), Executors(2, 1.0), Executors(4, 0.5), Executors(4, 0.55)]
    answers = compare_executors(BURSTY, PH.erlang(2, mean=1.5), candidates)
    means = [answer.response.mean for answer in answers]
    assert means[0] < means[1] < means[2]
    assert means[3] < means[2]
    assert [answer.executors.cpus for answer in answers[:3]] == [2.0, 2.0, 2.0]


def test_wrong_candidates_are_refused_by_name() -> None:
    """Counts, shares, weights and ways of dispatch that cannot be are refused, naming the field."""
    service = PH.exponential(mean=1.0)
    for make, field in (
        (lambda: Executors(0), "executors"),
        (lambda: Executors(1, 0.0), "cpu_share"),
        (lambda: solve_executors(BURSTY, service, Executors(2), weights=[1, 1]), "weights"),
        (lambda: solve_executors(BURSTY, service, Executors(2), dispatch="hash", weights=[1]), "weights"),
        (lambda: solve_executors(BURSTY, service, Executors(2), dispatch="hash", weights=[1, -1]), "weights"),
        (lambda: solve_executors(BURSTY, service, Executors(2), dispatch="alphabet"), "dispatch"),  # type: ignore[arg-type]
        (lambda: split_round_robin(BURSTY, 0), "parts"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            make()
        assert caught.value.field == field
