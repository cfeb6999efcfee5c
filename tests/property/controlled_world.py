# SPDX-License-Identifier: Apache-2.0
"""A world for the model of control: a toy cluster, its agent, a network between them, and controllers that crash.

Cycle, reconciler, guards, monitor, agent, client and store are the real ones. The cluster, the network, the disk and
the clock are toys that fail when they are asked to. There are no threads: every step is one call.
"""

from __future__ import annotations

import contextlib
import errno
from collections import deque
from dataclasses import dataclass
from typing import Any, cast

from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.agent.server import OperatorAgent
from penstock.adaptors.agent.wire import FromAgent, Reply, ToAgent, frame_of, read_from_agent, read_to_agent
from penstock.clock import VirtualClock
from penstock.errors import ActuationError, AdaptorError, MetricSourceError, PenstockError
from penstock.execute import Reconciler
from penstock.knowledge import MemoryStore
from penstock.knowledge.enduring import EnduringStore
from penstock.loop import Cycle, CycleReport
from penstock.monitor import Monitor
from penstock.plan.guards import default_guards
from penstock.ports import KnowledgeStore
from penstock.records import (
    Action,
    Allocation,
    BatchProgress,
    CpuReading,
    Decision,
    ExecutorState,
    Limits,
    Mode,
    Objective,
    PlanRequest,
    SourceProgress,
    Telemetry,
)

NAME = "operator"
LIMITS = Limits(1, 4, (0.4, 0.7, 1.0))
LEASE_SECONDS = 5.0
OPPOSITE_SECONDS = 20.0
TIMEOUT_SECONDS = 2.0
STRANGER = "a stranger"
"""Who sends on a connection that never greeted the agent."""


class Crash(BaseException):
    """A controller dies here, as after kill -9: nothing of it runs any more."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """Something that was done to the cluster, and by whom; None: by its own agent."""

    at: float
    controller: str | None
    kind: str
    target: Allocation | None = None


class ToyCluster:
    """Executors that come and go late, a cap on their CPU, and a query that does a batch a second."""

    can_set_cpu_share = True

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.executors, self.wanted, self.quota = 1, 1, cast("float | None", None)
        self.is_stuck = False
        """Whether nothing can be changed."""
        self.blind: str | None = None
        """What cannot be measured."""
        self.was_blind = False
        """Whether the newest telemetry lacked something."""
        self.run, self.next_batch = 1, 0
        self.stops = 0
        self.log: list[Mutation] = []
        self.caller: str | None = None
        self._new: list[BatchProgress] = []
        self._used = 0.0

    def pass_second(self) -> None:
        """One second: an executor comes or goes, a batch is done."""
        self.clock.advance(1.0)
        self.executors += (self.wanted > self.executors) - (self.wanted < self.executors)
        capacity = float(self.executors) if self.quota is None else min(self.quota, float(self.executors))
        self._used += 0.5 * capacity
        now = self.clock.now()
        source = SourceProgress("toy", None, None, None, 10)
        self._new.append(
            BatchProgress(NAME, "q", f"run {self.run}", self.next_batch, now - 0.5, now, 10, {}, (source,))
        )
        self.next_batch += 1

    def restart(self) -> None:
        """The driver dies and comes back: its executors are new, its cap is gone, and what it had not sent is lost."""
        self.run, self.executors, self.quota, self._new, self._used = self.run + 1, 1, None, [], 0.0

    def collect(self) -> Telemetry:
        """What is new, or what of it can be seen."""
        if self.blind == "all":
            raise MetricSourceError("the driver does not answer", target=NAME, retryable=True)
        now, batches = self.clock.now(), tuple(self._new)
        self._new = []
        self.was_blind = self.blind in ("executors", "cpu")
        executors = tuple(ExecutorState(str(n), "h", 1, True, 0, 0.0) for n in range(self.executors))
        return Telemetry(
            NAME,
            now,
            batches,
            None if self.blind == "executors" else executors,
            None if self.blind == "cpu" else CpuReading(now, self._used, 0.0, self.quota, self.executors),
        )

    def request(self, action: Action) -> None:
        """Change what is wanted and the cap."""
        self._check()
        assert LIMITS.allows(action.target), f"{action.target} is outside the limits"
        self.wanted = action.target.executors
        self.quota = None if action.target.cpu_share == 1.0 else action.target.capacity
        self._note("request", action.target)

    def open_shares(self) -> None:
        """Lift the cap."""
        self._check()
        self.quota = None
        self._note("open")

    def release(self) -> None:
        """Lift the cap, as at the end."""
        self._check()
        self.quota = None
        self._note("release")

    def stop(self) -> None:
        """Somebody ends the query."""
        self.stops += 1

    def state_of_control(self) -> tuple[object, ...]:
        """What a message may change: the allocation, the batches that wait to be collected, whether it was ended."""
        return self.wanted, self.quota, self.stops, len(self.log), tuple(batch.batch_id for batch in self._new)

    def has(self, target: Allocation) -> bool:
        """Whether it has just that."""
        quota = None if target.cpu_share == 1.0 else target.capacity
        return (self.executors, self.quota) == (target.executors, quota)

    def _check(self) -> None:
        if self.is_stuck:
            raise ActuationError("the cluster refuses", target=NAME, retryable=True)

    def _note(self, kind: str, target: Allocation | None = None) -> None:
        self.log.append(Mutation(self.clock.monotonic(), self.caller, kind, target))


class FarEnd:
    """The agent's end of a connection: hands it one message at a time."""

    def __init__(self, controller: str) -> None:
        self.controller = controller
        self.is_open = True
        self.waiting: deque[bytes] = deque()

    def send(self, message: object) -> None:
        """Replies are handed back by the network."""

    def receive(self) -> ToAgent | None:
        """The next message."""
        return read_to_agent(self.waiting.popleft()) if self.waiting else None

    def close(self) -> None:
        """The agent throws the controller out."""
        self.is_open = False


