# SPDX-License-Identifier: Apache-2.0
"""The processes that are likely to be worst, told without solving micro-batch queues."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.markov import MAP, map2_from_moments
from penstock.performance.demand import BatchDemand
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.performance.queueing.micro_batch import solve_micro_batch
from penstock.performance.screening import worst_processes
from penstock.records import Allocation, Objective
from penstock.testing.path_latencies import single_executors

DEMAND = BatchDemand(fixed_seconds=0.3, per_record_seconds=0.012)
PROCESSES = {
    "calm": MAP.poisson(30.0),
    "bursty": map2_from_moments(1.0, 5.0, 60.0, 0.9).with_rate(30.0),
    "burstier": map2_from_moments(1.0, 8.0, 200.0, 0.99).with_rate(30.0),
    "faster": MAP.poisson(45.0),
}


def pipeline(seconds: float = 5.0) -> PipelineModel:
    """One operator that works in micro-batches."""
    return PipelineModel([OperatorModel("a", DEMAND)], Objective("p95", seconds))


def test_the_worst_kept_is_about_the_worst_of_all() -> None:
    """At every share, the slowest micro-batch queue of those kept is within 5 % of the slowest of all."""
    kept = worst_processes(pipeline(), PROCESSES)
    assert "calm" not in kept
    for share in (1.0, 0.7, 0.55):
        server = DEMAND.at(Allocation(1, share))
        told = {label: solve_micro_batch(process, server).percentile(0.95) for label, process in PROCESSES.items()}
        assert max(told[label] for label in kept) > 0.95 * max(told.values())


def test_processes_that_saturate_are_kept_the_fullest_first() -> None:
    """Of several that cannot be served, the one that lacks most is kept."""
    rates = {f"{rate}": MAP.poisson(rate) for rate in (10.0, 100.0, 300.0)}
    assert list(worst_processes(pipeline(), rates, count=1)) == ["300.0"]
    with pytest.raises(ConfigurationError, match="count"):
        worst_processes(pipeline(), rates, count=0)


def test_what_is_hopeless_is_not_solved_to_the_end() -> None:
    """Far beyond the bound, the queue of single records is given: at least so long, and still no promise kept."""
    workload = {"b": PROCESSES["burstier"]}
    (told,) = PipelineLatency(pipeline(0.35), workload).predict(single_executors({"a": 0.4}))
    server = DEMAND.at(Allocation(1, 0.4))
    truth = solve_micro_batch(PROCESSES["burstier"], server).percentile(0.95)
    assert 10 * 0.35 < told.seconds <= truth
    assert told.utilisation["a"] == pytest.approx(0.9)
    (exact,) = PipelineLatency(pipeline(truth), workload).predict(single_executors({"a": 0.4}))
    assert exact.seconds == pytest.approx(truth)


def test_a_cap_that_cannot_keep_up_is_endless() -> None:
    """With few records to a batch the fixed time saturates the operator, however quick its records are."""
    capped = PipelineModel([OperatorModel("a", BatchDemand(0.3, 0.001, cap=5))], Objective("p95", 1.0))
    (told,) = PipelineLatency(capped, {"calm": PROCESSES["calm"]}).predict(single_executors({"a": 1.0}))
    assert told.seconds == np.inf
