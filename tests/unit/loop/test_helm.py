# SPDX-License-Identifier: Apache-2.0
"""People steer a loop: every order is checked, written down, obeyed, and stays within the limits."""

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.loop.steered_loop import LIMITS, Steered, ToyPolicy, grows, shrinks

from penstock.errors import AdaptorError, ConfigurationError, SteeringError
from penstock.records import Allocation, Decision, Mode, PlanRequest
from penstock.steering import NOTHING_ORDERED, AuditAction, AuditEntry, PolicyChoice, SteeredMode


def test_a_paused_operator_is_watched_and_nothing_is_decided() -> None:
    """The policy sees every look, its wish is not carried out, and the hold says who paused it and why."""
    policy = ToyPolicy(grows)
    loop = Steered(policy)
    loop.helm.pause(by="ana", reason="deploying")
    loop.run(1005.0)
    assert loop.operators["a"].asked == []
    assert policy.looks == 5
    reasons = {d.reason for d in loop.store.decisions()}
    assert len(reasons) == 1
    assert reasons.pop().startswith("paused by ana since ")
    assert loop.store.decisions()[0].reason.endswith(": deploying")
    assert loop.store.decisions()[0].verb == "hold"


def test_a_resumed_operator_is_scaled_again_at_once() -> None:
    """After `resume` the next pass asks the policy."""
    loop = Steered(ToyPolicy(grows))
    loop.helm.pause(by="ana")
    loop.script[1004.0] = lambda: loop.helm.resume(by="ana")
    loop.run(1008.0)
    assert loop.operators["a"].asked[0].at == 1005.0


def test_a_paused_operator_gets_lost_executors_back() -> None:
    """A pause does not switch healing off."""
    loop = Steered(ToyPolicy(lambda _: Allocation(3, 1.0)))
    operator = loop.operators["a"]
    loop.script[1003.0] = lambda: loop.helm.pause(by="ana")

    def lose() -> None:
        operator.allocation = Allocation(1, 1.0)

    loop.script[1005.0] = lose
    loop.run(1012.0)
    assert operator.allocation == Allocation(3, 1.0)
    assert operator.asked[-1].decision_id is None  # healed, not decided


@pytest.mark.parametrize(
    ("mode", "wanted", "is_held"),
    [
        (SteeredMode.SCALE_IN_ONLY, grows, True),
        (SteeredMode.SCALE_IN_ONLY, shrinks, False),
        (SteeredMode.SCALE_OUT_ONLY, grows, False),
        (SteeredMode.SCALE_OUT_ONLY, shrinks, True),
    ],
)
def test_a_one_way_mode_holds_the_other_way(
    mode: SteeredMode, wanted: Callable[[PlanRequest], Allocation], is_held: bool
) -> None:
    """What goes the other way is amended to a hold that names the order; the rest is carried out."""
    loop = Steered(ToyPolicy(wanted))
    loop.helm.set_mode(mode, by="ana", reason="the night")
    loop.run(1010.0)
    assert (loop.operators["a"].asked == []) is is_held
    amendments = [a for d in loop.store.decisions() for a in d.amended_by if a.guard == "steering"]
    assert bool(amendments) is is_held
    assert all(f"{mode} by ana" in a.reason and "the night" in a.reason for a in amendments)


def test_recommend_decides_and_does_not_act() -> None:
    """Decisions are kept as recommendations; off again, they are carried out."""
    loop = Steered(ToyPolicy(grows))
    loop.helm.set_mode("recommend", by="ana")
    loop.script[1004.0] = lambda: loop.helm.set_mode("automatic", by="ana")
    loop.run(1008.0)
    decisions = loop.store.decisions(changes_only=True)
    assert {d.mode for d in decisions if d.at <= 1004.0} == {Mode.RECOMMEND}
    assert [action.at for action in loop.operators["a"].asked] == [1005.0, 1006.0]
    assert all(d.mode is Mode.ACT for d in decisions if d.at > 1004.0)
    assert loop.helm.state.of("a") == NOTHING_ORDERED  # nobody is named for what everybody has


