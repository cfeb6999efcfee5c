# SPDX-License-Identifier: Apache-2.0
"""Planned, requested and observed kept apart, and brought together."""

from dataclasses import replace

import pytest

from penstock.errors import ActuationRejectedError
from penstock.execute import Reconciler
from penstock.execute.transitions import check_transition
from penstock.records import (
    Action,
    Allocation,
    CpuReading,
    Decision,
    ExecutorState,
    Limits,
    OutcomeStatus,
    Telemetry,
)

LIMITS = Limits(1, 3, (0.5, 1.0))


class RecordingActuator:
    """Remembers what was asked for; refuses when told to."""

    can_set_cpu_share = True

    def __init__(self) -> None:
        self.asked: list[Action] = []
        self.released = 0
        self.refuses = False

    def request(self, action: Action) -> None:
        """Take a request."""
        if self.refuses:
            raise ActuationRejectedError("no more cores", target="fake")
        self.asked.append(action)

    def release(self) -> None:
        """Count releases."""
        self.released += 1


def a_look(at: float, executors: int | None, quota: float | None = None, draining: int = 0) -> Telemetry:
    """Telemetry with so many executors, the last `draining` of them going."""
    states = None
    if executors is not None:
        states = tuple(
            ExecutorState(str(i), "h", 1, True, 0, 0.0, is_draining=i >= executors - draining) for i in range(executors)
        )
    return Telemetry("a", at, executors=states, cpu=CpuReading(at, at, 0.0, quota, 1))


def a_decision(target: Allocation) -> Decision:
    """A decision for `target`."""
    return Decision("a", 0.0, "test", Allocation(1, 1.0), target, "because")


def test_an_action_is_done_when_it_is_observed() -> None:
    """Asked for two executors, it is pending until the second is seen."""
    actuator = RecordingActuator()
    reconciler = Reconciler("a", actuator, LIMITS)
    reconciler.sync(a_look(0.0, 1), 0.0)
    action, ended = reconciler.start(a_decision(Allocation(2, 1.0)), 0.0)
    assert ended == []
    assert actuator.asked == [action]
    assert reconciler.sync(a_look(1.0, 1), 1.0) == []
    assert reconciler.state.observed == Allocation(1, 1.0)
    assert reconciler.state.planned == reconciler.state.requested == Allocation(2, 1.0)
    (outcome,) = reconciler.sync(a_look(5.0, 2), 5.0)
    assert outcome.status is OutcomeStatus.DONE
    assert outcome.after_seconds == 5.0
    assert outcome.request_id == action.request_id


def test_a_draining_executor_no_longer_counts() -> None:
    """An executor chosen to go is not capacity any more."""
    reconciler = Reconciler("a", RecordingActuator(), LIMITS)
    reconciler.sync(a_look(0.0, 3, draining=1), 0.0)
    assert reconciler.state.observed == Allocation(2, 1.0)


def test_the_share_is_read_from_the_quota_asked_for() -> None:
    """With one of two executors there, a quota of one core still means half a core for each of two."""
    reconciler = Reconciler("a", RecordingActuator(), LIMITS)
    reconciler.sync(a_look(0.0, 1), 0.0)
    reconciler.start(a_decision(Allocation(2, 0.5)), 0.0)
    reconciler.sync(a_look(1.0, 1, quota=1.0), 1.0)
    assert reconciler.state.observed == Allocation(1, 0.5)


def test_what_never_comes_has_failed_and_planning_goes_on_from_the_truth() -> None:
    """After the deadline the plan is dropped and the observed size is the current one."""
    reconciler = Reconciler("a", RecordingActuator(), LIMITS, deadline_seconds=30.0)
    reconciler.sync(a_look(0.0, 1), 0.0)
    reconciler.start(a_decision(Allocation(3, 1.0)), 0.0)
    assert reconciler.sync(a_look(29.0, 2), 29.0) == []
    (outcome,) = reconciler.sync(a_look(31.0, 2), 31.0)
    assert outcome.status is OutcomeStatus.FAILED
    assert "30 s" in outcome.detail
    assert reconciler.state.planned is None
    assert reconciler.current == Allocation(2, 1.0)


def test_a_refusal_is_an_outcome_not_a_crash() -> None:
    """A request the outside refuses has failed with its words, and nothing is planned."""
    actuator = RecordingActuator()
    actuator.refuses = True
    reconciler = Reconciler("a", actuator, LIMITS)
    reconciler.sync(a_look(0.0, 1), 0.0)
    _, (outcome,) = reconciler.start(a_decision(Allocation(2, 1.0)), 0.0)
    assert outcome.status is OutcomeStatus.FAILED
    assert outcome.detail == "no more cores"
    assert reconciler.current == Allocation(1, 1.0)


