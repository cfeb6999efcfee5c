# SPDX-License-Identifier: Apache-2.0
"""Policies on simulated pipelines: what a policy gets to see, what a result says, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.evaluation.path_objectives import least_latency
from penstock.evaluation.policy_text import parse_policy
from penstock.evaluation.simulation import simulate, simulated_context
from penstock.evaluation.simulation_result import path_result, summary_of
from penstock.policies.fixed import FixedPolicy
from penstock.policies.threshold import ThresholdPolicy
from penstock.ports import AnalysisPlace, FloatArray, Look
from penstock.records import Allocation, Decision, Limits, Objective, PlanRequest
from penstock.simulator import Deterministic, MicroBatch, Operator, PathRecords, Pipeline, Stream, erlang, exponential
from penstock.topology import Path

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


@dataclass
class _Halves:
    """Wants a share for all from some time on; remembers what it was asked and shown."""

    share: float = 0.55
    every_seconds: float = 30.0
    name: str = "halves"
    ready_at: float = 0.0
    asked: list[PlanRequest] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    closed: int = 0

    def watch(self, look: Look) -> tuple[str, ...]:
        self.looks.append(look)
        return ()

    def plan(self, request: PlanRequest) -> Decision:
        self.asked.append(request)
        wanted = Allocation(1, self.share) if request.at >= self.ready_at else request.current
        return Decision(request.operator, request.at, self.name, request.current, wanted, "because")

    def close(self) -> None:
        self.closed += 1


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


def test_one_policy_decides_for_the_whole_pipeline() -> None:
    """It is asked about every operator as often as it wants, shown every look, obeyed, and closed in the end."""
    policy = _Halves()
    times = _times()
    result = simulate(times, _pipeline(), policy, P95, seed=2)
    names = ["parser", "counter", "matcher"]
    assert [(r.at, r.operator) for r in policy.asked] == [
        (30.0 * i, name) for i in range(len(policy.asked) // 3) for name in names
    ]
    assert {r.objective for r in policy.asked} == {P95}
    assert [(look.telemetry.at, look.operator) for look in policy.looks[:6]] == [
        (at, name) for at in (0.0, 1.0) for name in names
    ]
    assert policy.closed == 1
    # At 0 nothing is known yet, so the loop holds; at 30 s all three go to 55 %.
    assert {(c.operator, c.at, c.target.cpu_share) for c in result.changes} == {(name, 30.0, 0.55) for name in names}
    expected = (30.0 + 0.55 * (result.seconds - 30.0)) / result.seconds
    assert result.cpu_share_mean == pytest.approx(expected, rel=1e-9)


def test_a_policy_sees_every_arrival_once_and_none_before_it_comes() -> None:
    """The looks at the first operator hand on the trace in order, never ahead of the simulated clock."""
    policy, times = _Halves(), _times(60.0)
    simulate(times, _pipeline(), policy, P95, seed=2)
    shown: list[float] = []
    for look in policy.looks:
        if look.operator == "parser":
            assert look.is_exact
            for run in look.arrivals:
                assert run is not None
                assert run.size == 0 or run[-1] <= look.telemetry.at
                shown += run.tolist()
    since_first = times - times[0]
    assert shown == since_first[: len(shown)].tolist()
    assert len(shown) > 0.9 * len(times)


def test_a_request_carries_what_was_seen_before() -> None:
    """A policy may look back: the history has the operator's own observations, oldest first, the present one last."""
    policy = _Halves()
    simulate(_times(), _pipeline(), policy, P95, seed=2)
    request = next(r for r in policy.asked if r.at == 60.0 and r.operator == "matcher")
    assert [seen.at for seen in request.history] == [float(at) for at in range(61)]
    assert {seen.operator for seen in request.history} == {"matcher"}
    assert request.history[-1] == request.observation
    assert [d.at for d in request.recent] == [30.0]


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


def test_an_objective_for_what_is_not_a_path_is_refused() -> None:
    """The error names what is not a path, and the paths there are."""
    with pytest.raises(ConfigurationError, match=r"'a -> b' is not a path; the paths are parser -> counter, parser -"):
        simulate(_times(), _pipeline(), None, {("a", "b"): P95})


def test_a_path_without_a_bound_has_to_keep_up() -> None:
    """A path of which nothing is said is judged by whether records get too old, one with a bound by its latency."""
    given: dict[Path, Objective] = {("parser", "counter"): P95}
    result = simulate(_times(), _pipeline(), ThresholdPolicy(), given, seed=1)
    bounded, free = result.paths
    assert (bounded.objective, free.objective) == (P95, Objective())
    assert (bounded.is_met, free.is_met, result.is_met) == (True, True, True)
    assert result.slowest is bounded
    with pytest.raises(ConfigurationError, match="the path parser -> matcher has none"):
        simulate(_times(), _pipeline(), parse_policy("mead"), given, seed=1)