def test_a_held_size_ends_by_itself_and_the_policy_goes_on() -> None:
    """The size is asked for at once, kept against the policy, and left when its time is over, with an audit entry."""
    loop = Steered(ToyPolicy(lambda _: Allocation(1, 0.5)))
    loop.helm.hold_size(4, 1.0, for_seconds=6.0, by="ana", reason="load test")
    loop.run(1012.0)
    asked = loop.operators["a"].asked
    assert [action.target for action in asked] == [Allocation(4, 1.0), Allocation(1, 0.5)]
    assert asked[1].at == 1006.0
    assert [e.action for e in loop.store.audit()] == [AuditAction.SIZE, AuditAction.SIZE_ENDED]
    assert loop.store.audit()[-1].by == "penstock"
    assert loop.helm.state.of("a").held is None
    reason = loop.store.decisions()[0].reason
    assert "size held by ana" in reason
    assert "load test" in reason


@pytest.mark.parametrize("step", [-900.0, 86_400.0])
def test_a_clock_that_is_set_neither_ends_nor_prolongs_a_held_size(step: float) -> None:
    """It is held for so many seconds, whatever the clock on the wall shows."""
    loop = Steered(ToyPolicy(lambda _: Allocation(1, 0.5)))
    loop.helm.hold_size(4, 1.0, for_seconds=6.0, by="ana")
    loop.look(3)
    loop.clock.set_by(step)
    loop.look(3)
    assert {d.policy for d in loop.store.decisions()} == {"steering"}
    loop.look(1)
    assert loop.store.decisions()[-1].policy == "toy"
    assert loop.store.audit()[-1].action is AuditAction.SIZE_ENDED


def test_a_held_size_comes_before_a_pause() -> None:
    """Who pauses and sets a size gets the size; when its time is over the pause is still in force."""
    loop = Steered(ToyPolicy(grows))
    loop.helm.pause(by="ana")
    loop.helm.hold_size(3, for_seconds=3.0, by="ana")
    loop.run(1010.0)
    assert [action.target for action in loop.operators["a"].asked] == [Allocation(3, 1.0)]
    assert loop.store.decisions()[-1].reason.startswith("paused by ana")


@pytest.mark.parametrize(
    ("executors", "share", "seconds", "what"),
    [
        (5, None, 60.0, "1 to 4 executors"),
        (0, None, 60.0, "1 to 4 executors"),
        (2, 0.7, 60.0, "0.5, 1"),
        (2, None, 0.0, "for_seconds"),
        (2, None, float("nan"), "for_seconds"),
        (2, None, 1e12, "for_seconds"),
    ],
)
def test_a_size_outside_the_limits_is_refused(executors: int, share: float | None, seconds: float, what: str) -> None:
    """The message names what is allowed; nothing is written down and nothing changes."""
    loop = Steered(ToyPolicy(grows))
    with pytest.raises(ConfigurationError, match=what):
        loop.helm.hold_size(executors, share, for_seconds=seconds, by="ana")
    assert loop.store.audit() == []
    assert not loop.helm.state.of("a").is_steered


def test_a_run_that_only_recommends_takes_no_size() -> None:
    """The settings' mode is a limit that nobody steers out of."""
    loop = Steered(ToyPolicy(grows), mode=Mode.RECOMMEND)
    with pytest.raises(SteeringError, match="mode recommend"):
        loop.helm.hold_size(2, for_seconds=60.0, by="ana")
    loop.helm.set_mode("automatic", by="ana")
    loop.run(1005.0)
    assert loop.operators["a"].asked == []


def test_an_order_is_for_one_operator_or_for_all() -> None:
    """An order for one leaves the others alone; one without a name is for all; an unknown name is refused."""
    loop = Steered(ToyPolicy(grows), names=("a", "b"))
    loop.helm.pause("a", by="ana")
    assert (loop.helm.state.of("a").paused is None, loop.helm.state.of("b").paused is None) == (False, True)
    loop.helm.pause(by="bob")
    assert loop.helm.state.of("b").paused is not None
    with pytest.raises(ConfigurationError, match="there is no 'c'"):
        loop.helm.pause("c", by="ana")
    with pytest.raises(ConfigurationError, match="name the one"):
        loop.helm.hold_size(2, for_seconds=60.0, by="ana")
    assert len(loop.store.audit()) == 2


def test_the_same_order_twice_is_written_down_once() -> None:
    """A pause of what is paused, by the same person for the same reason, changes nothing."""
    loop = Steered(ToyPolicy(grows))
    assert loop.helm.resume(by="ana") is None
    assert loop.helm.pause(by="ana") is not None
    assert loop.helm.pause(by="ana") is None
    assert loop.helm.set_mode("automatic", by="ana") is None
    assert [e.action for e in loop.store.audit()] == [AuditAction.PAUSE]
    assert loop.shown == loop.store.audit()


