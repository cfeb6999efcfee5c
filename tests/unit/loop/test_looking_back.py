# SPDX-License-Identifier: Apache-2.0
"""How much of the past a policy gets: the usual number of looks and changes, or as much as it asks for."""

from __future__ import annotations

from tests.unit.loop.test_cycle_and_runner import LIMITS, ToyOperator

from penstock.clock import VirtualClock
from penstock.execute import Reconciler
from penstock.knowledge.memory import MemoryStore
from penstock.loop import Cycle, Runner
from penstock.monitor import Monitor
from penstock.policies.resizing import ResizingPolicy
from penstock.ports import LookingBackPolicy
from penstock.records import Allocation, Decision, Mode, Objective, PlanRequest

START = 10_000.0


class Flapping:
    """Changes its mind at every look, and keeps the last request."""

    name, every_seconds = "flapping", 0.5

    def __init__(self) -> None:
        self.request: PlanRequest | None = None

    def plan(self, request: PlanRequest) -> Decision:
        """The other of two sizes."""
        self.request = request
        target = Allocation(3 - request.current.executors)
        return Decision(request.operator, request.at, self.name, request.current, target, "a test")


class LookingBack(Flapping):
    """The same, with a wish for the past."""

    history_seconds, changes_seconds = 1500.0, 400.0


def last_request(policy: Flapping, seconds: int) -> PlanRequest:
    """The last request after so many looks, one a second, each of which ends in a change once data are good."""
    clock = VirtualClock(START)
    operator = ToyOperator(clock)
    cycle = Cycle(
        source=operator,
        monitor=Monitor("a", None, warm_up_seconds=0.0),
        policy=policy,
        guards=(),
        reconciler=Reconciler("a", operator, LIMITS),
        store=MemoryStore(),
        limits=LIMITS,
        objective=Objective(),
        mode=Mode.ACT,
    )
    Runner([cycle], clock).run(until=START + seconds)
    assert policy.request is not None
    return policy.request


def test_a_policy_gets_the_usual_past_or_as_much_as_it_asks_for() -> None:
    """600 looks and 50 changes for everybody; the seconds that a policy asks for, and no more, for that one."""
    assert isinstance(LookingBack(), LookingBackPolicy)
    assert not isinstance(Flapping(), LookingBackPolicy)
    usual, more = last_request(Flapping(), 2000), last_request(LookingBack(), 2000)
    assert len(usual.history) == 600
    assert len(usual.recent) == 50
    assert more.history[-1].at - more.history[0].at == 1500.0
    assert more.at - more.recent[0].at == 400.0


def test_a_policy_inside_another_asks_through_it() -> None:
    """The wish of a policy that another is wrapped around is that of both; one without a wish has none."""
    assert ResizingPolicy(LookingBack(), {}).history_seconds == 1500.0
    assert ResizingPolicy(LookingBack(), {}).changes_seconds == 400.0
    assert ResizingPolicy(Flapping(), {}).history_seconds == 0.0
