# SPDX-License-Identifier: Apache-2.0
"""One suite for all policies, and the suite against policies that break it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.plan import FixedPolicy, ThresholdPolicy, make_policy, policy_names
from penstock.ports import Policy
from penstock.records import Allocation, Decision, PlanRequest
from penstock.testing import check_policy

READS_NO_METRICS = {"fixed", "schedule"}


@pytest.mark.parametrize("name", policy_names())
def test_every_registered_policy_keeps_the_contract(name: str) -> None:
    """Whatever settings can name is pure, explains itself, holds on missing data and survives extremes."""
    check_policy(make_policy(name), reads_metrics=name not in READS_NO_METRICS)


@pytest.mark.parametrize("policy", [ThresholdPolicy(0.9, 0.1), ThresholdPolicy(1.0, 0.99)])
def test_thresholds_anywhere_keep_the_contract(policy: Policy) -> None:
    """The threshold policy keeps the contract with other thresholds too."""
    check_policy(policy)


def test_a_fixed_allocation_keeps_the_contract() -> None:
    """A fixed policy with an allocation wants it whatever the metrics."""
    check_policy(FixedPolicy(Allocation(2, 0.5)), reads_metrics=False)


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
    ],
)
def test_the_suite_notices_broken_policies(fault: Callable[[Decision, PlanRequest], Decision], words: str) -> None:
    """The suite itself can fail: each broken promise is told."""
    with pytest.raises(AssertionError, match=words):
        check_policy(Broken(fault))
