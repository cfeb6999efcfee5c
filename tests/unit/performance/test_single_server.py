# SPDX-License-Identifier: Apache-2.0
"""MAP/PH/1 and MAP/MAP/1: closed forms, laws that hold for every queue, other representations, bad input."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError, InvalidProcessError
from penstock.markov import MAP, PH, map2_from_moments, superpose
from penstock.performance.queueing.response import Response, Saturated
from penstock.performance.queueing.single_server import SingleServer, solve_each, solve_map_map_1, solve_map_ph_1

BURSTY = map2_from_moments(1.0, 6.0, 90.0, 0.9)
ALTERNATING = map2_from_moments(1.0, 3.0, 15.0, -0.25)
STREAM = superpose(BURSTY.with_rate(0.6), MAP.renewal(PH.erlang(2, mean=2.5)))
NEARLY_REDUCIBLE = MAP.mmpp([[-1e-8, 1e-8], [3e-8, -3e-8]], [0.5, 2.5]).with_rate(1.0)
ARRIVALS = [MAP.poisson(1.0), BURSTY, ALTERNATING, STREAM, NEARLY_REDUCIBLE, MAP.renewal(PH.erlang(3, mean=1.0))]
SERVICE = PH.coxian([4.0, 1.0], [0.3])
SHARES = [0.001, 0.05, 0.5, 0.9, 0.95, 0.99, 0.999999]


def solved(arrivals: MAP, service: PH | MAP) -> SingleServer:
    """The queue, which must be stable."""
    queue = solve_map_ph_1(arrivals, service) if isinstance(service, PH) else solve_map_map_1(arrivals, service)
    assert isinstance(queue, SingleServer)
    return queue


@pytest.mark.parametrize("load", [0.1, 0.9, 0.999])
def test_poisson_arrivals_and_exponential_service(load: float) -> None:
    """M/M/1: the sojourn time is exponential, waiting is 0 with probability 1 - load, lengths are geometric."""
    queue = solved(MAP.poisson(1.0), PH.exponential(mean=load))
    mean = load / (1.0 - load)
    assert queue.mean == pytest.approx(mean, rel=1e-11)
    assert queue.variance == pytest.approx(mean**2, rel=1e-11)
    assert queue.decay_rate == pytest.approx(1.0 / mean, rel=1e-11)
    assert queue.percentiles(SHARES) == pytest.approx(-mean * np.log1p(-np.array(SHARES)), rel=1e-10)
    assert queue.waiting.mean == pytest.approx(mean * load, rel=1e-11)
    assert queue.waiting.percentile(0.5 * (1.0 - load)) == 0.0
    # P(W > x) = load exp(-x / mean)
    assert queue.waiting.percentile(1.0 - 0.5 * load) == pytest.approx(mean * np.log(2.0), rel=1e-10)
    assert queue.queue_length([0, 1, 7]) == pytest.approx((1.0 - load) * load ** np.array([0, 1, 7]), rel=1e-10)


def test_pollaczek_khinchin_mean_and_variance() -> None:
    """M/PH/1: mean and variance of the waiting time from the service time's first three moments."""
    service = SERVICE.with_mean(0.7)
    m1, m2, m3 = service.moments(3)
    mean = m2 / 2.0 / (1.0 - m1)
    queue = solved(MAP.poisson(1.0), service)
    assert queue.waiting.mean == pytest.approx(mean, rel=1e-12)
    assert queue.waiting.variance == pytest.approx(mean**2 + m3 / 3.0 / (1.0 - m1), rel=1e-11)
    assert queue.waiting.zero == pytest.approx(0.3, rel=1e-12)


