# SPDX-License-Identifier: Apache-2.0
"""Tests of Markovian arrival processes as a type: validation, chain, moments, processes made from them."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import InvalidProcessError
from penstock.markov import MAP, PH

D0 = [[-5.0, 1.0, 0.5], [0.2, -2.0, 0.3], [0.0, 0.4, -1.0]]
D1 = [[3.0, 0.5, 0.0], [0.5, 0.7, 0.3], [0.1, 0.0, 0.5]]


@pytest.fixture
def process() -> MAP:
    """A process of three phases with hidden transitions."""
    return MAP(D0, D1)


def test_poisson_is_memoryless() -> None:
    """A Poisson process has its rate, SCV 1 and no correlation."""
    poisson = MAP.poisson(4.0)
    assert (poisson.rate, poisson.mean, poisson.scv) == pytest.approx((4.0, 0.25, 1.0))
    assert poisson.autocorrelation([1, 2, 100]) == pytest.approx([0.0, 0.0, 0.0], abs=1e-15)
    assert poisson.decay == 0.0


def test_chain_identities(process: MAP) -> None:
    """theta Q = 0, pi P = pi, P e = e, and the rate is one over the mean of the intervals."""
    assert process.theta @ process.Q == pytest.approx(np.zeros(3), abs=1e-14)
    assert process.pi @ process.P == pytest.approx(process.pi, abs=1e-14)
    assert process.P.sum(axis=1) == pytest.approx(np.ones(3))
    assert process.intervals.mean == pytest.approx(1 / process.rate, rel=1e-13)


def test_intervals_agree_with_a_checked_distribution(process: MAP) -> None:
    """The distribution of an interval is PH(pi, D0)."""
    checked = PH(process.pi, process.D0)
    assert process.moments(4) == pytest.approx(checked.moments(4), rel=1e-12)
    assert process.intervals.cdf(0.7) == pytest.approx(float(checked.cdf(0.7)), rel=1e-12)
    assert (process.scv, process.skewness) == pytest.approx((checked.scv, checked.skewness), rel=1e-10)


def test_residual_time_has_the_renewal_mean() -> None:
    """Seen at an arbitrary instant, a renewal process has E[X^2] / (2 E[X]) to go."""
    erlang = PH.erlang(3, mean=2.0)
    m1, m2 = erlang.moments(2)
    assert MAP.renewal(erlang).residual.mean == pytest.approx(m2 / (2 * m1), rel=1e-12)


def test_renewal_keeps_the_distribution_and_drops_unused_phases() -> None:
    """Phases of a distribution that are never entered do not become phases of the process."""
    distribution = PH([0.0, 1.0, 0.0], [[-9.0, 9.0, 0.0], [0.0, -2.0, 2.0], [0.0, 0.0, -1.0]])
    renewal = MAP.renewal(distribution)
    assert renewal.order == 2
    assert renewal.moments(3) == pytest.approx(distribution.moments(3), rel=1e-12)


def test_mmpp_rate_is_the_mean_of_its_rates() -> None:
    """The rate of a modulated Poisson process weighs its rates by the time in each phase."""
    mmpp = MAP.mmpp([[-1.0, 1.0], [3.0, -3.0]], [8.0, 0.0])
    assert mmpp.rate == pytest.approx(6.0, rel=1e-14)


def test_decay_is_the_ratio_of_autocorrelations() -> None:
    """For two phases each lag multiplies the autocorrelation by the decay; for more this holds in the end."""
    two = MAP.mmpp([[-1.0, 1.0], [3.0, -3.0]], [8.0, 1.0])
    rho = two.autocorrelation([1, 2])
    assert rho[1] / rho[0] == pytest.approx(two.decay, rel=1e-10)
    three = MAP(D0, D1)
    far = three.autocorrelation([20, 21])
    assert far[1] / far[0] == pytest.approx(three.decay, rel=1e-4)


def test_thinning_leaves_other_arrivals_hidden(process: MAP) -> None:
    """Thinning multiplies the rate and keeps the phases' generator."""
    thinned = process.thinned(0.25)
    assert thinned.rate == pytest.approx(process.rate / 4, rel=1e-13)
    assert pytest.approx(process.Q, rel=1e-13) == thinned.Q


def test_strong_thinning_tends_to_poisson(process: MAP) -> None:
    """Keeping one arrival in 10^9 leaves nearly a Poisson process, computed without loss."""
    rare = process.thinned(1e-9)
    assert rare.rate == pytest.approx(process.rate * 1e-9, rel=1e-12)
    assert rare.scv == pytest.approx(1.0, abs=1e-6)


def test_split_rates_add_up(process: MAP) -> None:
    """The streams of a split have the shares of the rate."""
    one, two = process.split([0.3, 0.6])
    assert (one.rate, two.rate) == pytest.approx((0.3 * process.rate, 0.6 * process.rate))
    with pytest.raises(InvalidProcessError, match=r"probabilities sum to 1\.2"):
        process.split([0.6, 0.6])


