# SPDX-License-Identifier: Apache-2.0
"""What every knowledge store must do, checked on any store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from penstock.errors import ConfigurationError
from penstock.ports import KnowledgeStore
from penstock.records import (
    Action,
    Allocation,
    Amendment,
    Decision,
    Mode,
    Observation,
    Outcome,
    OutcomeStatus,
    Quality,
    Rejected,
    StageTime,
)
from penstock.steering import (
    AuditAction,
    AuditEntry,
    HeldSize,
    OperatorSteering,
    Order,
    PolicyChoice,
    SteeredMode,
    SteeringState,
)
from penstock.testing.fakes import a_decision, an_observation

MakeStore = Callable[[int], KnowledgeStore]
_Kept = Observation | Decision | Action | Outcome | StageTime | AuditEntry
_ROOMY = 10_000


def check_store(make_store: MakeStore) -> None:
    """Check that a store keeps, orders, filters and bounds every kind of record, also under threads.

    Parameters
    ----------
    make_store
        Gives an empty store that keeps as many records of each kind as its argument says; called once per check.
    """
    for check in STORE_CHECKS:
        check(make_store)


def an_empty_store_has_nothing(make_store: MakeStore) -> None:
    """Reads from an empty store give nothing, and an unknown fact is None."""
    store = make_store(_ROOMY)
    for read in _reads(store):
        assert read() == [], f"an empty store gave {read()}"
    assert store.fact("settings") is None, "an unknown fact is None"
    store.close()


def records_come_back_equal(make_store: MakeStore) -> None:
    """Every field of every kind of record is there again, None as None."""
    store = make_store(_ROOMY)
    observations = [
        an_observation(at=1.0),
        an_observation(at=2.0, quality=Quality.INCOMPLETE, utilisation=None, latency=None, missing=("cpu: no rights",)),
    ]
    one, two = Allocation(1, 0.55), Allocation(2, 0.7)
    decision = Decision(
        "operator", 3.0, "threshold", one, one, "busy \N{GREEK SMALL LETTER LAMDA}\n'quoted' \"twice\"",
        evidence={"utilisation": 0.9, "backlog_records": 12, "latency_seconds": None, "quality": "good"},
        rejected=(Rejected(two, "too much"),),
        amended_by=(Amendment("cooldown", two, one, "too soon"),),
        mode=Mode.RECOMMEND,
    )  # fmt: skip
    action = Action("operator", 4.0, two, decision.decision_id)
    outcomes = [
        Outcome(action.request_id, "operator", 5.0, OutcomeStatus.PENDING, None, 1.0),
        Outcome(action.request_id, "operator", 9.0, OutcomeStatus.DONE, two, 5.0, "there"),
    ]
    times = [StageTime(1.0, "plan", 0.01), StageTime(1.0, "execute", 0.2)]
    for observation in observations:
        store.add_observation(observation)
    store.add_decision(decision)
    store.add_action(action)
    for outcome in outcomes:
        store.add_outcome(outcome)
    store.add_stage_times(times)
    store.add_stage_times([])
    _same(store.observations(), observations)
    _same(store.decisions(), [decision])
    _same(store.actions(), [action])
    _same(store.outcomes(), outcomes)
    _same(store.stage_times(), times)
    store.close()


def orders_come_back_equal(make_store: MakeStore) -> None:
    """An entry of the audit is there again with the whole state after it; an operator has those for all as well."""
    store = make_store(_ROOMY)
    order = Order("ana", 1.0, "a \N{GREEK SMALL LETTER LAMDA} 'quoted'")
    held = HeldSize(Allocation(2, 0.7), 60.0, order)
    state = SteeringState(
        {"parser": OperatorSteering(order, SteeredMode.SCALE_IN_ONLY, order, held), "counter": OperatorSteering()},
        PolicyChoice("threshold", {"upper": 0.8, "every_seconds": None, "names": ["a", 1]}, rules="a rule"),
        PolicyChoice("mine", is_object=True),
    )
    whole, part, other = (
        AuditEntry(at, "ana", action, operator, "", {"parser": {"paused": None}}, {"policy": {"name": "x"}}, state)
        for at, action, operator in (
            (1.0, AuditAction.PAUSE, None),
            (2.0, AuditAction.SIZE, "parser"),
            (3.0, AuditAction.POLICY_ROLLBACK, "counter"),
        )
    )
    for entry in (whole, part, other):
        store.add_audit(entry)
    _same(store.audit(), [whole, part, other])
    _same(store.audit("parser"), [whole, part])
    _same(store.audit("counter", since=2.0), [other])
    _same(store.audit("matcher"), [whole])
    _same(store.audit("parser", before=2.0), [whole])
    store.close()


def reads_give_the_newest_oldest_first(make_store: MakeStore) -> None:
    """A limit keeps the newest records, in the order in which they were added."""
    store = make_store(_ROOMY)
    for at in range(10):
        _add_all(store, float(at))
    for read in _reads(store):
        _same_times(read(limit=3), [7.0, 8.0, 9.0])
        _same_times(read(limit=100), [float(at) for at in range(10)])
        assert read(limit=0) == [], "limit=0 asks for nothing"
        assert _fault_of(read, limit=-1) == "limit", "limit=-1 must raise a ConfigurationError that names it"
    store.close()


def since_counts_from_its_instant_on(make_store: MakeStore) -> None:
    """`since` takes records at or after that instant, and goes together with the limit."""
    store = make_store(_ROOMY)
    for at in range(10):
        _add_all(store, float(at))
    for read in _reads(store):
        _same_times(read(since=7.0), [7.0, 8.0, 9.0])
        _same_times(read(since=6.5, limit=2), [8.0, 9.0])
        _same_times(read(since=100.0), [])
    store.close()


def before_ends_ahead_of_its_instant(make_store: MakeStore) -> None:
    """`before` leaves out records at and after that instant; the limit counts what is left."""
    store = make_store(_ROOMY)
    for at in range(10):
        _add_all(store, float(at))
    for read in (store.observations, store.decisions, store.audit):
        _same_times(read(before=3.0), [0.0, 1.0, 2.0])
        _same_times(read(before=7.5, limit=2), [6.0, 7.0])
        _same_times(read("operator", since=4.0, before=6.0), [4.0, 5.0])
        _same_times(read(before=0.0), [])
    store.close()


def operators_are_kept_apart(make_store: MakeStore) -> None:
    """Reading by operator gives that operator's records alone; without one, all."""
    store = make_store(_ROOMY)
    for at in range(6):
        _add_all(store, float(at), operator="parser" if at % 2 else "counter")
    for read in (store.observations, store.decisions, store.actions, store.outcomes, store.audit):
        _same_times(read("parser"), [1.0, 3.0, 5.0])
        _same_times(read("counter", limit=2), [2.0, 4.0])
        _same_times(read("matcher"), [])
        _same_times(read(), [float(at) for at in range(6)])
    store.close()


