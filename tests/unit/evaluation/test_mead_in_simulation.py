# SPDX-License-Identifier: Apache-2.0
"""The shipped MEAD on simulated pipelines: it meets what it can, for less, and says why."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.policies.contexts import P95

from penstock._demand import declared_demand
from penstock.errors import ConfigurationError
from penstock.evaluation.policy_text import PolicyChoice, parse_policy
from penstock.evaluation.simulation import simulate, simulated_context
from penstock.evaluation.simulation_result import SimulationResult
from penstock.loop import CycleReport
from penstock.markov import MAP
from penstock.performance.adaptive_interval import Margin
from penstock.performance.pipeline_model import OperatorModel
from penstock.policies import make_policy
from penstock.policies.mead import analysis
from penstock.policies.mead.operator_knowledge import BatchKnowledge, DeclaredKnowledge
from penstock.policies.mead.options import mead_options
from penstock.policies.mead.policy import MeadPolicy
from penstock.ports import AnalysisMemo, AnalysisPlace, FloatArray, OperatorSite
from penstock.records import Decision, Limits, Objective
from penstock.running.policy_choice import policy_context, policy_of, with_policy
from penstock.settings import RunSettings
from penstock.simulator import MicroBatch, Operator, Pipeline, Stream
from penstock.simulator.service import erlang
from penstock.topology import Path
from penstock.workload import estimate_workload

LEVELS = Limits(cpu_shares=(0.4, 0.55, 0.7, 0.85, 1.0))
QUICK = "window=2000,best=1,max_states=4"


def two_operators(*, demand_is_known: bool = True) -> Pipeline:
    """A parser and a matcher, the matcher with most of the work."""
    return Pipeline(
        (
            Operator("parser", erlang(2, 0.002), limits=LEVELS, demand_is_known=demand_is_known),
            Operator("matcher", erlang(2, 0.010), limits=LEVELS, demand_is_known=demand_is_known),
        ),
        (Stream("arrivals", "parser"), Stream("parser", "matcher")),
    )


def bursty(count: int, seed: int = 3) -> FloatArray:
    """Arrival times at 30 per second on average: 90 per second a quarter of the time, 10 otherwise."""
    process = MAP.mmpp([[-0.6, 0.6], [0.2, -0.2]], [90.0, 10.0])
    return np.cumsum(process.sample(count, np.random.default_rng(seed)))


def burst_after_the_plan() -> FloatArray:
    """Twenty a second, and for ten seconds a hundred."""
    return np.sort(np.concatenate([np.arange(0.0, 200.0, 0.05), np.linspace(121.0, 131.0, 800)]))


def run(text: str, times: FloatArray, bound: float = 0.1, **more: object) -> SimulationResult:
    """One policy on the two operators."""
    return simulate(times, two_operators(), parse_policy(text), Objective("mean", bound), seed=1, **more)  # type: ignore[arg-type]


def mean_of(result: SimulationResult) -> float:
    """Mean latency of the only path."""
    latency = result.paths[0].latency
    assert latency is not None
    return latency.mean_seconds


def outline(result: SimulationResult) -> tuple[object, ...]:
    """What must be equal where two runs are the same."""
    changes = [(c.at, c.operator, c.target, c.reason) for c in result.changes]
    return (changes, result.latency, result.cpu_share_mean, result.violation_time_share)


def test_mead_keeps_its_bound_on_a_bursty_trace_and_a_model_that_sees_no_bursts_does_worse() -> None:
    """MEAD takes more CPU than its planning with M/G/1 and less than all, and keeps the bound that it was given."""
    options = f"{QUICK},every_seconds=50s"
    mead, blind = (run(f"{name}:{options}", bursty(6000)) for name in ("mead", "m/g/1"))
    assert (mead.policy, blind.policy) == ("mead", "m/g/1")
    assert mead.is_met
    assert mean_of(mead) <= 0.1
    assert blind.cpu_share_mean < mead.cpu_share_mean < 1.0
    assert mean_of(mead) < mean_of(blind)
    planned = [change for change in mead.changes if change.prediction is not None]
    assert planned
    assert all(change.reason and change.evidence["worst_model"] for change in planned)


def test_a_memo_gives_the_same_result_for_fewer_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run on the same trace fits nothing anew, predicts nothing anew, and decides the same."""
    fits: list[int] = []

    def counted(iats: FloatArray, **options: object) -> object:
        fits.append(iats.size)
        return estimate_workload(iats, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(analysis, "estimate_workload", counted)
    times, memo = bursty(3000), AnalysisMemo()
    text = "mead:queues=map,window=1000,best=1,max_states=2,every_seconds=20s"
    plain = run(text, times)
    needed = len(fits)
    first = run(text, times, memo=memo)
    assert len(fits) == 2 * needed > 4
    again = run(text, times, memo=memo)
    assert len(fits) == 2 * needed
    assert outline(plain) == outline(first) == outline(again)
    # Another bound is another question to the same arrivals: they need no new fit.
    tighter = run(text, times, 0.05, memo=AnalysisMemo(memo.of_arrivals))
    assert outline(tighter) == outline(run(text, times, 0.05))
    assert len(fits) <= 2 * needed + needed


def test_what_another_run_has_fitted_from_elsewhere_is_not_taken_for_ones_own() -> None:
    """A fit goes on from the one before: where that is another one, it is another fit, and is found anew."""
    gaps, start = np.diff(bursty(3000)), dict.fromkeys(("parser", "matcher"), LEVELS.top)
    demands = {o.name: declared_demand(o.server) for o in two_operators().order}
    task = analysis.AnalysisTask(
        at=100.0,
        iats=gaps[1000:2000],
        windows=(1.0,),
        growth=1.0,
        are_exact=True,
        operators=tuple(
            OperatorModel(name, demand, two_operators().topology.inputs(name)) for name, demand in demands.items()
        ),
        objectives=dict.fromkeys(two_operators().topology.paths, Objective("mean", 0.1)),
        current=start,
        limits=dict.fromkeys(start, LEVELS),
        options=mead_options(queues="map", window=1000, best=1, max_states=2),
    )
    earlier = estimate_workload(gaps[:1000], shares=task.windows, best=1, max_states=2)
    warm, memo = replace(task, warm=earlier), AnalysisMemo()
    alone = [_fitted(analysis.analyse(one)) for one in (task, warm)]
    assert alone[0] != alone[1], "the test needs arrivals on which a warm start makes a difference"
    assert [_fitted(analysis.analyse(one, memo)) for one in (task, warm)] == alone
    predicted = [analysis.analyse(one, memo).plan.decisions[0].prediction for one in (task, warm)]
    assert predicted == [analysis.analyse(one).plan.decisions[0].prediction for one in (task, warm)]
    assert predicted[0] != predicted[1]
    # A copy of what it went on from, such as one from another process, is the same start.
    assert _fitted(analysis.analyse(replace(warm, warm=pickle.loads(pickle.dumps(earlier))), memo)) == alone[1]
    assert len(memo.of_arrivals) == 2


def _fitted(result: analysis.AnalysisResult) -> list[bytes]:
    assert result.fitted is not None
    return [fit.map.D0.tobytes() + fit.map.D1.tobytes() for fit in result.fitted.maps]


def test_without_arrivals_everything_stays_as_it_is() -> None:
    """Before there are enough arrivals for a fit the operators keep the top level."""
    result = run("mead:every_seconds=10s,rescue=false", np.linspace(0.0, 100.0, 50))
    assert result.changes == ()
    assert result.cpu_share_mean == 1.0


def test_a_backlog_between_plans_gets_the_top_level_until_it_is_gone() -> None:
    """A burst after the plan raises the matcher within one look, and it goes back to the plan when that is over."""
    options = "window=1000,best=1,max_states=2,every_seconds=60s,rescue_every=1s"
    watched, unwatched = (
        run(text, burst_after_the_plan(), 0.5) for text in (f"mead:{options}", f"mead:{options},rescue=false")
    )
    raised = [c for c in watched.changes if "records wait" in c.reason]
    assert {c.operator for c in raised} == {"matcher"}
    assert {c.target.cpu_share for c in raised} == {1.0}
    assert 121.0 < raised[0].at < 126.0
    back = next(c for c in watched.changes if c.at > raised[0].at and c.reason.startswith("as planned: "))
    assert back.target.cpu_share < 1.0
    assert not any("records wait" in c.reason for c in unwatched.changes)
    assert mean_of(watched) < mean_of(unwatched)


@pytest.mark.parametrize("analysis_seconds", [0.0, 7.0, 25.0])
def test_a_plan_takes_effect_only_after_the_time_that_an_analysis_takes(analysis_seconds: float) -> None:
    """The first plan changes something that many seconds after the arrivals that it was made from."""
    times = np.arange(0.0, 120.0, 0.05)
    text = "mead:window=1000,best=1,max_states=2,rescue_every=1s"
    result = run(text, times, 0.5, analysis_seconds=analysis_seconds)
    first = result.changes[0]
    # 512 gaps of 50 ms have come at 25.6 s, and what comes is known a second later.
    assert first.at == 27.0 + analysis_seconds
    assert first.evidence["plan_age_seconds"] == analysis_seconds
    assert result.allocations[first.operator][:2] == ((0.0, LEVELS.top), (first.at, first.target))


@pytest.mark.parametrize("name", ["mead", "mead-published", "m/g/1"])
def test_every_plan_is_handed_on_soon_and_starts_from_the_one_before(name: str) -> None:
    """With little to do, one level goes at every plan until none is left, each within ten seconds of its analysis."""
    times = np.arange(0.0, 330.0, 0.05)
    result = run(f"{name}:window=1000,best=1,max_states=2,every_seconds=60s", times, 0.5)
    matcher = [(c.at, c.target.cpu_share) for c in result.changes if c.operator == "matcher"]
    # Analyses start at 27, 87, 147 and 207 s and take 5 s; it is asked every 10 s.
    assert matcher == [(40.0, 0.85), (100.0, 0.7), (160.0, 0.55), (220.0, 0.4)]


def test_a_policy_starts_anew_with_every_run() -> None:
    """A choice builds its policy for each run: the second gives what the first gave."""
    text = "mead:window=1000,best=1,max_states=2,every_seconds=20s"
    assert outline(run(text, bursty(3000))) == outline(run(text, bursty(3000)))


@pytest.mark.parametrize(("costs", "reached"), [(None, 0.85), ([0.7, 1.0, 1.0], 1.0), ([1.0, 1.0, 1.0], 1.0)])
def test_costs_choose_among_the_levels_that_keep_the_bound(costs: list[float] | None, reached: float) -> None:
    """The cheapest share that keeps the bound is taken; one that costs no less than a higher share never is."""
    options = {"window": 1000, "best": 1, "max_states": 2, "every_seconds": "20s", "costs": costs}
    pipeline = Pipeline.of_one(Operator("a", erlang(2, 0.030), limits=Limits(1, 1, (0.4, 0.85, 1.0))))
    times = np.arange(0.0, 200.0, 0.05)
    result = simulate(times, pipeline, PolicyChoice("mead", options), Objective("mean", 0.15), seed=1)
    assert result.is_met
    assert result.allocations["a"][-1][1].cpu_share == reached


def test_demands_that_are_not_known_are_learnt_as_on_spark() -> None:
    """An operator whose demand is declared needs no learning; one in micro-batches without it has to be learnt."""
    objectives: dict[Path, Objective] = {("a",): P95}
    for is_known, kind in ((True, DeclaredKnowledge), (False, BatchKnowledge)):
        operator = Operator("a", MicroBatch(0.2, 0.002), limits=LEVELS, demand_is_known=is_known)
        context = simulated_context(Pipeline.of_one(operator), objectives, AnalysisPlace("here"))
        made = make_policy("mead", context)
        assert isinstance(made, MeadPolicy)
        assert isinstance(made._known["a"], kind)


def test_a_learnt_demand_comes_to_the_plan_of_a_declared_one() -> None:
    """Micro-batches of varying size show what a batch and a record cost: the same level is reached, only later."""
    rng = np.random.default_rng(5)
    seconds = 150.0 + 60.0 * np.sin(np.arange(300) / 7.0)
    times = np.concatenate([i + np.sort(rng.random(rng.poisson(rate))) for i, rate in enumerate(seconds)])
    last, first = {}, {}
    for is_known in (True, False):
        server = MicroBatch(0.2, 0.002)
        operator = Operator("a", server, limits=Limits(1, 1, (0.4, 0.7, 1.0)), demand_is_known=is_known)
        choice = parse_policy("mead:window=10000,sub_windows=0,best=1,max_states=2,every_seconds=30s,rescue_every=1s")
        result = simulate(times, Pipeline.of_one(operator), choice, Objective("p95", 3.0), seed=1)
        assert result.is_met
        first[is_known], last[is_known] = result.changes[0].at, result.changes[-1].target
    assert last[True] == last[False]
    assert first[True] <= first[False]


@pytest.mark.parametrize("name", ["mead", "mead-published", "threshold", "fixed"])
def test_simulate_and_run_build_the_same_policy(name: str) -> None:
    """The name in a settings file and on the command line means one class with the same options."""
    settings = with_policy(
        RunSettings.model_validate(
            {
                "name": "pair",
                "objective": {"p95": "2s"},
                "policy": {"name": name},
                "arrivals": {"shape": "constant:rate=10,duration=60s"},
                "operators": [
                    {"name": "parser", "app": "penstock.apps.log_analysis:parser"},
                    {"name": "matcher", "app": "penstock.apps.log_analysis:matcher", "input": "parser"},
                ],
            }
        )
    )
    on_spark = policy_of(settings, policy_context(settings))
    choice = parse_policy(name)
    assert choice is not None
    context = simulated_context(two_operators(), dict.fromkeys(two_operators().paths, P95), AnalysisPlace("here"))
    simulated = choice.build(context)
    assert type(on_spark) is type(simulated)
    assert on_spark.name == simulated.name == name
    assert on_spark.every_seconds == simulated.every_seconds
    if isinstance(on_spark, MeadPolicy):
        assert isinstance(simulated, MeadPolicy)
        assert on_spark.options == simulated.options


def test_a_demand_that_nobody_can_predict_with_is_refused() -> None:
    """What is declared must be one of the two kinds of demand."""
    context = simulated_context(two_operators(), dict.fromkeys(two_operators().paths, P95), AnalysisPlace("here"))
    strange = {**context.operators, "matcher": OperatorSite(LEVELS, demand="heavy")}
    with pytest.raises(ConfigurationError, match="demand of matcher: 'heavy' is neither a RecordDemand"):
        make_policy("mead", type(context)(context.topology, strange, context.objectives))


def test_an_operator_that_does_not_show_its_demand_does_not_keep_the_others_from_being_planned() -> None:
    """Batches of the first take as long whatever is in them; the second is scaled down by plans all the same."""
    limits = Limits(1, 2, (0.4, 0.55, 0.7, 0.85, 1.0))
    flat = Operator("flat", MicroBatch(0.2, 1e-9, driver=0.2, fixed_scv=0.2), limits=limits, demand_is_known=False)
    steep = Operator("steep", MicroBatch(0.1, 0.004, driver=0.1), limits=limits, demand_is_known=False)
    pipeline = Pipeline((flat, steep), (Stream("arrivals", "flat"), Stream("flat", "steep")), "two")
    times = np.cumsum(np.random.default_rng(2).exponential(1.0 / 60.0, 60 * 150))
    decisions: list[Decision] = []

    def keep(report: CycleReport) -> None:
        if report.decision is not None:
            decisions.append(report.decision)

    choice = PolicyChoice("mead", {"every_seconds": 10.0, "window": 5000, "max_states": 2, "best": 1})
    simulate(times, pipeline, choice, Objective("p95", 30.0), on_report=keep)
    of_steep = [decision for decision in decisions if decision.operator == "steep"]
    assert any(decision.is_change and " of 30 s on flat > steep" in decision.reason for decision in of_steep)
    assert not any(
        " of 30 s on flat > steep" in decision.reason for decision in decisions if decision.operator == "flat"
    )


def test_a_plan_that_left_an_operator_alone_is_not_handed_to_it_later() -> None:
    """When its demand shows after a step down, an older plan, made while it did not, does not take it up again."""
    limits = Limits(1, 2, (0.4, 0.55, 0.7, 0.85, 1.0))
    late = Operator("late", MicroBatch(0.2, 0.002, driver=0.2, fixed_scv=0.5), limits=limits, demand_is_known=False)
    steep = Operator("steep", MicroBatch(0.1, 0.004, driver=0.1), limits=limits, demand_is_known=False)
    pipeline = Pipeline((late, steep), (Stream("arrivals", "late"), Stream("late", "steep")), "two")
    times = np.cumsum(np.random.default_rng(2).exponential(1.0 / 60.0, 60 * 200))
    choice = PolicyChoice("mead", {"every_seconds": 30.0, "window": 5000, "max_states": 2, "best": 1})
    result = simulate(times, pipeline, choice, Objective("p95", 30.0))
    of_late = [change for change in result.changes if change.operator == "late"]
    assert any("to learn more" in change.reason for change in of_late)
    assert all(change.target.capacity < change.current.capacity for change in of_late)


def test_plans_are_judged_along_the_path_by_what_was_measured() -> None:
    """What a decision tells is what the path's records met under that plan; as published nothing is judged."""
    times = bursty(12_000)
    told: list[dict[str, Any]] = []
    seen: list[float] = []

    def take(report: CycleReport) -> None:
        evidence = {} if report.decision is None else report.decision.evidence
        if evidence.get("last_measured_seconds") is not None:
            told.append(dict(evidence))
        if report.observation.operator == "matcher" and report.observation.path_latency is not None:
            seen.append(report.observation.path_latency.mean_seconds)

    options = f"{QUICK},every_seconds=30s,queues=replay"
    result = run(f"mead:{options}", times, on_report=take)
    assert seen  # the path is followed in the simulator as in a run
    last = told[-1]
    assert last["judged_path"] == "parser > matcher"
    assert last["predictions_judged"] >= 6
    assert 0.0 <= last["prediction_coverage"] <= 1.0
    records = result.records_of["parser", "matcher"]
    latencies = records.latencies()
    for evidence in told:
        # A mean over a part of the records lies between their extremes, and most plans are near the mean of all.
        assert latencies.min() < evidence["last_measured_seconds"] < latencies.max()
        assert evidence["last_low_seconds"] <= evidence["last_high_seconds"]
    assert np.median([evidence["last_measured_seconds"] for evidence in told]) == pytest.approx(
        float(latencies.mean()), rel=0.5
    )
    told.clear()
    run(f"mead-published:{QUICK},every_seconds=30s", times[:4000], on_report=take)
    assert not told


def test_a_margin_makes_the_plan_more_careful_and_the_switch_takes_it_away() -> None:
    """Where the prediction keeps the bound and its upper end does not, the plan takes a level more."""
    task = an_analysis()
    plain = analysis.analyse(task).plan
    level = plain.decisions[0].target
    assert plain.predictions[0].high_seconds is None
    bound = plain.predictions[0].bound_seconds
    wide: dict[Path, Margin] = {("a",): Margin(-0.1, math.log(1.01 * bound / plain.predictions[0].seconds), 0.0)}
    careful = analysis.analyse(replace(task, margins=wide)).plan
    assert careful.decisions[0].target.capacity > level.capacity
    assert careful.is_met
    told = careful.predictions[0]
    assert told.low_seconds is not None
    assert told.high_seconds is not None
    assert told.low_seconds < told.seconds < told.high_seconds <= bound
    assert told.confidence == 0.9
    below = careful.decisions[0].rejected[0]
    assert below.allocation == level
    assert "would break the bound" in below.reason
    # An upper end below the prediction takes nothing away.
    narrow: dict[Path, Margin] = {("a",): Margin(-2.0, -1.0, 0.0)}
    assert analysis.analyse(replace(task, margins=narrow)).plan.decisions[0].target == level
    off = replace(task, margins=wide, options=replace(task.options, confidence=None))
    assert analysis.analyse(off).plan.decisions[0].target == level


def test_where_only_the_upper_end_breaks_the_bound_at_the_top_the_reason_says_so() -> None:
    """The best there is, with the confidence that was asked for."""
    plan = analysis.analyse(replace(an_analysis(), margins={("a",): Margin(-0.1, 3.0, 0.0)})).plan
    assert not plan.is_met
    assert not plan.is_possible
    assert "no allocation keeps every bound with 90% confidence" in plan.decisions[0].reason
    assert plan.predictions[0].seconds < plan.predictions[0].bound_seconds


def an_analysis() -> analysis.AnalysisTask:
    """One operator that can do with the middle of its levels."""
    demand = declared_demand(erlang(2, 0.010))
    return analysis.AnalysisTask(
        at=0.0,
        iats=np.random.default_rng(2).exponential(1.0 / 40.0, 4000),
        windows=(1.0,),
        growth=1.0,
        are_exact=True,
        operators=(OperatorModel("a", demand),),
        objectives={("a",): Objective("mean", 0.04)},
        current={"a": LEVELS.top},
        limits={"a": LEVELS},
        options=mead_options(queues="replay", most_levels_down=None),
    )