class Network:
    """Between controllers and the agent. `fault` is what happens to the next message."""

    def __init__(self, clock: VirtualClock, cluster: ToyCluster) -> None:
        self.clock, self.cluster = clock, cluster
        self.fault: str | None = None
        self.late: deque[FarEnd] = deque()
        self.ends: list[FarEnd] = []
        self.thrown_out: list[FarEnd] = []
        """Connections that the agent closed because another one took their controller's place."""
        self.tenure = 0
        """How often the controller in charge was another one than before."""
        self._last_holder: str | None = None
        self.heard: dict[str, float] = {}
        """When the agent last took a message from a controller."""
        self.agent = self._new_agent()

    def _new_agent(self) -> OperatorAgent:
        return OperatorAgent(
            NAME,
            self.cluster,
            self.cluster,
            "/nowhere/agent.sock",
            on_stop=self.cluster.stop,
            lease_seconds=LEASE_SECONDS,
            monotonic=self.clock.monotonic,
        )

    def restart_agent(self) -> None:
        """The driver's process dies with all connections, and another one begins."""
        for end in self.ends:
            end.is_open = False
        self.ends, self.late, self.thrown_out = [], deque(), []
        self.cluster.restart()
        self.agent = self._new_agent()

    @property
    def holder(self) -> str | None:
        """The controller in charge."""
        return None if self.agent._seat is None else self.agent._seat.controller

    def handle(self, end: FarEnd) -> Reply | None:
        """Let the agent answer the next message of a connection."""
        before, done_before = self.holder, len(self.cluster.log)
        seated = None if self.agent._seat is None else cast("FarEnd", self.agent._seat.channel)
        self.cluster.caller = end.controller
        try:
            reply = cast("Reply | None", self.agent._next_reply(end))
        finally:
            self.cluster.caller = None
        if seated is not None and not seated.is_open:
            self.thrown_out.append(seated)
        if any(done.kind == "request" for done in self.cluster.log[done_before:]):
            assert self.holder == end.controller, f"{end.controller} acted while {self.holder} was in charge"
        if before not in (None, end.controller) and self.holder == end.controller:
            silent = self.clock.monotonic() - self.heard[str(before)]
            assert silent > LEASE_SECONDS, f"{end.controller} took over from {before}, which was silent for {silent} s"
        if self.agent._seat is not None and self.agent._seat.channel is end:
            self.tenure += self._last_holder != end.controller
            self._last_holder = end.controller
            self.heard[end.controller] = self.clock.monotonic()
        return reply

    def deliver_from_outside(self, message: ToAgent, *, is_thrown_out: bool) -> Reply:
        """A message comes on a connection that has no seat: one that never greeted, or one that lost its seat.

        On a socket the second happens when the agent has read the message just before it closed the connection.
        """
        end = self.thrown_out[-1] if is_thrown_out and self.thrown_out else FarEnd(STRANGER)
        end.waiting.append(frame_of(message)[4:])
        reply = self.handle(end)
        assert reply is not None
        return reply

    def hang_up(self, end: FarEnd) -> None:
        """A connection ends; the agent notices at once, as on a Unix socket."""
        end.is_open = False
        if self.agent._seat is not None and self.agent._seat.channel is end:
            self.agent._seat = None
        if end in self.ends:
            self.ends.remove(end)

    def deliver_late(self) -> None:
        """What a controller sent, and no longer waits for, comes to the agent after all."""
        if self.late:
            end = self.late.popleft()
            if end.is_open:
                self.handle(end)
            self.hang_up(end)


