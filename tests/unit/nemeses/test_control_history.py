# SPDX-License-Identifier: Apache-2.0
"""The checker of what controllers did finds a policy that always holds, wrong executors and shares, and a lost cap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.e2e.control_history import ControlHistory

from penstock.knowledge.sqlite import SqliteStore
from penstock.records import (
    Action,
    Allocation,
    ClusterState,
    Decision,
    Observation,
    Outcome,
    OutcomeStatus,
    Quality,
)

TOP, LESS, LEAST = Allocation(2, 1.0), Allocation(1, 1.0), Allocation(1, 0.5)
TAKEN_OVER = 100.0


def seen(at: float, observed: Allocation | None, operator: str = "number") -> Observation:
    """One look at an operator."""
    return Observation(operator, at, 10.0, Quality.GOOD, ClusterState(None, None, observed))


def decided(at: float, current: Allocation, target: Allocation) -> Decision:
    """What MEAD decides, under an id of the instant's."""
    return Decision("number", at, "mead", current, target, "because", decision_id=f"d{at:g}")


def asked(at: float, target: Allocation, decision: str | None = "") -> Action:
    """What is asked for at an instant, for the decision of the same one."""
    return Action("number", at, target, f"d{at:g}" if decision == "" else decision, request_id=f"r{at:g}")


def ended(action: Action, at: float, status: OutcomeStatus, observed: Allocation | None) -> Outcome:
    """What became of it."""
    return Outcome(action.request_id, action.operator, at, status, observed, at - action.at, "so it was")


SAVED, GREW = asked(110.0, LEAST), asked(130.0, TOP)
GOOD = ControlHistory(
    decisions=[decided(105.0, TOP, TOP), decided(110.0, TOP, LEAST), decided(130.0, LEAST, TOP)],
    actions=[SAVED, GREW],
    outcomes=[
        ended(SAVED, 112.0, OutcomeStatus.DRAINING, LEAST), ended(SAVED, 118.0, OutcomeStatus.DONE, LEAST),
        ended(GREW, 135.0, OutcomeStatus.DONE, TOP),
    ],
    observations=[
        seen(105.0, TOP), seen(110.0, TOP), seen(112.0, LEAST), seen(118.0, LEAST), seen(120.0, None),
        seen(129.0, LEAST), seen(130.0, LEAST), seen(133.0, LESS), seen(135.0, TOP), seen(140.0, TOP),
    ],
)  # fmt: skip


def test_what_was_decided_done_and_kept_is_good() -> None:
    """Nothing is found, and every change is counted by its way and its end."""
    assert GOOD.why_not_scaled("mead", ["number"], must_change=True) == []
    assert GOOD.wrong_allocations(TAKEN_OVER) == []
    assert GOOD.changes() == {"scale in": {"carried out": 1}, "scale out": {"carried out": 1}}


def test_changes_are_counted_by_what_became_of_them() -> None:
    """Also what failed, what was superseded, what nobody knows the end of, and executors that were asked for again."""
    failed, lost, healed = asked(50.0, LEAST), asked(60.0, LEAST), asked(70.0, LEAST, None)
    others = ControlHistory(
        [decided(50.0, TOP, LEAST), decided(60.0, LESS, LEAST)],
        [failed, lost, healed],
        [ended(failed, 55.0, OutcomeStatus.FAILED, TOP), ended(healed, 71.0, OutcomeStatus.SUPERSEDED, TOP)],
    )
    assert others.changes() == {
        "scale in": {"failed": 1}, "scale down": {"not known": 1}, "heal": {"superseded": 1},
    }  # fmt: skip


def test_a_policy_that_always_holds_has_not_scaled() -> None:
    """Its decisions are there, and nothing came of them; where a run is too short to rely on a change, that is well."""
    holding = replace(GOOD, decisions=GOOD.decisions[:1], actions=[], outcomes=[])
    assert holding.why_not_scaled("mead", ["number"], must_change=False) == []
    [why] = holding.why_not_scaled("mead", ["number"], must_change=True)
    assert why == "no change that mead decided on was carried out: {}"


@pytest.mark.parametrize("status", [None, OutcomeStatus.PENDING, OutcomeStatus.FAILED, OutcomeStatus.SUPERSEDED])
def test_changes_that_were_not_carried_out_do_not_count(status: OutcomeStatus | None) -> None:
    """Neither does one that only replaced what was lost."""
    healed = asked(70.0, TOP, None)
    outcomes = [ended(healed, 71.0, OutcomeStatus.DONE, TOP)]
    outcomes += [] if status is None else [ended(SAVED, 112.0, status, TOP)]
    history = replace(GOOD, actions=[healed, SAVED], outcomes=outcomes)
    assert "no change that mead decided on was carried out" in history.why_not_scaled(
        "mead", ["number"], must_change=True
    )[0]  # fmt: skip


def test_another_policy_and_an_operator_that_was_forgotten_are_named() -> None:
    """Every operator has decisions, and all of them are the policy's."""
    other = replace(GOOD.decisions[0], policy="threshold")
    history = replace(GOOD, decisions=[*GOOD.decisions, other])
    assert history.why_not_scaled("mead", ["number", "keeper"], must_change=True) == [
        "mead has decided nothing about keeper", "threshold has decided",
    ]  # fmt: skip