def test_a_newer_action_supersedes_the_older() -> None:
    """The first of two actions under way ends as superseded."""
    reconciler = Reconciler("a", RecordingActuator(), LIMITS)
    reconciler.sync(a_look(0.0, 1), 0.0)
    first, _ = reconciler.start(a_decision(Allocation(2, 1.0)), 0.0)
    _, (outcome,) = reconciler.start(a_decision(Allocation(3, 1.0)), 1.0)
    assert outcome.status is OutcomeStatus.SUPERSEDED
    assert outcome.request_id == first.request_id


def test_a_lost_executor_is_asked_for_again() -> None:
    """Drift from the plan is healed without a decision."""
    actuator = RecordingActuator()
    reconciler = Reconciler("a", actuator, LIMITS)
    reconciler.sync(a_look(0.0, 1), 0.0)
    reconciler.start(a_decision(Allocation(2, 1.0)), 0.0)
    reconciler.sync(a_look(5.0, 2), 5.0)
    assert reconciler.heal(5.0) is None
    reconciler.sync(a_look(6.0, 1), 6.0)
    healed = reconciler.heal(6.0)
    assert healed is not None
    assert healed[0].decision_id is None
    assert actuator.asked[-1].target == Allocation(2, 1.0)
    assert reconciler.current == Allocation(2, 1.0)


def test_a_lost_executor_does_not_change_the_plan() -> None:
    """Planning goes on from what the operator is meant to have, not from what a crash left of it."""
    reconciler = Reconciler("a", RecordingActuator(), LIMITS)
    reconciler.sync(a_look(0.0, 3), 0.0)
    reconciler.start(a_decision(Allocation(3, 1.0)), 0.0)
    reconciler.sync(a_look(1.0, 3), 1.0)
    reconciler.sync(a_look(2.0, 1), 2.0)
    assert reconciler.current == Allocation(3, 1.0)


def test_no_cap_is_all_of_the_cpu_whatever_the_limits_say() -> None:
    """An uncapped operator whose largest share is a half is outside its limits, and is seen so."""
    reconciler = Reconciler("a", RecordingActuator(), Limits(1, 1, (0.25, 0.5)))
    reconciler.sync(a_look(0.0, 1), 0.0)
    assert reconciler.state.observed == Allocation(1, 1.0)


def test_a_tighter_cap_of_somebody_else_stands_for_ours() -> None:
    """Inside a container of two cores three whole executors are as good as reached."""
    reconciler = Reconciler("a", RecordingActuator(), LIMITS)
    reconciler.sync(a_look(0.0, 3), 0.0)
    reconciler.start(a_decision(Allocation(3, 1.0)), 0.0)
    look = a_look(1.0, 3)
    assert look.cpu is not None
    held = replace(look, cpu=replace(look.cpu, parents_quota_cores=2.0))
    (outcome,) = reconciler.sync(held, 1.0)
    assert outcome.status is OutcomeStatus.DONE


def test_executors_not_seen_are_not_none() -> None:
    """When executors cannot be read, nothing is observed and nothing is healed."""
    actuator = RecordingActuator()
    reconciler = Reconciler("a", actuator, LIMITS)
    reconciler.sync(a_look(0.0, 2), 0.0)
    reconciler.start(a_decision(Allocation(1, 1.0)), 0.0)
    reconciler.sync(a_look(1.0, 1), 1.0)
    reconciler.sync(a_look(2.0, None), 2.0)
    assert reconciler.state.observed is None
    assert reconciler.current is None
    assert reconciler.heal(2.0) is None


def test_release_forgets_the_plan() -> None:
    """After release nothing is planned and the actuator has put things back."""
    actuator = RecordingActuator()
    reconciler = Reconciler("a", actuator, LIMITS)
    reconciler.start(a_decision(Allocation(2, 1.0)), 0.0)
    reconciler.release()
    assert actuator.released == 1
    assert reconciler.state.planned is None


def test_an_ended_action_stays_ended() -> None:
    """No status follows done, failed or superseded."""
    for status in (OutcomeStatus.DONE, OutcomeStatus.FAILED, OutcomeStatus.SUPERSEDED):
        check_transition(OutcomeStatus.PENDING, status)
        with pytest.raises(ValueError):
            check_transition(status, OutcomeStatus.PENDING)
