# SPDX-License-Identifier: Apache-2.0
"""Networks over the pipeline: exact cases, streams between operators, and simulation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from penstock.performance.queueing.graph import Path, PipelineGraph, Stream
from penstock.performance.queueing.network import NetworkAnswer, Operator, solve_network
from penstock.performance.queueing.series import Series

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH, map2_from_moments, superpose
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.departure_process import _sylvester, departure_process
from penstock.performance.queueing.general import solve_m_g_1
from penstock.performance.queueing.phase_type_response import PhaseTypeResponse
from penstock.performance.queueing.single_server import solve_map_ph_1
from penstock.performance.queueing.stream_transforms import merge, selected, smaller

BURSTY = map2_from_moments(1.0, 6.0, 64.0, 0.8)


def chain(*names: str) -> PipelineGraph:
    """Operators one after the other."""
    streams = [Stream("in", None, (names[0],))]
    streams += [Stream(f"after {one}", one, (other,)) for one, other in pairwise(names)]
    return PipelineGraph(names, tuple(streams))


def in_series(arrivals: MAP, services: list[PH]) -> NetworkAnswer:
    """Services one after the other, solved."""
    names = [f"op{i}" for i in range(len(services))]
    operators = {name: Operator(service) for name, service in zip(names, services, strict=True)}
    return solve_network(chain(*names), operators, {"in": arrivals})


def departures(at: FloatArray, work: FloatArray) -> FloatArray:
    """Instants at which one server is done with each record: a running maximum in the place of a loop."""
    total = np.cumsum(work)
    return np.asarray(np.maximum.accumulate(at - (total - work)) + total)


def test_exponential_queues_in_series_are_independent() -> None:
    """Behind Poisson arrivals the time through M/M/1 queues is a sum of independent exponential times (Reich 1957)."""
    answer = in_series(MAP.poisson(1.0), [PH.exponential(mean=m) for m in (0.3, 0.6, 0.5)])
    means = [0.3 / 0.7, 0.6 / 0.4, 1.0]
    (response,) = answer.paths.values()
    assert [answer.operators[f"op{i}"].response.mean for i in range(3)] == pytest.approx(means, rel=1e-4)
    assert response.mean == pytest.approx(sum(means), rel=1e-4)
    assert response.percentile(0.95) == pytest.approx(float(PH.series(means).quantile(0.95)), rel=2e-3)


def test_departures_keep_rate_and_dispersion() -> None:
    """What leaves a queue has the rate and the long-run dispersion of what came, at every load and order allowed."""
    for load in (0.3, 0.7, 0.95):
        for most_states in (4, 8, 48):
            leaving = departure_process(BURSTY, PH.exponential(mean=load), most_states=most_states)
            assert leaving.order <= most_states
            assert leaving.rate == pytest.approx(BURSTY.rate, rel=1e-8)
            assert leaving.asymptotic_idc == pytest.approx(BURSTY.asymptotic_idc, rel=1e-4)


def test_departures_of_the_exponential_queue_are_poisson() -> None:
    """What leaves M/M/1 is Poisson again (Burke 1956): SCV one, no correlation."""
    leaving = departure_process(MAP.poisson(1.0), PH.exponential(mean=0.7))
    assert leaving.scv == pytest.approx(1.0, rel=1e-9)
    assert leaving.autocorrelation([1, 2, 9]) == pytest.approx(0.0, abs=1e-9)


def test_departures_of_an_unstable_queue_are_refused() -> None:
    """A saturated queue has no stationary departures, and services of too many phases need more states."""
    with pytest.raises(ConfigurationError, match="never empties"):
        departure_process(BURSTY, PH.exponential(mean=1.0))
    with pytest.raises(ConfigurationError, match="most_states"):
        departure_process(BURSTY, PH.erlang(10, mean=0.5), most_states=10)


@pytest.mark.parametrize(("loads", "seed"), [((0.4, 0.7, 0.6), 5), ((0.8, 0.5, 0.8), 6)])
def test_simulation_of_three_operators_agrees(loads: tuple[float, ...], seed: int) -> None:
    """A simulated pipeline of three operators has mean within 10 % and 95th percentile within 15 %."""
    services = [PH.erlang(2, mean=load) for load in loads]
    rng, n = np.random.default_rng(seed), 500_000
    at = np.cumsum(BURSTY.sample(n, rng))
    done = at
    for service in services:
        done = departures(done, service.sample(n, rng))
    times = (done - at)[n // 20 :]
    (response,) = in_series(BURSTY, services).paths.values()
    assert response.mean == pytest.approx(times.mean(), rel=0.10)
    assert response.percentile(0.95) == pytest.approx(np.quantile(times, 0.95), rel=0.15)


def test_the_order_of_exponential_servers_does_not_matter() -> None:
    """The time through exponential servers is the same in any order (Weber 1979)."""
    services = [PH.exponential(mean=m) for m in (0.3, 0.8, 0.6)]
    (one,) = in_series(BURSTY, services).paths.values()
    (other,) = in_series(BURSTY, services[::-1]).paths.values()
    assert one.mean == pytest.approx(other.mean, rel=1e-12)
    assert one.percentile(0.95) == pytest.approx(other.percentile(0.95), rel=1e-12)


def test_a_single_operator_is_its_queue() -> None:
    """A path of one operator has the exact answer of its queue."""
    answer, queue = in_series(BURSTY, [PH.erlang(2, mean=0.7)]), solve_map_ph_1(BURSTY, PH.erlang(2, mean=0.7))
    (response,) = answer.paths.values()
    assert response.mean == pytest.approx(queue.mean, rel=1e-12)
    assert response.percentile(0.99) == pytest.approx(queue.percentile(0.99), rel=1e-12)
    assert answer.completion["in"].mean == pytest.approx(queue.mean, rel=1e-12)


def test_copies_give_a_path_each_and_completion_waits_for_the_last() -> None:
    """Each reader of a stream gets all records; a record is done when its slowest copy is."""
    graph = PipelineGraph(
        ("parse", "count", "alert"), (Stream("log", None, ("parse",)), Stream("events", "parse", ("count", "alert")))
    )
    operators = {
        "parse": Operator(PH.exponential(mean=0.4)),
        "count": Operator(PH.exponential(mean=0.5)),
        "alert": Operator(PH.exponential(mean=0.5)),
    }
    answer = solve_network(graph, operators, {"log": MAP.poisson(1.0)})
    path = Path("log", ("parse", "count"))
    assert answer.paths[path].mean == pytest.approx(0.4 / 0.6 + 1.0, rel=1e-4)
    # Two equal M/M/1 branches at load one half: (12 - 1/2) / 8 of one.
    assert answer.completion["log"].mean == pytest.approx(0.4 / 0.6 + 11.5 / 8.0, rel=1e-3)
    assert answer.completion["log"].percentile(0.95) > answer.paths[path].percentile(0.95)


def test_selectivity_changes_the_rate_downstream() -> None:
    """Fewer outputs than records load the next operator less, more outputs more."""
    for selectivity in (0.25, 1.0, 3.0):
        operators = {
            "a": Operator(PH.exponential(mean=0.2), selectivity=selectivity),
            "b": Operator(PH.exponential(mean=0.3)),
        }
        answer = solve_network(chain("a", "b"), operators, {"in": MAP.poisson(1.0)})
        assert answer.operators["b"].response.utilisation == pytest.approx(0.3 * selectivity, rel=1e-9)
    assert selected(MAP.poisson(1.0), 0.25).scv == pytest.approx(1.0, rel=1e-9)


def test_several_outputs_come_in_batches() -> None:
    """A geometric number of outputs for each record is the queue with batches: M^X/M/1 has mean s / (1 - rho)."""
    queue = solve_map_ph_1(selected(MAP.poisson(0.2), 3.0), PH.exponential(mean=1.0))
    # Records of a geometric batch with mean 3: E[D] = (E X^2 + E X) / (2 E X) / (mu - lam E X) = 3 / 0.4.
    assert queue.mean == pytest.approx(3.0 / 0.4, rel=0.01)


def test_streams_that_meet_are_merged() -> None:
    """Two sources into one operator add up; their order stays within the states allowed."""
    graph = PipelineGraph(("join",), (Stream("one", None, ("join",)), Stream("two", None, ("join",))))
    operators = {"join": Operator(PH.exponential(mean=0.25))}
    answer = solve_network(graph, operators, {"one": BURSTY, "two": MAP.poisson(1.0)})
    exact = solve_map_ph_1(superpose(BURSTY, MAP.poisson(1.0)), PH.exponential(mean=0.25))
    assert answer.operators["join"].response.mean == pytest.approx(exact.mean, rel=1e-9)
    many = merge([BURSTY] * 5, most_states=16)
    assert many.order <= 16
    assert many.rate == pytest.approx(5.0, rel=1e-9)
    assert many.asymptotic_idc == pytest.approx(BURSTY.asymptotic_idc, rel=0.02)


def test_a_smaller_process_keeps_rate_and_dispersion() -> None:
    """Two phases take the place of many with the same rate, SCV and long-run dispersion."""
    large = superpose(BURSTY, BURSTY, MAP.poisson(0.5))
    small = smaller(large)
    assert small.order == 2
    assert (small.rate, small.scv) == pytest.approx((large.rate, large.scv), rel=1e-6)
    assert small.asymptotic_idc == pytest.approx(large.asymptotic_idc, rel=1e-6)


def test_a_saturated_operator_saturates_its_paths() -> None:
    """Paths through a saturated operator are infinite; others stay, and what it passes on is its service rate."""
    graph = PipelineGraph(
        ("slow", "fast", "after"), (Stream("in", None, ("slow", "fast")), Stream("out", "slow", ("after",)))
    )
    operators = {
        "slow": Operator(PH.exponential(mean=2.0)),
        "fast": Operator(PH.exponential(mean=0.5)),
        "after": Operator(PH.exponential(mean=0.5)),
    }
    answer = solve_network(graph, operators, {"in": MAP.poisson(1.0)})
    assert not answer.is_stable
    assert answer.paths[Path("in", ("slow", "after"))].percentile(0.5) == np.inf
    assert answer.paths[Path("in", ("fast",))].mean == pytest.approx(1.0)
    assert answer.operators["after"].arrivals.rate == pytest.approx(0.5)
    assert answer.completion["in"].mean == np.inf


def test_operators_may_bring_their_own_model() -> None:
    """An operator with its own solver is asked with its arrivals, and what it passes on may be given."""
    seen: list[float] = []

    def model(arrivals: MAP) -> PhaseTypeResponse:
        seen.append(arrivals.rate)
        return PhaseTypeResponse(0.1, PH.exponential(mean=3.0))

    operators = {
        "own": Operator(PH.exponential(mean=0.1), solve=model, onward=lambda arrivals: arrivals.with_rate(0.5)),
        "next": Operator(PH.exponential(mean=1.0)),
    }
    answer = solve_network(chain("own", "next"), operators, {"in": MAP.poisson(1.0)})
    assert set(seen) == {1.0}
    (response,) = answer.paths.values()
    assert response.mean == pytest.approx(3.0 + solve_m_g_1(0.5, PH.exponential(mean=1.0)).mean, rel=1e-9)
    with pytest.raises(ConfigurationError, match="onward"):
        Operator(PH.exponential(mean=1.0), onward=lambda arrivals: arrivals)


def test_what_is_missing_is_named() -> None:
    """Operators and sources that are missing or unknown are all listed; a selectivity must be positive."""
    operator = Operator(PH.exponential(mean=0.1))
    with pytest.raises(ConfigurationError, match="'b' is missing") as caught:
        solve_network(chain("a", "b"), {"a": operator, "c": operator}, {"in": BURSTY})
    assert any("no operator 'c'" in fault for fault in caught.value.faults)
    with pytest.raises(ConfigurationError, match="source stream 'in' is missing"):
        solve_network(chain("a"), {"a": operator}, {})
    with pytest.raises(ConfigurationError, match="selectivity"):
        Operator(PH.exponential(mean=0.1), selectivity=0.0)


def test_sums_lie_between_independence_and_equal_ranks() -> None:
    """A weight moves the percentiles of a sum and leaves its mean; at weight one they add up."""
    parts = (PhaseTypeResponse(0.5, PH.exponential(mean=1.0)), PhaseTypeResponse(0.5, PH.erlang(2, mean=3.0)))
    free, half, same = (Series(parts, (0.0, w)) for w in (0.0, 0.5, 1.0))
    assert free.mean == half.mean == same.mean == 4.0
    assert same.percentile(0.95) == pytest.approx(sum(part.percentile(0.95) for part in parts), rel=2e-3)
    assert free.percentile(0.95) < half.percentile(0.95) < same.percentile(0.95)
    assert free.variance == pytest.approx(1.0 + 4.5, rel=1e-9)
    assert free.variance < half.variance < same.variance
    for series in (free, half):
        assert series.cdf([series.percentile(0.9)])[0] == pytest.approx(0.9, abs=1e-3)
        assert series.cdf([1e6])[0] == 1.0
        # The mean of the distribution itself, from its percentiles.
        ps = (np.arange(2000) + 0.5) / 2000
        assert series.percentiles(ps.tolist()).mean() == pytest.approx(4.0, rel=5e-3)


def test_sums_of_nothing_or_of_the_saturated_are_refused() -> None:
    """A sum needs parts, one weight from 0 to 1 for each, and no saturated part."""
    part = PhaseTypeResponse(0.5, PH.exponential(mean=1.0))
    for parts, weights in (((), ()), ((part,), ()), ((part, part), (0.0, 1.5))):
        with pytest.raises(ConfigurationError, match="weights"):
            Series(parts, weights)
    with pytest.raises(ConfigurationError, match="saturated"):
        Series((part, solve_map_ph_1(BURSTY, PH.exponential(mean=2.0))), (0.0, 0.0))


def test_the_unit_of_time_does_not_change_the_network() -> None:
    """Microseconds and hours give the same network."""
    services = [PH.erlang(2, mean=0.5), PH.exponential(mean=0.7)]
    (reference,) = in_series(BURSTY, services).paths.values()
    for factor in (1e-6, 3600.0):
        scaled = in_series(BURSTY.time_scaled(factor), [service.time_scaled(factor) for service in services])
        (response,) = scaled.paths.values()
        assert response.mean == pytest.approx(reference.mean * factor, rel=1e-6)
        assert response.percentile(0.95) == pytest.approx(reference.percentile(0.95) * factor, rel=1e-5)


def test_outputs_of_processes_with_silent_phases_are_multiplied() -> None:
    """Phases into which nothing arrives get no phase of multiplied outputs, and the rate is exact."""
    process = MAP.renewal(PH.erlang(3, mean=1.0))
    assert selected(process, 2.0).order == 4
    assert selected(process, 2.0).rate == pytest.approx(2.0, rel=1e-9)


def test_large_and_loaded_pipelines_are_answered() -> None:
    """Dense arrivals of twelve phases, variable services and loads up to 0.999 give finite, ordered answers."""
    rng = np.random.default_rng(2)
    D1, D0 = np.exp(2.0 * rng.normal(size=(2, 12, 12)))
    np.fill_diagonal(D0, 0.0)
    np.fill_diagonal(D0, -(D0.sum(axis=1) + D1.sum(axis=1)))
    arrivals = MAP(D0, D1).with_rate(1.0)
    services = [PH.hyperexponential([0.99, 0.01], [10.0, 0.1]).with_mean(0.999), PH.erlang(5, mean=0.5)]
    (response,) = in_series(arrivals, services).paths.values()
    values = [response.mean, *response.percentiles([0.5, 0.95, 0.999])]
    assert np.all(np.isfinite(values))
    assert np.all(np.diff(values[1:]) > 0)


@pytest.mark.parametrize("turning", [0.0, 0.5], ids=["real", "complex"])
def test_passages_are_solved_in_whatever_basis_the_phases_have(turning: float) -> None:
    """K X + A X Gamma = B holds for phases that settle straight and for phases that turn in a circle."""
    rng = np.random.default_rng(5)
    K, A, right = rng.random((6, 6)) - 8.0 * np.eye(6), rng.random((6, 6)), rng.random((6, 3))
    Gamma = (1.0 - turning) * np.eye(3) * [0.9, 0.5, 0.3] + turning * np.roll(np.eye(3), 1, axis=1)
    X = _sylvester(K, A, Gamma)(right)
    assert K @ X + A @ X @ Gamma == pytest.approx(right, rel=1e-12)
