# SPDX-License-Identifier: Apache-2.0
"""Predictions under the processes that decide agree with those under all."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH
from penstock.performance.demand import RecordDemand
from penstock.performance.narrowed_latency import NarrowedLatency
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.plan.levels import Levels
from penstock.policies.mead.planner import MeadPlanner
from penstock.ports import NarrowedPathLatency
from penstock.records import Allocation, Objective

FAST_BURSTS = MAP(np.array([[-30.0, 3.0], [1.0, -3.0]]), np.array([[27.0, 0.0], [0.0, 2.0]]))
SLOW_BURSTS = MAP(np.array([[-25.0, 0.05], [0.02, -4.02]]), np.array([[24.95, 0.0], [0.0, 4.0]]))
PROCESSES = {"poisson": MAP.poisson(11.0), "fast": FAST_BURSTS, "slow": SLOW_BURSTS}
LEVELS = Levels((0.4, 0.55, 0.7, 0.85, 1.0))


def pipeline(operators: int, seconds: float) -> PipelineModel:
    """A chain of operators with utilisations of 0.05 to 0.25 at full CPU."""
    loads = np.random.default_rng(operators).uniform(0.005, 0.02, operators)
    models = [
        OperatorModel(f"o{i}", RecordDemand(PH.erlang(2, mean=float(load))), (f"o{i - 1}",) if i else ())
        for i, load in enumerate(loads)
    ]
    return PipelineModel(models, Objective("p95", seconds))


def narrowed(model: PipelineModel, first: str) -> NarrowedLatency:
    """The processes above, beginning with one of them."""
    return NarrowedLatency({name: PipelineLatency(model, {name: p}) for name, p in PROCESSES.items()}, first)


@pytest.mark.parametrize("first", PROCESSES)
@pytest.mark.parametrize(("operators", "seconds"), [(3, 0.3), (3, 0.6), (10, 1.2), (10, 4.0)])
def test_a_plan_keeps_the_bound_under_every_process_whichever_comes_first(
    first: str, operators: int, seconds: float
) -> None:
    """What is planned is predicted as it is under all processes, and it keeps the bound that all can keep."""
    model = pipeline(operators, seconds)
    every = PipelineLatency(model, PROCESSES)
    current = dict.fromkeys(every.operators, Allocation(1, 1.0))
    levels = dict.fromkeys(every.operators, LEVELS)
    planner = MeadPlanner(most_levels_down=None)
    plan = planner.plan_pipeline(0.0, narrowed(model, first), current, levels)
    chosen = {decision.operator: decision.target for decision in plan.decisions}
    [truth], [predicted] = every.predict(chosen), plan.predictions
    assert predicted.seconds == pytest.approx(truth.seconds, rel=1e-9)
    assert plan.is_met == truth.is_met == every.predict(current)[0].is_met
    if operators <= 3:  # the exact search: the same cost, however few processes it looked at
        assert plan.cost == pytest.approx(planner.plan_pipeline(0.0, every, current, levels).cost)


def test_processes_that_never_are_the_worst_are_not_used() -> None:
    """Poisson arrivals are left out where bursts of the same rate are worse."""
    latency = narrowed(pipeline(2, 1.0), "fast")
    allocations = dict.fromkeys(latency.operators, Allocation(1, 1.0))
    before = latency.predict(allocations)
    assert latency.widen(allocations) is False
    assert (latency.used, latency.predict(allocations)) == (("fast",), before)
    assert isinstance(latency, NarrowedPathLatency)


def test_an_unknown_first_process_is_refused() -> None:
    """The message names the models there are."""
    with pytest.raises(ConfigurationError, match="first: 'other' is none of the models poisson, fast, slow"):
        narrowed(pipeline(1, 1.0), "other")