def test_a_pipeline_that_cannot_keep_up_is_found_behind() -> None:
    """Under a load beyond its share records get older than the catch-up time; with a policy it catches up."""
    times = np.arange(0.0, 400.0, 0.02)
    busy = Pipeline.of_one(Operator("a", Deterministic(0.015), limits=Limits(1, 1, (0.5, 1.0))))
    start = {"a": Allocation(1, 0.5)}
    behind = simulate(times, busy, None, Objective(), start=start)
    (path,) = behind.paths
    assert not behind.is_met
    # 50 a second come and 33 are done: what came at t is done at 1.5 t. It is older than 60 s from 180 s on.
    assert behind.violation_time_share == pytest.approx((600.0 - 180.0) / 600.0, abs=0.02)
    patient = simulate(times, busy, None, Objective(catch_up_seconds=200.5), start=start)
    assert patient.is_met
    assert path.windows[:3].tolist() == pytest.approx([500 / 3, 1000 / 3, 500.0], rel=0.02)
    kept = simulate(times, busy, ThresholdPolicy(), Objective(), start=start)
    assert kept.is_met
    assert kept.violation_time_share == 0.0
    assert [c.verb for c in kept.changes] == ["scale up"]
    document = behind.to_json()["paths"]["a"]
    assert (document["objective"], document["met"]) == ({"statistic": None, "seconds": None}, False)


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
    assert [c.verb for c in result.changes][:1] == ["scale out"]
    assert result.capacity_seconds > result.seconds
    assert result.records == len(_times())


def test_policies_by_name_with_options() -> None:
    """A text names a policy and its options; what is not known is reported with what is."""
    assert parse_policy("static") is None
    context = simulated_context(_pipeline(), dict.fromkeys(_pipeline().paths, P95), AnalysisPlace("here"))
    threshold, fixed = (
        parse_policy(text) for text in ("threshold:upper=0.8, every_seconds=5s", "fixed:executors=1,cpu_share=0.55")
    )
    assert threshold is not None
    assert threshold.build(context) == ThresholdPolicy(upper=0.8, every_seconds=5.0)
    assert not threshold.reads_objective
    assert fixed is not None
    built = fixed.build(context)
    assert isinstance(built, FixedPolicy)
    assert built.allocation == Allocation(1, 0.55)
    mead = parse_policy("mead:rescue=false,costs=[0.4]")
    assert mead is not None
    assert (mead.options, mead.reads_objective) == ({"rescue": False, "costs": [0.4]}, True)


def test_a_value_may_have_commas_in_brackets_or_quotes() -> None:
    """Options are split at the commas between them alone, and a choice as text is read back as the same choice."""
    for text, options in (
        ("mead:costs=[0.4,0.5,1.0],rescue=false", {"costs": [0.4, 0.5, 1.0], "rescue": False}),
        ('schedule:steps="8h@1,16h@4x0.7",every_seconds=5s', {"steps": "8h@1,16h@4x0.7", "every_seconds": "5s"}),
        ("schedule:steps='8h@1,16h@4'", {"steps": "8h@1,16h@4"}),
        ("mead:most_levels_down=null, window = 1000", {"most_levels_down": None, "window": 1000}),
    ):
        choice = parse_policy(text)
        assert choice is not None
        assert choice.options == options
        assert parse_policy(str(choice)) == choice


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing", "known: static, mead, mead-published"),
        ("static:x=1", "static takes no options"),
        ("threshold:upper", "cannot read 'upper'"),
        (
            "threshold:uper=1",
            "uper: threshold has no such option; did you mean upper. It has upper, lower, every_seconds",
        ),
        ("mead:speed=3", "speed: mead has no such option"),
        ("mead:costs=[0.4,1.0", r"cannot read '\[0.4,1.0' in .*; write the value of costs as in YAML"),
        ("threshold:upper={a: b: c}", "write the value of upper as in YAML"),
        ("schedule:steps=8h@1,16h@4", "cannot read '16h@4' in .* a value with commas in brackets or quotes"),
        ("threshold:upper=0.5,upper=0.6", "upper stands twice"),
    ],
)
def test_a_policy_that_cannot_be_read_is_reported(text: str, words: str) -> None:
    """The message has what is wrong and what would be right."""
    with pytest.raises(ConfigurationError, match=words):
        parse_policy(text)


def test_a_wrong_value_of_an_option_is_reported_before_anything_is_run() -> None:
    """The policy is built for the pipeline before the first record."""
    with pytest.raises(ConfigurationError, match="sub_windows"):
        simulate(_times(), _pipeline(), parse_policy("mead:sub_windows=99"), P95)
    with pytest.raises(ConfigurationError, match="costs: 1 costs for 5 CPU shares"):
        simulate(_times(), _pipeline(), parse_policy("mead:costs=[0.4]"), P95)


@pytest.mark.parametrize(
    "arguments",
    [
        {"interval_seconds": 0.0},
        {"window_seconds": float("nan")},
        {"analysis_seconds": -1.0},
        {"analysis_seconds": float("inf")},
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
