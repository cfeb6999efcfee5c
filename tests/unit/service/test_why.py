# SPDX-License-Identifier: Apache-2.0
"""The sentence about an operator says of whom, what and why."""

from __future__ import annotations

from dataclasses import replace

from penstock.knowledge import MemoryStore
from penstock.records import (
    Action,
    Allocation,
    ClusterState,
    Decision,
    Limits,
    Mode,
    Objective,
    Observation,
    Outcome,
    OutcomeStatus,
    PlanRequest,
    Quality,
)
from penstock.service.all_there import AllThere
from penstock.service.last_changes import FailedChange, LastChanges
from penstock.service.why import why_now
from penstock.steering import NOTHING_ORDERED, HeldSize, OperatorSteering, Order, time_of_day

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


ASKED = Action("matcher", 5.0, MORE, "d1", "r1")
BROKE = Outcome("r1", "matcher", 9.0, OutcomeStatus.FAILED, HERE, 4.0, "the cluster has no free cores")
FAILED = f"the last change, to {MORE}, failed at {time_of_day(9.0)}, after 4.00 s: the cluster has no free cores"


def why_failed(
    decision: Decision | None = None,
    steering: OperatorSteering = NOTHING_ORDERED,
    quality: Quality = Quality.GOOD,
    *,
    is_live: bool = True,
) -> str:
    """What is said of an operator that has two executors and did not get a third one."""
    observation = replace(seen(quality), cluster=ClusterState(None, MORE, HERE))
    failed = FailedChange(ASKED, BROKE)
    return why_now(observation, decision, steering, now=11.0, interval_seconds=1.0, is_live=is_live, failed=failed)


def test_a_change_that_failed_is_said_to_have_with_its_cause_and_what_comes_next() -> None:
    """Not that it is waited for: the policy decides anew, has decided since, or nothing can be decided now."""
    first = Decision("matcher", 9.0, "threshold", HERE, MORE, "busy", decision_id="d1")
    assert why_failed(first) == f"{FAILED}; next the policy decides from {HERE}, which is there"
    assert why_failed(first, is_live=False) == FAILED
    calm = Decision("matcher", 9.0, "threshold", HERE, HERE, "calm")
    assert why_failed(calm) == f"{FAILED}; now holding: calm"
    cooled = replace(first, decision_id="d2", at=10.0).amended("cooldown", HERE, "20 s are left")
    assert why_failed(cooled) == f"{FAILED}; now holding: cooldown: 20 s are left"
    assert why_failed(calm, quality=Quality.STALE).startswith(f"{FAILED}; now holding: the data of matcher are stale")
    advised = replace(first, decision_id="d3", at=10.0, mode=Mode.RECOMMEND)
    assert why_failed(advised) == f"{FAILED}; now recommends to scale out to {MORE}: busy"


def test_orders_say_what_they_make_of_a_change_that_failed() -> None:
    """A pause asks for nothing more; a held size is asked for again, unless the change was one before the order."""
    paused = OperatorSteering(paused=Order("ana", 10.0))
    assert why_failed(steering=paused).endswith(f"; {FAILED}; nothing is asked for until somebody resumes")
    held = OperatorSteering(held=HeldSize(MORE, 600.0, Order("ana", 4.0)))
    assert why_failed(steering=held).endswith(f"; {FAILED}; it is asked for again with the next decision")
    later = OperatorSteering(held=HeldSize(HERE, 600.0, Order("ana", 10.0)))
    assert why_failed(steering=later) == str(later.held)


def test_only_the_newest_change_is_told_to_have_failed() -> None:
    """What became of older ones does not matter, and a new one is waited for; a store says the same, also later."""
    live, kept, store = LastChanges(), LastChanges(), MemoryStore()
    kept.read(store, ["matcher"], 1.0)
    assert kept.failed("matcher") is None
    again = Action("matcher", 12.0, MORE, "d2", "r2")
    steps: list[tuple[Action | Outcome, bool]] = [
        (ASKED, False),
        (BROKE, True),
        (again, False),
        (replace(BROKE, at=13.0), False),
        (replace(BROKE, at=14.0, request_id="r2", status=OutcomeStatus.DRAINING), False),
        (replace(BROKE, at=15.0, request_id="r2", detail=""), True),
    ]
    for record, is_failed in steps:
        if isinstance(record, Action):
            live.begun(record)
            store.add_action(record)
        else:
            live.told(record)
            store.add_outcome(record)
        kept.read(store, ["matcher"], 1.0)
        fresh = LastChanges()
        fresh.read(store, ["matcher"], 1.0)
        assert [one.failed("matcher") is not None for one in (live, kept, fresh)] == [is_failed] * 3
    assert str(live.failed("matcher")).endswith("nobody has said why")
    of_next_run = LastChanges()
    of_next_run.read(store, ["matcher"], 100.0)
    assert of_next_run.failed("matcher") is None
