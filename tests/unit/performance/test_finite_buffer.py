# SPDX-License-Identifier: Apache-2.0
"""Queues with finite room, and tandems that block, against closed forms and simulation."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH
from penstock.performance.queueing.blocking_tandem import BlockingTandem, solve_blocking_tandem
from penstock.performance.queueing.finite_buffer import WhenFull, solve_finite_buffer
from penstock.performance.queueing.levels import stationary_levels
from penstock.performance.queueing.repeating_levels import RepeatingLevels
from penstock.performance.queueing.single_server import solve_map_ph_1

BURSTY = MAP.mmpp([[-0.2, 0.2], [0.3, -0.3]], [0.3, 2.0]).with_rate(1.0)
ERLANG = PH.erlang(2, mean=0.9)


@pytest.mark.parametrize(("load", "room"), [(0.5, 1), (1.0, 4), (3.0, 6), (0.8, 40)])
def test_exponential_queue_with_loss(load: float, room: int) -> None:
    """M/M/1/K loses rho^K (1 - rho) / (1 - rho^(K+1)) of the records; lengths are geometric, cut at K."""
    lengths = load ** np.arange(room + 1)
    lengths = lengths / lengths.sum()
    queue = solve_finite_buffer(MAP.poisson(load), PH.exponential(mean=1.0), room)
    assert queue.queue_length == pytest.approx(lengths, rel=1e-9)
    assert queue.loss_probability == pytest.approx(lengths[-1], rel=1e-9)
    assert queue.throughput == pytest.approx(load * (1.0 - lengths[-1]), rel=1e-9)
    assert queue.mean == pytest.approx(queue.queue_length_mean / queue.throughput, rel=1e-8)


def test_one_place_with_loss_is_erlang() -> None:
    """M/PH/1/1 loses rho / (1 + rho) whatever the service, and nobody waits (Erlang, Sevastyanov)."""
    service = PH.hyperexponential([0.8, 0.2], [2.0, 0.1])
    queue = solve_finite_buffer(MAP.poisson(0.7), service, 1)
    rho = 0.7 * service.mean
    assert queue.loss_probability == pytest.approx(rho / (1.0 + rho), rel=1e-10)
    assert queue.percentiles([0.5, 0.95]) == pytest.approx(service.quantile([0.5, 0.95]), rel=1e-6)


@pytest.mark.parametrize("when_full", ["lose", "wait"])
def test_much_room_is_no_limit(when_full: WhenFull) -> None:
    """With enough room loss and waiting at the door vanish, and the time is that of the queue without limit."""
    queue, free = (
        solve_finite_buffer(BURSTY, ERLANG.with_mean(0.6), 120, when_full=when_full),
        solve_map_ph_1(BURSTY, ERLANG.with_mean(0.6)),
    )
    assert queue.full_share < 1e-6
    assert queue.mean == pytest.approx(free.mean, rel=1e-4)
    assert queue.percentile(0.95) == pytest.approx(free.percentile(0.95), rel=1e-4)
    assert queue.throughput == pytest.approx(BURSTY.rate, rel=1e-5)


def test_little_and_the_busy_server_agree() -> None:
    """Throughput times mean time is the mean number, and throughput times service the busy share, in both modes."""
    for when_full in ("lose", "wait"):
        for load in (0.7, 1.4):
            queue = solve_finite_buffer(BURSTY, ERLANG.with_mean(load), 5, when_full=when_full)
            assert queue.throughput * queue.mean == pytest.approx(queue.queue_length_mean, rel=1e-8)
            assert queue.throughput * load == pytest.approx(queue.busy_share, rel=1e-9)
            assert queue.is_stable


def test_a_sender_that_waits_loses_nothing_and_is_slowed() -> None:
    """With waiting nothing is lost, yet less passes than is offered; with one place it is the alternating renewal."""
    queue = solve_finite_buffer(MAP.poisson(1.0), PH.exponential(mean=0.5), 1, when_full="wait")
    assert queue.loss_probability == 0.0
    # States 0, 1, 1 with one in hand: weights 1, 1/2, 1/4; the sender stands still in the last.
    assert queue.full_share == pytest.approx((1 / 4) / (7 / 4), rel=1e-10)
    assert queue.throughput == pytest.approx(1.0 - 1 / 7, rel=1e-10)


def test_simulation_of_losses_agrees() -> None:
    """A simulated queue of four places loses as many and keeps the others as long."""
    rng, n, room = np.random.default_rng(3), 200_000, 4
    at, work = np.cumsum(BURSTY.sample(n, rng)).tolist(), ERLANG.sample(n, rng).tolist()
    ends: list[float] = []
    times = []
    for arrival, service in zip(at, work, strict=True):
        ends = [end for end in ends if end > arrival]
        if len(ends) < room:
            ends.append((ends[-1] if ends else arrival) + service)
            times.append(ends[-1] - arrival)
    queue = solve_finite_buffer(BURSTY, ERLANG, room)
    assert queue.loss_probability == pytest.approx(1.0 - len(times) / n, rel=0.04)
    assert queue.mean == pytest.approx(np.mean(times), rel=0.02)
    assert queue.percentile(0.95) == pytest.approx(np.quantile(times, 0.95), rel=0.02)


def test_more_room_loses_less_and_waits_longer() -> None:
    """Loss falls and the time of the records taken in grows with the room."""
    queues = [solve_finite_buffer(BURSTY, ERLANG, room) for room in (1, 2, 4, 8, 16)]
    assert np.all(np.diff([queue.loss_probability for queue in queues]) < 0)
    assert np.all(np.diff([queue.percentile(0.9) for queue in queues]) > 0)


def test_wrong_rooms_are_refused() -> None:
    """No room, a room too large to solve and an unknown behaviour are refused by name."""
    with pytest.raises(ConfigurationError, match="room"):
        solve_finite_buffer(BURSTY, ERLANG, 0)
    with pytest.raises(ConfigurationError, match="too many to eliminate"):
        solve_finite_buffer(BURSTY, PH.erlang(100, mean=1.0), 10_000)
    with pytest.raises(ConfigurationError, match="when_full"):
        solve_finite_buffer(BURSTY, ERLANG, 3, when_full="drop")  # type: ignore[arg-type]


@pytest.mark.parametrize("room", [1, 2, 5])
def test_blocking_limits_the_throughput(room: int) -> None:
    """Two equal exponential servers with K places in between pass (K + 1) / (K + 2) of one (Hunt 1956)."""
    answer = solve_blocking_tandem(MAP.poisson(0.3), PH.exponential(mean=1.0), PH.exponential(mean=1.0), room)
    assert isinstance(answer, BlockingTandem)
    assert answer.most_throughput == pytest.approx((room + 1) / (room + 2), rel=1e-9)


def test_blocking_fades_with_room() -> None:
    """With enough room two exponential servers behind Poisson arrivals are two M/M/1 queues (Jackson)."""
    answer = solve_blocking_tandem(MAP.poisson(0.4), PH.exponential(mean=1.0), PH.exponential(mean=1.0), 30)
    assert isinstance(answer, BlockingTandem)
    assert answer.mean == pytest.approx(2.0 / 0.6, rel=1e-8)
    assert answer.blocked_share < 1e-10


def test_simulation_of_blocking_agrees() -> None:
    """A simulated tandem with three places at the second server stays as long and is blocked as much."""
    rng, n, room = np.random.default_rng(1), 200_000, 3
    first, second, arrivals = ERLANG, PH.hyperexponential([0.4, 0.6], [0.6, 2.0]), BURSTY.with_rate(0.5)
    at, one, two = (
        x.tolist() for x in (np.cumsum(arrivals.sample(n, rng)), first.sample(n, rng), second.sample(n, rng))
    )
    free, left, blocked = 0.0, [0.0] * room, 0.0
    total = 0.0
    for arrival, s1, s2 in zip(at, one, two, strict=True):
        done = max(arrival, free) + s1
        free = max(done, left[-room])  # room again when the record `room` places ahead has left
        blocked += free - done
        left.append(max(free, left[-1]) + s2)
        total += left[-1] - arrival
    answer = solve_blocking_tandem(arrivals, first, second, room)
    assert isinstance(answer, BlockingTandem)
    assert answer.mean == pytest.approx(total / n, rel=0.03)
    assert answer.blocked_share == pytest.approx(blocked / at[-1], rel=0.05)


def test_a_blocked_tandem_can_saturate_before_its_servers_do() -> None:
    """Arrivals above what blocking lets through are answered as saturated though each server alone keeps up."""
    service = PH.exponential(mean=1.0)
    answer = solve_blocking_tandem(MAP.poisson(0.7), service, service, 1)
    assert not answer.is_stable
    assert answer.utilisation == pytest.approx(1.05)
    assert answer.mean == np.inf


def test_percentiles_of_a_blocked_tandem_are_refused() -> None:
    """The exact chain gives means; percentiles are refused with the way out, and so are too many phases."""
    answer = solve_blocking_tandem(MAP.poisson(0.3), ERLANG, ERLANG, 2)
    for ask in (
        lambda: answer.percentile(0.9),
        lambda: answer.percentiles([0.9]),
        lambda: answer.variance,
        lambda: answer.cdf([1.0]),
    ):
        with pytest.raises(ConfigurationError, match="only means are known"):
            ask()
    with pytest.raises(ConfigurationError, match="room"):
        solve_blocking_tandem(MAP.poisson(0.3), ERLANG, ERLANG, 500)


def test_a_hundred_thousand_places_are_no_limit() -> None:
    """Room far beyond what the load fills answers as the queue without limit does."""
    queue, free = (
        solve_finite_buffer(BURSTY, ERLANG.with_mean(0.8), 100_000),
        solve_map_ph_1(BURSTY, PH.erlang(2, mean=0.8)),
    )
    assert queue.mean == pytest.approx(free.mean, rel=1e-9)
    assert queue.percentile(0.99) == pytest.approx(free.percentile(0.99), rel=1e-7)
    assert queue.queue_length.sum() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("when_full", ["lose", "wait"])
def test_an_overloaded_queue_of_many_places_stays_finite(when_full: WhenFull) -> None:
    """Weights that grow by orders of magnitude from level to level neither overflow nor lose the few below the top."""
    queue = solve_finite_buffer(BURSTY, PH.erlang(2, mean=30.0), 2000, when_full=when_full)
    assert queue.throughput == pytest.approx(1.0 / 30.0, rel=1e-10)
    assert queue.throughput * queue.mean == pytest.approx(queue.queue_length_mean, rel=1e-8)


def test_levels_alike_are_those_solved_one_by_one() -> None:
    """The powers of the settled step give the vectors that eliminating every level gives."""
    up, down, inner = np.array([[1.0, 0.5], [0.0, 0.2]]), np.diag([1.2, 2.0]), np.array([[0.0, 0.3], [0.4, 0.0]])
    inner = inner - np.diag((up + down + inner).sum(axis=1))
    empty, top = inner + down, inner + np.diag(up.sum(axis=1))
    each = stationary_levels([empty, *[inner] * 199, top], [up] * 200, [down] * 200)
    zero, rows = RepeatingLevels(empty, up, down, inner, up, down, top).stationary(200)
    expected = np.array(each) / np.sum(each)
    assert zero == pytest.approx(expected[0], rel=1e-10)
    assert rows == pytest.approx(expected[1:], rel=1e-10)


def test_room_that_cannot_be_stepped_through_is_refused() -> None:
    """A queue that is full for longer than can be stepped through is refused, naming the room."""
    with pytest.raises(ConfigurationError, match=r"room: with 100000 places .* give less room") as refused:
        solve_finite_buffer(BURSTY, PH.erlang(2, mean=1.2), 100_000)
    assert refused.value.field == "room"