@pytest.mark.parametrize("arrivals", ARRIVALS, ids=repr)
@pytest.mark.parametrize("load", [0.2, 0.95])
def test_laws_of_every_queue(arrivals: MAP, load: float) -> None:
    """Little's law, the idle share, a distribution that percentiles invert, and a sojourn of waiting and service."""
    service = SERVICE.with_mean(load)
    queue = solved(arrivals, service)
    response: Response = queue
    assert response.is_stable
    assert queue.utilisation == pytest.approx(load, rel=1e-12)
    times = queue.percentiles(SHARES)
    assert np.all(np.diff(times) > 0)
    assert queue.cdf(times) == pytest.approx(np.array(SHARES), rel=1e-9)
    assert queue.percentile(0.95) == pytest.approx(queue.percentiles([0.5, 0.95])[1], rel=1e-13)
    assert queue.mean == pytest.approx(queue.waiting.mean + service.mean, rel=1e-12)
    assert queue.variance == pytest.approx(queue.waiting.variance + service.variance, rel=1e-12)
    as_distribution = queue.as_phase_type()
    assert as_distribution.mean == pytest.approx(queue.mean, rel=1e-10)
    assert as_distribution.variance == pytest.approx(queue.variance, rel=1e-9)
    assert float(as_distribution.quantile(0.95)) == pytest.approx(queue.percentile(0.95), rel=1e-10)
    # Far out the tail falls at the decay rate.
    far = queue.percentiles([1.0 - 1e-9, 1.0 - 1e-12])
    assert np.log(1e3) / (far[1] - far[0]) == pytest.approx(queue.decay_rate, rel=1e-3)


@pytest.mark.parametrize("arrivals", ARRIVALS[:4], ids=repr)
def test_lengths_are_a_distribution_with_the_mean_of_littles_law(arrivals: MAP) -> None:
    """Probabilities of the queue length sum to one and have the mean that Little's law says."""
    queue = solved(arrivals, SERVICE.with_mean(0.6))
    lengths = np.arange(4000)
    probabilities = queue.queue_length(lengths)
    assert probabilities.sum() == pytest.approx(1.0, rel=1e-10)
    assert lengths @ probabilities == pytest.approx(queue.queue_length_mean, rel=1e-9)
    assert float(queue.queue_length(0)) == pytest.approx(0.4, rel=1e-12)


@pytest.mark.parametrize("arrivals", ARRIVALS, ids=repr)
def test_renewal_services_are_the_same_in_both_solvers(arrivals: MAP) -> None:
    """A service process with independent times answers as the service time itself."""
    service = SERVICE.with_mean(0.8)
    by_time, by_process = solved(arrivals, service), solved(arrivals, MAP.renewal(service))
    assert by_process.mean == pytest.approx(by_time.mean, rel=1e-10)
    assert by_process.variance == pytest.approx(by_time.variance, rel=1e-9)
    assert by_process.percentiles(SHARES) == pytest.approx(by_time.percentiles(SHARES), rel=1e-9)
    assert by_process.waiting.zero == pytest.approx(by_time.waiting.zero, rel=1e-10)
    assert by_process.waiting.percentile(0.99) == pytest.approx(by_time.waiting.percentile(0.99), rel=1e-9)
    assert by_process.queue_length([0, 1, 5]) == pytest.approx(by_time.queue_length([0, 1, 5]), rel=1e-9)


def test_correlated_services_wait_longer() -> None:
    """M/MAP/1: service times in long runs make records wait longer than the same times mixed."""
    services = map2_from_moments(0.7, 2.0, 10.0, 0.9)
    together, mixed = solved(MAP.poisson(1.0), services), solved(MAP.poisson(1.0), services.intervals)
    assert together.utilisation == pytest.approx(0.7, rel=1e-12)
    assert together.mean > 1.5 * mixed.mean