@pytest.mark.parametrize("there", [Allocation(1, 1.0), Allocation(2, 0.5), None])
def test_what_was_not_there_when_it_was_said_to_be_is_named(there: Allocation | None) -> None:
    """A wrong share, wrong executors, or nothing known: in the outcome, and in the look of the same pass."""
    by_outcome = replace(GOOD, outcomes=[ended(SAVED, 112.0, OutcomeStatus.DONE, there)])
    assert any("was said to be done" in why for why in by_outcome.wrong_allocations(TAKEN_OVER))
    assert any("was said to be done" in why for why in by_outcome.why_not_scaled("mead", ["number"], must_change=True))
    looks = [seen(112.0, there) if look.at == 112.0 else look for look in GOOD.observations]
    by_look = replace(GOOD, observations=looks)
    assert any("was said to be draining" in why for why in by_look.wrong_allocations(TAKEN_OVER))


def test_a_cap_that_was_lost_is_named() -> None:
    """It was carried out, and later all of the CPU was there, before anybody had asked for more."""
    looks = [seen(125.0, LESS) if look.at == 129.0 else look for look in GOOD.observations]
    [why] = replace(GOOD, observations=looks).wrong_allocations(TAKEN_OVER)
    assert why == f"number: {LESS} was there 13 s after {LEAST} had come, and nothing was done"


def test_a_cap_that_was_lost_after_the_last_action_is_named() -> None:
    """To the end of the run the operator has what was carried out last."""
    saved = replace(
        GOOD, actions=[SAVED], outcomes=GOOD.outcomes[:2],
        observations=[seen(112.0, LEAST), seen(118.0, LEAST), seen(150.0, LESS)],
    )  # fmt: skip
    assert len(saved.wrong_allocations(TAKEN_OVER)) == 1


def test_what_is_asked_for_again_at_once_is_no_fault() -> None:
    """An executor was lost: the look that shows it is that of the pass that asks for it again."""
    healed = asked(150.0, TOP, None)
    lost = replace(
        GOOD, actions=[*GOOD.actions, healed],
        outcomes=[*GOOD.outcomes, ended(healed, 160.0, OutcomeStatus.DONE, TOP)],
        observations=[*GOOD.observations, seen(150.0, LESS), seen(155.0, LESS), seen(160.0, TOP)],
    )  # fmt: skip
    assert lost.wrong_allocations(TAKEN_OVER) == []


@pytest.mark.parametrize("status", [OutcomeStatus.FAILED, OutcomeStatus.SUPERSEDED])
def test_a_last_action_that_was_not_carried_out_is_named(status: OutcomeStatus) -> None:
    """Nothing supersedes the last one, and one that failed leaves the operator with something else."""
    history = replace(GOOD, outcomes=[*GOOD.outcomes[:2], ended(GREW, 135.0, status, LESS)])
    [why] = history.wrong_allocations(TAKEN_OVER)
    assert why == f"number: the last action, {TOP}, {status}: so it was"


def test_a_last_action_whose_executors_drain_for_too_long_has_what_it_asked_for() -> None:
    """It was reached when the executors were draining; that they stay longer is said besides."""
    stays = [ended(SAVED, 112.0, OutcomeStatus.DRAINING, LEAST), ended(SAVED, 118.0, OutcomeStatus.FAILED, LEAST)]
    history = replace(GOOD, actions=[SAVED], outcomes=stays, observations=GOOD.observations[:4])
    assert history.wrong_allocations(TAKEN_OVER) == []


def test_an_action_that_nobody_speaks_of_again_is_named() -> None:
    """The last one may have been under way when the run ended; those before it have come to an end."""
    assert replace(GOOD, outcomes=GOOD.outcomes[:2]).wrong_allocations(TAKEN_OVER) == []
    [why] = replace(GOOD, outcomes=GOOD.outcomes[2:]).wrong_allocations(TAKEN_OVER)
    assert why == f"number: nobody has said what became of {LEAST}"


def test_what_a_controller_left_that_died_is_not_the_next_ones_fault() -> None:
    """Its caps are lifted, and what it has asked for may not come any more."""
    assert GOOD.wrong_allocations(since=200.0) == []
    lifted = replace(GOOD, observations=[*GOOD.observations, seen(210.0, LESS)])
    assert lifted.wrong_allocations(since=200.0) == []
    assert lifted.wrong_allocations(TAKEN_OVER) != []


def test_a_history_is_read_from_the_folder_of_a_run(tmp_path: Path) -> None:
    """Everything that the controllers have kept, in its order."""
    store = SqliteStore(tmp_path / "knowledge.sqlite")
    for decision in GOOD.decisions:
        store.add_decision(decision)
    for action in GOOD.actions:
        store.add_action(action)
    for outcome in GOOD.outcomes:
        store.add_outcome(outcome)
    for look in GOOD.observations:
        store.add_observation(look)
    store.close()
    assert ControlHistory.read(tmp_path) == GOOD
