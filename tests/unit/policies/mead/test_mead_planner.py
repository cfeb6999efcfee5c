# SPDX-License-Identifier: Apache-2.0
"""The MEAD policy: Fig. 5, its refinement, the planning rules and what is reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from penstock.errors import ConfigurationError, ConvergenceError
from penstock.markov import MAP, PH
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.performance.queueing.micro_batch import MicroBatch, MicroBatchSolver
from penstock.plan.levels import AllocationSpace, Levels
from penstock.policies.mead.planner import MeadPlanner, PipelinePlan
from penstock.policies.mead.search import figure_5, refined
from penstock.records import Allocation, Decision, Limits, Objective, Prediction, decode, encode
from penstock.testing.path_latencies import FakePathLatency, single_executors

LOG_ANALYSIS: dict[tuple[str, ...], float] = {("parser", "counter"): 1.0, ("parser", "matcher"): 1.0}
DEMANDS = {"parser": 0.05, "counter": 0.05, "matcher": 0.3}


def space_of(latency: FakePathLatency) -> AllocationSpace:
    """All operators with the default levels."""
    return AllocationSpace(latency, dict.fromkeys(latency.operators, Levels()))


def plan(latency: FakePathLatency, share: float = 1.0, **options: Any) -> PipelinePlan:
    """A plan from one share for all."""
    current = dict.fromkeys(latency.operators, Allocation(1, share))
    return MeadPlanner(**options).plan_pipeline(7.0, latency, current)


def test_figure_5_scales_the_slowest_operator_until_the_bound_is_kept() -> None:
    """Only the bottleneck gets more than the lowest level, and no more than it needs."""
    # R = 0.125 / (1 - 2 * 0.125) + s / (1 - 2 s) with s = 0.3 / share; at 0.85: 0.167 + 1.2; at 1.0: 0.167 + 0.75.
    space = space_of(FakePathLatency(LOG_ANALYSIS, DEMANDS, rate=2.0))
    found = figure_5(space, 0.05)
    assert space.allocations(found.x) == single_executors({"parser": 0.4, "counter": 0.4, "matcher": 1.0})
    assert found.is_met


def test_figure_5_takes_back_a_step_that_gains_less_than_delta() -> None:
    """Below delta of the bound, a step that does not reach the bound is reverted and the next path is looked at."""
    # a alone at 0.4: 1.0 s; at 0.55: 0.727 s: a gain of 0.27, below 0.5 * 0.6.
    space = space_of(FakePathLatency({("a",): 0.6, ("b",): 0.4}, {"a": 0.4, "b": 0.2}))
    assert figure_5(space, 0.5).x == (0, 1)
    assert not figure_5(space, 0.5).is_met
    # With a small delta it goes on: 0.4 / 0.7 = 0.571 s keeps 0.6 s.
    assert figure_5(space, 0.05).x == (2, 1)


def test_refined_goes_on_where_figure_5_gives_up() -> None:
    """A bound that can be kept is kept, whatever delta says."""
    space = space_of(FakePathLatency({("a",): 0.6, ("b",): 0.4}, {"a": 0.4, "b": 0.2}))
    found = refined(space, 0.5)
    assert found.is_met
    assert found.x == (2, 1)


def test_refined_gives_back_what_a_later_step_made_needless() -> None:
    """No operator can be lowered by a level without breaking a bound."""
    demands = {"a": 0.30, "b": 0.29, "c": 0.28}
    space = space_of(FakePathLatency({("a", "b", "c"): 1.55}, demands))
    found = refined(space, 0.05)
    assert found.is_met
    for i, level in enumerate(found.x):
        assert level == 0 or not space.is_met((*found.x[:i], level - 1, *found.x[i + 1 :]))


def test_operators_that_cannot_keep_up_are_scaled_first_the_busiest_before() -> None:
    """From an endless latency the search climbs out, though no single step makes it finite."""
    space = space_of(FakePathLatency({("a", "b"): 30.0}, {"a": 0.5, "b": 0.6}, rate=1.5))
    assert all(path.seconds == float("inf") for path in space.predict((2, 2)))
    found = figure_5(space, 0.05)
    assert found.is_met
    assert found.x == (3, 4)


def test_when_nothing_keeps_the_bound_the_best_is_given_and_said() -> None:
    """The plan is as fast as can be, but for delta; lightly loaded operators are not raised for nothing."""
    made = plan(FakePathLatency({("light", "heavy"): 0.5}, {"light": 0.001, "heavy": 0.6}), share=0.4)
    assert not made.is_possible
    assert not made.is_met
    assert {d.operator: d.target.cpu_share for d in made.decisions} == {"light": 0.4, "heavy": 1.0}
    assert all("no allocation keeps every bound" in d.reason for d in made.decisions)
    assert made.decisions[0].evidence["is_possible"] == "no"


def test_an_overload_gives_the_overloaded_operator_everything() -> None:
    """Where an operator cannot keep up at any level, it has the highest, the others what they need, and JSON holds."""
    made = plan(FakePathLatency({("light", "heavy"): 0.5}, {"light": 0.01, "heavy": 0.6}, rate=3.0), share=0.55)
    assert not made.is_possible
    assert {d.operator: d.target.cpu_share for d in made.decisions} == {"light": 0.4, "heavy": 1.0}
    for decision in made.decisions:
        assert decision.evidence["binding_seconds"] == "inf"
        assert decode(Decision, encode(decision)) == decision
        assert "endless" in decision.reason


def test_an_unmet_path_does_not_break_a_met_one() -> None:
    """Where one path cannot be met, the others still are."""
    latency = FakePathLatency({("a", "b"): 0.2, ("a", "c"): 1.0}, {"a": 0.1, "b": 0.5, "c": 0.5})
    made = plan(latency, most_levels_down=None)
    assert [path.is_met for path in made.predictions] == [False, True]


def test_scaling_down_goes_one_level_at_most_and_up_at_once() -> None:
    """An operator far above its need loses one level; one far below gets all it needs."""
    latency = FakePathLatency({("a",): 0.5, ("b",): 0.5}, {"a": 0.01, "b": 0.4})
    current = {"a": Allocation(2, 1.0), "b": Allocation(1, 0.4)}
    levels = {"a": Levels(executors=(2,) * 5), "b": Levels()}
    made = MeadPlanner().plan_pipeline(0.0, latency, current, levels)
    assert [d.target for d in made.decisions] == [Allocation(2, 0.85), Allocation(1, 0.85)]
    assert "1 level(s) away at most" in made.decisions[0].reason
    assert made.wanted_cost < made.cost
    free = MeadPlanner(most_levels_down=None).plan_pipeline(0.0, latency, current, levels)
    assert [d.target.cpu_share for d in free.decisions] == [0.4, 0.85]
    assert free.wanted_cost == free.cost


@pytest.mark.parametrize("search", ["published", "refined", "exact"])
def test_a_plan_names_the_binding_path_the_worst_model_and_what_was_rejected(search: str) -> None:
    """Every decision carries its evidence and, level by level, why its neighbours were not taken."""
    made = plan(FakePathLatency(LOG_ANALYSIS, DEMANDS, rate=2.0), search=search, most_levels_down=None)
    matcher = next(d for d in made.decisions if d.operator == "matcher")
    assert matcher.target.cpu_share == 1.0
    assert matcher.evidence["binding_path"] == "parser > matcher"
    assert matcher.evidence["worst_model"] == "M/M/1"
    assert matcher.evidence["binding_seconds"] == pytest.approx(0.75 + 1 / 6)
    assert matcher.evidence["path_seconds[parser > matcher]"] == pytest.approx(0.75 + 1 / 6)
    (below,) = matcher.rejected
    assert below.allocation.cpu_share == 0.85
    assert "break the bound" in below.reason
    counter = next(d for d in made.decisions if d.operator == "counter")
    (above,) = counter.rejected
    assert "costs 0.15 more" in above.reason
    assert "matcher" in matcher.explain()


def test_the_same_question_has_the_same_answer() -> None:
    """Planning changes nothing outside."""
    latency = FakePathLatency(LOG_ANALYSIS, DEMANDS, rate=2.0)
    one, two = plan(latency), plan(latency)
    assert [d.target for d in one.decisions] == [d.target for d in two.decisions]
    assert one.steps == two.steps


def test_an_unproven_optimum_is_said_to_be() -> None:
    """Where predictions rise with a share, the plan does not claim that nothing is cheaper."""

    class Rising(FakePathLatency):
        def predict(self, allocations: Mapping[str, Allocation]) -> tuple[Prediction, ...]:
            (predicted,) = super().predict(allocations)
            seconds = predicted.seconds + 0.2 * allocations["b"].cpu_share
            return (Prediction(predicted.path, seconds, 0.9, predicted.operator_seconds, predicted.utilisation, "odd"),)

    made = plan(Rising({("a", "b"): 0.9}, {"a": 0.5, "b": 0.0001}))
    assert "cannot be excluded" in made.steps[-1]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"delta": -0.1}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"search": "lucky"}, "search"),
        ({"most_evaluations": 0}, "most_evaluations"),
        ({"most_levels_down": 0}, "most_levels_down"),
        ({"every_seconds": 0.0}, "every_seconds"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], named: str) -> None:
    """Each error names the option."""
    with pytest.raises(ConfigurationError, match=named):
        MeadPlanner(**options)


def test_missing_operators_and_too_many_for_the_exact_search_are_refused() -> None:
    """Nothing is assumed about an operator that was not named, and nothing is started that does not end."""
    with pytest.raises(ConfigurationError, match="matcher"):
        MeadPlanner().plan_pipeline(
            0.0, FakePathLatency(LOG_ANALYSIS, DEMANDS), {"parser": Allocation(1), "counter": Allocation(1)}
        )
    many = {f"o{i}": 0.01 for i in range(9)}
    with pytest.raises(ConfigurationError, match="use auto or refined"):
        plan(FakePathLatency({tuple(many): 1.0}, many), search="exact")


def a_chain(operators: int) -> FakePathLatency:
    """M/M/1 queues in a row with a bound of 1.5 times what full CPU gives."""
    demands = {f"o{i}": 0.05 + 0.3 * ((7 * i) % 11) / 11 for i in range(operators)}
    path = tuple(demands)
    (best,) = FakePathLatency({path: 1.0}, demands, 1.0).predict(single_executors(dict.fromkeys(path, 1.0)))
    return FakePathLatency({path: 1.5 * best.seconds}, demands, 1.0)


@pytest.mark.parametrize(("operators", "search"), [(3, "exact"), (6, "exact"), (9, "refined"), (16, "refined")])
def test_auto_takes_the_exact_search_where_it_fits_and_says_which_it_took(operators: int, search: str) -> None:
    """The default plans a pipeline of any size; steps, reason and evidence name the search."""
    made = plan(a_chain(operators), most_levels_down=None)
    assert made.is_met
    assert f"{search} search" in made.steps[-1]
    assert all(f"keeps every bound ({search} search)" in d.reason for d in made.decisions)
    assert {d.evidence["search"] for d in made.decisions} == {search}


def test_auto_stops_the_exact_search_at_its_budget_and_says_how_far_it_got() -> None:
    """A plan is made within `most_evaluations`, with the bound proven until then."""
    made = plan(a_chain(8), most_levels_down=None, most_evaluations=3)
    assert made.is_met
    assert "stopped after" in made.steps[-1]
    assert "most_evaluations" in made.steps[-1]
    assert {d.evidence["search"] for d in made.decisions} == {"exact, unproven"}


def least_cost(latency: FakePathLatency) -> float:
    """The least cost of a chain with shares of 0.3 to 1.0 by tenths: the least time for each whole number of tenths."""
    ((path, bound),) = latency.bounds.items()
    fastest = {0: 0.0}
    for name in path:
        after: dict[int, float] = {}
        for spent, seconds in fastest.items():
            for tenths in range(3, 11):
                spare = tenths / 10 - latency.rate * latency.demands[name]
                if spare > 0:
                    new = seconds + latency.demands[name] / spare
                    after[spent + tenths] = min(new, after.get(spent + tenths, new))
        fastest = after
    return min(spent for spent, seconds in fastest.items() if seconds <= bound) / 10


@pytest.mark.parametrize("operators", [16, 50])
def test_a_large_pipeline_takes_few_predictions_and_gives_nothing_needless(operators: int) -> None:
    """Some rounds of estimates, then one look at each operator: none can be lowered, and the cost is near the least."""
    latency = a_chain(operators)
    levels = dict.fromkeys(latency.operators, Levels(tuple(0.3 + 0.1 * i for i in range(8))))
    space = AllocationSpace(latency, levels)
    found = refined(space, 0.05)
    assert found.is_met
    assert space.evaluations <= 3 * operators
    for i, level in enumerate(found.x):
        assert level == 0 or not space.is_met((*found.x[:i], level - 1, *found.x[i + 1 :]))
    assert space.cost(found.x) <= 1.02 * least_cost(latency)


def test_a_large_overloaded_pipeline_gives_the_overloaded_operator_everything() -> None:
    """Of fifty operators one cannot keep up: it has the highest level, and the others what helps."""
    demands = {f"o{i}": 0.01 for i in range(49)} | {"heavy": 1.2}
    made = plan(FakePathLatency({tuple(demands): 1.0}, demands, 1.0), most_levels_down=None)
    assert not made.is_possible
    shares = {d.operator: d.target.cpu_share for d in made.decisions}
    assert shares["heavy"] == 1.0
    assert min(shares.values()) < 1.0


def test_a_long_chain_under_bursts_is_planned_from_few_predictions() -> None:
    """Where now one and now another operator is the bottleneck, the estimate still ends near what is needed."""
    rng = np.random.default_rng(2)
    process = MAP([[-60.0, 2.0], [0.5, -8.0]], [[58.0, 0.0], [0.0, 7.5]])
    models = [
        OperatorModel(f"o{i}", RecordDemand(PH.erlang(2, mean=float(load) / process.rate)), (f"o{i - 1}",) if i else ())
        for i, load in enumerate(rng.uniform(0.05, 0.35, 24))
    ]
    full = {model.name: Allocation(1, 1.0) for model in models}
    (best,) = PipelineLatency(PipelineModel(models, Objective("p95", 1e3)), {"m": process}).predict(full)
    latency = PipelineLatency(PipelineModel(models, Objective("p95", 3.0 * best.seconds)), {"m": process})
    space = AllocationSpace(latency, dict.fromkeys(full, Levels(tuple(0.3 + 0.1 * i for i in range(8)))))
    found = refined(space, 0.05)
    assert found.is_met
    assert space.evaluations <= 3 * len(full)
    assert space.cost(found.x) < 0.6 * space.cost(space.top)


def test_an_allocation_that_cannot_be_solved_is_rejected_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """One executor's queue does not converge: the plan stands on two, and says why one was not taken."""
    demand, process = BatchDemand(0.1, 0.02), MAP.poisson(20.0)
    known, slow = MicroBatchSolver.solve, demand.at(Allocation(1)).per_record

    def solve(solver: MicroBatchSolver, server: MicroBatch, suffices: Any = None) -> Any:
        if server.per_record == slow:
            raise ConvergenceError("the solution makes no sense", iterations=12, residual=0.5)
        return known(solver, server, suffices)

    monkeypatch.setattr(MicroBatchSolver, "solve", solve)
    pipeline = PipelineModel([OperatorModel("a", demand)], Objective("p95", 3.0))
    latency = PipelineLatency(pipeline, {"fit 1": process}, rough=True)
    levels = {"a": Levels.within(Limits(1, 3, (1.0,)))}
    made = MeadPlanner(most_levels_down=None).plan_pipeline(0.0, latency, {"a": Allocation(3)}, levels)
    assert made.decisions[0].target == Allocation(2)
    assert made.is_met
    below = next(one for one in made.decisions[0].rejected if one.allocation == Allocation(1))
    assert "not solved (a, fit 1: the solution makes no sense" in below.reason
