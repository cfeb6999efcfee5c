# SPDX-License-Identifier: Apache-2.0
"""What every policy must do, checked on any policy: ours, and yours.

The suite asks about single requests, and plays a run of looks to policies that learn. Give it what builds the policy
from a `PolicyContext` (a class, a function, a registered entry's `build`), or a policy that needs no context.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast
from unittest import mock

import numpy as np

from penstock.errors import ConfigurationError
from penstock.ports import AnalysisPlace, FloatArray, Look, OperatorSite, Policy, PolicyContext, WatchingPolicy
from penstock.records import (
    Allocation,
    BatchProgress,
    ClusterState,
    Decision,
    LatencySummary,
    Limits,
    Objective,
    Observation,
    PlanRequest,
    Quality,
    SourceProgress,
    Telemetry,
    decode,
    encode,
)
from penstock.testing.fakes import a_decision, a_request
from penstock.topology import Topology

MakePolicy = Callable[[PolicyContext], Policy]

_OPERATOR = "operator"
_SHARES = (0.4, 0.55, 0.7, 0.85, 1.0)
_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns")


def check_policy(policy: Policy | MakePolicy, *, reads_metrics: bool = True, learning_seconds: int = 100) -> None:
    """Check the promises of `ports.Policy`, and of `ports.WatchingPolicy` where it watches.

    The same request gets the same decision, and two policies that saw the same decide alike. Decisions stay within
    the limits, explain themselves and survive JSON. No clock is read. Where data are missing or not good, the policy
    holds. It can be closed twice, and leaves no thread behind.

    Parameters
    ----------
    policy
        What builds it from a context, or the policy itself.
    reads_metrics
        False for a policy that decides without measurements; it must then decide the same whatever they are.
    learning_seconds
        How long the run of looks is that a learning policy is given.

    Raises
    ------
    AssertionError
        A promise is broken; the message says which.
    """
    threads_before = threading.active_count()
    make = _factory(policy)
    was_built = False
    for limits, current in _sizes():
        for objective in (Objective(), Objective("mean", 0.5), Objective("p95", 2.0)):
            built = _build(make, limits, objective)
            if built is None:
                continue
            was_built = True
            _check_requests(built, limits, current, objective, reads_metrics=reads_metrics)
            _close(built)
    assert was_built, "the policy refuses every objective: to keep up, a mean and a p95"
    _check_a_run(make, learning_seconds, reads_metrics=reads_metrics)
    assert threading.active_count() <= threads_before, "the policy leaves threads behind after close()"


def _factory(policy: Policy | MakePolicy) -> MakePolicy:
    if hasattr(policy, "plan") and not isinstance(policy, type):
        given = cast("Policy", policy)
        return lambda _: given
    assert callable(policy), f"{policy!r} is neither a policy nor something that builds one"
    return policy


def _context(limits: Limits, objective: Objective) -> PolicyContext:
    return PolicyContext(
        Topology.of_one(_OPERATOR), {_OPERATOR: OperatorSite(limits)}, {(_OPERATOR,): objective}, AnalysisPlace("here")
    )


def _build(make: MakePolicy, limits: Limits, objective: Objective) -> Policy | None:
    try:
        policy = make(_context(limits, objective))
    except ConfigurationError as fault:
        if "objective" in str(fault):
            return None  # a policy may need a bound, where it says so
        raise AssertionError(f"it cannot be built for {objective}, and does not say why: {fault}") from fault
    assert isinstance(policy.name, str), "name: settings and decisions need a text"
    assert policy.name, "name: settings and decisions need one"
    assert math.isfinite(policy.every_seconds), "every_seconds: must be a time"
    assert policy.every_seconds > 0, "every_seconds: must be positive"
    assert not hasattr(policy, "watch") or hasattr(policy, "close"), (
        "watch: it comes with close; add close, which ends what watch has started"
    )
    return policy


def _close(policy: Policy) -> None:
    if isinstance(policy, WatchingPolicy):
        policy.close()
        policy.close()


# --- single requests -------------------------------------------------------------------------------------------


def _check_requests(
    policy: Policy, limits: Limits, current: Allocation, objective: Objective, *, reads_metrics: bool
) -> None:
    for request in _requests(limits, current, objective):
        _check_one(policy, request)
    for request in _requests_without_data(limits, current, objective):
        decision = _check_one(policy, request)
        if reads_metrics:
            assert not decision.is_change, (
                f"{policy.name} moved to {decision.target} on data that are missing or not good "
                f"(quality {request.observation.quality}, utilisation {request.observation.utilisation})"
            )
    if not reads_metrics:
        targets = {policy.plan(request).target for request in _same_size_requests(limits, current, objective)}
        assert len(targets) == 1, f"{policy.name} is said to read no metrics, yet they change its target: {targets}"


def _check_one(policy: Policy, request: PlanRequest) -> Decision:
    before = encode(request)
    with _no_clocks(policy):
        first, second = policy.plan(request), policy.plan(request)
    assert isinstance(first, Decision), f"{policy.name} gave {first!r} instead of a Decision"
    assert isinstance(second, Decision), f"{policy.name} gave {second!r} instead of a Decision"
    assert encode(request) == before, f"{policy.name} changed its request"
    # Identifiers are new for every decision; all else must be the same.
    assert replace(first, decision_id="") == replace(second, decision_id=""), (
        f"{policy.name} is not pure: the same request gave\n{first}\nand\n{second}"
    )
    _check_explained(policy, request, first)
    return first


def _check_explained(policy: Policy, request: PlanRequest, decision: Decision) -> None:
    assert decision.policy == policy.name, f"the decision names {decision.policy!r}, the policy is {policy.name!r}"
    assert (decision.operator, decision.at, decision.current) == (request.operator, request.at, request.current), (
        f"{policy.name}: operator, at and current of a decision are those of its request"
    )
    assert decision.reason.strip(), f"{policy.name} gave no reason"
    assert decision.reason in decision.explain(), f"{policy.name}: the reason is lost in explain()"
    assert all(rejected.reason.strip() for rejected in decision.rejected), f"{policy.name} rejected without reason"
    assert decision.target not in [rejected.allocation for rejected in decision.rejected], (
        f"{policy.name} rejected what it chose: {decision.target}"
    )
    assert decode(Decision, encode(decision)) == decision, f"{policy.name}: the decision is lost in JSON"


@contextmanager
def _no_clocks(policy: Policy) -> Iterator[None]:
    """Let any look at a clock fail: the request's `at` is the only time that a plan may know.

    Other threads of the process have their own business with clocks.
    """
    planning = threading.current_thread()

    def refuse(clock: Callable[[], float]) -> float:
        if threading.current_thread() is not planning:
            return clock()
        raise AssertionError(f"{policy.name} reads a clock in plan(); `request.at` is the time")

    with ExitStack() as patches:
        for clock in _CLOCKS:
            patches.enter_context(mock.patch.object(time, clock, partial(refuse, getattr(time, clock))))
        yield


def _sizes() -> Iterator[tuple[Limits, Allocation]]:
    yield Limits(1, 1), Allocation(1)
    yield Limits(1, 2, _SHARES), Allocation(1, 0.55)
    yield Limits(1, 2, _SHARES), Allocation(1, 0.4)
    yield Limits(1, 2, _SHARES), Allocation(2, 1.0)
    yield Limits(2, 8), Allocation(5)
    yield Limits(2, 4, (0.5, 1.0)), Allocation(9, 0.3)  # outside the limits: above, and not a level
    yield Limits(2, 4, (0.5, 1.0)), Allocation(1, 1.0)  # outside the limits: below


def _requests(limits: Limits, current: Allocation, objective: Objective) -> Iterator[PlanRequest]:
    change = a_decision(Allocation(1, 0.4), Allocation(1, 0.55), at=995.0)
    for utilisation in (0.0, 0.3, 0.5, 0.6, 0.7, 0.95, 1.0, 1.3, 1e9, -1.0):
        yield a_request(limits=limits, current=current, objective=objective, utilisation=utilisation)
    yield a_request(limits=limits, current=current, objective=objective, recent=(change,))
    for rate, backlog in ((0.0, 0), (0.0, 10**12), (1e12, 10**15), (1e-9, 1), (1e300, 2**62)):
        yield a_request(
            limits=limits, current=current, objective=objective,
            arrival_rate_rows_per_second=rate, backlog_records=backlog,
        )  # fmt: skip
    for busy, pressure in ((0.0, 0.0), (1.0, 0.3), (1.0, 0.8), (0.2, 1.0)):
        yield a_request(limits=limits, current=current, objective=objective, busy_fraction=busy, back_pressure=pressure)
    for seconds in (0.0, 1e-9, 1e9):
        latency = LatencySummary(1, seconds, seconds, seconds, seconds, seconds, is_exact=False)
        yield a_request(limits=limits, current=current, objective=objective, latency=latency)


def _requests_without_data(limits: Limits, current: Allocation, objective: Objective) -> Iterator[PlanRequest]:
    nothing: dict[str, None] = dict.fromkeys(
        (
            "arrival_rate_rows_per_second", "processed_rows_per_second", "backlog_records", "utilisation",
            "cpu_used_cores", "cpu_throttled_fraction", "batch_seconds", "latency", "path_latency", "records_arrived",
            "records_done", "last_batch_id", "busy_fraction", "back_pressure",
        )
    )  # fmt: skip
    same = {"limits": limits, "current": current, "objective": objective}
    for quality in Quality:
        yield a_request(**same, quality=quality, missing=("everything: a test",), **nothing)
        if quality is not Quality.GOOD:
            for utilisation in (0.0, 0.1, 0.99):
                yield a_request(**same, quality=quality, utilisation=utilisation)
    yield a_request(**same, cluster=ClusterState(), **nothing)


def _same_size_requests(limits: Limits, current: Allocation, objective: Objective) -> Iterator[PlanRequest]:
    for utilisation in (None, 0.0, 0.6, 1.0):
        for quality in Quality:
            yield a_request(
                limits=limits, current=current, objective=objective, quality=quality, utilisation=utilisation
            )


# --- a run of looks --------------------------------------------------------------------------------------------


@dataclass
class _Query:
    """A query in micro-batches that each take 0.2 s and 2 ms a record, looked at every second."""

    limits: Limits
    has: Allocation
    at: float = 1000.0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    batches: int = 0
    done: int = 0

    def look(self, *, is_missing: bool = False) -> Look:
        """One second and one batch later; with nothing known where data are missing."""
        rows = int(self.rng.poisson(150.0 + 60.0 * math.sin(self.at / 7.0)))
        started, self.at = self.at, self.at + 1.0
        seconds = 0.2 + 0.002 * rows / self.has.capacity
        arrivals: FloatArray = np.sort(started + self.rng.random(rows))
        source = SourceProgress("check", str(self.done), str(self.done + rows), None, rows)
        self.done += rows
        self.batches += 1
        batch = BatchProgress(
            _OPERATOR, "query", "run", self.batches, started, started + seconds, rows, {}, (source,)
        )  # fmt: skip
        cluster = ClusterState(self.has, self.has, self.has)
        if is_missing:
            blank = Observation(_OPERATOR, self.at, 15.0, Quality.INCOMPLETE, cluster, missing=("a test",))
            return Look(Telemetry(_OPERATOR, self.at, faults=("a test",)), blank, (None,))
        seen = Observation(
            _OPERATOR, self.at, 15.0, Quality.GOOD, cluster,
            arrival_rate_rows_per_second=float(rows), processed_rows_per_second=float(rows), backlog_records=rows,
            utilisation=min(1.0, 0.1 + 0.002 * rows / self.has.capacity), batch_seconds=seconds,
            latency=LatencySummary(rows, seconds, seconds, 1.5 * seconds, 1.8 * seconds, 2.0 * seconds),
            records_arrived=self.done, records_done=self.done, last_batch_id=self.batches,
            busy_fraction=min(1.0, seconds), back_pressure=0.9 if self.at % 60.0 > 40.0 else 0.1,
        )  # fmt: skip
        return Look(Telemetry(_OPERATOR, self.at, (batch,)), seen, (arrivals,))


def _check_a_run(make: MakePolicy, seconds: int, *, reads_metrics: bool) -> None:
    limits = Limits(1, 2, _SHARES)
    for objective in (Objective("p95", 3.0), Objective("mean", 2.0), Objective()):
        one, other = _build(make, limits, objective), _build(make, limits, objective)
        if one is not None and other is not None:
            break
    assert one is not None
    assert other is not None
    first, second = _play(one, limits, objective, seconds), _play(other, limits, objective, seconds)
    assert [replace(d, decision_id="") for d in first] == [replace(d, decision_id="") for d in second], (
        f"{one.name}: two policies that saw the same decided differently"
    )
    for decision in first:
        assert limits.allows(decision.target), f"{one.name} went outside the limits: {decision.target}"
        if reads_metrics and decision.evidence.get("check") == "missing":
            assert not decision.is_change, f"{one.name} moved while data were missing"


def _play(policy: Policy, limits: Limits, objective: Objective, seconds: int) -> list[Decision]:
    """Show a policy a run with a gap in its data, carry its decisions out, and close it."""
    query = _Query(limits, limits.top)
    due, decisions, history = query.at, [], []
    watching = policy if isinstance(policy, WatchingPolicy) else None
    for second in range(seconds):
        is_missing = 0.6 * seconds <= second < 0.7 * seconds
        look = query.look(is_missing=is_missing)
        history.append(look.observation)
        if watching is not None:
            notes = watching.watch(look)
            assert all(isinstance(note, str) for note in notes), f"{policy.name}: notes are lines of text"
        if query.at >= due:
            due = query.at + policy.every_seconds
            request = PlanRequest(
                _OPERATOR, query.at, look.observation, query.has, limits, objective, (), tuple(history[-20:])
            )
            decision = _check_one(policy, request)
            if is_missing:
                decision = replace(decision, evidence={**decision.evidence, "check": "missing"})
            decisions.append(decision)
            query.has = decision.target if limits.allows(decision.target) and not is_missing else query.has
    _close(policy)
    return decisions