class Wire:
    """A controller's end of a connection (a `Channel`)."""

    def __init__(self, network: Network, controller: Controller) -> None:
        self._network, self._controller = network, controller
        self._far = FarEnd(controller.name)
        self._reply: Reply | None = None
        self._is_lost = self._is_late = False
        network.ends.append(self._far)

    def send(self, message: Any) -> None:
        """Send a message, with the fault that is due."""
        self._controller.may_crash()
        fault, self._network.fault = self._network.fault, None
        if not self._far.is_open or fault == "broken":
            self._network.hang_up(self._far)
            raise BrokenPipeError("the connection broke")
        self._far.waiting.append(frame_of(message)[4:])
        self._is_lost = fault in ("lost request", "lost reply", "late request")
        if fault == "lost request":
            self._far.waiting.clear()
        elif fault == "late request":
            self._is_late = True
            self._network.late.append(self._far)
        else:
            self._reply = self._network.handle(self._far)
        self._controller.may_crash()

    def receive(self) -> FromAgent | None:
        """Return the reply, or give up after a while."""
        if self._is_lost:
            self._network.clock.advance(TIMEOUT_SECONDS)
            raise TimeoutError
        return None if self._reply is None else read_from_agent(frame_of(self._reply)[4:])

    def close(self) -> None:
        """Hang up. A message under way may still be taken by the agent."""
        if not self._is_late:
            self._network.hang_up(self._far)


class WiredOperator(RemoteOperator):
    """The real client over the toy network."""

    def __init__(self, network: Network, controller: Controller) -> None:
        super().__init__(
            "/nowhere/agent.sock", connect=lambda: Wire(network, controller), timeout_seconds=TIMEOUT_SECONDS
        )
        self._network, self._owner = network, controller
        self._controller = controller.name

    def collect(self) -> Telemetry:
        """Note what came."""
        found = super().collect()
        self._owner.batches += [(self._network.tenure, batch.run_id, batch.batch_id) for batch in found.batches]
        return found


class Disk:
    """A store that all controllers share, and that takes nothing while it is full."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.is_full = False


class Writer:
    """A controller's access to the disk: it may die before and after each record."""

    def __init__(self, disk: Disk, controller: Controller) -> None:
        self._disk, self._controller = disk, controller

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._disk.store, name)
        if not name.startswith(("add_", "set_")):
            return method

        def write(*arguments: Any) -> None:
            self._controller.may_crash()
            if self._disk.is_full:
                raise OSError(errno.ENOSPC, "No space left on device")
            method(*arguments)
            self._controller.may_crash()

        return write


class Wish:
    """A policy that wants what it is set to, sensible or not."""

    name, every_seconds = "wish", 3.0

    def __init__(self) -> None:
        self.target = Allocation(1)

    def plan(self, request: PlanRequest) -> Decision:
        """The wish."""
        return Decision(request.operator, request.at, self.name, request.current, self.target, "a wish")


class Controller:
    """One controller, from its start to its death. It decides only once the agent has accepted it."""

    def __init__(self, name: str, network: Network, disk: Disk, wish: Wish) -> None:
        self.name, self.network, self.clock = name, network, network.clock
        self.crash_in: int | None = None
        """How many more steps it lives; None: it does not die."""
        self.wish = wish
        self.remote = WiredOperator(network, self)
        self.store = EnduringStore(
            cast("KnowledgeStore", Writer(disk, self)),
            patience=3,
            say=lambda _: None,
            on_lost=self._open,
            monotonic=self.clock.monotonic,
        )
        self.cycle: Cycle | None = None
        self.born = self.clock.monotonic()
        self.batches: list[tuple[int, str, int]] = []
        """What it was sent: in which tenure, of which run of the query, and the batch."""

    def may_crash(self) -> None:
        """One step of its life; the last one is not survived."""
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                raise Crash

    def run_pass(self) -> CycleReport | None:
        """One pass as the runner makes it; None: it failed, or the agent has not accepted it yet."""
        try:
            if self.cycle is None:
                self.remote.beat()
                self.cycle, self.born = self._make_cycle(), self.clock.monotonic()
            return self.cycle.run_once(self.clock.now(), self.clock.monotonic())
        except (PenstockError, OSError):
            return None

    def die(self) -> None:
        """As after kill -9: the kernel closes its connections."""
        for end in [end for end in self.network.ends if end.controller == self.name]:
            if end not in self.network.late:
                self.network.hang_up(end)

    def stop(self) -> None:
        """End in order: everything is put back."""
        if self.cycle is not None:
            with contextlib.suppress(PenstockError):  # nobody there: the lease opens the shares
                self.cycle.release()
        self.remote.close()

    def _open(self) -> None:
        if self.cycle is not None:
            self.cycle.let_go()
        with contextlib.suppress(AdaptorError):  # as in a run: the lease opens them
            self.remote.open_shares()

    def _make_cycle(self) -> Cycle:
        return Cycle(
            source=self.remote,
            monitor=Monitor(NAME, None, window_seconds=5.0, warm_up_seconds=1.0),
            policy=self.wish,
            guards=default_guards(up_seconds=2.0, down_seconds=4.0, opposite_seconds=OPPOSITE_SECONDS,
                                  settle_seconds=10.0),
            reconciler=Reconciler(NAME, self.remote, LIMITS, deadline_seconds=15.0),
            store=self.store,
            limits=LIMITS,
            objective=Objective(),
            mode=Mode.ACT,
        )  # fmt: skip
