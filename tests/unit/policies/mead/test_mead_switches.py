# SPDX-License-Identifier: Apache-2.0
"""Every addition of ours to MEAD has a switch: each alone changes something, and the published policy has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.unit.policies.mead.toy_query import TOP, Query, RisingArrivals, mead, step

from penstock.errors import ConfigurationError, NotReadyError
from penstock.markov import PH
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.performance.replayed_latency import ReplayedLatency
from penstock.policies import policy_entry
from penstock.policies.mead import analysis
from penstock.policies.mead.analysis import AnalysisResult, AnalysisTask, analyse
from penstock.policies.mead.options import AS_PUBLISHED, mead_options
from penstock.policies.mead.policy import MeadPolicy
from penstock.ports import OperatorSite, PolicyContext
from penstock.records import Allocation, Decision, Limits, Objective
from penstock.topology import ARRIVALS, Topology
from penstock.workload import FittedWorkload

WAVES = 150.0 + 60.0 * np.sin(np.arange(400) / 7.0)
Case = Callable[..., list[Decision]]
"""What a policy decides in one case; kept, for several tests look at the same."""


def decided(policy: MeadPolicy, query: Query, until: float) -> list[Decision]:
    """What was decided up to then, each carried out."""
    decisions = []
    while query.at < until:
        decisions.append(step(policy, query))
    policy.close()
    return decisions


@cache
def a_burst(name: str, **options: Any) -> list[Decision]:
    """A burst between two plans."""
    rates = WAVES.copy()
    rates[40:44] = 1500.0
    return decided(mead(name=name, worker="here", **options), Query(rates, has=Allocation(1, 1.0)), 55.0)


@cache
def late_records(name: str, **options: Any) -> list[Decision]:
    """Records that are late before there is any plan."""
    query = Query(np.full(200, 100.0), utilisation=0.95, has=Allocation(1, 1.0), latency=2.0)
    query.arrivals = RisingArrivals(np.arange(0.0, 200.0, 0.01))
    return decided(mead(name=name, worker="here", **options), query, 10.0)


@cache
def equal_batches(name: str, **options: Any) -> list[Decision]:
    """Batches that are all alike, on an idle operator."""
    query = Query(np.full(200, 100.0), utilisation=0.1)
    query.arrivals = RisingArrivals(np.arange(0.0, 200.0, 0.01))
    return decided(mead(name=name, worker="here", **options), query, 40.0)


@cache
def overtaken(name: str, **options: Any) -> list[Decision]:
    """Far more arrives by now than in the window that was planned for."""
    return decided(mead(name=name, worker="here", **options), Query(WAVES, arriving=900.0), 60.0)


@cache
def a_rise(name: str, **options: Any) -> list[Decision]:
    """Arrivals that grow by half within twenty seconds, from little."""
    query, policy = Query(WAVES, arriving=50.0), mead(name=name, worker="here", **options)
    decisions = []
    while query.at < 60.0:
        query.arriving = 50.0 * 1.02**query.at
        decisions.append(step(policy, query))
    policy.close()
    return decisions


@cache
def a_steep_rise(name: str, **options: Any) -> list[Decision]:
    """Arrivals that grow from what they were for long."""
    query, policy = Query(WAVES, arriving=150.0), mead(name=name, worker="here", **options)
    decisions = []
    while query.at < 75.0:
        query.arriving = 150.0 if query.at < 50.0 else 150.0 + 4.0 * (query.at - 50.0)
        decisions.append(step(policy, query))
    policy.close()
    return decisions


def is_rescued(decisions: list[Decision]) -> bool:
    """Whether waiting records raised the operator."""
    return any("records wait" in d.reason and d.target == TOP for d in decisions)


def is_raised_for_lateness(decisions: list[Decision]) -> bool:
    """Whether measured latency raised the operator."""
    return any("beyond 50% of its bound" in d.reason and d.is_change for d in decisions)


def is_probed(decisions: list[Decision]) -> bool:
    """Whether a level was taken to learn more."""
    return any("to learn more" in d.reason and d.is_change for d in decisions)


def is_dropped(decisions: list[Decision]) -> bool:
    """Whether a plan was found to come too late."""
    return any("and 900 come" in d.reason for d in decisions)


def is_held(decisions: list[Decision]) -> bool:
    """Whether a rise kept something from being taken away."""
    return any("no less now: arrivals rise" in d.reason for d in decisions)


def is_extrapolated(decisions: list[Decision]) -> bool:
    """Whether a plan was made for more than came."""
    return any(d.workload is not None and d.workload.growth > 1.0 for d in decisions)


CASES = [
    ("rescue", a_burst, is_rescued, {}),
    ("rescue", late_records, is_raised_for_lateness, {}),
    ("probe", equal_batches, is_probed, {}),
    ("drop_overtaken", overtaken, is_dropped, {}),
    ("hold_while_rising", a_rise, is_held, {"extrapolate_rises": False, "drop_overtaken": False}),
    ("extrapolate_rises", a_steep_rise, is_extrapolated, {}),
]


@pytest.mark.parametrize(("switch", "case", "shows", "others"), CASES)
def test_a_switch_alone_makes_the_difference(
    switch: str, case: Case, shows: Callable[[list[Decision]], bool], others: dict[str, Any]
) -> None:
    """With the switch the addition acts, without it the same case goes by as if there were no such addition."""
    assert shows(case("mead", **others))
    assert not shows(case("mead", **others, **{switch: False}))


@pytest.mark.parametrize(("switch", "case", "shows", "others"), CASES)
def test_nothing_of_ours_acts_in_the_published_policy(
    switch: str, case: Case, shows: Callable[[list[Decision]], bool], others: dict[str, Any]
) -> None:
    """In each of these cases the published policy does what it would do without the addition, until it is given it."""
    del others
    assert not shows(case("mead-published"))
    assert shows(case("mead-published", **{switch: True}))


def test_without_the_switches_levels_are_taken_in_the_same_cases() -> None:
    """A plan that ours holds back because of a rise, or drops as overtaken, the published policy carries out."""
    for case in (a_rise, overtaken):
        assert any(d.is_change and not d.is_growth for d in case("mead-published")[1:])
        assert not any(d.is_change for d in case("mead") if d.at > 15.0)


# --- what goes into a plan -------------------------------------------------------------------------------------------


def a_task(
    options: dict[str, Any], *, service: PH | None = None, spread: float = 0.0, bound: float = 0.1
) -> AnalysisTask:
    """One operator with records of 10 ms and calm arrivals, 40 a second."""
    demand = RecordDemand(service or PH.erlang(2, mean=0.010), spread)
    return AnalysisTask(
        at=100.0,
        iats=np.random.default_rng(2).exponential(1.0 / 40.0, 4000),
        windows=(1.0, 0.5),
        growth=1.0,
        are_exact=True,
        operators=(OperatorModel("a", demand),),
        objectives={("a",): Objective("mean", bound)},
        current={"a": Allocation(1, 1.0)},
        limits={"a": Limits(1, 1, (0.4, 0.55, 0.7, 0.85, 1.0))},
        options=mead_options(**{"best": 1, "max_states": 2, "most_levels_down": None, **options}),
    )


def test_standard_errors_of_a_demand_make_the_plan_more_careful() -> None:
    """A demand known to 30 % is planned for as that much slower, by as many errors as asked, and never as published."""

    def predicted(options: dict[str, Any], mean: float, spread: float) -> float:
        task = a_task({"queues": "map", **options}, service=PH.erlang(2, mean=mean), spread=spread)
        return analyse(replace(task, limits={"a": Limits(1, 1, (1.0,))})).plan.predictions[0].seconds

    certain = predicted({"errors": 1.0}, 0.010, 0.0)
    assert predicted({"errors": 0.0}, 0.010, 0.3) == pytest.approx(certain)
    assert predicted(AS_PUBLISHED, 0.010, 0.3) == pytest.approx(certain)
    assert predicted({"errors": 1.0}, 0.010, 0.3) == pytest.approx(predicted({"errors": 0.0}, 0.013, 0.0))
    assert predicted({"errors": 2.0}, 0.010, 0.3) == pytest.approx(predicted({"errors": 0.0}, 0.016, 0.0))


def test_the_published_search_stops_where_a_step_gains_too_little() -> None:
    """Below delta Fig. 5 gives up though the bound can be kept; the exact search keeps it."""
    options = {"delta": 2.0}
    published, exact = (analyse(a_task({**options, "search": s}, bound=0.018)).plan for s in ("published", "exact"))
    assert exact.is_possible
    assert exact.is_met
    assert not published.is_met
    assert not analyse(a_task({**AS_PUBLISHED, **options}, bound=0.018)).plan.is_met


def test_levels_down_are_limited_by_the_option() -> None:
    """One plan takes one level, as published, or as many as it finds."""
    for most, share in ((1, 0.85), (2, 0.7), (None, 0.55)):
        plan = analyse(a_task({"most_levels_down": most})).plan
        assert plan.decisions[0].target.cpu_share == pytest.approx(share)


def test_windows_and_fits_are_as_many_as_the_options_say() -> None:
    """Sub-windows, the number of processes and their states reach the fits; queues that need none have none."""
    result = analyse(replace(a_task({"queues": "map", "best": 3, "max_states": 4}), windows=(1.0, 0.5, 0.25)))
    assert result.fitted is not None
    assert [window.n for window in result.fitted.windows] == [4000, 2000, 1000]
    assert result.workload.windows == (4000, 2000, 1000)
    assert all(1 <= len(window.fit.maps) <= 3 for window in result.fitted.windows)
    assert all(fitted.map.order <= 4 for fitted in result.fitted.maps)
    blind = analyse(a_task({"queues": "m/g/1"}))
    assert blind.fitted is None
    assert blind.plan.is_met


def test_a_replay_plans_by_the_windows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `queues: replay` nothing is fitted, and the plan predicts what the worst window met at its levels."""

    def no_fit(*_: Any, **__: Any) -> FittedWorkload:
        raise AssertionError("a process was fitted")

    monkeypatch.setattr(analysis, "estimate_workload", no_fit)
    task = a_task({"queues": "replay", "most_levels_down": None})
    result = analyse(task)
    assert result.fitted is None
    assert result.plan.is_met
    has = {decision.operator: decision.target for decision in result.plan.decisions}
    pipeline = PipelineModel(task.operators, task.objectives)
    met = [
        ReplayedLatency(pipeline, np.concatenate([[0.0], np.cumsum(task.iats[-size:])])).predict(has)[0].seconds
        for size in (4000, 2000)
    ]
    assert result.plan.predictions[0].seconds == pytest.approx(max(met))


