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
from penstock.markov import PH
from penstock.performance.candidate_replay import judged_candidates, replay_candidates
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.pipeline_model import OperatorModel
from penstock.policies.mead.analysis import AnalysisTask, analyse
from penstock.policies.mead.options import mead_options
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


def test_the_replay_counts_where_there_is_one_and_the_model_is_not_asked_for() -> None:
    """With 2 s replayed, models of 1 and 9 s do not matter; without a replay, or where they are asked for, they do."""
    models, met = [candidate(1.0), candidate(9.0)], [candidate(2.0)] * 2

    def counted(replayed: list[CandidateLatency] | None, *, by_replay: bool = True) -> list[float]:
        judged = judged_candidates(models, replayed, by_replay=by_replay)
        return [one.counted.mean_seconds.value for one in judged]

    assert counted(met) == [2.0, 2.0]
    assert counted(met, by_replay=False) == counted(None) == [1.0, 9.0]
    assert [one.meets(Objective("p95", 2.5)) for one in judged_candidates(models, met)] == [True, True]
    assert [one.meets(Objective("p95", 1.5)) for one in judged_candidates(models, met)] == [False, False]


def test_a_replay_does_not_say_that_what_cannot_keep_up_does() -> None:
    """A finite replay of an overloaded operator ends; its latency is infinite all the same, also at the upper bound."""
    lost = replace(candidate(2.0, is_stable=False), utilisation=Bounded(1.1, 1.05, 1.2))
    edge = replace(candidate(2.0, 2.5), utilisation=Bounded(0.95, 0.9, 1.05))
    [one, other] = judged_candidates([candidate(1.0)] * 2, [lost, edge])
    assert one.counted.mean_seconds == Bounded(math.inf, math.inf, math.inf)
    assert not one.meets(Objective("p95", 1e9))
    assert other.counted.mean_seconds == Bounded(2.0, 2.0, math.inf)
    assert other.counted.percentile_seconds == {0.95: Bounded(2.0, 2.0, math.inf)}


@pytest.mark.parametrize("bound", [1.9, 2.5, 3.0, 4.0, 6.0])
def test_the_verdict_is_that_of_mead(bound: float) -> None:
    """For every allocation what-if meets a bound just where MEAD, planning from the same trace, expects to."""
    times, objective = bursts(), Objective("p95", bound)
    demand = BatchDemand(0.3, 0.004, trigger_seconds=1.0)
    allocations = [Allocation(n) for n in (1, 2, 3, 4)]
    replayed = replay_candidates(times, demand, allocations, percentiles=[0.95])
    judged = judged_candidates(replayed, replayed)
    operator = OperatorModel("counter", demand)
    for one in judged:
        task = AnalysisTask(
            at=0.0, iats=np.diff(times), windows=(1.0,), growth=1.0, are_exact=True, operators=(operator,),
            objectives={("counter",): objective}, current={"counter": one.allocation},
            limits={"counter": Limits(one.allocation.executors, one.allocation.executors, (1.0,))},
            options=mead_options(),
        )  # fmt: skip
        assert one.meets(objective) == analyse(task).plan.is_met


def test_what_is_not_solved_is_judged_by_its_replay() -> None:
    """A model without an answer, beside 2 s replayed, is judged as 2 s; without a replay it meets nothing."""
    unsolved = replace(candidate(math.inf), unsolved="too uneven")
    [one] = judged_candidates([unsolved], [candidate(2.0)])
    assert (one.meets(Objective("p95", 1.9)), one.meets(Objective("p95", 2.1))) == (False, True)
    [alone] = judged_candidates([unsolved], None)
    assert alone.meets(Objective("p95", 1e9)) is False