def test_an_order_that_cannot_be_written_down_is_not_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that fails leaves all as it was, the policy too."""
    policy = ToyPolicy(grows)
    loop = Steered(policy)

    def full(entry: AuditEntry) -> None:
        raise AdaptorError("the disk is full")

    monkeypatch.setattr(loop.store, "add_audit", full)
    for order in (
        lambda: loop.helm.pause(by="ana"),
        lambda: loop.helm.hold_size(2, for_seconds=9.0, by="ana"),
        lambda: loop.helm.replace_policy(PolicyChoice("toy"), by="ana"),
    ):
        with pytest.raises(AdaptorError):
            order()
    assert not loop.helm.state.of("a").is_steered
    loop.run(1003.0)
    assert loop.cycles["a"].policy is policy
    assert [p.closed for p in loop.built if isinstance(p, ToyPolicy)] == [1]


def test_a_dry_run_changes_nothing() -> None:
    """It says what the policy would decide now, within the limits, and closes it again."""
    policy = ToyPolicy(lambda request: request.current)
    loop = Steered(policy)
    found: list[tuple[Decision, ...]] = []
    loop.script[1004.0] = lambda: found.append(loop.helm.try_policy(PolicyChoice("toy")).would_decide)
    loop.run(1008.0)
    assert [d.target for d in found[0]] == [LIMITS.top]
    assert loop.store.audit() == []
    assert loop.operators["a"].asked == []
    assert loop.cycles["a"].policy is policy
    assert [p.closed for p in loop.built if isinstance(p, ToyPolicy)] == [1]


def test_a_policy_is_replaced_and_rolled_back() -> None:
    """The new one decides from the next pass on, the old one is kept by its name and can come back."""
    loop = Steered(ToyPolicy(lambda request: request.current))
    loop.script[1003.0] = lambda: loop.helm.replace_policy(PolicyChoice("fixed"), by="ana", reason="trial")
    loop.script[1006.0] = lambda: loop.helm.roll_back(by="ana")
    loop.run(1010.0)
    assert [e.action for e in loop.store.audit()] == [AuditAction.POLICY, AuditAction.POLICY_ROLLBACK]
    first, second = loop.store.audit()
    assert (first.before["policy"]["name"], first.after["policy"]["name"]) == ("threshold", "fixed")
    assert second.state.policy == PolicyChoice("threshold")
    assert second.state.previous == PolicyChoice("fixed")
    assert loop.cycles["a"].policy.name == "threshold"


def test_there_is_nothing_to_roll_back_to_before_a_change() -> None:
    """It is refused, with the reason."""
    loop = Steered(ToyPolicy(grows))
    with pytest.raises(SteeringError, match="nothing to roll back"):
        loop.helm.roll_back(by="ana")


def test_a_bad_policy_changes_nothing() -> None:
    """An unknown name or option is refused by the code that reads settings; the old one decides on."""
    policy = ToyPolicy(grows)
    loop = Steered(policy)
    for choice, what in (
        (PolicyChoice("meed"), "did you mean mead"),
        (PolicyChoice("threshold", {"uper": 1}), "upper"),
        (PolicyChoice("rules", rules="scale out nothing\n"), "begins with no rule"),
    ):
        with pytest.raises(ConfigurationError, match=what):
            loop.helm.replace_policy(choice, by="ana")
    assert loop.store.audit() == []
    loop.run(1002.0)
    assert loop.cycles["a"].policy is policy


def test_a_reset_policy_is_shown_nothing_of_the_past() -> None:
    """It is built anew, and its history begins with the next look."""
    loop = Steered(ToyPolicy(lambda request: request.current))
    loop.script[1002.0] = lambda: loop.helm.replace_policy(PolicyChoice("toy"), by="ana")
    loop.script[1006.0] = lambda: loop.helm.reset(by="ana", reason="other data")
    loop.run(1009.0)
    learnt, fresh = (p for p in loop.built if isinstance(p, ToyPolicy))
    assert learnt.closed == 1
    assert fresh.history[-2:] == [1, 2]
    assert loop.store.audit()[-1].action is AuditAction.RESET
    assert loop.store.audit()[-1].state.previous == PolicyChoice("threshold")


def test_orders_survive_a_controller() -> None:
    """Another controller on the same store goes on with the pause, the mode, the size and the policy."""
    loop = Steered(ToyPolicy(grows), names=("a", "b"))
    loop.helm.pause("a", by="ana", reason="deploying")
    loop.helm.set_mode("scale-in-only", "b", by="bob")
    loop.helm.hold_size(3, for_seconds=1000.0, operator="b", by="bob")
    loop.helm.replace_policy(PolicyChoice("fixed"), by="ana")
    after = Steered(ToyPolicy(grows), names=("a", "b"), store=loop.store)
    assert after.helm.state == loop.helm.state
    after.run(1003.0)
    assert after.operators["a"].asked == []
    assert [action.target for action in after.operators["b"].asked] == [Allocation(3, 1.0)]


def test_an_ended_loop_takes_no_orders() -> None:
    """It says so, and writes nothing down."""
    loop = Steered(ToyPolicy(grows))
    loop.run(1002.0)
    for order in (lambda: loop.helm.pause(by="ana"), lambda: loop.helm.replace_policy(PolicyChoice("fixed"), by="a")):
        with pytest.raises(SteeringError, match="ended"):
            order()
    assert loop.store.audit() == []


def test_a_size_is_held_for_a_second_at_least_and_for_thirty_days_at_most() -> None:
    """Both ends are allowed; what is beyond them is refused by name."""
    loop = Steered(ToyPolicy(grows))
    for seconds in (1.0, 30 * 86_400.0):
        assert loop.helm.hold_size(3, for_seconds=seconds, by="ana") is not None
    for seconds in (0.99, 30 * 86_400.0 + 1.0):
        with pytest.raises(ConfigurationError, match="between 1 and 2592000") as caught:
            loop.helm.hold_size(3, for_seconds=seconds, by="ana")
        assert caught.value.field == "for_seconds"


def test_another_order_neither_prolongs_nor_shortens_a_held_size() -> None:
    """Also where the clock was set between the two: the size has the seconds that it was ordered for."""
    loop = Steered(ToyPolicy(lambda _: Allocation(1, 0.5)), names=("a", "b"))
    loop.helm.hold_size(4, 1.0, for_seconds=6.0, operator="a", by="ana")
    loop.look(3)
    loop.clock.set_by(900.0)
    loop.helm.pause("b", by="bob")
    loop.look(3)
    assert {d.policy for d in loop.store.decisions("a")} == {"steering"}
    loop.look(1)
    assert loop.store.decisions("a")[-1].policy == "toy"


def test_who_orders_and_why_are_one_line_of_some_length() -> None:
    """A log and a terminal can show them: no control characters, and no more than they have room for."""
    loop = Steered(ToyPolicy(grows))
    entry = loop.helm.pause(by="a\x1b[31mna" + "a" * 100, reason="one\ntwo" + "x" * 1000)
    assert entry is not None
    assert (len(entry.by), len(entry.reason)) == (64, 500)
    assert entry.by.startswith("a [31mna")
    assert entry.reason.startswith("one two")
    nameless = loop.helm.resume(by="\n")
    assert nameless is not None
    assert nameless.by == "somebody"


def test_an_order_of_another_person_or_for_another_reason_is_written_down() -> None:
    """The last to say so is asked about it; the same once more is nothing new."""
    loop = Steered(ToyPolicy(grows))
    for order in (loop.helm.pause, partial(loop.helm.set_mode, "scale-in-only")):
        assert order(by="ana", reason="deploying") is not None
        assert order(by="ana", reason="deploying") is None
        assert order(by="bob", reason="deploying") is not None
        assert order(by="bob", reason="a test") is not None
    assert len(loop.store.audit()) == 6


def test_the_loop_does_not_wait_for_somebody_who_gives_an_order() -> None:
    """A size whose time is over while an order is being written down ends all the same; its entry comes afterwards."""
    loop = Steered(ToyPolicy(lambda _: Allocation(1, 0.5)))
    loop.helm.hold_size(4, 1.0, for_seconds=3.0, by="ana")
    with loop.helm._lock:  # somebody's order is under way
        loop.look(5)
    assert loop.operators["a"].allocation == Allocation(1, 0.5)
    assert [e.action for e in loop.store.audit()] == [AuditAction.SIZE]
    loop.look(1)
    assert [e.action for e in loop.store.audit()] == [AuditAction.SIZE, AuditAction.SIZE_ENDED]


def test_an_order_that_cannot_be_shown_is_in_force() -> None:
    """A view that breaks is no reason to refuse it."""
    loop = Steered(ToyPolicy(grows))

    def broken(entry: AuditEntry) -> None:
        raise RuntimeError("a view that breaks")

    loop.helm.on_audit = broken
    assert loop.helm.pause(by="ana") is not None
    assert loop.helm.state.of("a").paused is not None


def test_an_object_of_the_users_own_is_not_closed_when_it_is_refused() -> None:
    """It is theirs: they may hand it in again. One that was built for the order is closed."""
    loop = Steered(ToyPolicy(grows))
    own = ToyPolicy(lambda _: None)  # type: ignore[arg-type, return-value]
    refused: list[str] = []

    def order() -> None:
        with pytest.raises(ConfigurationError) as caught:
            loop.helm.replace_policy(PolicyChoice("own", is_object=True), by="ana", policy=own)
        refused.append(str(caught.value))

    loop.script[1002.0] = order
    loop.run(1004.0)
    assert "it must be an Allocation" in refused[0]
    assert own.closed == 0
    assert loop.store.audit() == []


def test_an_object_of_the_users_own_cannot_be_rolled_back_to() -> None:
    """Nobody can build it again; the message says what to do instead."""
    loop = Steered(ToyPolicy(grows))
    loop.helm.replace_policy(PolicyChoice("own", is_object=True), by="ana", policy=ToyPolicy(shrinks))
    loop.helm.replace_policy(PolicyChoice("fixed"), by="ana")
    with pytest.raises(SteeringError, match=r"own is an object of your own.*give it to replace_policy again"):
        loop.helm.roll_back(by="ana")


ORDERS = st.one_of(
    st.tuples(st.just("pause"), st.sampled_from([None, "a", "b"])),
    st.tuples(st.just("resume"), st.sampled_from([None, "a", "b"])),
    st.tuples(st.just("mode"), st.sampled_from([None, "a", "b"]), st.sampled_from(list(SteeredMode))),
    st.tuples(
        st.just("size"),
        st.sampled_from(["a", "b"]),
        st.integers(-1, 9),
        st.sampled_from([None, 0.3, 0.5, 1.0, 2.0]),
        st.floats(-1.0, 20.0),
    ),
    st.tuples(st.just("policy"), st.sampled_from(["fixed", "toy", "nothing"])),
    st.tuples(st.just("rollback")),
    st.tuples(st.just("reset")),
)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 18), ORDERS), max_size=8), st.integers(-3, 9), st.sampled_from([0.1, 0.5, 1.0])
)
def test_nothing_that_is_steered_leaves_the_limits(
    script: list[tuple[int, tuple[object, ...]]], wanted: int, share: float
) -> None:
    """Whatever is ordered and whatever the policy wants, what is asked for is within the limits, and every change of
    the state is in the audit."""
    loop = Steered(ToyPolicy(lambda request: Allocation(wanted, share)), names=("a", "b"))

    def give(order: tuple[object, ...]) -> None:
        helm, kind, rest = loop.helm, order[0], list(order[1:])
        try:
            if kind == "pause":
                helm.pause(rest[0], by="x")  # type: ignore[arg-type]
            elif kind == "resume":
                helm.resume(rest[0], by="x")  # type: ignore[arg-type]
            elif kind == "mode":
                helm.set_mode(rest[1], rest[0], by="x")  # type: ignore[arg-type]
            elif kind == "size":
                helm.hold_size(rest[1], rest[2], for_seconds=rest[3], operator=rest[0], by="x")  # type: ignore[arg-type]
            elif kind == "policy":
                helm.replace_policy(PolicyChoice(str(rest[0])), by="x")
            elif kind == "rollback":
                helm.roll_back(by="x")
            else:
                helm.reset(by="x")
        except (ConfigurationError, SteeringError):
            return

    before = loop.helm.state
    for at, order in script:
        loop.script[1000.0 + at] = lambda order=order: give(order)  # type: ignore[misc]
    loop.run(1020.0)
    for operator in loop.operators.values():
        assert all(LIMITS.allows(action.target) for action in operator.asked)
    entries = loop.store.audit()
    assert (entries[-1].state if entries else before) == loop.orders.state