def test_arrivals_at_one_instant_are_left_out_of_a_replay() -> None:
    """A newest half without any time in it has no rate: the plan rests on the whole window, or waits for more."""
    task = a_task({})
    burst = task.iats.copy()
    burst[2000:] = 0.0
    planned = analyse(replace(task, iats=burst)).plan
    assert planned.predictions[0].worst.startswith("window 4000")
    with pytest.raises(NotReadyError, match="one instant"):
        analyse(replace(task, iats=np.zeros(4000)))


def test_by_default_a_plan_replays_where_it_can_and_fits_where_it_cannot() -> None:
    """A chain is replayed; a join, and batches behind single records, have fits behind their plan. Results say why."""
    single, batches = RecordDemand(PH.erlang(2, mean=0.001)), BatchDemand(0.1, 0.001)

    def analysed(*operators: OperatorModel) -> AnalysisResult:
        pipeline = PipelineModel(operators, Objective("mean", 2.0))
        return analyse(
            replace(
                a_task({}),
                operators=operators,
                objectives=dict.fromkeys(pipeline.paths, Objective("mean", 2.0)),
                current=dict.fromkeys(pipeline.order, Allocation(1, 1.0)),
                limits=dict.fromkeys(pipeline.order, Limits(1, 1, (0.7, 1.0))),
            )
        )

    left = OperatorModel("left", single)
    chain = analysed(left, OperatorModel("next", single, ("left",)))
    assert (chain.queues, chain.fitted) == ("replay", None)
    join = analysed(left, OperatorModel("right", single), OperatorModel("both", single, ("left", "right")))
    assert join.queues == "map, for no replay: both reads several streams"
    assert join.fitted is not None
    mixed = analysed(left, OperatorModel("next", batches, ("left",)))
    assert mixed.queues.startswith("map, for no replay: some operators take records one by one")
    assert mixed.fitted is not None


