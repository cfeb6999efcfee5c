# SPDX-License-Identifier: Apache-2.0
"""A simulated operator behind the ports that a Spark query has: the loop sees no difference.

An operator with micro-batches reports every batch. One that takes records one by one has no batches: what it has
done since the last look is reported as one. Such a report's end is not when its records were done, so their arrival
times are given as seen from there: each lies its record's own latency before the report's end.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np

from penstock.errors import ActuationRejectedError
from penstock.ports import FloatArray
from penstock.records import (
    Action,
    Allocation,
    BatchProgress,
    CpuReading,
    ExecutorState,
    SourceProgress,
    Telemetry,
)
from penstock.simulator.block import Block
from penstock.simulator.engine import Simulation
from penstock.simulator.operator_state import OperatorState
from penstock.topology import ARRIVALS

_REPORTS_KEPT = 10_000
_HISTORY_SECONDS = 900.0
_DESCRIPTION = "simulated"


class SimulatedArrivals:
    """When an operator's records arrived (`penstock.ports.ArrivalTimes`)."""

    def __init__(self, state: OperatorState) -> None:
        self._state = state
        self._reports: OrderedDict[int, tuple[int, FloatArray]] = OrderedDict()

    def add(self, start: int, end: int, times: FloatArray) -> None:
        """Remember the arrival times of the records `start` to `end` for a while."""
        self._reports[end] = (start, times)
        while len(self._reports) > _REPORTS_KEPT:
            self._reports.popitem(last=False)

    def of(self, source: SourceProgress) -> FloatArray | None:
        """Arrival times of the records in a report; None where it is not this operator's or long gone."""
        end = _index(source.end_offset)
        start, times = self._reports.get(-1 if end is None else end, (None, None))
        return times if start == (_index(source.start_offset) or 0) else None

    def arrived_by(self, at: float) -> int | None:
        """How many records have arrived up to `at`; None where that is not remembered any more."""
        return self._state.arrived_by(at)

    def done_index(self, source: SourceProgress) -> int | None:
        """How many records are done when this report ends."""
        return _index(source.end_offset)


class TimedSimulatedArrivals(SimulatedArrivals):
    """The same for an operator that reads the arrivals: they are known as they come."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        super().__init__(simulation.operators[name])
        self._simulation = simulation

    def between(self, start: float, end: float) -> FloatArray | None:
        """Those after `start` and up to `end`."""
        times = self._simulation.times[: self._simulation.arrived]
        return times[np.searchsorted(times, start, side="right") : np.searchsorted(times, end, side="right")]


class SimulatedMetrics:
    """What an operator reports (`penstock.ports.MetricSource`)."""

    def __init__(self, simulation: Simulation, name: str, arrivals: SimulatedArrivals) -> None:
        self._simulation = simulation
        self._state = simulation.operators[name]
        self._arrivals = arrivals
        self._name = name
        self._looked_at = simulation.now()
        self._reported = 0
        self._batch_id = 0

    def collect(self) -> Telemetry:
        """What is new since the last call."""
        now = self._simulation.now()
        batches = tuple(self._batches(now))
        self._looked_at = now
        there, asked = self._state.allocation, self._state.asked
        hosts = [node for node, count in there.nodes for _ in range(count)] or ["simulated"] * there.executors
        in_tasks = self._state.task_seconds(now)
        executors = tuple(
            ExecutorState(str(i), host, 1, is_active=True, active_tasks=0, task_seconds=in_tasks)
            for i, host in enumerate(hosts)
        )
        if not self._state.operator.cpu_is_read:
            return Telemetry(self._name, now, batches, executors)
        # As the kernel's group has it: one quota for as many executors as were asked for.
        cpu = CpuReading(now, self._state.work_done(now), 0.0, asked.executors * there.cpu_share, there.executors)
        return Telemetry(self._name, now, batches, executors, cpu)

    def _batches(self, now: float) -> Iterator[BatchProgress]:
        finished = self._state.take_batches()
        if finished is None:
            done = self._state.take_done()
            if len(done):
                yield self._report(self._looked_at, now, done, now - (done.done - done.arrived))
            return
        for batch in finished:
            yield self._report(batch.started_at, batch.ended_at, batch.records, batch.records.arrived)

    def _report(self, started_at: float, ended_at: float, records: Block, arrived: FloatArray) -> BatchProgress:
        start, end = self._reported, self._reported + len(records)
        self._reported = end
        self._batch_id += 1
        self._arrivals.add(start, end, arrived)
        source = SourceProgress(_DESCRIPTION, _offset(start), _offset(end), _offset(self._state.arrived), len(records))
        return BatchProgress(
            operator=self._name,
            query_id=self._name,
            run_id="simulation",
            batch_id=self._batch_id - 1,
            started_at=started_at,
            ended_at=ended_at,
            rows=len(records),
            phase_seconds={},
            sources=(source,),
        )


class SimulatedActuator:
    """Where an operator's allocation is changed (`penstock.ports.Actuator`)."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self._simulation = simulation
        self._state = simulation.operators[name]
        self._before: Allocation | None = None
        self._seen: set[str] = set()

    @property
    def can_set_cpu_share(self) -> bool:
        """It can."""
        return True

    def request(self, action: Action) -> None:
        """Ask for the allocation in `action`: the share at once, new executors after their start-up time.

        Raises
        ------
        ActuationRejectedError
            It has another executor size, which the simulated cluster does not know, or nodes that the operator may not
            have.
        """
        limits, target = self._state.operator.limits, action.target
        refused = None
        if target.size:
            refused = "size: the simulator has one executor size; leave `size` out"
        elif target.nodes and not limits.nodes:
            refused = "nodes: the simulated operator has no nodes to choose from; leave `nodes` out"
        elif not limits.may_hold(target.nodes):
            refused = f"nodes: {target} is not on nodes that the operator may have ({', '.join(limits.nodes)})"
        if refused is not None:
            raise ActuationRejectedError(refused, target=action.operator, request_id=action.request_id)
        if action.request_id in self._seen:
            return
        self._seen.add(action.request_id)
        if self._before is None:
            self._before = self._state.asked
        self._state.ask(self._simulation.now(), action.target)

    def release(self) -> None:
        """Go back to what was there before the first request."""
        if self._before is not None:
            self._state.ask(self._simulation.now(), self._before)


class OperatorPorts:
    """The three ports of one simulated operator; ask for them before the simulation moves.

    Parameters
    ----------
    simulation, name
        Which operator.
    history_seconds
        How far back it is remembered how many records had arrived.
    """

    def __init__(self, simulation: Simulation, name: str, *, history_seconds: float = _HISTORY_SECONDS) -> None:
        simulation.operators[name].watch(history_seconds)
        topology = simulation.pipeline.topology
        is_whole = any(s.source == ARRIVALS and s.selectivity == 1.0 for s in topology.inputs(name))
        reads_arrivals_only = is_whole and len(topology.inputs(name)) == 1
        self.arrival_times = (
            TimedSimulatedArrivals(simulation, name)
            if reads_arrivals_only
            else SimulatedArrivals(simulation.operators[name])
        )
        self.source = SimulatedMetrics(simulation, name, self.arrival_times)
        self.actuator = SimulatedActuator(simulation, name)


def _offset(index: int) -> str:
    return json.dumps({"index": index})


def _index(text: str | None) -> int | None:
    if text is None:
        return None
    fields = json.loads(text)
    index = fields.get("index") if isinstance(fields, dict) else None
    return index if isinstance(index, int) else None
