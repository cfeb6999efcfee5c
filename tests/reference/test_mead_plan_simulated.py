# SPDX-License-Identifier: Apache-2.0
"""A whole analysis and plan, judged by simulating the pipeline under the shares it chose."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.markov import MAP, PH, superpose
from penstock.markov.conditions import FloatArray
from penstock.monitor.iat_windows import IatWindows
from penstock.performance.adaptive_interval import AdaptiveInterval
from penstock.performance.demand import RecordDemand
from penstock.performance.operator_latency import Model
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.policies.mead.analysis import AnalysisTask, analyse
from penstock.policies.mead.options import mead_options
from penstock.policies.mead.planner import MeadPlanner, PipelinePlan
from penstock.records import Allocation, Limits, Objective
from penstock.workload import FittedWorkload, estimate_workload

BURSTY = superpose(
    MAP.mmpp([[-0.02, 0.02], [0.05, -0.05]], [0.3, 4.0]), MAP.mmpp([[-0.5, 0.5], [0.3, -0.3]], [0.1, 2.0])
).with_rate(50.0)
LOADS = {"parser": 0.15, "counter": 0.08, "matcher": 0.30}
SERVICES = {name: PH.erlang(2, mean=load / 50.0) for name, load in LOADS.items()}
LEVELS = (0.4, 0.55, 0.7, 0.85, 1.0)
PATHS: tuple[tuple[str, ...], ...] = (("parser", "counter"), ("parser", "matcher"))


def simulated(iats: FloatArray, shares: dict[str, float]) -> dict[tuple[str, ...], FloatArray]:
    """Latencies of all records along both paths, first come first served at every operator."""
    arrivals = np.cumsum(iats)
    told = {}
    for path in PATHS:
        rng, ends = np.random.default_rng(9), arrivals
        for name in path:
            work = np.cumsum(SERVICES[name].sample(iats.size, rng) / shares[name])
            ends = work + np.maximum.accumulate(ends - np.concatenate([[0.0], work[:-1]]))
        told[path] = ends - arrivals
    return told


@pytest.fixture(scope="module")
def window() -> FloatArray:
    """What arrived."""
    return BURSTY.sample(50_000, np.random.default_rng(11))


@pytest.fixture(scope="module")
def estimate(window: FloatArray) -> FittedWorkload:
    """What the buffer says of it."""
    buffer = IatWindows(50_000, parts=(1.0, 0.5))
    buffer.add_iats(window)
    snapshot = buffer.snapshot()
    return estimate_workload(snapshot.iats, shares=snapshot.shares)


def planned(estimate: FittedWorkload, bound: float, model: Model) -> PipelinePlan:
    """The plan, as every minute."""
    pipeline = PipelineModel(
        [
            OperatorModel(name, RecordDemand(SERVICES[name]), () if name == "parser" else ("parser",))
            for name in ("parser", "counter", "matcher")
        ],
        Objective("p95", bound),
    )
    pipeline.require_possible()
    workload = {f"{w.n}/{i}": fitted.map for w in estimate.windows for i, fitted in enumerate(w.fit.maps)}
    latency = PipelineLatency(pipeline, workload, model=model)
    return MeadPlanner(most_levels_down=None).plan_pipeline(0.0, latency, dict.fromkeys(LOADS, Allocation(1)))


def shipped_plan(window: FloatArray, bound: float) -> PipelinePlan:
    """The plan of `mead` as it ships: its defaults, margins included, but any number of levels down."""
    buffer = IatWindows(50_000, parts=(1.0, 0.5))
    buffer.add_iats(window)
    snapshot, objective = buffer.snapshot(), Objective("p95", bound)
    task = AnalysisTask(
        at=0.0,
        iats=snapshot.iats,
        windows=snapshot.shares,
        growth=1.0,
        are_exact=True,
        operators=tuple(
            OperatorModel(name, RecordDemand(SERVICES[name]), () if name == "parser" else ("parser",))
            for name in ("parser", "counter", "matcher")
        ),
        objectives=dict.fromkeys(PATHS, objective),
        current=dict.fromkeys(LOADS, Allocation(1)),
        limits=dict.fromkeys(LOADS, Limits(1, 1, LEVELS)),
        options=mead_options(most_levels_down=None),
        margins=dict.fromkeys(PATHS, AdaptiveInterval(0.9, bound).margin),
    )
    result = analyse(task)
    assert result.queues == "replay"
    return result.plan


def shares_of(plan: PipelinePlan) -> dict[str, float]:
    """The shares decided upon."""
    return {decision.operator: decision.target.cpu_share for decision in plan.decisions}


@pytest.mark.reference
def test_the_plan_keeps_its_bound_and_saves_cpu(window: FloatArray, estimate: FittedWorkload) -> None:
    """Replayed, the window keeps its 95th percentile at the planned shares, which is near what was predicted."""
    full = simulated(window, dict.fromkeys(LOADS, 1.0))
    bound = 3.0 * float(np.quantile(full[PATHS[1]], 0.95))
    plan = planned(estimate, bound, "map")
    assert plan.is_met
    assert plan.cost <= 0.75 * 3 * (1 + 1e-9)
    under = simulated(window, shares_of(plan))
    for path, told in zip(PATHS, plan.predictions, strict=True):
        # Predicted is the worst of ten processes: rather too long than too short, by no more than a fit may be wrong.
        measured = float(np.quantile(under[path], 0.95))
        assert measured < bound
        assert 0.85 * measured < told.seconds < 1.25 * measured
    # The matcher cannot do with a level less.
    matcher = next(d for d in plan.decisions if d.operator == "matcher")
    assert "break the bound" in matcher.rejected[0].reason


@pytest.mark.reference
def test_the_plan_that_ships_keeps_its_bound_and_no_cheaper_one_would(window: FloatArray) -> None:
    """By replay and with margins: the upper end of what was predicted keeps the bound, and one level less breaks it."""
    full = simulated(window, dict.fromkeys(LOADS, 1.0))
    bound = 3.0 * float(np.quantile(full[PATHS[1]], 0.95))
    plan = shipped_plan(window, bound)
    assert plan.is_met
    assert plan.cost <= 0.75 * 3 * (1 + 1e-9)
    shares = shares_of(plan)
    under = simulated(window, shares)
    for path, told in zip(PATHS, plan.predictions, strict=True):
        measured = float(np.quantile(under[path], 0.95))
        assert measured < bound
        assert 0.85 * measured < told.seconds < 1.15 * measured
        assert told.high_seconds is not None
        assert told.seconds < told.high_seconds <= bound
    # It is the matcher's level that keeps it: the next one down is refused, and rightly.
    matcher = next(d for d in plan.decisions if d.operator == "matcher")
    assert "break the bound" in matcher.rejected[0].reason
    less = {**shares, "matcher": LEVELS[LEVELS.index(shares["matcher"]) - 1]}
    assert np.quantile(simulated(window, less)[PATHS[1]], 0.95) > bound


@pytest.mark.reference
def test_a_model_blind_to_bursts_breaks_the_bound(window: FloatArray, estimate: FittedWorkload) -> None:
    """Under the same bound M/G/1 gives the least CPU, promises to keep it, and does not."""
    full = simulated(window, dict.fromkeys(LOADS, 1.0))
    bound = 3.0 * float(np.quantile(full[PATHS[1]], 0.95))
    plan = planned(estimate, bound, "m/g/1")
    assert plan.is_met
    assert np.quantile(simulated(window, shares_of(plan))[PATHS[1]], 0.95) > 2.0 * bound