def changes_only_leaves_holds_out(make_store: MakeStore) -> None:
    """`changes_only` gives decisions that change something; the limit counts those alone."""
    store = make_store(_ROOMY)
    small, large = Allocation(1), Allocation(2)
    for at in range(12):
        store.add_decision(
            a_decision(small, large if at % 4 == 0 else small, at=float(at), operator="b" if at % 8 == 0 else "a")
        )
    # at % 4 == 0: changes at 0, 4, 8; of these 0 and 8 are divisible by eight: operator "b", 4 is "a"
    _same_times(store.decisions(changes_only=True), [0.0, 4.0, 8.0])
    _same_times(store.decisions(changes_only=True, limit=2), [4.0, 8.0])
    _same_times(store.decisions("b", changes_only=True), [0.0, 8.0])
    _same_times(store.decisions("a", changes_only=True, since=1.0), [4.0])
    assert len(store.decisions()) == 12, "without changes_only holds are there too"
    assert all(d.is_change for d in store.decisions(changes_only=True)), "a hold came as a change"
    store.close()


def history_is_bounded(make_store: MakeStore) -> None:
    """Of each kind only the newest records up to the bound are kept."""
    store = make_store(25)
    for at in range(1000):
        _add_all(store, float(at))
    for read in _reads(store):
        _same_times(read(limit=_ROOMY), [float(at) for at in range(975, 1000)])
    store.add_stage_times([StageTime(float(at), "plan", 0.1) for at in range(2000, 2100)])
    _same_times(store.stage_times(limit=_ROOMY), [float(at) for at in range(2075, 2100)])
    store.close()


