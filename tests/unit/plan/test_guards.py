# SPDX-License-Identifier: Apache-2.0
"""Guards, one by one and in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.plan.guards import (
    Cooldown,
    HoldUntilSettled,
    NoOppositeWithin,
    NoScaleDownWhileDraining,
    WithinLimits,
    apply_guards,
    default_guards,
    guards_as_set,
)
from penstock.ports import Guard
from penstock.records import (
    Allocation,
    ClusterState,
    Decision,
    ExecutorSize,
    LatencySummary,
    Limits,
    Objective,
    PlanRequest,
    Quality,
)
from penstock.settings import GuardSettings
from penstock.testing import a_decision, a_request

LOW, MID, HIGH = Allocation(1, 0.4), Allocation(1, 0.55), Allocation(1, 0.7)
LARGE, HUGE = ExecutorSize(2, "1g", worth=2.0), ExecutorSize(4, "1g", worth=4.0)
NOW = 1000.0


def ask(guard: Guard, target: Allocation, **overrides: Any) -> Decision:
    """The guard's word on going from MID (or `current`) to `target`."""
    request = a_request(**{"current": MID, "at": NOW, **overrides})
    return guard.check(a_decision(request.current, target, at=NOW), request)


def went(before: Allocation, after: Allocation, seconds_ago: float) -> tuple[Decision, ...]:
    """A history of one change."""
    return (a_decision(before, after, at=NOW - seconds_ago),)


# --- within limits ---------------------------------------------------------------------------------------------


def test_limits_leave_what_is_allowed() -> None:
    """An allowed target stays, and nothing is noted."""
    assert ask(WithinLimits(), HIGH).amended_by == ()


def test_limits_clamp_what_is_not_and_say_so() -> None:
    """A target outside becomes the nearest inside; the amendment names guard, both sizes and the limits."""
    decision = ask(WithinLimits(), Allocation(9, 0.6))
    assert decision.target == Allocation(2, 0.7)
    (amendment,) = decision.amended_by
    assert (amendment.guard, amendment.before, amendment.after) == (
        "within limits",
        Allocation(9, 0.6),
        Allocation(2, 0.7),
    )
    assert amendment.reason == "allowed are 1 to 2 executors with CPU 40%, 55%, 70%, 85%, 100%"
    assert decision.reason == "a test wants it so", "the first reason is kept"


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (Allocation(1, 0.4, LARGE, (("a", 1),)), Allocation(1, 0.4, LARGE, (("a", 1),))),
        (Allocation(1, 0.4, HUGE), Allocation(1, 0.4)),
        (Allocation(3, 1.0, LARGE, (("a", 3),)), Allocation(2, 1.0, LARGE)),  # fewer executors: other places
        (Allocation(2, 1.0, None, (("a", 1), ("c", 1))), Allocation(2, 1.0)),
    ],
    ids=["all allowed", "no such size", "too many executors", "no such node"],
)
def test_limits_keep_size_and_nodes_where_they_are_allowed(wanted: Allocation, kept: Allocation) -> None:
    """What may stay stays; a size or node that is not allowed is left to the operator's own and to the cluster."""
    limits = Limits(1, 2, (0.4, 1.0), sizes=(LARGE,), nodes=("a", "b"))
    decision = ask(WithinLimits(), wanted, limits=limits)
    assert decision.target == kept
    assert all("2 cores, 1g" in a.reason or "on a, b" in a.reason for a in decision.amended_by)


# --- only good data --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quality", [q for q in Quality if q is not Quality.GOOD])
def test_bad_data_hold_either_way(quality: Quality) -> None:
    """Neither up nor down goes through on data that are not good; the reason says what they are."""
    for target in (LOW, HIGH):
        request = a_request(current=MID, at=NOW, quality=quality, missing=("cpu: unreadable",))
        decision = apply_guards(a_decision(MID, target, at=NOW), request, ())
        assert decision.target == MID
        (amendment,) = decision.amended_by
        assert amendment.guard == "only good data"
        assert amendment.reason == f"the data are {quality.value} (missing: cpu: unreadable)"


