# SPDX-License-Identifier: Apache-2.0
"""The sentence about an operator says of whom, what and why."""

from __future__ import annotations

from penstock.records import Allocation, ClusterState, Decision, Limits, Objective, Observation, PlanRequest, Quality
from penstock.service.all_there import AllThere
from penstock.service.why import why_now
from penstock.steering import NOTHING_ORDERED

HERE, MORE = Allocation(2), Allocation(3)


def seen(quality: Quality = Quality.GOOD, *missing: str) -> Observation:
    """The operator `matcher`, ten seconds after the epoch."""
    return Observation("matcher", 10.0, 15.0, quality, ClusterState(), missing=missing)


def why(observation: Observation | None, now: float = 11.0, trouble: str | None = None) -> str:
    """What is said of it without orders."""
    return why_now(observation, None, NOTHING_ORDERED, now=now, interval_seconds=1.0, trouble=trouble)


def test_data_that_are_incomplete_are_so_for_a_reason() -> None:
    """As after a takeover, when CPU was not measured over the window yet."""
    said = why(seen(Quality.INCOMPLETE, "utilisation: no CPU counters over 15 s yet", "latency: none", "more"))
    assert said == (
        "holding: the data of matcher are incomplete: utilisation: no CPU counters over 15 s yet; latency: none"
    )
    assert why(seen(Quality.STALE, "cpu: x", "stale: the operator was last heard of 12 s ago")).endswith(
        "the data of matcher are stale: the operator was last heard of 12 s ago"
    )


def test_an_operator_that_cannot_be_looked_at_is_said_to() -> None:
    """At once, with the cause; and also where nothing was ever seen of it."""
    assert why(seen(), 12.0, "its agent has gone") == "holding: nothing was heard of it for 2.00 s: its agent has gone"
    assert why(None, trouble="its agent has gone") == "nothing was seen of it yet: its agent has gone"
    assert why(seen(), 12.0) == "watching: nothing was decided yet"


def request(operator: str) -> PlanRequest:
    """A question about an operator that has two executors."""
    return PlanRequest(operator, 10.0, seen(), HERE, Limits(1, 4), Objective(), recent=(), history=())


def test_operators_wait_for_the_one_that_is_missing() -> None:
    """A change is held and what was wanted is kept; one that changes nothing says why as well."""
    guard = AllThere(["parser", "matcher"])
    guard.seen("parser")
    wanted = Decision("matcher", 10.0, "threshold", HERE, MORE, "busy")
    assert guard.check(wanted, request("matcher")) is wanted
    guard.seen("matcher")
    guard.missed("parser", "it is not connected")
    held = guard.check(wanted, request("matcher"))
    assert (held.target, held.reason) == (HERE, "busy")
    assert held.amended_by[-1].before == MORE
    assert held.amended_by[-1].reason == "parser is missing: it is not connected"
    calm = guard.check(Decision("matcher", 10.0, "threshold", HERE, HERE, "calm"), request("matcher"))
    assert calm.reason == "holding: parser is missing: it is not connected"
    guard.seen("parser")
    assert guard.check(wanted, request("matcher")) is wanted
