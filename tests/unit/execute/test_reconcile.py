# SPDX-License-Identifier: Apache-2.0
"""Planned, requested and observed kept apart, and brought together."""

from dataclasses import replace

import pytest

from penstock.errors import ActuationRejectedError
from penstock.execute import Reconciler
from penstock.execute.pause import PauseMeter, RestartPause
from penstock.ports import ProcessState
from penstock.records import (
    Action,
    Allocation,
    BatchProgress,
    CpuReading,
    Decision,
    ExecutorSize,
    ExecutorState,
    Limits,
    Outcome,
    OutcomeStatus,
    Refused,
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


def test_a_quota_that_follows_the_executors_is_theirs_alone() -> None:
    """With one of two executors there, a quota of half a core for that one means half a core for each."""
    reconciler = Reconciler("a", RecordingActuator(), LIMITS)
    reconciler.sync(a_look(0.0, 1), 0.0)
    reconciler.start(a_decision(Allocation(2, 0.5)), 0.0)
    look = a_look(1.0, 1, quota=0.5)
    assert look.cpu is not None
    reconciler.sync(replace(look, cpu=replace(look.cpu, executors=1)), 1.0)
    assert reconciler.state.observed == Allocation(1, 0.5)


def test_without_counters_the_cap_is_unknown_unless_nobody_can_set_one() -> None:
    """Planning waits for what it starts from; where executors cannot be held any more, they have all of their CPU."""
    reconciler = Reconciler("a", RecordingActuator(), LIMITS)
    silent = replace(a_look(0.0, 2), cpu=None)
    reconciler.sync(silent, 0.0)
    assert reconciler.state.observed is None
    reconciler.sync(replace(silent, why_no_shares="no agent holds executor 2"), 1.0)
    assert reconciler.state.observed == Allocation(2, 1.0)


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


def test_what_the_cluster_refuses_later_has_failed_at_once() -> None:
    """A request that will not come about ends with the cluster's reason; that of another request does not count."""
    reconciler = Reconciler("a", RecordingActuator(), LIMITS)
    reconciler.sync(a_look(0.0, 1), 0.0)
    action, _ = reconciler.start(a_decision(Allocation(1, 0.5)), 0.0)
    assert reconciler.sync(replace(a_look(1.0, 1), refused=Refused("another", "no room")), 1.0) == []
    (ended,) = reconciler.sync(replace(a_look(2.0, 1), refused=Refused(action.request_id, "no room")), 2.0)
    assert (ended.status, ended.detail) == (OutcomeStatus.FAILED, "no room")
    assert reconciler.current == Allocation(1, 1.0)


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


@pytest.mark.parametrize(("others", "share"), [(4.0, 0.5), (6.0, 0.5), (6.5, 1.0), (None, 1.0)])
def test_a_cap_of_ours_is_only_left_out_where_another_is_as_tight(others: float | None, share: float) -> None:
    """Three executors of four cores at a half are six cores: a container of more of them leaves our cap missing."""
    reconciler = Reconciler("a", RecordingActuator(), LIMITS, cores_per_executor=4)
    reconciler.sync(a_look(0.0, 3), 0.0)
    reconciler.start(a_decision(Allocation(3, 0.5)), 0.0)
    look = a_look(1.0, 3)
    assert look.cpu is not None
    reconciler.sync(replace(look, cpu=replace(look.cpu, parents_quota_cores=others)), 1.0)
    assert reconciler.state.observed == Allocation(3, share)


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
    """No status follows done, failed or superseded, whatever is observed afterwards."""
    actuator = RecordingActuator()
    reconciler = Reconciler("a", actuator, LIMITS, deadline_seconds=30.0)
    ended: dict[str, list[OutcomeStatus]] = {}

    def note(outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            ended.setdefault(outcome.request_id, []).append(outcome.status)

    note(reconciler.sync(a_look(0.0, 1), 0.0))
    note(reconciler.start(a_decision(Allocation(2, 1.0)), 0.0)[1])
    note(reconciler.start(a_decision(Allocation(3, 1.0)), 1.0)[1])
    note(reconciler.sync(a_look(40.0, 2), 40.0))
    note(reconciler.start(a_decision(Allocation(1, 1.0)), 41.0)[1])
    for at, executors in ((42.0, 1), (43.0, 3), (44.0, 2), (45.0, 1)):
        note(reconciler.sync(a_look(at, executors), at))
    assert list(ended.values()) == [[OutcomeStatus.SUPERSEDED], [OutcomeStatus.FAILED], [OutcomeStatus.DONE]]


# --- sizes and nodes -------------------------------------------------------------------------------------------

LARGE = ExecutorSize(2, "1g", worth=2.0)


class RestartingActuator(RecordingActuator):
    """Has a process whose size is set by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.process = ProcessState()


def a_batch(number: int, run_id: str, ended: float) -> BatchProgress:
    """A batch of one second."""
    return BatchProgress("a", "q", run_id, number, ended - 1.0, ended, 10, {}, ())


def with_batches(look: Telemetry, *batches: BatchProgress) -> Telemetry:
    """The look with these batches."""
    return replace(look, batches=batches)


def a_restart() -> tuple[RestartingActuator, Reconciler, Action]:
    """A restart with larger executors, asked for at 10."""
    actuator = RestartingActuator()
    limits = replace(LIMITS, sizes=(LARGE,))
    reconciler = Reconciler("a", actuator, limits, deadline_seconds=30.0, restart_deadline_seconds=300.0)
    reconciler.sync(with_batches(a_look(10.0, 1), a_batch(7, "old", 10.0)), 10.0)
    action, ended = reconciler.start(a_decision(Allocation(1, 1.0, LARGE)), 10.0)
    assert (ended, actuator.asked) == ([], [action])
    return actuator, reconciler, action


def test_a_restart_is_done_when_its_first_batch_is_and_its_pause_is_in_the_outcome() -> None:
    """Larger executors are not enough: the query must run. The pause is from the last batch to the first one."""
    actuator, reconciler, action = a_restart()
    assert reconciler.sync(with_batches(a_look(13.0, 1), a_batch(8, "old", 13.0)), 13.0) == []
    actuator.process = ProcessState(LARGE, "at a batch border")
    assert reconciler.sync(a_look(60.0, 1), 60.0) == [], "past the deadline of a live change"
    assert reconciler.state.observed == Allocation(1, 1.0, LARGE)
    (outcome,) = reconciler.sync(with_batches(a_look(70.0, 1), a_batch(9, "new", 70.0)), 70.0)
    assert (outcome.request_id, outcome.status) == (action.request_id, OutcomeStatus.DONE)
    assert outcome.detail == "stopped at a batch border, paused for 56 s (batch 8 to 9)"
    assert outcome.observed == Allocation(1, 1.0, LARGE)


def test_a_restart_that_did_not_come_about_has_failed_with_its_reason() -> None:
    """The operator has the size before again; planning goes on from there."""
    actuator, reconciler, _ = a_restart()
    actuator.process = ProcessState(None, "at a batch border", "it did not start with this size")
    (outcome,) = reconciler.sync(a_look(80.0, 1), 80.0)
    assert (outcome.status, outcome.detail) == (OutcomeStatus.FAILED, "it did not start with this size")
    assert reconciler.current == Allocation(1, 1.0)
    assert reconciler.heal(81.0) is None


def test_a_restart_has_a_deadline_of_its_own() -> None:
    """An old process that never ends is not waited for for ever."""
    _, reconciler, _ = a_restart()
    assert reconciler.sync(a_look(309.0, 1), 309.0) == []
    (outcome,) = reconciler.sync(a_look(310.0, 1), 310.0)
    assert outcome.detail == "not observed within 300 s"


def test_a_pause_that_cannot_be_measured_is_not_made_up() -> None:
    """Without a batch before the restart there is nothing to measure from."""
    actuator = RestartingActuator()
    reconciler = Reconciler("a", actuator, replace(LIMITS, sizes=(LARGE,)))
    reconciler.sync(a_look(0.0, 1), 0.0)
    reconciler.start(a_decision(Allocation(1, 1.0, LARGE)), 0.0)
    actuator.process = ProcessState(LARGE, "at a batch border")
    (outcome,) = reconciler.sync(with_batches(a_look(40.0, 1), a_batch(0, "new", 40.0)), 40.0)
    assert outcome.detail == "stopped at a batch border; its pause is not known"


def test_the_share_of_larger_executors_is_read_with_their_cores() -> None:
    """Two cores of a quota of one core are a half."""
    actuator = RestartingActuator()
    actuator.process = ProcessState(LARGE)
    reconciler = Reconciler("a", actuator, replace(LIMITS, sizes=(LARGE,)))
    reconciler.sync(a_look(0.0, 1, quota=1.0), 0.0)
    assert reconciler.state.observed == Allocation(1, 0.5, LARGE)


def test_nodes_are_observed_where_they_can_be_chosen() -> None:
    """Executors on the wrong node do not satisfy a plan that names nodes, and are asked for again."""
    actuator = RecordingActuator()
    limits = replace(LIMITS, nodes=("h", "other"))
    reconciler = Reconciler("a", actuator, limits)
    reconciler.sync(a_look(0.0, 2), 0.0)
    assert reconciler.state.observed == Allocation(2, 1.0, nodes=(("h", 2),))
    wanted = Allocation(2, 1.0, nodes=(("h", 1), ("other", 1)))
    reconciler.start(a_decision(wanted), 0.0)
    assert reconciler.sync(a_look(1.0, 2), 1.0) == []
    look = a_look(2.0, 2)
    assert look.executors is not None
    moved = replace(look, executors=(look.executors[0], replace(look.executors[1], host="other")))
    (outcome,) = reconciler.sync(moved, 2.0)
    assert outcome.status is OutcomeStatus.DONE
    reconciler.sync(a_look(3.0, 2), 3.0)
    assert reconciler.heal(3.0) is not None


def test_a_change_is_done_only_when_the_drained_executors_are_gone() -> None:
    """It is draining from when the executor takes no more work until it is no longer there."""
    reconciler = Reconciler("a", RecordingActuator(), LIMITS)
    reconciler.sync(a_look(0.0, 2), 0.0)
    action, _ = reconciler.start(a_decision(Allocation(1, 1.0)), 0.0)
    assert reconciler.sync(a_look(1.0, 2), 1.0) == []
    (draining,) = reconciler.sync(a_look(2.0, 2, draining=1), 2.0)
    assert (draining.status, draining.detail) == (OutcomeStatus.DRAINING, "executor 1")
    assert draining.observed == Allocation(1, 1.0)
    assert reconciler.sync(a_look(30.0, 2, draining=1), 30.0) == []
    assert reconciler.sync(a_look(35.0, None), 35.0) == []  # not seen is not gone
    (done,) = reconciler.sync(a_look(40.0, 1), 40.0)
    assert (done.status, done.after_seconds, done.request_id) == (OutcomeStatus.DONE, 40.0, action.request_id)


def test_a_drain_holds_up_neither_the_next_change_nor_healing() -> None:
    """A later change has its own outcome, and a lost executor is asked for again while another drains."""
    actuator = RecordingActuator()
    reconciler = Reconciler("a", actuator, LIMITS)
    reconciler.sync(a_look(0.0, 3), 0.0)
    first, _ = reconciler.start(a_decision(Allocation(2, 1.0)), 0.0)
    (draining,) = reconciler.sync(a_look(1.0, 3, draining=1), 1.0)
    assert draining.status is OutcomeStatus.DRAINING
    lost = a_look(2.0, 3, draining=1)
    assert lost.executors is not None
    reconciler.sync(replace(lost, executors=lost.executors[1:]), 2.0)
    assert reconciler.heal(2.0) is not None
    second, superseded = reconciler.start(a_decision(Allocation(1, 1.0)), 3.0)
    assert [outcome.status for outcome in superseded] == [OutcomeStatus.SUPERSEDED]  # the healing, not the drain
    (next_drain,) = reconciler.sync(a_look(4.0, 3, draining=2), 4.0)
    assert (next_drain.request_id, next_drain.detail) == (second.request_id, "executor 1")
    ended = reconciler.sync(a_look(50.0, 1), 50.0)
    assert {(o.request_id, o.status) for o in ended} == {
        (first.request_id, OutcomeStatus.DONE),
        (second.request_id, OutcomeStatus.DONE),
    }


def test_an_executor_that_will_not_go_is_a_failure_of_that_change_alone() -> None:
    """After the deadline the change has failed, and what is planned stays as it is."""
    reconciler = Reconciler("a", RecordingActuator(), LIMITS, deadline_seconds=90.0)
    reconciler.sync(a_look(0.0, 2), 0.0)
    reconciler.start(a_decision(Allocation(1, 1.0)), 0.0)
    reconciler.sync(a_look(1.0, 2, draining=1), 1.0)
    (failed,) = reconciler.sync(a_look(91.0, 2, draining=1), 91.0)
    assert (failed.status, failed.detail) == (OutcomeStatus.FAILED, "executor 1 did not go within 90 s")
    assert reconciler.state.planned == Allocation(1, 1.0)


def test_a_restart_ends_every_drain() -> None:
    """The next application's executors have the same numbers; those that drained went with the one before."""
    reconciler = Reconciler("a", RecordingActuator(), LIMITS)
    batch = BatchProgress("a", "q", "first", 0, 0.0, 1.0, 1, {}, ())
    reconciler.sync(replace(a_look(0.0, 2), batches=(batch,)), 0.0)
    reconciler.start(a_decision(Allocation(1, 1.0)), 0.0)
    reconciler.sync(a_look(1.0, 2, draining=1), 1.0)
    anew = replace(a_look(20.0, 2), batches=(replace(batch, batch_id=1, run_id="second"),))
    (done,) = reconciler.sync(anew, 20.0)
    assert done.status is OutcomeStatus.DONE


def test_unreadable_cpu_counters_leave_the_share_unknown() -> None:
    """A look without CPU counters shows no share: nothing is observed, healed or planned from it, and nothing ends."""
    actuator = RecordingActuator()
    reconciler = Reconciler("a", actuator, LIMITS)
    reconciler.sync(a_look(0.0, 1), 0.0)
    reconciler.start(a_decision(Allocation(1, 0.5)), 0.0)
    assert [o.status for o in reconciler.sync(a_look(1.0, 1, quota=0.5), 1.0)] == [OutcomeStatus.DONE]
    assert reconciler.sync(replace(a_look(2.0, 1), cpu=None), 2.0) == []
    assert reconciler.state.observed is None
    assert reconciler.current is None
    assert reconciler.heal(2.0) is None
    reconciler.sync(a_look(3.0, 1, quota=0.5), 3.0)
    assert reconciler.current == Allocation(1, 0.5)


def test_without_shares_no_counters_are_needed() -> None:
    """Where only executors are scaled, no executor is capped."""
    reconciler = Reconciler("a", RecordingActuator(), Limits(1, 3))
    reconciler.sync(replace(a_look(0.0, 2), cpu=None), 0.0)
    assert reconciler.current == Allocation(2, 1.0)


def test_a_plan_that_was_let_go_is_not_healed() -> None:
    """Somebody has opened the shares: the cap of the old plan does not come back by itself."""
    actuator = RecordingActuator()
    reconciler = Reconciler("a", actuator, LIMITS)
    reconciler.sync(a_look(0.0, 1), 0.0)
    reconciler.start(a_decision(Allocation(1, 0.5)), 0.0)
    reconciler.sync(a_look(1.0, 1, quota=0.5), 1.0)
    reconciler.let_go()
    reconciler.sync(a_look(2.0, 1), 2.0)
    assert reconciler.heal(2.0) is None
    assert reconciler.current == Allocation(1, 1.0)


def test_what_it_is_to_begin_with_is_asked_for_at_the_first_look() -> None:
    """As a plan that has drifted; planning starts from it, too."""
    actuator = RecordingActuator()
    reconciler = Reconciler("a", actuator, LIMITS, planned=Allocation(1))
    reconciler.sync(a_look(0.0, 3), 0.0)
    assert reconciler.current == Allocation(1)
    assert reconciler.heal(0.0) is not None
    assert [action.target for action in actuator.asked] == [Allocation(1)]


@pytest.mark.parametrize("runs", [("first", "second"), ("second", "first")])
def test_a_pause_is_between_runs_however_they_are_called(runs: tuple[str, str]) -> None:
    """The names of runs are random: the order of their letters says nothing. Batches of one run are no pause."""
    meter = PauseMeter()
    assert meter.add(a_batch(7, runs[0], 13.0)) is None
    assert meter.add(a_batch(8, runs[0], 15.0)) is None
    assert meter.add(a_batch(9, runs[1], 35.0)) == RestartPause(19.0, 8, 9)
    assert meter.run_id == runs[1]


def test_run_ids_are_compared_by_what_they_say() -> None:
    """Every batch comes with its own copy of the run's id: the same run is no pause, and no restart is over with it."""
    copies = ["".join(["o", "ld"]) for _ in range(2)]
    assert copies[0] is not copies[1]
    meter = PauseMeter()
    assert [meter.add(a_batch(number, run, 10.0)) for number, run in enumerate(copies)] == [None, None]
    actuator, reconciler, _ = a_restart()
    actuator.process = ProcessState(LARGE, "at a batch border")
    assert reconciler.sync(with_batches(a_look(13.0, 1), a_batch(8, copies[0], 13.0)), 13.0) == []


@pytest.mark.parametrize("share", [0.4, 0.55, 0.7, 0.85, 1.0])
def test_every_level_of_the_limits_is_read_from_its_quota(share: float) -> None:
    """Whatever share was set is the one observed, for one executor and for several."""
    for executors in (1, 3):
        reconciler = Reconciler("a", RecordingActuator(), Limits(1, 3, (0.4, 0.55, 0.7, 0.85, 1.0)))
        reconciler.sync(a_look(0.0, executors, quota=executors * share), 0.0)
        assert reconciler.state.observed == Allocation(executors, share)


def test_executors_that_have_gone_are_not_waited_for_by_a_later_change() -> None:
    """Of two that an earlier change drains one has gone: the later change waits for its own alone."""
    limits = Limits(1, 4)
    reconciler = Reconciler("a", RecordingActuator(), limits)
    reconciler.sync(a_look(0.0, 4), 0.0)
    reconciler.start(a_decision(Allocation(2, 1.0)), 0.0)
    (first,) = reconciler.sync(a_look(1.0, 4, draining=2), 1.0)
    assert first.detail == "executors 2, 3"
    reconciler.start(a_decision(Allocation(1, 1.0)), 2.0)
    (second,) = reconciler.sync(a_look(3.0, 3, draining=2), 3.0)  # number 3 has gone, number 1 is to go
    assert (second.status, second.detail) == (OutcomeStatus.DRAINING, "executor 1")
