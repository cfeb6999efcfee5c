# SPDX-License-Identifier: Apache-2.0
"""Path latencies of a pipeline: the worst case over the workload's models, each operator solved once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from penstock.performance.queueing.graph import PipelineGraph, Stream
from penstock.performance.queueing.network import Operator, solve_network
from penstock.performance.queueing.series import Series

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH, map2_from_moments
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.performance.queueing.micro_batch import solve_micro_batch
from penstock.performance.queueing.single_server import solve_map_ph_1
from penstock.records import Allocation, Objective
from penstock.testing.path_latencies import single_executors

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
    """Each operator is a MAP/PH/1 queue at its share; the bursty process is the worst and is named."""
    shares = {"parser": 0.5, "counter": 0.4, "matcher": 0.8}
    told = PipelineLatency(log_analysis(Objective("mean", 0.5)), WORKLOAD).predict(single_executors(shares))
    assert [path.path for path in told] == [("parser", "counter"), ("parser", "matcher")]
    parser = solve_map_ph_1(BURSTY, PH.erlang(2, mean=0.01)).mean
    matcher = solve_map_ph_1(BURSTY, PH.erlang(2, mean=0.02)).mean
    assert told[1].seconds == pytest.approx(parser + matcher)
    assert told[1].operator_seconds == pytest.approx({"parser": parser, "matcher": matcher})
    assert told[1].utilisation == pytest.approx({"parser": 0.2, "matcher": 0.4})
    assert {path.worst for path in told} == {"bursty"}
    assert told[1].bound_seconds == 0.5


def test_percentiles_of_a_path_are_those_of_the_sum() -> None:
    """The 95th percentile of a path is that of the convolved times, in the worst process."""
    told = PipelineLatency(log_analysis(Objective("p95", 0.3)), WORKLOAD).predict(
        single_executors({"parser": 0.5, "counter": 1.0, "matcher": 0.8})
    )
    parser = solve_map_ph_1(BURSTY, PH.erlang(2, mean=0.01))
    matcher = solve_map_ph_1(BURSTY, PH.erlang(2, mean=0.02))
    assert told[1].seconds == pytest.approx(Series((parser, matcher), (0.0, 0.0)).percentile(0.95), rel=2e-3)
    assert told[1].operator_seconds["matcher"] == pytest.approx(matcher.percentile(0.95))


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


def test_each_operator_is_solved_once_for_each_share() -> None:
    """A search over 3 x 3 x 3 allocations solves 3 x 3 operators, each for both processes."""
    latency = PipelineLatency(log_analysis(Objective("p95", 0.3)), WORKLOAD)
    levels = (0.5, 0.75, 1.0)
    for parser in levels:
        for counter in levels:
            for matcher in levels:
                latency.predict(single_executors({"parser": parser, "counter": counter, "matcher": matcher}))
    assert latency.queues_solved == 9 * 2


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
    calm = [
        PipelineLatency(log_analysis(Objective("mean", 0.5)), {"c": MAP.poisson(20.0)}, model=model)
        .predict(single_executors(shares))[1]
        .seconds
        for model in ("m/g/1", "gi/g/1", "map")
    ]
    assert calm == pytest.approx([calm[0]] * 3)


def test_gi_g_1_refuses_what_it_does_not_know() -> None:
    """Percentiles and micro-batches are refused with the reason before anything is solved."""
    with pytest.raises(ConfigurationError, match="means alone"):
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


@pytest.mark.parametrize("means", [(0.02, 0.01), (0.01, 0.02), (0.02, 0.02)])
def test_onward_is_the_network_of_departures(means: tuple[float, float]) -> None:
    """Operators in a row are solved as `solve_network` does it, whatever their order."""
    chain = PipelineModel(
        [OperatorModel("a", demand(means[0])), OperatorModel("b", demand(means[1]), ("a",))], Objective("p95", 0.2)
    )
    graph = PipelineGraph(("a", "b"), (Stream("in", None, ("a",)), Stream("mid", "a", ("b",))))
    services = {name: Operator(PH.erlang(2, mean=mean)) for name, mean in zip("ab", means, strict=True)}
    (truth,) = solve_network(graph, services, {"in": BURSTY}).paths.values()
    (told,) = PipelineLatency(chain, {"b": BURSTY}, flow="onward").predict(single_executors({"a": 1.0, "b": 1.0}))
    assert told.seconds == pytest.approx(truth.percentile(0.95), rel=5e-3)
    (safe,) = PipelineLatency(chain, {"b": BURSTY}).predict(single_executors({"a": 1.0, "b": 1.0}))
    assert safe.seconds > told.seconds if means[0] == means[1] else safe.seconds == pytest.approx(told.seconds, rel=0.1)


def test_onward_means_of_poisson_streams_are_those_of_queues_alone() -> None:
    """What leaves M/M/1 is Poisson again, so that nothing changes."""
    chain = PipelineModel(
        [
            OperatorModel("a", RecordDemand(PH.exponential(mean=0.02))),
            OperatorModel("b", RecordDemand(PH.exponential(mean=0.03)), ("a",)),
            OperatorModel("c", RecordDemand(PH.exponential(mean=0.025)), ("b",)),
        ],
        Objective("mean", 1.0),
    )
    (told,) = PipelineLatency(chain, {"calm": MAP.poisson(20.0)}, flow="onward").predict(
        single_executors({"a": 1.0, "b": 1.0, "c": 1.0})
    )
    assert told.seconds == pytest.approx(1 / (50 - 20) + 1 / (1 / 0.03 - 20) + 1 / (40 - 20))


def test_onward_leaves_what_saturates_an_answer() -> None:
    """Below an operator that cannot keep up, the others are told as if all records came."""
    latency = PipelineLatency(log_analysis(Objective("p95", 0.5)), {"calm": MAP.poisson(80.0)}, flow="onward")
    other, stuck = latency.predict(single_executors({"parser": 1.0, "counter": 1.0, "matcher": 1.0}))
    assert stuck.seconds == np.inf
    assert np.isfinite(other.seconds)
    assert np.isfinite(stuck.operator_seconds["parser"])
    with pytest.raises(ConfigurationError, match="flow"):
        PipelineLatency(log_analysis(Objective("p95", 0.5)), WORKLOAD, flow="sideways")  # type: ignore[arg-type]


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