@pytest.mark.parametrize("arrivals", [BURSTY, STREAM], ids=repr)
def test_same_arrivals_in_another_representation(arrivals: MAP) -> None:
    """Phases renumbered, or one split in two alike, describe the same queue."""
    n = arrivals.order
    order = np.arange(n)[::-1]
    renumbered = MAP(arrivals.D0[np.ix_(order, order)], arrivals.D1[np.ix_(order, order)])
    # The last phase twice: entered half and half, left alike.
    spread = np.vstack([np.eye(n), np.eye(n)[-1]])
    halves = np.hstack([np.eye(n), np.zeros((n, 1))])
    halves[-1, -2:] = 0.5
    off = arrivals.D0 - np.diag(arrivals.D0.diagonal())
    D0, D1 = spread @ off @ halves, spread @ arrivals.D1 @ halves
    split = MAP(D0 - np.diag(D0.sum(axis=1) + D1.sum(axis=1)), D1)
    expected = solved(arrivals, SERVICE.with_mean(0.9))
    for other in (renumbered, split):
        queue = solved(other, SERVICE.with_mean(0.9))
        assert queue.mean == pytest.approx(expected.mean, rel=1e-10)
        assert queue.percentiles(SHARES) == pytest.approx(expected.percentiles(SHARES), rel=1e-9)


@pytest.mark.parametrize("factor", [1e-9, 1e9])
@pytest.mark.parametrize("arrivals", ARRIVALS[1:5], ids=repr)
def test_answers_scale_with_the_unit_of_time(arrivals: MAP, factor: float) -> None:
    """Rates in another unit: times come out in it, lengths unchanged."""
    service = SERVICE.with_mean(0.97)
    one, other = solved(arrivals, service), solved(arrivals.time_scaled(factor), service.time_scaled(factor))
    assert other.mean == pytest.approx(one.mean * factor, rel=1e-10)
    assert other.variance == pytest.approx(one.variance * factor**2, rel=1e-10)
    assert other.percentiles(SHARES) == pytest.approx(one.percentiles(SHARES) * factor, rel=1e-10)
    assert other.queue_length(5) == pytest.approx(one.queue_length(5), rel=1e-10)
    assert other.decay_rate * factor == pytest.approx(one.decay_rate, rel=1e-10)


def test_latency_grows_with_load() -> None:
    """Mean and percentile rise strictly with the utilisation, up to saturation."""
    queues = [solved(STREAM, SERVICE.with_mean(load)) for load in (0.1, 0.5, 0.9, 0.99, 0.999, 1.0 - 1e-9)]
    assert np.all(np.diff([queue.mean for queue in queues]) > 0)
    assert np.all(np.diff([queue.percentile(0.95) for queue in queues]) > 0)
    assert queues[-1].mean * 1e-9 == pytest.approx(queues[-2].mean * 1e-3, rel=0.01)


@pytest.mark.parametrize("service", [PH.exponential(mean=1.0), PH.erlang(2, mean=5.0), MAP.poisson(0.9)], ids=repr)
def test_saturated_is_an_answer(service: PH | MAP) -> None:
    """At and above utilisation 1 times are infinite, and nothing is raised."""
    arrivals = MAP.poisson(1.0)
    queue = solve_map_ph_1(arrivals, service) if isinstance(service, PH) else solve_map_map_1(arrivals, service)
    assert isinstance(queue, Saturated)
    assert not queue.is_stable
    assert queue.mean == np.inf
    assert queue.percentile(0.95) == np.inf


def test_phases_of_service_never_entered_are_left_out() -> None:
    """A service time with a phase that cannot be reached answers as without it."""
    padded = PH([0.0, 1.0], [[-9.0, 2.0], [0.0, -2.0]])
    queue = solved(MAP.poisson(1.0), padded)
    assert queue.mean == pytest.approx(1.0, rel=1e-12)
    assert queue.as_phase_type().order == 1


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, 95.0, float("nan")])
def test_percentile_outside_its_range_is_refused(p: float) -> None:
    """A percentile is a share between 0 and 1, and the message says how to write it."""
    queue = solved(MAP.poisson(1.0), PH.exponential(mean=0.5))
    for response in (queue, queue.waiting):
        with pytest.raises(ConfigurationError, match=r"write the 95th percentile as 0\.95"):
            response.percentile(p)


