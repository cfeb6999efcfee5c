# SPDX-License-Identifier: Apache-2.0
"""Policies on simulated pipelines: what a result says, and the seam for policies that plan a whole pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
from penstock.evaluation.simulated_policies import simulated_policy, simulated_policy_names

from penstock.errors import ConfigurationError, NotReadyError
from penstock.evaluation.path_objectives import least_latency
from penstock.evaluation.simulation import PipelineView, simulate
from penstock.evaluation.simulation_result import path_result, summary_of
from penstock.plan import FixedPolicy, ThresholdPolicy
from penstock.ports import FloatArray
from penstock.records import Allocation, Decision, Limits, Objective
from penstock.simulator import Deterministic, MicroBatch, Operator, PathRecords, Pipeline, Stream, erlang, exponential

LIMITS = Limits(1, 1, (0.4, 0.55, 0.7, 0.85, 1.0))
P95 = Objective("p95", 0.5)


def _pipeline() -> Pipeline:
    means = {"parser": 4e-3, "counter": 2e-3, "matcher": 8e-3}
    return Pipeline(
        tuple(Operator(name, erlang(2, mean), limits=LIMITS) for name, mean in means.items()),
        (Stream("arrivals", "parser"), Stream("parser", "counter"), Stream("parser", "matcher")),
    )


def _times(seconds: float = 300.0, rate: float = 60.0) -> FloatArray:
    return np.cumsum(np.random.default_rng(1).standard_exponential(int(seconds * rate)) / rate)


@dataclass(frozen=True)
class _Halves:
    """Wants a share for all from some time on; remembers what it saw."""

    share: float = 0.55
    every_seconds: float = 30.0
    name: str = "halves"
    seen: list[PipelineView] = field(default_factory=list)
    as_decision: bool = False
    ready_at: float = 0.0

    def plan_all(self, view: PipelineView) -> Mapping[str, Allocation | Decision]:
        self.seen.append(view)
        if view.at < self.ready_at:
            raise NotReadyError("too few arrivals yet")
        wanted = Allocation(1, self.share)
        if not self.as_decision:
            return dict.fromkeys(view.current, wanted)
        return {
            name: Decision(name, view.at, self.name, current, wanted, "because")
            for name, current in view.current.items()
        }


def test_static_costs_all_and_a_policy_less() -> None:
    """Without a policy every operator keeps the top; the threshold policy pays for less and changes allocations."""
    static = simulate(_times(), _pipeline(), None, P95, seed=1)
    assert static.policy == "static"
    assert static.cpu_share == {"parser": 1.0, "counter": 1.0, "matcher": 1.0}
    assert (static.cpu_share_mean, static.cost_against_static, static.changes) == (1.0, 1.0, ())
    assert (static.violation_time_share, static.is_met) == (0.0, True)
    scaled = simulate(_times(), _pipeline(), ThresholdPolicy(), P95, seed=1)
    assert scaled.policy == "threshold"
    assert len(scaled.changes) > 0
    assert scaled.cpu_share["counter"] < 0.55
    assert scaled.cost_against_static == pytest.approx(scaled.cpu_share_mean)
    assert scaled.latency is not None
    assert static.latency is not None
    assert scaled.latency.mean_seconds > static.latency.mean_seconds
    assert scaled.slowest.path == ("parser", "matcher")


def test_the_loop_itself_changes_nothing() -> None:
    """A policy that holds gives, record for record, what no policy gives; and the same seed the same again."""
    one, two, three = (simulate(_times(), _pipeline(), p, P95, seed=4) for p in (None, FixedPolicy(), FixedPolicy()))
    assert [p.latency for p in one.paths] == [p.latency for p in two.paths]
    assert two.to_json() == three.to_json()
    other = simulate(_times(), _pipeline(), None, P95, seed=5)
    assert other.paths[0].latency != one.paths[0].latency


@pytest.mark.parametrize("as_decision", [False, True])
def test_a_policy_may_plan_the_whole_pipeline(as_decision: bool) -> None:
    """It is asked once for each instant, sees arrivals up to then and all operators, and is obeyed by each."""
    policy = _Halves(as_decision=as_decision)
    times = _times()
    result = simulate(times, _pipeline(), policy, P95, seed=2)
    instants = [view.at for view in policy.seen]
    assert instants == [30.0 * i for i in range(len(instants))]
    for view in policy.seen:
        assert np.array_equal(view.arrivals, (times - times[0])[: len(view.arrivals)])
        assert len(view.arrivals) == np.searchsorted(times - times[0], view.at, side="right")
        assert set(view.current) == set(view.limits) == {"parser", "counter", "matcher"}
        assert set(view.objectives) == {("parser", "counter"), ("parser", "matcher")}
    # At 0 nothing is known yet, so the loop holds; at 30 s all three go to 55 %.
    assert {(c.operator, c.at, c.target.cpu_share) for c in result.changes} == {
        (name, 30.0, 0.55) for name in ("parser", "counter", "matcher")
    }
    expected = (30.0 + 0.55 * (result.seconds - 30.0)) / result.seconds
    assert result.cpu_share_mean == pytest.approx(expected, rel=1e-9)


def test_a_policy_that_is_not_ready_holds() -> None:
    """Too little data yet is no failure: all keep what they have until there is enough."""
    result = simulate(_times(), _pipeline(), _Halves(ready_at=100.0), P95, seed=2)
    assert {c.at for c in result.changes} == {120.0}


def test_what_a_policy_wants_outside_the_limits_is_not_done() -> None:
    """The limits hold in a simulated run as in a real one."""
    result = simulate(_times(), _pipeline(), _Halves(share=0.1), P95, seed=2)
    assert {c.target.cpu_share for c in result.changes} == {0.4}


def test_violations_are_counted_by_time() -> None:
    """Windows whose own statistic is above the bound, and those in which nothing ends while a record waits too long."""
    # Ends at 5 (0.1 s old), nothing from 10 to 30, then one that came at 12 ends at 35; the run lasts 40 s.
    records = PathRecords([np.array([5.0, 35.0])], [np.array([4.9, 12.0])])
    result = path_result(("a",), Objective("mean", 1.0), records, 40.0, 10.0)
    assert result.is_broken.tolist() == [False, True, True, True]
    assert result.violation_time_share == pytest.approx(0.75)
    calm = path_result(("a",), Objective("mean", 30.0), records, 35.0, 10.0)
    assert calm.violation_time_share == 0.0


def test_percentiles_are_ranks() -> None:
    """The p-th percentile is the smallest latency that p per cent of the records do not exceed."""
    summary = summary_of(np.arange(1.0, 101.0))
    assert summary is not None
    assert (summary.p50_seconds, summary.p95_seconds, summary.p99_seconds, summary.max_seconds) == (50, 95, 99, 100)
    assert summary_of(np.empty(0)) is None


def test_a_path_without_an_objective_is_refused() -> None:
    """Every path needs a bound; the error names the paths without one and those that do not exist."""
    with pytest.raises(ConfigurationError, match="parser -> matcher has none"):
        simulate(_times(), _pipeline(), None, {("parser", "counter"): P95})
    with pytest.raises(ConfigurationError, match="'a -> b' is no path"):
        simulate(_times(), _pipeline(), None, {("a", "b"): P95})
    with pytest.raises(ConfigurationError, match="has none"):
        simulate(_times(), _pipeline(), None, Objective())


@pytest.mark.parametrize("statistic", ["mean", "p50", "p95", "p99"])
def test_an_objective_below_the_service_time_is_refused(statistic: str) -> None:
    """What the operators need at full share without waiting cannot be undercut; a little above it is accepted."""
    pipeline = Pipeline.of_one(Operator("a", exponential(0.1), limits=Limits(1, 1, (0.25, 0.5))))
    # Exponential with mean 0.1 at half of the CPU: mean 0.2, percentiles -0.2 log(1 - p).
    exact = {"mean": 0.2, "p50": 0.2 * np.log(2), "p95": 0.2 * np.log(20), "p99": 0.2 * np.log(100)}[statistic]
    assert least_latency(pipeline, ("a",), statistic) == pytest.approx(exact, rel=0.04)
    assert least_latency(pipeline, ("a",), statistic) <= exact * (1 + 1e-12)
    with pytest.raises(ConfigurationError, match="impossible on the path a"):
        simulate([0.0, 1.0], pipeline, None, Objective(statistic, 0.9 * exact))
    simulate([0.0, 1.0], pipeline, None, Objective(statistic, exact))


def test_micro_batches_run_under_a_policy_too() -> None:
    """An overloaded micro-batch query gets executors, and each batch is reported to the loop."""
    operator = Operator("a", MicroBatch(0.2, 0.02, trigger=1.0), limits=Limits(1, 4, (1.0,)), start_up_seconds=4.0)
    result = simulate(
        _times(), Pipeline.of_one(operator), ThresholdPolicy(), Objective("p95", 5.0), start={"a": Allocation(1, 1.0)}
    )
    assert [c.verb for c in result.changes][:1] == ["scale up"]
    assert result.capacity_seconds > result.seconds
    assert result.records == len(_times())


def test_policies_by_name_with_options() -> None:
    """A text names a policy and its options; what is not known is told with what is."""
    assert simulated_policy("static") is None
    assert simulated_policy("threshold:upper=0.8, every_seconds=5s") == ThresholdPolicy(upper=0.8, every_seconds=5.0)
    fixed = simulated_policy("fixed:executors=1,cpu_share=0.55")
    assert isinstance(fixed, FixedPolicy)
    assert fixed.allocation == Allocation(1, 0.55)
    for wrong in ("nothing", "static:x=1", "threshold:upper", "threshold:uper=1"):
        with pytest.raises(ConfigurationError):
            simulated_policy(wrong)
    assert {"static", "fixed", "threshold"} <= set(simulated_policy_names())


@pytest.mark.parametrize(
    "arguments",
    [
        {"interval_seconds": 0.0},
        {"window_seconds": float("nan")},
        {"seed": -1},
        {"times": []},
        {"times": [0.0, 1e9]},  # microseconds taken for seconds
        {"interval_seconds": 1e-8},
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, object]) -> None:
    """An interval, window, seed or trace that cannot be raises ConfigurationError."""
    given: dict[str, object] = {"times": [0.0, 1.0], "seed": 0, **arguments}
    with pytest.raises(ConfigurationError):
        simulate(given.pop("times"), Pipeline.of_one(Operator("a", Deterministic(0.1))), FixedPolicy(), P95, **given)  # type: ignore[arg-type]