def test_good_data_pass_and_a_hold_is_no_amendment() -> None:
    """Good data change nothing; a decision that holds anyway is not amended, nor is one outside the limits."""
    for current, target, quality in (
        (MID, HIGH, Quality.GOOD),
        (MID, MID, Quality.STALE),
        (OUTSIDE, OUTSIDE, Quality.STALE),
    ):
        request = a_request(current=current, at=NOW, quality=quality)
        decision = apply_guards(a_decision(current, target, at=NOW), request, ())
        assert (decision.target, decision.amended_by) == (target, ())


# --- settled ---------------------------------------------------------------------------------------------------


def cluster(requested: int, observed: int | None) -> ClusterState:
    """A cluster asked for some executors that has others."""
    seen = None if observed is None else Allocation(observed)
    return ClusterState(Allocation(requested), Allocation(requested), seen)


@pytest.mark.parametrize(("observed", "words"), [(1, "1 are there"), (3, "3 are there"), (None, "an unknown number")])
def test_unsettled_executors_hold(observed: int | None, words: str) -> None:
    """While fewer, more or unknown executors are there than were asked for, further changes wait."""
    decision = ask(HoldUntilSettled(60), HIGH, cluster=cluster(2, observed), recent=went(LOW, MID, seconds_ago=59.9))
    assert decision.target == MID
    assert f"2 executors were asked for 59.9 s ago and {words}" in decision.amended_by[0].reason


def test_a_restart_under_way_holds() -> None:
    """While the operator has another size than was asked for, further changes wait, though executors are enough."""
    wanted, has = Allocation(1, 0.55, LARGE), Allocation(1, 0.55)
    state = ClusterState(wanted, wanted, has)
    limits = Limits(1, 2, (0.4, 0.55, 0.7), sizes=(LARGE,))
    changed = {"current": wanted, "limits": limits, "cluster": state, "recent": went(has, wanted, 5.0)}
    decision = ask(HoldUntilSettled(60), Allocation(1, 0.7, LARGE), **changed)
    assert decision.target == wanted
    assert "the restart with another size is not over" in decision.amended_by[0].reason


def test_a_restart_is_held_by_the_cooldown_and_by_an_opposite_change() -> None:
    """Larger executors are a scale-up to the guards, smaller ones a scale-down."""
    limits = Limits(1, 2, (0.4, 0.55, 0.7), sizes=(LARGE,))
    has, larger = Allocation(1, 0.55), Allocation(1, 0.55, LARGE)
    held = ask(Cooldown(10, 30), larger, current=has, limits=limits, recent=went(LOW, MID, 9.0))
    assert (held.target, held.amended_by[0].guard) == (has, "cooldown")
    held = ask(NoOppositeWithin(30), has, current=larger, limits=limits, recent=went(has, larger, 29.0))
    assert (held.target, held.amended_by[0].guard) == (larger, "no opposite change")
    held = ask(NoScaleDownWhileDraining(), has, current=larger, limits=limits, backlog_records=10**9)
    assert held.target == larger


@pytest.mark.parametrize(
    ("state", "seconds_ago"),
    [
        (cluster(2, 2), 5.0),  # settled
        (cluster(2, 1), 60.0),  # the bound: waited long enough
        (cluster(2, None), 1e6),
        (ClusterState(), 5.0),  # nothing was ever asked for
    ],
)
def test_settled_or_timed_out_goes_on(state: ClusterState, seconds_ago: float) -> None:
    """What has settled, or has had its time, holds nothing."""
    assert ask(HoldUntilSettled(60), HIGH, cluster=state, recent=went(LOW, MID, seconds_ago)).target == HIGH


def test_a_lost_executor_without_any_change_does_not_hold() -> None:
    """Without a change of ours there is no time to count from, so there is no hold that could last for ever."""
    assert ask(HoldUntilSettled(60), HIGH, cluster=cluster(2, 1)).target == HIGH


# --- draining --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        # 10 s of 1,000 rows/s are 10,000 records
        ({"backlog_records": 10_001}, "more than the arrivals of 10 s"),
        ({"backlog_records": 1, "arrival_rate_rows_per_second": 0.0}, "more than the arrivals"),
        ({"backlog_records": 1, "arrival_rate_rows_per_second": None}, "arrival rate is not known"),
        ({"backlog_records": None, "latency": None}, "neither backlog nor latency is known"),
        ({"backlog_records": None, "latency": LatencySummary(9, 10.1, 9, 9, 9, 9), "objective": Objective()},
         "records take 10.1 s on average"),
        ({"latency": LatencySummary(9, 1, 1, 2.1, 3, 3)}, "the objective (p95 <= 2.00 s) is broken: 2.10 s"),
    ],
)  # fmt: skip
def test_a_scale_down_waits_while_there_is_work_to_catch_up(overrides: dict[str, Any], words: str) -> None:
    """A large or unknown backlog, or a broken objective, holds a scale-down and lets a scale-up through."""
    guard = NoScaleDownWhileDraining(10)
    decision = ask(guard, LOW, **overrides)
    assert decision.target == MID
    assert words in decision.amended_by[0].reason
    assert ask(guard, HIGH, **overrides).amended_by == ()