def test_what_is_no_process_is_refused() -> None:
    """Numbers in place of processes, and a MAP in place of a service time, are refused by name."""
    with pytest.raises(ConfigurationError, match="arrivals: float is not a MAP"):
        solve_map_ph_1(3.0, PH.exponential(mean=1.0))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="service: MAP is not a PH"):
        solve_map_ph_1(MAP.poisson(1.0), MAP.poisson(2.0))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="service: PH is not a MAP"):
        solve_map_map_1(MAP.poisson(1.0), PH.exponential(mean=0.5))  # type: ignore[arg-type]


def test_distribution_at_odd_times() -> None:
    """Before 0 no record is done, at infinity all are, and what is no number is refused."""
    queue = solved(MAP.poisson(1.0), PH.exponential(mean=0.5))
    assert queue.cdf([-1.0, 0.0, np.inf]).tolist() == [0.0, 0.0, 1.0]
    assert queue.waiting.cdf([-1.0, 0.0, np.inf]) == pytest.approx([0.0, 0.5, 1.0], rel=1e-12)
    with pytest.raises(ConfigurationError, match="not a number"):
        queue.cdf([np.nan])


def test_arrivals_and_services_in_step_are_refused() -> None:
    """Where both alternate for ever, the answer depends on who begins: that is refused, not averaged."""
    arrivals = MAP([[-1.0, 0.0], [0.0, -3.0]], [[0.0, 1.0], [3.0, 0.0]])
    services = MAP([[-4.0, 0.0], [0.0, -9.0]], [[0.0, 4.0], [9.0, 0.0]])
    with pytest.raises(InvalidProcessError, match="closed classes"):
        solve_map_map_1(arrivals, services)


@pytest.mark.parametrize("load", [1e-20, 1e-60, 1e-200, 1e-290])
def test_a_queue_that_is_hardly_used_answers_its_service(load: float) -> None:
    """However small the load, there is an answer: nobody waits, and the sojourn is the service."""
    for arrivals in (MAP.poisson(1.0), MAP.mmpp([[-0.2, 0.2], [0.3, -0.3]], [0.3, 2.0]).with_rate(1.0)):
        queue = solve_map_ph_1(arrivals, PH.erlang(2, mean=load))
        assert queue.mean == pytest.approx(load, rel=1e-12)
        assert queue.percentile(0.95) / load == pytest.approx(float(PH.erlang(2, mean=1.0).quantile(0.95)), rel=1e-10)


def test_queues_solved_together_are_those_solved_alone() -> None:
    """Whatever their sizes and loads, mean, percentiles and shares on a grid are those of each queue by itself."""
    bursts = MAP.mmpp([[-0.1, 0.1], [0.3, -0.3]], [9.0, 1.0])
    services = [PH.erlang(2, mean=mean) for mean in (0.01, 0.05, 0.1, 0.3)] + [PH.exponential(mean=0.02)]
    queues = [(arrivals, service) for arrivals in (bursts, MAP.poisson(5.0)) for service in services]
    for (arrivals, service), found in zip(queues, solve_each(queues), strict=True):
        alone = solve_map_ph_1(arrivals, service)
        assert (found.is_stable, found.utilisation) == (alone.is_stable, alone.utilisation)
        assert found.mean == pytest.approx(alone.mean, rel=1e-12)
        assert found.percentile(0.95) == pytest.approx(alone.percentile(0.95), rel=1e-11)
        if isinstance(found, SingleServer) and isinstance(alone, SingleServer):
            assert found.cdf_on_grid(0.01, 100) == pytest.approx(alone.cdf_on_grid(0.01, 100), abs=1e-13)
            assert found.waiting.percentile(0.99) == pytest.approx(alone.waiting.percentile(0.99), rel=1e-11)
            assert found.variance == pytest.approx(alone.variance, rel=1e-11)
