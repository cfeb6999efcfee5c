# SPDX-License-Identifier: Apache-2.0
"""Arrivals replayed under many allocations: the simulator's figures, and predictions held against them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from penstock._demand import declared_demand
from penstock.arrivals.shape_text import parse_shape
from penstock.errors import ConfigurationError
from penstock.evaluation.simulation import simulate
from penstock.markov import MAP, PH
from penstock.performance.candidate_replay import judged_candidates, replay_candidates
from penstock.performance.checked_latency import CheckedLatency, CheckedWindow
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.operator_latency import predict
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.performance.replayed_latency import ReplayedLatency
from penstock.records import Allocation, Bounded, CandidateLatency, Limits, Objective
from penstock.simulator import MicroBatch, Operator, PhaseType, Pipeline, Service

BURSTS = "sampled:periodic:base=20,peak=400,period=40s,width=8s,duration=8m,smooth=false,seed=7"
"""Mostly 20 a second, and 400 for 8 s of every 40."""


def bursts() -> np.ndarray:
    """Arrival times from the first on, as simulations count them."""
    shape = parse_shape(BURSTS)
    times = shape.times(0, shape.total)
    return np.asarray(times - times[0])


def simulated(server: MicroBatch | Service, allocation: Allocation, times: np.ndarray) -> tuple[float, float]:
    """Mean and 95th percentile of a fixed allocation in the simulator."""
    limits = Limits(allocation.executors, allocation.executors, (allocation.cpu_share,))
    result = simulate(times, Pipeline.of_one(Operator("counter", server, limits=limits)), None, Objective("p95", 4.0))
    assert result.latency is not None
    return result.latency.mean_seconds, result.latency.p95_seconds


@pytest.mark.parametrize("allocation", [Allocation(n, share) for n in (1, 2, 3, 4) for share in (0.7, 1.0)], ids=str)
@pytest.mark.parametrize(
    "server",
    [
        MicroBatch(0.0, 0.004, trigger=1.0, driver=0.3),
        MicroBatch(0.2, 0.004, trigger=1.0, driver=0.1),
        MicroBatch(0.3, 0.004),
        MicroBatch(0.1, 0.002, cap=300, trigger=1.0, driver=0.2),
    ],
    ids=["driver", "part on CPU", "no trigger", "cap"],
)
def test_batches_meet_what_the_simulator_finds(server: MicroBatch, allocation: Allocation) -> None:
    """Same trace, same demand, same allocation: mean and p95 of the replay are the simulator's within 0.1 %."""
    times = bursts()
    [one] = replay_candidates(times, declared_demand(server), [allocation], percentiles=[0.95])
    mean, p95 = simulated(server, allocation, times)
    assert one.mean_seconds.value == pytest.approx(mean, rel=1e-3)
    assert one.percentile_seconds is not None
    assert one.percentile_seconds[0.95].value == pytest.approx(p95, rel=1e-3)


@pytest.mark.parametrize("allocation", [Allocation(1, 1.0), Allocation(2, 0.7), Allocation(3, 1.0)], ids=str)
def test_records_one_by_one_meet_what_the_simulator_finds(allocation: Allocation) -> None:
    """With work drawn anew mean and p95 are the simulator's within 10 %."""
    work, times = PH.erlang(2, mean=0.004), bursts()
    [one] = replay_candidates(times, RecordDemand(work), [allocation], percentiles=[0.95])
    mean, p95 = simulated(PhaseType(work), allocation, times)
    assert one.mean_seconds.value == pytest.approx(mean, rel=0.1)
    assert one.percentile_seconds is not None
    assert one.percentile_seconds[0.95].value == pytest.approx(p95, rel=0.1)


def test_bounds_of_a_replay_are_those_of_the_demand() -> None:
    """A demand that is not known exactly is replayed lower and higher by two standard errors."""
    sure = BatchDemand(0.3, 0.004, trigger_seconds=1.0)
    unsure = replace(sure, fixed_error_seconds=0.03, per_record_error_seconds=0.0004)
    [one], [other] = (replay_candidates(bursts(), demand, [Allocation(2)]) for demand in (sure, unsure))
    assert one.mean_seconds.low == one.mean_seconds.value == one.mean_seconds.high == other.mean_seconds.value
    assert other.mean_seconds.low < other.mean_seconds.value < other.mean_seconds.high