def test_what_cannot_be_replayed_is_refused_before_anything_runs() -> None:
    """A join has no order to replay: the option is refused, and the message says what to use."""
    joined = Topology.from_inputs({"left": [ARRIVALS], "right": [ARRIVALS], "both": ["left", "right"]})
    demand = RecordDemand(PH.erlang(2, mean=0.01))
    sites = {name: OperatorSite(Limits(1, 1), demand=demand) for name in ("left", "right", "both")}
    context = PolicyContext(joined, sites, dict.fromkeys(joined.paths, Objective("p95", 1.0)))
    with pytest.raises(ConfigurationError, match=r"both reads several streams.*queues: auto"):
        MeadPolicy(context, mead_options(queues="replay"))


@pytest.mark.parametrize("name", ["mead-published", "m/g/1", "gi/g/1"])
def test_the_entries_of_the_paper_have_every_addition_off(name: str) -> None:
    """The defaults that are listed for them are those of the paper."""
    listed = {option.name: option.default for option in policy_entry(name).options}
    assert {**listed, "queues": "map"} == {**listed, **AS_PUBLISHED}
    assert "queues" not in listed  # they are named after them
    made = mead(name=name, statistic="mean")
    assert made.options.rescue is None
    assert made.options.queues == ("map" if name == "mead-published" else name)
    made.close()
