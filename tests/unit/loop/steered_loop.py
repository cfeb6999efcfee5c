# SPDX-License-Identifier: Apache-2.0
"""A loop over toy operators that can be steered, under a virtual clock."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.clock import VirtualClock
from penstock.execute import Reconciler
from penstock.knowledge.memory import MemoryStore
from penstock.loop import Cycle, CycleReport, Helm, Orders, Runner
from penstock.loop.kept_orders import first_state, kept_state
from penstock.monitor import Monitor
from penstock.plan.guards import default_guards
from penstock.policies import make_policy
from penstock.ports import KnowledgeStore, Look, OperatorSite, Policy, PolicyContext
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
from penstock.steering import AuditEntry, PolicyChoice
from penstock.topology import ARRIVALS, Topology

LIMITS = Limits(1, 4, (0.5, 1.0))


class ToySteered:
    """An operator whose executors come at once; a test may take some away."""

    can_set_cpu_share = True

    def __init__(self, name: str, clock: VirtualClock) -> None:
        self.name, self.clock = name, clock
        self.allocation = Allocation(2, 1.0)
        self.asked: list[Action] = []
        self._batch = 0

    def collect(self) -> Telemetry:
        """A batch for each look."""
        now = self.clock.now()
        self._batch += 1
        source = SourceProgress("toy", None, None, None, 10)
        batch = BatchProgress(self.name, "q", "r", self._batch, now - 0.5, now, 10, {}, (source,))
        executors = tuple(ExecutorState(str(i), "h", 1, True, 0, 0.0) for i in range(self.allocation.executors))
        return Telemetry(self.name, now, (batch,), executors, CpuReading(now, now, 0.0, self.allocation.capacity, 1))

    def request(self, action: Action) -> None:
        """Take the new size at once."""
        self.asked.append(action)
        self.allocation = action.target

    def release(self) -> None:
        """Keep what there is, so that a test can look at it."""


class ToyPolicy:
    """Wants what the test says, and remembers how often it was shown something."""

    name, every_seconds = "toy", 1.0

    def __init__(self, wanted: Callable[[PlanRequest], Allocation]) -> None:
        self.wanted, self.looks, self.closed = wanted, 0, 0
        self.history: list[int] = []

    def plan(self, request: PlanRequest) -> Decision:
        """As the test says."""
        self.history.append(len(request.history))
        return Decision(request.operator, request.at, self.name, request.current, self.wanted(request), "it wants to")

    def watch(self, look: Look) -> tuple[str, ...]:
        """Count."""
        self.looks += 1
        return ()

    def close(self) -> None:
        """Count."""
        self.closed += 1


class Steered:
    """A loop over toy operators with a helm; `script` is run in every pass."""

    def __init__(
        self,
        policy: Policy,
        *,
        names: tuple[str, ...] = ("a",),
        mode: Mode = Mode.ACT,
        store: KnowledgeStore | None = None,
    ) -> None:
        self.clock = VirtualClock(1000.0)
        self.store: KnowledgeStore = store or MemoryStore()
        self.operators = {name: ToySteered(name, self.clock) for name in names}
        self.built: list[Policy] = []
        first = first_state(names, PolicyChoice("threshold"))
        self.orders = Orders(kept_state(self.store, first), self.clock)
        self.cycles = {name: self._cycle(name, policy, mode) for name in names}
        self.script: dict[float, Callable[[], object]] = {}
        self.runner = Runner(list(self.cycles.values()), self.clock, on_report=self._take)
        self.helm = Helm(self.cycles, self.runner, self.orders, self.store, self.clock, build=self._build)
        self.on_report: Callable[[CycleReport], None] | None = None
        self.shown: list[AuditEntry] = []
        self.helm.on_audit = self.shown.append

    def run(self, until: float) -> None:
        """Let time pass."""
        self.runner._stop = threading.Event()
        self.runner.run(until=until)

    def look(self, times: int) -> None:
        """Let some passes go by; the loop goes on after them."""
        for _ in range(times):
            self.runner._pass(self.clock.now(), self.clock.monotonic())
            self.clock.advance(1.0)

    def _cycle(self, name: str, policy: Policy, mode: Mode) -> Cycle:
        operator = self.operators[name]
        return Cycle(
            source=operator,
            monitor=Monitor(name, None, window_seconds=5.0, warm_up_seconds=0.0),
            policy=policy,
            guards=default_guards(up_seconds=0.0, down_seconds=0.0, opposite_seconds=0.0),
            reconciler=Reconciler(name, operator, LIMITS),
            store=self.store,
            limits=LIMITS,
            objective=Objective(),
            mode=mode,
            orders=self.orders,
        )

    def _build(self, choice: PolicyChoice) -> Policy:
        context = PolicyContext(
            Topology.from_inputs({name: [ARRIVALS] for name in self.operators}),
            {name: OperatorSite(LIMITS) for name in self.operators},
            {(name,): Objective() for name in self.operators},
        )
        built = ToyPolicy(lambda _: LIMITS.top) if choice.name == "toy" else None
        self.built.append(built or make_policy(choice.name, context, choice.all_options))
        return self.built[-1]

    def _take(self, report: CycleReport) -> None:
        self.helm.end_sizes()
        if self.on_report is not None:
            self.on_report(report)
        act = self.script.pop(report.observation.at, None)
        if act is not None:
            act()


def grows(request: PlanRequest) -> Allocation:
    """One executor more, up to beyond the limits."""
    return Allocation(request.current.executors + 1, request.current.cpu_share)


def shrinks(request: PlanRequest) -> Allocation:
    """One executor less, down to beyond the limits."""
    return Allocation(max(0, request.current.executors - 1), request.current.cpu_share)
