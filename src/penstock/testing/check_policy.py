# SPDX-License-Identifier: Apache-2.0
"""What every policy must do, checked on any policy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from penstock.ports import Policy
from penstock.records import (
    Allocation,
    ClusterState,
    Decision,
    LatencySummary,
    Limits,
    Objective,
    PlanRequest,
    Quality,
    decode,
    encode,
)
from penstock.testing.fakes import a_decision, a_request


def check_policy(policy: Policy, *, reads_metrics: bool = True) -> None:
    """Check that a policy is pure, explains itself, holds on missing data and survives extreme values.

    Parameters
    ----------
    policy
        The policy.
    reads_metrics
        False for a policy that decides without measurements; it must then say the same whatever they are.
    """
    assert isinstance(policy.name, str), "name: settings and decisions need a text"
    assert policy.name, "name: settings and decisions need one"
    assert math.isfinite(policy.every_seconds), "every_seconds: must be a time"
    assert policy.every_seconds > 0, "every_seconds: must be positive"
    for request in _requests():
        _check_one(policy, request)
    for request in _requests_without_data():
        _check_one(policy, request)
        decision = policy.plan(request)
        if reads_metrics:
            assert not decision.is_change, (
                f"{policy.name} moved to {decision.target} on data that are missing or not good "
                f"(quality {request.observation.quality}, utilisation {request.observation.utilisation})"
            )
    if not reads_metrics:
        targets = {policy.plan(request).target for request in _same_size_requests()}
        assert len(targets) == 1, f"{policy.name} is said to read no metrics, yet they change its target: {targets}"


def _check_one(policy: Policy, request: PlanRequest) -> None:
    before = encode(request)
    first, second = policy.plan(request), policy.plan(request)
    assert encode(request) == before, f"{policy.name} changed its request"
    # Identifiers are new for every decision; all else must be the same.
    assert replace(first, decision_id="") == replace(second, decision_id=""), (
        f"{policy.name} is not pure: the same request gave\n{first}\nand\n{second}"
    )
    _check_explained(policy, request, first)


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


def _sizes() -> Iterator[tuple[Limits, Allocation]]:
    shares = (0.4, 0.55, 0.7, 0.85, 1.0)
    yield Limits(1, 1), Allocation(1)
    yield Limits(1, 2, shares), Allocation(1, 0.55)
    yield Limits(1, 2, shares), Allocation(1, 0.4)
    yield Limits(1, 2, shares), Allocation(2, 1.0)
    yield Limits(2, 8), Allocation(5)
    yield Limits(2, 4, (0.5, 1.0)), Allocation(9, 0.3)  # outside the limits: above, and no level
    yield Limits(2, 4, (0.5, 1.0)), Allocation(1, 1.0)  # outside the limits: below


def _requests() -> Iterator[PlanRequest]:
    change = a_decision(Allocation(1, 0.4), Allocation(1, 0.55), at=995.0)
    for limits, current in _sizes():
        for objective in (Objective(), Objective("mean", 0.5), Objective("p95", 2.0)):
            for utilisation in (0.0, 0.3, 0.5, 0.6, 0.7, 0.95, 1.0, 1.3, 1e9, -1.0):
                yield a_request(limits=limits, current=current, objective=objective, utilisation=utilisation)
        yield a_request(limits=limits, current=current, recent=(change,))
        for rate, backlog in ((0.0, 0), (0.0, 10**12), (1e12, 10**15), (1e-9, 1), (1e300, 2**62)):
            yield a_request(limits=limits, current=current, arrival_rate_rows_per_second=rate, backlog_records=backlog)
        for seconds in (0.0, 1e-9, 1e9):
            latency = LatencySummary(1, seconds, seconds, seconds, seconds, seconds, is_exact=False)
            yield a_request(limits=limits, current=current, latency=latency)


def _requests_without_data() -> Iterator[PlanRequest]:
    nothing: dict[str, None] = dict.fromkeys(
        (
            "arrival_rate_rows_per_second", "processed_rows_per_second", "backlog_records", "utilisation",
            "cpu_used_cores", "cpu_throttled_fraction", "batch_seconds", "latency", "records_arrived",
            "records_done", "last_batch_id",
        )
    )  # fmt: skip
    for limits, current in _sizes():
        for quality in Quality:
            yield a_request(limits=limits, current=current, quality=quality, missing=("everything: a test",), **nothing)
            if quality is not Quality.GOOD:
                for utilisation in (0.0, 0.1, 0.99):
                    yield a_request(limits=limits, current=current, quality=quality, utilisation=utilisation)
        yield a_request(limits=limits, current=current, cluster=ClusterState(), **nothing)


def _same_size_requests() -> Iterator[PlanRequest]:
    limits, current = Limits(1, 2, (0.5, 1.0)), Allocation(1, 0.5)
    for utilisation in (None, 0.0, 0.6, 1.0):
        for quality in Quality:
            yield a_request(limits=limits, current=current, quality=quality, utilisation=utilisation)
