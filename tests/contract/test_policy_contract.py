# SPDX-License-Identifier: Apache-2.0
"""One suite for all policies, and the suite against policies that break it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.policies import policy_entries
from penstock.policies.fixed import FixedPolicy
from penstock.policies.threshold import ThresholdPolicy
from penstock.ports import Look, Policy, PolicyContext
from penstock.records import Allocation, Decision, PlanRequest
from penstock.testing import check_policy

READS_NO_METRICS = {"fixed", "schedule"}


@pytest.mark.parametrize("name", policy_entries())
def test_every_registered_policy_keeps_the_contract(name: str) -> None:
    """Whatever settings can name is pure, explains itself, holds on missing data, reads no clock and closes."""
    check_policy(policy_entries()[name].build, reads_metrics=name not in READS_NO_METRICS)


@pytest.mark.parametrize("policy", [ThresholdPolicy(0.9, 0.1), ThresholdPolicy(1.0, 0.99)])
def test_thresholds_anywhere_keep_the_contract(policy: Policy) -> None:
    """The threshold policy keeps the contract with other thresholds too."""
    check_policy(policy)


def test_a_fixed_allocation_keeps_the_contract() -> None:
    """A fixed policy with an allocation wants it whatever the metrics."""
    check_policy(FixedPolicy(Allocation(2, 0.55)), reads_metrics=False)


class Broken(ThresholdPolicy):
    """A threshold policy with one fault."""

    def __init__(self, fault: Callable[[Decision, PlanRequest], Decision]) -> None:
        super().__init__()
        object.__setattr__(self, "fault", fault)

    def plan(self, request: PlanRequest) -> Decision:
        """The decision with the fault in it."""
        fault: Callable[[Decision, PlanRequest], Decision] = object.__getattribute__(self, "fault")
        return fault(super().plan(request), request)


_numbers = itertools.count()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda d, r: replace(d, reason=f"number {next(_numbers)}"), "not pure"),
        (lambda d, r: replace(d, reason=" "), "no reason"),
        (lambda d, r: replace(d, policy="another"), "names 'another'"),
        (lambda d, r: replace(d, current=Allocation(77)), "those of its request"),
        (lambda d, r: replace(d, target=r.limits.top), "missing or not good|rejected what it chose"),
        (lambda d, r: replace(d, evidence={"utilisation": float("nan")}), "not pure|lost in JSON"),
        (lambda d, r: replace(d, evidence={"now": time.time()}), "reads a clock"),
        (lambda d, r: replace(d, target=Allocation(50), rejected=()) if d.is_change else d, "outside the limits"),
    ],
)
def test_the_suite_notices_broken_policies(fault: Callable[[Decision, PlanRequest], Decision], words: str) -> None:
    """The suite itself can fail: each broken promise is reported."""
    with pytest.raises(AssertionError, match=words):
        check_policy(Broken(fault))


class Learning:
    """A policy that watches, with one fault."""

    name, every_seconds = "learning", 5.0
    built = itertools.count()

    def __init__(self, context: PolicyContext, fault: str) -> None:
        self.fault, self.number = fault, next(self.built)
        self.end = threading.Event()
        self.has_seen = False

    def watch(self, look: Look) -> tuple[str, ...]:
        """Take note, and perhaps start a thread."""
        if self.fault == "leaves a thread" and not self.has_seen:
            threading.Thread(target=self.end.wait, args=(5.0,), daemon=True).start()
        self.has_seen = True
        return ()

    def plan(self, request: PlanRequest) -> Decision:
        """A hold, with a reason that differs where it must not."""
        reason = f"policy number {self.number}" if self.fault == "decides by chance" else "a test"
        return Decision(request.operator, request.at, self.name, request.current, request.current, reason)

    def close(self) -> None:
        """Complain where it is closed twice, or do nothing."""
        if self.fault == "closes once":
            assert not self.end.is_set(), "closed twice"
        if self.fault != "leaves a thread":
            self.end.set()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("leaves a thread", "leaves threads behind"),
        ("decides by chance", "decided differently"),
        ("closes once", "closed twice"),
    ],
)
def test_the_suite_notices_broken_learners(fault: str, words: str) -> None:
    """Policies that watch have promises of their own, and each broken one is reported."""
    with pytest.raises(AssertionError, match=words):
        check_policy(lambda context: Learning(context, fault))


def test_a_learner_without_faults_passes() -> None:
    """The suite does not complain about a policy that keeps every promise."""
    check_policy(lambda context: Learning(context, "none"))


class Forgetful(ThresholdPolicy):
    """Watches, and cannot be closed: the loop would never show it anything."""

    def watch(self, look: Look) -> tuple[str, ...]:
        """Take note of nothing."""
        return ()


class Silent(ThresholdPolicy):
    """Forgets to give its decision."""

    def plan(self, request: PlanRequest) -> Decision:
        """Think, and say nothing."""
        return None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Forgetful(), "watch: it comes with close"),
        (Silent(), "threshold gave None instead of a Decision"),
    ],
)
def test_the_suite_notices_what_is_missing(policy: Policy, words: str) -> None:
    """A part or a decision that is not there is a broken promise, not an error of the suite."""
    with pytest.raises(AssertionError, match=words):
        check_policy(policy)