def test_too_few_arrivals_are_refused() -> None:
    """A replay needs two instants."""
    with pytest.raises(ConfigurationError, match="two arrivals or more"):
        replay_candidates(np.zeros(3), BatchDemand(0.3, 0.004), [Allocation(1)])


def candidate(seconds: float, high: float | None = None, *, is_stable: bool = True) -> CandidateLatency:
    """A candidate with one time."""
    time = Bounded(seconds, seconds, seconds if high is None else high)
    return CandidateLatency(Allocation(1), "some model", is_stable, Bounded(0.5, 0.5, 0.5), time, {0.95: time})


def test_a_model_counts_for_no_less_than_the_replay_and_no_more_than_a_multiple() -> None:
    """What is believed of 1, 3 and 9 s with 2 s replayed is 2, 3 and 4 s; without a factor, the model as it is."""
    models = [candidate(seconds) for seconds in (1.0, 3.0, 9.0)]
    met = [candidate(2.0)] * 3
    objective = Objective("p95", 3.5)

    def believed(factor: float | None) -> list[float]:
        return [one.believed.mean_seconds.value for one in judged_candidates(models, met, factor)]

    assert believed(2.0) == [2.0, 3.0, 4.0]
    assert believed(1.0) == [2.0, 2.0, 2.0]
    assert believed(None) == [1.0, 3.0, 9.0]
    assert [one.meets(objective) for one in judged_candidates(models, met)] == [True, True, False]
    assert [one.meets(objective) for one in judged_candidates(models, None)] == [True, True, False]
    with pytest.raises(ConfigurationError, match=r"believed: 0\.5"):
        judged_candidates(models, met, 0.5)


def test_what_cannot_keep_up_is_not_believed_to_by_a_replay() -> None:
    """A finite replay of an overloaded operator ends; its latency is infinite all the same, also at the upper bound."""
    lost, edge = candidate(math.inf, is_stable=False), candidate(3.0, math.inf)
    [one, other] = judged_candidates([lost, edge], [candidate(2.0), candidate(2.0)])
    assert math.isinf(one.believed.mean_seconds.value)
    assert other.believed.mean_seconds == Bounded(3.0, 3.0, math.inf)


@pytest.mark.parametrize("bound", [1.9, 3.0, 4.0, 6.0])
def test_the_verdict_is_that_of_mead(bound: float) -> None:
    """For every allocation what-if meets a bound just where MEAD's checked latency of the same trace does."""
    times, objective = bursts(), Objective("p95", bound)
    demand = BatchDemand(0.3, 0.004, trigger_seconds=1.0)
    process = MAP.mmpp([[-0.025, 0.025], [0.125, -0.125]], [20.0, 400.0])
    allocations = [Allocation(n) for n in (1, 2, 3, 4)]
    judged = judged_candidates(
        predict([process], demand, allocations, percentiles=[0.95]),
        replay_candidates(times, demand, allocations, percentiles=[0.95]),
    )
    pipeline = PipelineModel([OperatorModel("counter", demand)], objective)
    network = PipelineLatency(pipeline, {"fit": process}, rough=True)
    checked = CheckedLatency([CheckedWindow("w", [network], ReplayedLatency(pipeline, times))])
    planned = [checked.predict({"counter": allocation})[0].is_met for allocation in allocations]
    assert [one.meets(objective) for one in judged] == planned


def test_what_is_not_solved_counts_for_the_most_that_would_be_believed() -> None:
    """A model without an answer, beside 2 s replayed, is judged as 4 s; without a factor it meets nothing."""
    unsolved = replace(candidate(math.inf), unsolved="too uneven")
    [one] = judged_candidates([unsolved], [candidate(2.0)])
    assert one.believed.mean_seconds == Bounded(4.0, 2.0, 4.0)
    assert (one.meets(Objective("p95", 3.9)), one.meets(Objective("p95", 4.1))) == (False, True)
    [alone] = judged_candidates([unsolved], None)
    assert alone.meets(Objective("p95", 1e9)) is False
