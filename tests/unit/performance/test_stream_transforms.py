# SPDX-License-Identifier: Apache-2.0
"""Streams between operators: thinned, multiplied, dealt out, reduced."""

from __future__ import annotations

import pytest

from penstock.markov import MAP, PH, map2_from_moments, superpose
from penstock.performance.queueing.single_server import solve_map_ph_1
from penstock.performance.queueing.stream_transforms import every_nth, selected, smaller

BURSTY = map2_from_moments(1.0, 6.0, 64.0, 0.8)


def test_a_smaller_process_keeps_rate_and_dispersion() -> None:
    """Two phases take the place of many with the same rate, SCV and long-run dispersion."""
    large = superpose(BURSTY, BURSTY, MAP.poisson(0.5))
    small = smaller(large)
    assert small.order == 2
    assert (small.rate, small.scv) == pytest.approx((large.rate, large.scv), rel=1e-6)
    assert small.asymptotic_idc == pytest.approx(large.asymptotic_idc, rel=1e-6)


@pytest.mark.parametrize("selectivity", [0.25, 1.0, 1.5, 2.0, 3.7, 40.0])
@pytest.mark.parametrize("process", [BURSTY, superpose(BURSTY, BURSTY), MAP.renewal(PH.erlang(30, mean=1.0))])
def test_selectivity_sets_the_rate(process: MAP, selectivity: float) -> None:
    """The rate is exact and the states stay within what is allowed, whatever is multiplied how often."""
    made = selected(process, selectivity, most_states=32)
    assert made.rate == pytest.approx(selectivity * process.rate, rel=1e-9)
    assert made.order <= 32


@pytest.mark.parametrize("selectivity", [2.0, 3.0])
def test_whole_selectivities_multiply_the_dispersion(selectivity: float) -> None:
    """With s records for each one, counts have s times the dispersion."""
    made = selected(BURSTY, selectivity, most_states=32)
    assert made.asymptotic_idc == pytest.approx(selectivity * BURSTY.asymptotic_idc, rel=1e-2)


def test_copies_make_a_queue_with_batches() -> None:
    """M/M/1 with batches of two: E D = (E X^2 + E X) / (2 E X) / (mu - lam E X) = 1.5 / 0.4."""
    queue = solve_map_ph_1(selected(MAP.poisson(0.3), 2.0, most_states=8), PH.exponential(mean=1.0))
    assert queue.mean == pytest.approx(1.5 / 0.4, rel=0.01)


def test_many_copies_are_a_geometric_number() -> None:
    """Where states are few the number is geometric; for batches of mean 3 E D = 3 / (mu - lam E X)."""
    queue = solve_map_ph_1(selected(MAP.poisson(0.2), 3.0, most_states=2), PH.exponential(mean=1.0))
    assert queue.mean == pytest.approx(3.0 / 0.4, rel=0.01)


def test_phases_without_arrivals_get_no_phase_for_copies() -> None:
    """An Erlang process of three phases has copies of its last phase only."""
    assert selected(MAP.renewal(PH.erlang(3, mean=1.0)), 2.0, most_states=32).order == 4


def test_every_nth_record_of_a_process() -> None:
    """Every third interval is a sum of three: mean, variance and correlations are those of the sums."""
    part = every_nth(BURSTY, 3, most_states=48)
    r1, r2 = (float(r) for r in BURSTY.autocorrelation([1, 2]))
    assert part.mean == pytest.approx(3.0 * BURSTY.mean)
    assert part.scv == pytest.approx(BURSTY.scv * (3.0 + 4.0 * r1 + 2.0 * r2) / 9.0)


@pytest.mark.parametrize("count", [1, 2, 5, 20, 60])
def test_dealing_out_keeps_the_rate_within_the_states_allowed(count: int) -> None:
    """However many executors there are, each gets its part of the rate."""
    part = every_nth(superpose(BURSTY, BURSTY), count, most_states=16)
    assert part.rate == pytest.approx(2.0 / count, rel=1e-9)
    assert part.order <= 16