@pytest.mark.parametrize(
    "overrides",
    [
        {"backlog_records": 10_000},
        {"backlog_records": 0, "arrival_rate_rows_per_second": None},
        {"backlog_records": 0, "arrival_rate_rows_per_second": 0.0, "latency": None},
        {"backlog_records": None},  # 0.3 s of mean latency: little is waiting
        {"objective": Objective()},
    ],
)
def test_a_calm_operator_may_shrink(overrides: dict[str, Any]) -> None:
    """With little or nothing waiting and the objective kept, a scale-down goes through."""
    assert ask(NoScaleDownWhileDraining(10), LOW, **overrides).target == LOW


# --- time ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "seconds_ago", "passes"),
    [(HIGH, 9.9, False), (HIGH, 10.0, True), (LOW, 29.9, False), (LOW, 30.0, True), (HIGH, 29.9, True)],
)
def test_cooldown_after_any_change(target: Allocation, seconds_ago: float, passes: bool) -> None:
    """After any change up waits 10 s and down waits 30 s, to the instant."""
    decision = ask(Cooldown(10, 30), target, recent=went(LOW, MID, seconds_ago))
    assert decision.target == (target if passes else MID)


def test_cooldown_without_history_passes() -> None:
    """The first change waits for nothing."""
    assert ask(Cooldown(10, 30), LOW).target == LOW


@pytest.mark.parametrize(
    ("last", "target", "seconds_ago", "passes"),
    [
        ((LOW, MID), LOW, 29.9, False),
        ((LOW, MID), LOW, 30.0, True),
        ((HIGH, MID), HIGH, 29.9, False),
        ((LOW, MID), HIGH, 0.0, True),  # the same way again is not opposite
        ((HIGH, MID), LOW, 0.0, True),
    ],
)
def test_opposite_changes_keep_their_distance(
    last: tuple[Allocation, Allocation], target: Allocation, seconds_ago: float, passes: bool
) -> None:
    """A change opposite to one inside the guard time is held; one the same way is not."""
    decision = ask(NoOppositeWithin(30), target, recent=went(*last, seconds_ago))
    assert decision.target == (target if passes else MID)


def test_a_move_to_other_nodes_is_opposite_to_nothing() -> None:
    """As many executors elsewhere are neither more nor less: what came before them may go either way."""
    limits = Limits(1, 3, (0.5, 1.0), nodes=("a", "b"))
    there, moved = Allocation(2, 1.0, nodes=(("a", 2),)), Allocation(2, 1.0, nodes=(("b", 2),))
    for target in (Allocation(3, 1.0, nodes=(("a", 1), ("b", 2))), Allocation(1, 1.0, nodes=(("b", 1),))):
        decision = ask(NoOppositeWithin(30.0), target, current=moved, limits=limits, recent=went(there, moved, 1.0))
        assert decision.target == target


def test_an_older_opposite_counts_behind_a_newer_same() -> None:
    """Every change inside the guard time counts, not the last alone."""
    history = (*went(HIGH, Allocation(1, 0.85), 20), *went(Allocation(1, 0.85), HIGH, 10))
    decision = ask(NoOppositeWithin(30), LOW, recent=history)
    assert decision.target == MID
    assert "a scale up was decided 20 s ago" in decision.amended_by[0].reason


def test_a_clock_set_back_does_not_hold_for_ever() -> None:
    """A change far in the future (the clock was set back a day) holds nothing; one just ahead does."""
    day_ahead, bit_ahead = went(LOW, MID, -86_400), went(LOW, MID, -5)
    for guard in (NoOppositeWithin(30), Cooldown(10, 30)):
        assert ask(guard, LOW, recent=day_ahead).target == LOW
        assert ask(guard, LOW, recent=bit_ahead).target == MID


