# SPDX-License-Identifier: Apache-2.0
"""A pipeline without Spark for the page: the real loop, helm and HTTP API over operators that only count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from penstock.clock import SystemClock
from penstock.execute import Reconciler
from penstock.knowledge.sqlite import SqliteStore
from penstock.loop import Cycle, CycleReport, Helm, Orders, Runner
from penstock.loop.kept_orders import first_state
from penstock.monitor import Monitor
from penstock.plan.guards import default_guards
from penstock.policies import make_policy
from penstock.ports import FloatArray, OperatorSite, Policy, PolicyContext
from penstock.records import (
    Action,
    Allocation,
    BatchProgress,
    CpuReading,
    Decision,
    ExecutorState,
    LatencySummary,
    Limits,
    Mode,
    Objective,
    Outcome,
    OutcomeStatus,
    Prediction,
    Rejected,
    SourceProgress,
    Telemetry,
    WorkloadEstimate,
)
from penstock.service.access import Access
from penstock.service.application import make_application
from penstock.service.asking import Service
from penstock.service.events import EventFeed
from penstock.service.facts import facts_of
from penstock.service.live_desk import LiveDesk
from penstock.service.page_files import page_router
from penstock.service.server import Server, Site
from penstock.settings import parse_settings
from penstock.steering import PolicyChoice
from penstock.testing import an_observation

LIMITS = Limits(1, 4, (0.5, 1.0))
RECORDS_PER_EXECUTOR = 60.0
MEAN_RATE = 110.0
INTERVAL_SECONDS = 0.5
PERIOD_SECONDS = 900.0


def arrived_by(at: float) -> float:
    """How many records have arrived since the epoch: a rate that rises and falls."""
    turn = 2 * math.pi / PERIOD_SECONDS
    return MEAN_RATE * (at + 0.6 / turn * (1 - math.cos(turn * at)))


def rate_at(at: float) -> float:
    """How many arrive in a second."""
    return MEAN_RATE * (1 + 0.6 * math.sin(2 * math.pi * at / PERIOD_SECONDS))


class ToyArrivals:
    """Arrival times of the toy's records (a `ports.ArrivalTimes`)."""

    def __init__(self, start: float) -> None:
        self._first = arrived_by(start)
        self.start = start

    def of(self, source: SourceProgress) -> FloatArray:
        """When the records of a batch arrived."""
        begin, end = int(source.start_offset or 0), int(source.end_offset or 0)
        grid = np.linspace(self.start, self.start + 3600.0, 7201)
        counts = np.array([arrived_by(at) - self._first for at in grid])
        return np.asarray(np.interp(np.arange(begin, end) + 1.0, counts, grid), dtype=np.float64)

    def arrived_by(self, at: float) -> int:
        """How many have arrived."""
        return max(0, math.floor(arrived_by(at) - self._first))

    def done_index(self, source: SourceProgress) -> int:
        """How many are done with this batch."""
        return int(source.end_offset or 0)


class ToyOperator:
    """Does so many records a second for each executor, which come at once (a metric source and an actuator)."""

    can_set_cpu_share = True

    def __init__(self, name: str, clock: SystemClock) -> None:
        self.name, self._clock = name, clock
        self.arrivals = ToyArrivals(clock.now())
        self.allocation = Allocation(1, 1.0)
        self._last = clock.now()
        self._batch = self._done = 0
        self._used_seconds = 0.0

    def collect(self) -> Telemetry:
        """A batch since the last look, as large as the size allows."""
        now = self._clock.now()
        room = RECORDS_PER_EXECUTOR * self.allocation.capacity * (now - self._last)
        end = min(self.arrivals.arrived_by(self._last), self._done + math.ceil(room))
        source = SourceProgress("toy", str(self._done), str(end), str(end), end - self._done)
        self._used_seconds += (end - self._done) / RECORDS_PER_EXECUTOR
        batch = BatchProgress(self.name, "q", "r", self._batch, self._last, now, source.rows, {}, (source,))
        self._batch, self._done, self._last = self._batch + 1, end, now
        executors = tuple(ExecutorState(str(i), "h", 1, True, 0, 0.0) for i in range(self.allocation.executors))
        cpu = CpuReading(now, self._used_seconds, 0.0, self.allocation.capacity, 1)
        return Telemetry(self.name, now, (batch,), executors, cpu)

    def request(self, action: Action) -> None:
        """Take the new size at once."""
        self.allocation = action.target

    def release(self) -> None:
        """There is nothing to put back."""


