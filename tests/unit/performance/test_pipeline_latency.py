# SPDX-License-Identifier: Apache-2.0
"""Path latencies of a pipeline: the worst case over the workload's models, each operator solved once."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH, map2_from_moments, superpose
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.performance.queueing.departure_process import departure_process
from penstock.performance.queueing.general import solve_m_g_1
from penstock.performance.queueing.micro_batch import solve_micro_batch
from penstock.performance.queueing.response import Response
from penstock.performance.queueing.single_server import solve_map_ph_1
from penstock.performance.queueing.time_distribution import TimeDistribution
from penstock.records import Allocation, Limits, Objective, Prediction
from penstock.simulator import Operator, PhaseType, Pipeline, Simulation
from penstock.testing.path_latencies import single_executors
from penstock.topology import ARRIVALS, Stream

BURSTY = map2_from_moments(1.0, 5.0, 60.0, 0.9).with_rate(20.0)
WORKLOAD = {"calm": MAP.poisson(20.0), "bursty": BURSTY}


def demand(mean: float) -> RecordDemand:
    """Erlang-2 service."""
    return RecordDemand(PH.erlang(2, mean=mean))


def log_analysis(objective: Objective, **changes: Any) -> PipelineModel:
    """The parser feeds a counter and a matcher."""
    return PipelineModel(
        [
            OperatorModel("parser", demand(0.005), **changes),
            OperatorModel("counter", demand(0.002), ("parser",)),
            OperatorModel("matcher", demand(0.016), ("parser",)),
        ],
        objective,
    )


def test_means_add_up_along_a_path_in_the_worst_process() -> None:
    """The bottleneck is a MAP/PH/1 queue with the arrivals themselves, the other is fed by its departures."""
    shares = {"parser": 0.5, "counter": 0.4, "matcher": 0.8}
    predicted = PipelineLatency(log_analysis(Objective("mean", 0.5)), WORKLOAD).predict(single_executors(shares))
    assert [path.path for path in predicted] == [("parser", "counter"), ("parser", "matcher")]
    matcher = solve_map_ph_1(BURSTY, PH.erlang(2, mean=0.02)).mean
    parser = solve_map_ph_1(departure_process(BURSTY, PH.erlang(2, mean=0.02)), PH.erlang(2, mean=0.01)).mean
    assert predicted[1].seconds == pytest.approx(parser + matcher)
    assert predicted[1].operator_seconds == pytest.approx({"parser": parser, "matcher": matcher})
    assert list(predicted[1].operator_seconds) == ["parser", "matcher"]
    assert predicted[1].utilisation == pytest.approx({"parser": 0.2, "matcher": 0.4})
    assert {path.worst for path in predicted} == {"bursty"}
    assert predicted[1].bound_seconds == 0.5


def burst_part(queue: Response, service: PH) -> float:
    """The part of the mean time that bursts cause."""
    return 1.0 - solve_m_g_1(BURSTY.rate, service).mean / queue.mean


def test_percentiles_of_a_path_lie_between_those_of_the_sum_and_the_sum_of_those() -> None:
    """Bursts move the percentile of independent times towards the sum of percentiles, with a weight from both."""
    pipeline = log_analysis(Objective("p95", 0.3))
    _, path = PipelineLatency(pipeline, WORKLOAD).predict(
        single_executors({"parser": 0.5, "counter": 1.0, "matcher": 0.8})
    )
    slow, quick = PH.erlang(2, mean=0.02), PH.erlang(2, mean=0.01)
    matcher = solve_map_ph_1(BURSTY, slow)
    parser = solve_map_ph_1(departure_process(BURSTY, slow), quick)
    rng = np.random.default_rng(1)
    draws = rng.random((2, 200_000))
    times = sum(
        np.interp(u, q.cdf(grid), grid)
        for u, q, grid in zip(
            draws, (matcher, parser), (np.linspace(0, 2, 20_001), np.linspace(0, 1, 20_001)), strict=True
        )
    )
    independent = float(np.quantile(times, 0.95))
    same_rank = matcher.percentile(0.95) + parser.percentile(0.95)
    weight = 0.4 * np.sqrt(burst_part(matcher, slow) * burst_part(parser, quick))
    assert path.seconds == pytest.approx(independent + weight * (same_rank - independent), rel=5e-3)
    assert path.operator_seconds["matcher"] == pytest.approx(matcher.percentile(0.95))


def test_an_operator_that_cannot_keep_up_is_an_answer() -> None:
    """The path is endless, the process that lacks most is named, and other paths are told as they are."""
    workload = {"calm": MAP.poisson(20.0), "more": MAP.poisson(70.0), "most": MAP.poisson(80.0)}
    for objective in (Objective("mean", 0.5), Objective("p99", 0.5)):
        other, stuck = PipelineLatency(log_analysis(objective), workload).predict(
            single_executors({"parser": 1.0, "counter": 1.0, "matcher": 1.0})
        )
        assert np.isfinite(other.seconds)
        assert stuck.seconds == np.inf
        assert not stuck.is_met
        assert stuck.worst == "most"
        assert stuck.utilisation["matcher"] == pytest.approx(1.28)
        assert stuck.operator_seconds["matcher"] == np.inf
        assert np.isfinite(stuck.operator_seconds["parser"])


def test_answers_are_kept() -> None:
    """A search over 3 x 3 x 3 allocations solves each operator once for each allocation and what comes to it."""
    latency = PipelineLatency(log_analysis(Objective("p95", 0.3)), WORKLOAD)
    levels = (0.5, 0.75, 1.0)
    for _ in range(2):
        for parser in levels:
            for counter in levels:
                for matcher in levels:
                    latency.predict(single_executors({"parser": parser, "counter": counter, "matcher": matcher}))
    # Matcher and parser meet the arrivals as bottlenecks (3 + 3); parser and counter get departures (9 + 9 pairs).
    assert latency.queues_solved <= (3 + 3 + 9 + 9) * 2


@pytest.mark.parametrize("statistic", ["mean", "p50", "p95", "p99"])
def test_more_cpu_never_makes_a_path_slower(statistic: str) -> None:
    """From hardly stable to idle, every step of every operator lowers its paths and leaves the others alone."""
    latency = PipelineLatency(log_analysis(Objective(statistic, 0.2)), WORKLOAD)
    levels = (0.35, 0.4, 0.55, 0.7, 0.85, 1.0)
    for name in latency.operators:
        told = [
            latency.predict(single_executors({"parser": 0.7, "counter": 0.55, "matcher": 0.55} | {name: share}))
            for share in levels
        ]
        for less, more in pairwise(told):
            for one, two in zip(less, more, strict=True):
                assert two.seconds < one.seconds if name in one.path else two.seconds == one.seconds


@pytest.mark.parametrize("statistic", ["mean", "p95"])
def test_more_cpu_is_never_slower_on_a_long_chain_either(statistic: str) -> None:
    """Four operators in a row that change places as bottleneck, behind arrivals of sixteen phases with long bursts."""
    slow = MAP.mmpp([[-0.02, 0.02], [0.05, -0.05]], [0.3, 4.0])
    quick = MAP.mmpp([[-0.5, 0.5], [0.3, -0.3]], [0.1, 2.0])
    arrivals = superpose(slow, slow.time_scaled(0.1), quick, quick.time_scaled(0.3)).with_rate(20.0)
    means = {"a": 0.015, "b": 0.013, "c": 0.015, "d": 0.01}
    names = list(means)
    operators = [OperatorModel(n, demand(means[n]), (names[i - 1],) if i else ()) for i, n in enumerate(names)]
    latency = PipelineLatency(PipelineModel(operators, Objective(statistic, 1.0)), {"bursty": arrivals})
    levels = (0.4, 0.7, 1.0)
    seconds = {
        x: latency.predict(single_executors(dict(zip(names, x, strict=True))))[0].seconds
        for x in product(levels, repeat=4)
    }
    for x, time in seconds.items():
        for i, share in enumerate(x):
            if share < levels[-1]:
                more = levels[levels.index(share) + 1]
                assert seconds[*x[:i], more, *x[i + 1 :]] <= time


def test_the_model_is_one_setting() -> None:
    """Blind to bursts, M/G/1 is below GI/G/1, which knows no correlation and is below MAP; for Poisson all agree."""
    shares = {"parser": 0.7, "counter": 0.7, "matcher": 0.7}
    seconds = {
        model: PipelineLatency(log_analysis(Objective("mean", 0.5)), {"b": BURSTY}, model=model)
        .predict(single_executors(shares))[1]
        .seconds
        for model in ("m/g/1", "gi/g/1", "map")
    }
    assert seconds["m/g/1"] < seconds["gi/g/1"] < seconds["map"]
    alone = PipelineModel([OperatorModel("a", demand(0.02))], Objective("mean", 0.5))
    calm = [
        PipelineLatency(alone, {"c": MAP.poisson(20.0)}, model=model).predict(single_executors({"a": 0.7}))[0].seconds
        for model in ("m/g/1", "gi/g/1", "map")
    ]
    assert calm == pytest.approx([calm[0]] * 3)


def test_gi_g_1_refuses_what_it_does_not_know() -> None:
    """Percentiles and micro-batches are refused with the reason before anything is solved."""
    with pytest.raises(ConfigurationError, match="means only"):
        PipelineLatency(log_analysis(Objective("p95", 0.5)), WORKLOAD, model="gi/g/1")
    batches = PipelineModel([OperatorModel("a", BatchDemand(0.1, 0.001))], Objective("mean", 1.0))
    with pytest.raises(ConfigurationError, match="micro-batches, in which a works"):
        PipelineLatency(batches, WORKLOAD, model="gi/g/1")


def test_the_queue_follows_the_trigger() -> None:
    """An operator with micro-batches is a micro-batch queue; m/g/1 gives it Poisson arrivals."""
    told_demand = BatchDemand(fixed_seconds=0.2, per_record_seconds=0.01, fixed_cpu_seconds=0.1)
    batches = PipelineModel([OperatorModel("a", told_demand)], Objective("mean", 1.0))
    server = told_demand.at(Allocation(1, 0.5))
    (told,) = PipelineLatency(batches, {"b": BURSTY}).predict(single_executors({"a": 0.5}))
    assert told.seconds == pytest.approx(solve_micro_batch(BURSTY, server).mean)
    (told,) = PipelineLatency(batches, {"b": BURSTY}, model="m/g/1").predict(single_executors({"a": 0.5}))
    assert told.seconds == pytest.approx(solve_micro_batch(MAP.poisson(BURSTY.rate), server).mean)


def test_rates_follow_selectivity_and_executors() -> None:
    """Readers see the selected part of the stream; executors share it; a stream multiplied is denser."""
    half = PipelineLatency(log_analysis(Objective("mean", 0.5), selectivity=0.5), WORKLOAD)
    _, told = half.predict({"parser": Allocation(2), "counter": Allocation(1), "matcher": Allocation(1)})
    assert told.utilisation == pytest.approx({"parser": 20 * 0.005 / 2, "matcher": 10 * 0.016})
    more = PipelineLatency(log_analysis(Objective("mean", 0.5), selectivity=2.0), WORKLOAD)
    _, told = more.predict(single_executors({"parser": 1.0, "counter": 1.0, "matcher": 1.0}))
    assert told.utilisation["matcher"] == pytest.approx(40 * 0.016)


@pytest.mark.parametrize("statistic", ["mean", "p95"])
def test_the_order_of_exponential_servers_does_not_matter(statistic: str) -> None:
    """The time through exponential servers is the same in any order (Weber 1979)."""

    def seconds(*means: float) -> float:
        services = [RecordDemand(PH.exponential(mean=mean)) for mean in means]
        chain = PipelineModel(
            [OperatorModel(str(i), service, (str(i - 1),) if i else ()) for i, service in enumerate(services)],
            Objective(statistic, 1.0),
        )
        (path,) = PipelineLatency(chain, {"b": BURSTY}).predict(dict.fromkeys("012", Allocation(1)))
        return path.seconds

    assert seconds(0.01, 0.04, 0.03) == pytest.approx(seconds(0.03, 0.01, 0.04), rel=1e-12)


@pytest.mark.parametrize("factor", [1e-6, 3600.0])
def test_the_unit_of_time_does_not_change_the_network(factor: float) -> None:
    """Microseconds and hours give the same latencies."""

    def seconds(unit: float) -> float:
        quick, slow = (RecordDemand(PH.erlang(2, mean=mean * unit)) for mean in (0.02, 0.03))
        chain = PipelineModel(
            [OperatorModel("a", quick, selectivity=1.5), OperatorModel("b", slow, ("a",))], Objective("p95", 0.5 * unit)
        )
        (path,) = PipelineLatency(chain, {"b": BURSTY.time_scaled(unit)}).predict(
            single_executors({"a": 1.0, "b": 1.0})
        )
        return path.seconds

    assert seconds(factor) == pytest.approx(factor * seconds(1.0), rel=1e-5)


def test_large_and_loaded_pipelines_are_answered() -> None:
    """Dense arrivals of twelve phases, variable services and a load of 0.999 give finite, ordered answers."""
    rng = np.random.default_rng(2)
    D1, D0 = np.exp(2.0 * rng.normal(size=(2, 12, 12)))
    np.fill_diagonal(D0, 0.0)
    np.fill_diagonal(D0, -(D0.sum(axis=1) + D1.sum(axis=1)))
    arrivals = MAP(D0, D1).with_rate(1.0)
    demands = [
        RecordDemand(PH.hyperexponential([0.99, 0.01], [10.0, 0.1]).with_mean(0.999)),
        RecordDemand(PH.erlang(5, mean=0.5)),
    ]
    operators = [OperatorModel("a", demands[0]), OperatorModel("b", demands[1], ("a",))]
    values = []
    for statistic in ("p50", "p95", "p99"):
        pipeline = PipelineModel(operators, Objective(statistic, 100.0))
        (path,) = PipelineLatency(pipeline, {"dense": arrivals}).predict(single_executors({"a": 1.0, "b": 1.0}))
        values.append(path.seconds)
    assert np.all(np.isfinite(values))
    assert np.all(np.diff(values) > 0)


def simulated(pipeline: PipelineModel, streams: list[Stream], start: dict[str, Allocation]) -> Simulation:
    """The same pipeline in the simulator, with bursty arrivals."""
    operators = []
    for operator in pipeline.operators:
        assert isinstance(operator.demand, RecordDemand)
        limits = Limits(max_executors=4)
        operators.append(Operator(operator.name, PhaseType(operator.demand.service), operator.selectivity, limits))
    arrivals = np.cumsum(BURSTY.sample(400_000, np.random.default_rng(8)))
    simulation = Simulation(Pipeline(tuple(operators), tuple(streams)), arrivals, seed=5, start=start)
    simulation.finish()
    return simulation


GRAPHS = {
    "copies that meet again": (
        {"a": (0.015, 1.0), "b": (0.025, 1.0), "c": (0.012, 1.0), "d": (0.015, 1.0)},
        [Stream(ARRIVALS, "a"), Stream("a", "b"), Stream("a", "c"), Stream("b", "d"), Stream("c", "d")],
        {},
    ),
    "a split that meets again": (
        {"a": (0.02, 1.0), "b": (0.05, 1.0), "c": (0.03, 1.0), "d": (0.03, 1.0)},
        [Stream(ARRIVALS, "a"), Stream("a", "b", 0.3), Stream("a", "c", 0.7), Stream("b", "d"), Stream("c", "d")],
        {},
    ),
    "the arrivals beside what an operator makes of them": (
        {"a": (0.02, 0.5), "b": (0.02, 1.0)},
        [Stream(ARRIVALS, "a"), Stream("a", "b"), Stream(ARRIVALS, "b")],
        {},
    ),
    "fewer records": ({"a": (0.03, 0.4), "b": (0.09, 1.0)}, [Stream(ARRIVALS, "a"), Stream("a", "b")], {}),
    "more records": ({"a": (0.03, 2.4), "b": (0.012, 1.0)}, [Stream(ARRIVALS, "a"), Stream("a", "b")], {}),
    "executors": (
        {"a": (0.09, 1.0), "b": (0.07, 1.0)},
        [Stream(ARRIVALS, "a"), Stream("a", "b")],
        {"a": Allocation(3), "b": Allocation(2)},
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_come_out_as_simulated(name: str) -> None:
    """Every path is within 20 % of a simulation in the mean and in the 95th percentile, whatever the graph."""
    operators, streams, changed = GRAPHS[name]
    models = [
        OperatorModel(one, demand(mean), tuple(s for s in streams if s.target == one), selectivity)
        for one, (mean, selectivity) in operators.items()
    ]
    allocations = dict.fromkeys(operators, Allocation(1)) | changed
    simulation = simulated(PipelineModel(models, Objective("mean", 1.0)), streams, allocations)
    for statistic, measure in (("mean", np.mean), ("p95", lambda times: np.quantile(times, 0.95))):
        latency = PipelineLatency(PipelineModel(models, Objective(statistic, 1.0)), {"bursty": BURSTY})
        for path in latency.predict(allocations):
            measured = float(measure(simulation.records[path.path].latencies()))
            assert path.seconds == pytest.approx(measured, rel=0.2), (path.path, statistic)


def test_means_of_poisson_streams_are_those_of_queues_alone() -> None:
    """What leaves M/M/1 is Poisson again, so that nothing changes."""
    chain = PipelineModel(
        [
            OperatorModel("a", RecordDemand(PH.exponential(mean=0.02))),
            OperatorModel("b", RecordDemand(PH.exponential(mean=0.03)), ("a",)),
            OperatorModel("c", RecordDemand(PH.exponential(mean=0.025)), ("b",)),
        ],
        Objective("mean", 1.0),
    )
    (told,) = PipelineLatency(chain, {"calm": MAP.poisson(20.0)}).predict(
        single_executors({"a": 1.0, "b": 1.0, "c": 1.0})
    )
    assert told.seconds == pytest.approx(1 / (50 - 20) + 1 / (1 / 0.03 - 20) + 1 / (40 - 20))


def test_what_saturates_is_an_answer() -> None:
    """Below an operator that cannot keep up, the others are told as if all records came."""
    latency = PipelineLatency(log_analysis(Objective("p95", 0.5)), {"calm": MAP.poisson(80.0)})
    other, stuck = latency.predict(single_executors({"parser": 1.0, "counter": 1.0, "matcher": 1.0}))
    assert stuck.seconds == np.inf
    assert np.isfinite(other.seconds)
    assert np.isfinite(stuck.operator_seconds["parser"])


def test_an_uncertain_demand_can_be_taken_on_the_slow_side() -> None:
    """With standard errors asked for, latencies are those of a demand as much higher."""
    shares = {"a": 1.0}
    sure = PipelineModel([OperatorModel("a", RecordDemand(PH.exponential(mean=0.022)))], Objective("mean", 1.0))
    unsure = PipelineModel(
        [OperatorModel("a", RecordDemand(PH.exponential(mean=0.02), spread=0.05))], Objective("mean", 1.0)
    )
    (one,) = PipelineLatency(unsure, WORKLOAD, errors=2.0).predict(single_executors(shares))
    (two,) = PipelineLatency(sure, WORKLOAD).predict(single_executors(shares))
    assert one.seconds == pytest.approx(two.seconds)


def test_wrong_questions_are_refused() -> None:
    """No process, an unknown model, a missing share: each is an error that names the field."""
    pipeline = log_analysis(Objective("mean", 0.5))
    with pytest.raises(ConfigurationError, match="workload"):
        PipelineLatency(pipeline, {})
    with pytest.raises(ConfigurationError, match="model"):
        PipelineLatency(pipeline, WORKLOAD, model="m/m/1")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="matcher"):
        PipelineLatency(pipeline, WORKLOAD).predict(single_executors({"parser": 1.0, "counter": 1.0}))


def test_other_bounds_on_the_same_workload_need_no_queue_solved_again() -> None:
    """Under other objectives the answers are those of a fresh prediction, and the solved queues are shared."""
    operators = [
        OperatorModel("a", RecordDemand(PH.erlang(2, mean=0.002))),
        OperatorModel("b", RecordDemand(PH.exponential(mean=0.001)), ("a",)),
    ]
    workload = {"calm": MAP.poisson(200.0)}
    at = {"a": Allocation(1, 0.7), "b": Allocation(1, 0.55)}
    first = PipelineLatency(PipelineModel(operators, Objective("mean", 0.1)), workload)
    first.predict(at)
    solved = first.queues_solved
    for objective in (Objective("mean", 0.002), Objective("p95", 0.5)):
        again = first.under(objective)
        fresh = PipelineLatency(PipelineModel(operators, objective), workload)
        assert again.predict(at) == fresh.predict(at)
        assert again.queues_solved == solved


def test_only_paths_through_a_changed_operator_are_predicted_anew() -> None:
    """What no change reaches is the same answer, so that a search over many paths costs what it changes."""
    latency = PipelineLatency(log_analysis(Objective("p95", 0.5)), WORKLOAD)
    shares = {"parser": 0.4, "counter": 0.4, "matcher": 0.8}
    before = latency.predict(single_executors(shares))
    after = latency.predict(single_executors(shares | {"counter": 0.5}))
    assert after[1] is before[1]
    assert after[0].seconds < before[0].seconds


def test_a_rough_network_decides_bounds_as_a_fine_one() -> None:
    """Near a bound queues are solved on fine grids, far from it on the first: the verdict is the same."""
    demand = BatchDemand(0.3, 0.004, trigger_seconds=1.0)
    process = MAP.mmpp([[-0.05, 0.05], [0.2, -0.2]], [20.0, 300.0])
    has = {"counter": Allocation(2)}

    def predicted(bound: float, *, rough: bool) -> Prediction:
        model = PipelineModel([OperatorModel("counter", demand)], Objective("p95", bound))
        return PipelineLatency(model, {"fit": process}, rough=rough).predict(has)[0]

    seconds = predicted(5.0, rough=False).seconds
    for factor in (0.5, 0.95, 1.05, 2.0):
        fine, rough = (predicted(factor * seconds, rough=rough) for rough in (False, True))
        assert rough.is_met == fine.is_met
        assert rough.seconds == pytest.approx(fine.seconds, rel=0.03)
    assert predicted(1.05 * seconds, rough=True).seconds == seconds  # near it, as fine as ever


def test_a_network_that_has_rested_predicts_the_same() -> None:
    """What distributions are computed from is let go of, a tenth is left, and the answers stay what they were."""
    shares = {"parser": 0.5, "counter": 0.4, "matcher": 0.8}
    workload = {"bursty": superpose(BURSTY, BURSTY.with_rate(1.0))}
    latency = PipelineLatency(log_analysis(Objective("p95", 0.5)), workload)
    before, filled = latency.predict(single_executors(shares)), len(pickle.dumps(list(_held(latency))))
    latency.rest()
    assert len(pickle.dumps(list(_held(latency)))) < 0.1 * filled
    other = latency.under(Objective("p99", 0.5)).predict(single_executors(shares))
    fresh = PipelineLatency(log_analysis(Objective("p99", 0.5)), workload).predict(single_executors(shares))
    assert other == fresh
    assert latency.under(Objective("p95", 0.5)).predict(single_executors(shares)) == before


def _held(latency: PipelineLatency) -> Iterator[object]:
    """The arrays that a network's answers hold, but for the chains themselves."""
    for answer in latency._answers.values():
        yield answer._spectra
        for response in answer.responses:
            if isinstance(response, TimeDistribution):
                tails = vars(response._times.chains).get("tails")
                yield None if tails is None else vars(tails)
                yield response._times._grids