def facts_are_replaced(make_store: MakeStore) -> None:
    """A fact holds the text last set under its name."""
    store = make_store(_ROOMY)
    store.set_fact("settings", "{}")
    store.set_fact("summary", "")
    store.set_fact("settings", "executors: 2")
    assert store.fact("settings") == "executors: 2", "a second value replaces the first"
    assert store.fact("summary") == "", "an empty text is a text, not an absent one"
    store.close()


def threads_lose_nothing(make_store: MakeStore) -> None:
    """Several threads add and read at once: every record is there once, each thread's in its order."""
    store = make_store(_ROOMY)
    faults: list[BaseException] = []

    def add(name: str) -> None:
        try:
            for at in range(100):
                _add_all(store, float(at), operator=name)
                store.set_fact(name, str(at))
        except BaseException as fault:  # raised below: a thread's failure must fail the check
            faults.append(fault)

    def read() -> None:
        try:
            for _ in range(30):
                for each in _reads(store):
                    each(limit=20)
        except BaseException as fault:  # raised below
            faults.append(fault)

    names = ["a", "b", "c", "d"]
    threads = [threading.Thread(target=add, args=(name,)) for name in names] + [threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, f"a thread failed: {faults[0]!r}"
    for name in names:
        for of_operator in (store.observations, store.decisions, store.actions, store.outcomes, store.audit):
            _same_times(of_operator(name), [float(at) for at in range(100)])
        assert store.fact(name) == "99", f"the last fact of thread {name} is {store.fact(name)}"
    assert len(store.stage_times()) == 400, f"{len(store.stage_times())} stage times; four threads added 100 each"
    store.close()


def close_may_come_twice(make_store: MakeStore) -> None:
    """Closing a closed store does nothing."""
    store = make_store(_ROOMY)
    _add_all(store, 1.0)
    store.close()
    store.close()


STORE_CHECKS: tuple[Callable[[MakeStore], None], ...] = (
    an_empty_store_has_nothing,
    records_come_back_equal,
    orders_come_back_equal,
    reads_give_the_newest_oldest_first,
    since_counts_from_its_instant_on,
    before_ends_ahead_of_its_instant,
    operators_are_kept_apart,
    changes_only_leaves_holds_out,
    history_is_bounded,
    facts_are_replaced,
    threads_lose_nothing,
    close_may_come_twice,
)


def _add_all(store: KnowledgeStore, at: float, operator: str = "operator") -> None:
    """One record of each kind."""
    size = Allocation(2)
    store.add_observation(an_observation(at=at, operator=operator))
    store.add_decision(a_decision(at=at, operator=operator))
    store.add_action(Action(operator, at, size, None))
    store.add_outcome(Outcome("a request", operator, at, OutcomeStatus.DONE, size, 0.5))
    store.add_stage_times([StageTime(at, "plan", 0.1)])
    state = SteeringState({operator: OperatorSteering()}, PolicyChoice("fixed"))
    store.add_audit(AuditEntry(at, "ana", AuditAction.RESET, operator, "", {}, {}, state))


def _reads(store: KnowledgeStore) -> tuple[Callable[..., Sequence[Any]], ...]:
    return (store.observations, store.decisions, store.actions, store.outcomes, store.stage_times, store.audit)


def _fault_of(read: Callable[..., Any], **arguments: Any) -> str | None:
    """The field that a read's ConfigurationError names; None where it raises none."""
    try:
        read(**arguments)
    except ConfigurationError as fault:
        return fault.field
    return None


def _same(given: Sequence[_Kept], wanted: Sequence[Any]) -> None:
    assert list(given) == list(wanted), f"the store gave\n{given}\ninstead of\n{wanted}"


def _same_times(given: Sequence[_Kept], at: list[float]) -> None:
    assert [record.at for record in given] == at, f"the store gave records at {[r.at for r in given]}, not {at}"