class ToyPipeline:
    """Some operators under the real loop, with a past, behind the real service.

    Parameters
    ----------
    folder
        Where its records are kept.
    inputs
        What each operator reads, by its name.
    past_hours
        How much of the past is made up before the start.
    """

    def __init__(self, folder: Path, inputs: Mapping[str, str], *, past_hours: float = 2.0) -> None:
        self.clock, self.feed = SystemClock(), EventFeed()
        self.store = SqliteStore(folder / "knowledge.sqlite")
        started_at = self.clock.now() - 3600.0 * past_hours
        self._settings = parse_settings(_settings(inputs), "the toy's settings")
        self.facts = facts_of(self._settings, started_at=started_at)
        self.access = Access()
        self._make_past(started_at)
        operators = {one: ToyOperator(one, self.clock) for one in inputs}
        choice = PolicyChoice("threshold")
        orders = Orders(first_state(tuple(inputs), choice))
        policy = self._build(choice)
        self.cycles = {one: self._cycle(operator, policy, orders) for one, operator in operators.items()}
        self.runner = Runner(
            list(self.cycles.values()), self.clock, interval_seconds=INTERVAL_SECONDS, on_report=self._report
        )
        self.helm = Helm(self.cycles, self.runner, orders, self.store, self.clock, build=self._build)
        self.history = SqliteStore.open_readonly(folder / "knowledge.sqlite")
        self.desk = LiveDesk(self.facts, self.helm, self.history, clock=self.clock, feed=self.feed)

    @contextmanager
    def served(self) -> Iterator[Server]:
        """Run the loop, and serve page and API on a free port of the loopback."""
        app = make_application(Service([self.desk], self.access, self.feed), routers=[page_router()])
        with Server(app, Site(), self.feed) as server:
            self.runner.start()
            try:
                yield server
            finally:
                self.runner.stop()
        self.history.close()
        self.store.close()

    def _report(self, report: CycleReport) -> None:
        self.helm.end_sizes()
        self.desk.report(report)

    def _cycle(self, operator: ToyOperator, policy: Policy, orders: Orders) -> Cycle:
        return Cycle(
            source=operator,
            monitor=Monitor(operator.name, operator.arrivals, window_seconds=5.0, warm_up_seconds=0.0),
            policy=policy,
            guards=default_guards(up_seconds=5.0, down_seconds=5.0, opposite_seconds=5.0),
            reconciler=Reconciler(operator.name, operator, LIMITS),
            store=self.store,
            limits=LIMITS,
            objective=Objective("p95", 2.0),
            mode=Mode.ACT,
            orders=orders,
        )

    def _build(self, choice: PolicyChoice) -> Policy:
        sites = {name: OperatorSite(LIMITS) for name in self.facts.names}
        context = PolicyContext(self._settings.topology, sites, self.facts.paths)
        return make_policy(choice.name, context, choice.all_options)

    def _make_past(self, started_at: float) -> None:
        for operator in self.facts.names:
            size = Allocation(1, 1.0)
            for at in np.arange(started_at, self.clock.now() - 5.0, 10.0):
                size = self._remember(operator, float(at), size)

    def _remember(self, operator: str, at: float, size: Allocation) -> Allocation:
        """Put one look, and each minute a decision, into the store; gives the size after it."""
        rate = rate_at(at)
        load = rate / (RECORDS_PER_EXECUTOR * size.capacity)
        delay = 0.3 + 0.5 * min(load, 1.0) / max(0.25, 1.1 - load)
        latency = LatencySummary(100, delay, 0.8 * delay, 1.5 * delay, 1.8 * delay, 2 * delay)
        seen = an_observation(
            operator=operator, at=at, window_seconds=10.0, arrival_rate_rows_per_second=rate,
            processed_rows_per_second=min(rate, RECORDS_PER_EXECUTOR * size.capacity),
            backlog_records=round(rate * delay), utilisation=min(1.0, load),
            busy_fraction=min(1.0, 1.1 * load), back_pressure=min(1.0, load / 2),
            latency=latency, path_latency=latency,
        )  # fmt: skip
        self.store.add_observation(
            replace(seen, cluster=replace(seen.cluster, planned=size, requested=size, observed=size))
        )
        if round(at) % 60 >= 10:
            return size
        after = Allocation(min(4, max(1, math.ceil(rate / RECORDS_PER_EXECUTOR / 0.8))), 1.0)
        path = next(path for path in self.facts.paths if operator in path)
        decision = Decision(
            operator, at, "threshold", size, after,
            f"utilisation {load:.2f} is {'above' if after.executors > size.executors else 'not above'} 0.8",
            {"utilisation": load, "latency_seconds": 1.5 * delay},
            rejected=(Rejected(Allocation(4, 0.5), "it would be used to 97 %"),) if after != size else (),
            workload=WorkloadEstimate(at, 1.05 * rate, growth=1.05),
            prediction=Prediction(path, 1.6 * delay, 2.0, {operator: 1.6 * delay}, {operator: load}, "1"),
        )  # fmt: skip
        self.store.add_decision(decision)
        if decision.is_change:
            action = Action(operator, at, after, decision.decision_id)
            self.store.add_action(action)
            self.store.add_outcome(Outcome(action.request_id, operator, at + 4, OutcomeStatus.DONE, after, 4.0))
        return after


def _settings(inputs: Mapping[str, str]) -> dict[str, object]:
    return {
        "name": "clicks",
        "objective": {"p95": 2.0},
        "mode": "act",
        "interval": INTERVAL_SECONDS,
        "policy": {"name": "threshold"},
        "prices": {"executor_hour": 0.02, "core_hour": 0.045, "currency": "EUR"},
        "arrivals": {"shape": "constant:rate=100,duration=1m"},
        "operators": [
            {"name": one, "app": "penstock.apps.log_analysis:log_analysis", "executors": [1, 4],
             "cpu_shares": [0.5, 1.0], "input": read}
            for one, read in inputs.items()
        ],
    }  # fmt: skip