def test_time_reversal_keeps_rate_and_correlation(process: MAP) -> None:
    """Backwards, intervals have the same distribution and autocorrelation; twice backwards is forwards."""
    backwards = process.time_reversed()
    assert backwards.moments(3) == pytest.approx(process.moments(3), rel=1e-11)
    assert backwards.autocorrelation([1, 5]) == pytest.approx(process.autocorrelation([1, 5]), rel=1e-9)
    assert pytest.approx(process.D1, rel=1e-12) == backwards.time_reversed().D1


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_unit_of_time_does_not_matter(process: MAP, factor: float) -> None:
    """Nanoseconds or decades: SCV, skewness and autocorrelation stay as they are."""
    scaled = process.time_scaled(factor)
    assert scaled.mean == pytest.approx(process.mean * factor, rel=1e-12)
    assert (scaled.scv, scaled.skewness) == pytest.approx((process.scv, process.skewness), rel=1e-10)
    assert scaled.autocorrelation([1, 7]) == pytest.approx(process.autocorrelation([1, 7]), rel=1e-9)
    assert scaled.idc(factor) == pytest.approx(float(process.idc(1.0)), rel=1e-10)


def test_json_round_trip_is_exact(process: MAP) -> None:
    """What to_json writes, from_json reads as an equal process."""
    assert MAP.from_json(process.to_json()) == process
    assert hash(MAP.from_json(process.to_json())) == hash(process)
    assert process != process.time_scaled(2.0)
    assert process != "MAP"


def test_rounded_matrices_need_a_wider_tolerance() -> None:
    """Matrices written with four digits are refused by default and taken, made exact, when the caller says so."""
    document = {"D0": [[-1.3333, 0.3333], [0.0, -1.6667]], "D1": [[1.0001, 0.0], [0.6666, 1.0]]}
    with pytest.raises(InvalidProcessError, match=r"row 0 of D0 \+ D1 sums to 0\.0001"):
        MAP.from_json(document)
    taken = MAP.from_json(document, tolerance=1e-3)
    assert taken.D0.sum(axis=1) + taken.D1.sum(axis=1) == pytest.approx([0.0, 0.0], abs=1e-15)


def test_values_cannot_be_changed(process: MAP) -> None:
    """The matrices of a process are read-only."""
    with pytest.raises(ValueError, match="read-only"):
        process.D0[0, 0] = -1.0


def test_repr_tells_the_shape() -> None:
    """The text of a process gives order, rate, SCV and decay."""
    assert repr(MAP.poisson(2.0)) == "MAP(order=1, rate=2, scv=1, decay=0)"


@pytest.mark.parametrize(
    ("D0", "D1", "message"),
    [
        ([[-1.0]], [[1.0, 0.0], [0.0, 1.0]], r"D0 has 1 phases and D1 2"),
        ([[-1.0, 0.0]], [[1.0]], r"D0 has shape 1 x 2: it must be square"),
        ([[0.0]], [[0.0]], r"D0\[0, 0\] = 0 must be negative"),
        ([[-1.0]], [[np.inf]], r"D1\[0, 0\] = inf must be finite"),
        ([[-1.0]], [[2.0]], r"row 0 of D0 \+ D1 sums to 1: it must sum to 0"),
        ([[-2.0, -1.0], [1.0, -2.0]], [[3.0, 0.0], [0.0, 1.0]], r"D0\[0, 1\] = -1 must not be negative"),
        ([[-2.0, 3.0], [1.0, -2.0]], [[-1.0, 0.0], [0.0, 1.0]], r"D1\[0, 0\] = -1 must not be negative"),
        ([[-1.0, 1.0], [1.0, -1.0]], [[0.0, 0.0], [0.0, 0.0]], r"every entry of D1 is 0"),
        (
            [[-1.0, 0.0], [0.0, -2.0]],
            [[1.0, 0.0], [0.0, 2.0]],
            r"D0 \+ D1 is reducible: it has 2 closed classes of phases \[0\] and \[1\]",
        ),
        ([[-1.0, 0.5], [0.0, -2.0]], [[0.5, 0.0], [0.0, 2.0]], r"the phases \[0\] are left for ever"),
        ([["a"]], [[1.0]], r"D0 must be a square matrix of numbers"),
        ([[-1.0, 1.0], [1.0]], [[1.0]], r"D0 must be a square matrix of numbers"),
    ],
)
def test_each_broken_condition_has_its_message(D0: object, D1: object, message: str) -> None:
    """The message names the condition, the entry and its value."""
    with pytest.raises(InvalidProcessError, match=message):
        MAP(D0, D1)  # type: ignore[arg-type]


def test_bad_arguments_are_named(process: MAP) -> None:
    """Each method says which argument is wrong."""
    with pytest.raises(InvalidProcessError, match="rate = -1 must be positive"):
        MAP.poisson(-1.0)
    with pytest.raises(InvalidProcessError, match="probability = 0 would keep no arrival"):
        process.thinned(0.0)
    with pytest.raises(InvalidProcessError, match="probability = 2 must be a probability"):
        process.thinned(2.0)
    with pytest.raises(InvalidProcessError, match="factor = 0 must be positive"):
        process.time_scaled(0.0)
    with pytest.raises(InvalidProcessError, match=r"rates\[1\] = -1 must not be negative"):
        MAP.mmpp([[-1.0, 1.0], [1.0, -1.0]], [1.0, -1.0])
    with pytest.raises(InvalidProcessError, match="Q has 2 phases and rates 1 entries"):
        MAP.mmpp([[-1.0, 1.0], [1.0, -1.0]], [1.0])
    with pytest.raises(InvalidProcessError, match="a MAP needs the entry 'D1'; found: D0"):
        MAP.from_json({"D0": [[-1.0]]})
    with pytest.raises(InvalidProcessError, match="a MAP is an object, this is list"):
        MAP.from_json([1])  # type: ignore[arg-type]
