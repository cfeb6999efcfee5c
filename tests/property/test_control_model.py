# SPDX-License-Identifier: Apache-2.0
"""Control as a whole, whatever fails: controllers that crash at any step, messages lost and late, clocks that are set,
a disk that is full, a cluster that refuses, two controllers at once, messages of somebody who is not in charge.

After every step the promises of the design hold: nothing missing is read as zero, nothing outside the limits is asked
for, no two opposite changes come inside the guard time, a failed pass changes nothing, shares open when nobody is in
charge and the query goes on, no batch is seen twice or left out, and one controller at a time acts: whoever has no seat
at the agent changes nothing, takes nothing away and does not keep a lease alive.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.property.controlled_world import (
    LEASE_SECONDS,
    LIMITS,
    NAME,
    OPPOSITE_SECONDS,
    Controller,
    Crash,
    Disk,
    Network,
    ToyCluster,
    Wish,
)

from penstock.adaptors.agent.wire import (
    Beat,
    Collect,
    Open,
    Refusal,
    Release,
    Request,
    Stop,
    StopAtBorder,
    ToAgent,
)
from penstock.clock import VirtualClock
from penstock.crash_points import VARIABLE, plan_crash
from penstock.loop import CycleReport
from penstock.records import Action, Allocation

FAULTS = ("lost request", "lost reply", "late request", "broken")
MESSAGES_FROM_OUTSIDE: tuple[ToAgent, ...] = (
    Collect(0),
    Collect(1_000_000),
    Request(Action(NAME, 0.0, Allocation(4, 0.4), None)),
    Open(),
    Release(),
    Beat(),
    Stop(),
    StopAtBorder(1.0),
)
"""Everything that the controller in charge may ask for."""
POINTS_OF_A_PASS = (
    "pass-begun", "collected", "synced", "looked", "planned", "observation-kept", "decision-kept", "superseded",
    "request-made", "requested", "acted", "action-kept", "outcome-kept", "pass-ended",
)  # fmt: skip


def die() -> None:
    """What a crash point does here."""
    raise Crash


@dataclass(frozen=True, slots=True)
class Change:
    """A decision that was carried out."""

    at: float
    controller: str
    way: int
    is_kept: bool
    """Whether the next controller can know of it."""
    clock_steps: int


class ControlModel(RuleBasedStateMachine):
    """One operator, up to two controllers."""

    @initialize()
    def begin(self) -> None:
        """A cluster that runs, and nobody who controls it."""
        self.clock = VirtualClock(1e9)
        self.cluster = ToyCluster(self.clock)
        self.network = Network(self.clock, self.cluster)
        self.disk, self.wish = Disk(), Wish()
        self.controllers: dict[str, Controller] = {}
        self.born_steps: dict[str, int] = {}
        self.changes: list[Change] = []
        self.names = 0
        self.clock_steps = 0

    # --- what happens ------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.controllers) < 2)
    @rule()
    def start_controller(self) -> None:
        """A controller begins; another one may be there."""
        self.names += 1
        name = f"controller {self.names}"
        self.controllers[name] = Controller(name, self.network, self.disk, self.wish)

    @precondition(lambda self: self.controllers)
    @rule(which=st.integers(0, 1), seconds=st.integers(1, 4), passes=st.integers(1, 12))
    def control(self, which: int, seconds: int, passes: int) -> None:
        """One of the controllers makes its passes."""
        for _ in range(passes):
            self._pass(self._one(which))
            self._let_pass(seconds)

    @precondition(lambda self: self.controllers)
    @rule(which=st.integers(0, 1), steps=st.integers(0, 30))
    def crash(self, which: int, steps: int) -> None:
        """A controller dies at some step of its next pass."""
        controller = self._one(which)
        controller.crash_in = steps
        self._pass(controller)
        if controller.name in self.controllers:  # it came through its pass
            self._bury(controller)

    @precondition(lambda self: self.controllers)
    @rule(which=st.integers(0, 1), point=st.sampled_from(POINTS_OF_A_PASS))
    def crash_at_point(self, which: int, point: str) -> None:
        """The same at a border between two steps, as the tests on a real cluster do it."""
        controller = self._one(which)
        plan_crash({VARIABLE: point}, die)
        try:
            self._pass(controller)
        finally:
            plan_crash({})
        if controller.name in self.controllers:  # it did not come to that point
            self._bury(controller)

    @precondition(lambda self: self.controllers)
    @rule(which=st.integers(0, 1))
    def stop(self, which: int) -> None:
        """A controller ends in order: the cap that it set is lifted."""
        controller = self._one(which)
        is_heard = self.network.holder == controller.name and self.network.fault is None
        controller.stop()
        self._bury(controller)
        if is_heard and controller.cycle is not None and not self.cluster.is_stuck:
            assert self.cluster.quota is None

    @rule(seconds=st.integers(1, 20))
    def wait(self, seconds: int) -> None:
        """Time passes, and no controller does anything."""
        self._let_pass(seconds)

    @rule(allocation=st.builds(Allocation, st.integers(0, 9), st.sampled_from((0.1, 0.4, 0.5, 0.7, 1.0))))
    def wish_for(self, allocation: Allocation) -> None:
        """The policy wants something else, which the limits may not allow."""
        self.wish.target = allocation

    @rule(fault=st.sampled_from(FAULTS))
    def disturb_network(self, fault: str) -> None:
        """The next message is lost, late, or breaks its connection."""
        self.network.fault = fault

    @rule()
    def deliver_late(self) -> None:
        """A message that was given up comes after all."""
        self.network.deliver_late()

    @rule(message=st.sampled_from(MESSAGES_FROM_OUTSIDE), is_thrown_out=st.booleans())
    def hear_from_outside(self, message: ToAgent, is_thrown_out: bool) -> None:
        """Somebody asks who is not in charge: who never greeted, or was thrown out. It is refused, without effect."""
        agent, cluster = self.network.agent, self.cluster
        before = cluster.state_of_control(), agent._heard_at, agent._is_leased, self.network.holder
        reply = self.network.deliver_from_outside(message, is_thrown_out=is_thrown_out)
        assert isinstance(reply, Refusal), f"{message} of somebody who is not in charge was obeyed"
        assert (cluster.state_of_control(), agent._heard_at, agent._is_leased, self.network.holder) == before

    @rule(seconds=st.sampled_from((-86_400.0, -3600.0, -5.0, 5.0, 3600.0, 86_400.0)))
    def set_clock(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self.clock.set_by(seconds)
        self.clock_steps += 1

    @rule(is_full=st.booleans())
    def fill_disk(self, is_full: bool) -> None:
        """The disk is full, or has room again."""
        self.disk.is_full = is_full

    @rule(blind=st.sampled_from((None, None, "executors", "cpu", "all")))
    def blind(self, blind: str | None) -> None:
        """Something cannot be measured, or can again."""
        self.cluster.blind = blind

    @rule(is_stuck=st.booleans())
    def jam(self, is_stuck: bool) -> None:
        """The cluster refuses every change, or takes them again."""
        self.cluster.is_stuck = is_stuck

    @rule()
    def lose_executor(self) -> None:
        """An executor dies."""
        self.cluster.executors = max(0, self.cluster.executors - 1)

    @rule()
    def restart_driver(self) -> None:
        """The operator's process dies and is started again."""
        self.network.restart_agent()

    # --- what always holds -------------------------------------------------------------------------------------

    @invariant()
    def the_query_goes_on(self) -> None:
        """Whoever dies, nobody ends the query."""
        assert self.cluster.stops == 0

    @invariant()
    def shares_are_open_when_nobody_is_in_charge(self) -> None:
        """A lease after the last message of the controller in charge, no cap is left."""
        silent = self.clock.monotonic() - max(self.network.heard.values(), default=float("-inf"))
        self.network.agent.check_lease()  # it looks five times a second
        if silent > LEASE_SECONDS and not self.cluster.is_stuck:
            assert self.cluster.quota is None

    @invariant()
    def every_batch_is_seen_once_and_in_order(self) -> None:
        """While one controller is in charge of one run of the query, what it is sent has no gap and no copy."""
        for controller in self.controllers.values():
            for earlier, later in pairwise(controller.batches):
                assert later[2] > earlier[2]
                assert later[2] == earlier[2] + 1 or earlier[:2] != later[:2]
            del controller.batches[:-1]

    def teardown(self) -> None:
        """Once all is well again, a new controller brings the operator to what is wanted."""
        if not hasattr(self, "clock"):
            return
        for controller in list(self.controllers.values()):
            self._bury(controller)
        self.network.fault, self.disk.is_full = None, False
        self.cluster.blind, self.cluster.is_stuck = None, False
        while self.network.late:
            self.network.deliver_late()
        self._let_pass(30)
        self.wish.target = Allocation(2, 0.7)
        self.start_controller()
        for _ in range(150):
            self._pass(self._one(0))
            self._let_pass(2)
            if self.cluster.has(self.wish.target):
                break
        assert self.cluster.has(self.wish.target), f"{self.cluster.executors} x {self.cluster.quota}"

    # --- how ---------------------------------------------------------------------------------------------------

    def _one(self, which: int) -> Controller:
        living = list(self.controllers.values())
        return living[which % len(living)]

    def _bury(self, controller: Controller) -> None:
        controller.die()
        del self.controllers[controller.name]

    def _let_pass(self, seconds: int) -> None:
        for _ in range(seconds):
            self.cluster.pass_second()
            self.network.agent.check_lease()

    def _pass(self, controller: Controller) -> None:
        self.cluster.log.clear()
        is_new = controller.cycle is None
        try:
            report = controller.run_pass()
        except Crash:
            self._bury(controller)
            return
        if is_new and controller.cycle is not None:
            self.born_steps[controller.name] = self.clock_steps
        requests = [done for done in self.cluster.log if done.kind == "request" and done.controller == controller.name]
        if report is None:
            assert not requests, "a pass that failed has changed something"
            return
        self._check(controller, report)

    def _check(self, controller: Controller, report: CycleReport) -> None:
        decision = report.decision
        if decision is None or not decision.is_change:
            return
        assert not self.cluster.was_blind, f"decided without knowing what is there: {decision.explain()}"
        assert LIMITS.allows(decision.target)
        difference = decision.target.capacity - decision.current.capacity
        way = 0 if abs(difference) < 1e-9 else (1 if difference > 0 else -1)
        for earlier in self.changes:
            is_known = earlier.controller == controller.name or (
                earlier.is_kept
                and earlier.at <= controller.born
                and earlier.clock_steps == self.born_steps[controller.name]
            )
            if is_known and earlier.way * way < 0:
                assert self.clock.monotonic() - earlier.at >= OPPOSITE_SECONDS, "two opposite changes in a row"
        is_kept = not (self.disk.is_full or controller.store.is_lost)
        self.changes.append(Change(self.clock.monotonic(), controller.name, way, is_kept, self.clock_steps))


ControlModel.TestCase.settings = settings(
    max_examples=int(os.environ.get("PENSTOCK_CONTROL_SEQUENCES", "60")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestControlModel = ControlModel.TestCase