# --- together --------------------------------------------------------------------------------------------------


def test_the_order_of_the_default_guards() -> None:
    """The cluster first, limits last; what is not good data never comes to them."""
    assert [guard.name for guard in default_guards()] == [
        "hold until settled",
        "no scale-down while draining",
        "cooldown",
        "no opposite change",
        "within limits",
    ]


def test_the_times_of_the_settings_are_those_of_the_guards() -> None:
    """Each setting reaches its own guard; where guards are switched off, the limits are kept all the same."""
    settings = GuardSettings(cooldown_up=1.0, cooldown_down=2.0, opposite=3.0, settle=4.0, drain=5.0)
    assert guards_as_set(settings) == (
        HoldUntilSettled(4.0),
        NoScaleDownWhileDraining(5.0),
        Cooldown(1.0, 2.0),
        NoOppositeWithin(3.0),
        WithinLimits(),
    )
    assert guards_as_set(None) == (WithinLimits(),)


class Greedy:
    """A guard that wants the sky."""

    name = "greedy"

    def check(self, decision: Decision, request: PlanRequest) -> Decision:
        """Everything."""
        return decision.amended(self.name, Allocation(1000, 1.0), "more")


def test_limits_win_over_any_guard_and_need_not_be_listed() -> None:
    """Limits are kept after the last guard, also when nobody lists them."""
    decision = apply_guards(a_decision(MID, HIGH), a_request(current=MID), [Greedy()])
    assert decision.target == Allocation(2, 1.0)
    assert [amendment.guard for amendment in decision.amended_by] == ["greedy", "within limits"]


def test_guards_judge_what_would_truly_be_asked_for() -> None:
    """A wish to grow that the limits turn into a shrinking is judged as a shrinking."""
    limits, current = Limits(1, 4, (0.4, 0.5, 1.0)), Allocation(2, 1.0)
    # wanted: 9 x 0.3 = 2.7 > 2.0, so up; allowed: 4 x 0.4 = 1.6 < 2.0, so down, ten seconds after an up
    recent = (a_decision(Allocation(1, 1.0), current, at=NOW - 10),)
    decision = apply_guards(
        a_decision(current, Allocation(9, 0.3)),
        a_request(limits=limits, current=current, at=NOW, recent=recent),
        [NoOppositeWithin(30)],
    )
    assert decision.target == current
    assert [amendment.guard for amendment in decision.amended_by] == ["within limits", "no opposite change"]


OUTSIDE = Allocation(5, 1.0)  # the limits of a_request end at 2 executors


@pytest.mark.parametrize(
    "disturb",
    [
        lambda: {"cluster": cluster(5, 4), "recent": went(Allocation(4), OUTSIDE, 1)},
        lambda: {"backlog_records": 10**9},
        lambda: {"recent": went(Allocation(4), OUTSIDE, 1)},
    ],
)
def test_the_way_into_the_limits_is_always_open(disturb: Callable[[], dict[str, Any]]) -> None:
    """On good data an operator outside its limits goes to their nearest edge, no further, whatever the guards hold."""
    request = a_request(current=OUTSIDE, at=NOW, **disturb())
    for wanted in (OUTSIDE, LOW, Allocation(6, 1.0)):
        assert apply_guards(a_decision(OUTSIDE, wanted), request, default_guards()).target == Allocation(2, 1.0)


def test_a_guard_alone_holds_at_the_edge_of_the_limits() -> None:
    """Holding an operator that is outside its limits means holding it at their edge, in one amendment."""
    decision = ask(NoScaleDownWhileDraining(), LOW, current=OUTSIDE, backlog_records=10**9)
    assert [amendment.after for amendment in decision.amended_by] == [Allocation(2, 1.0)]


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Cooldown(up_seconds=-1), "up_seconds"),
        (lambda: Cooldown(down_seconds=float("nan")), "down_seconds"),
        (lambda: NoOppositeWithin(float("inf")), "guard_seconds"),
        (lambda: HoldUntilSettled(-5), "timeout_seconds"),
        (lambda: NoScaleDownWhileDraining(-5), "backlog_seconds"),
    ],
)
def test_bad_times_are_refused_by_name(make: Callable[[], Guard], field: str) -> None:
    """A guard with a negative or endless time raises an error that names the field."""
    with pytest.raises(ConfigurationError, match=field) as caught:
        make()
    assert caught.value.field == field
