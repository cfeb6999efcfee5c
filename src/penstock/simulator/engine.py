# SPDX-License-Identifier: Apache-2.0
"""The simulation: arrivals flow through the operators, interval by interval, each operator's over whole arrays.

Operators are taken in the order of the graph. Up to any instant an operator's output depends on its input up to that
instant alone, so each can be brought there before the next begins, and streams that meet are merged by time. No step
is taken per record; how the run is cut into intervals changes nothing.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.errors import ConfigurationError
from penstock.ports import FloatArray
from penstock.records import Allocation
from penstock.simulator.block import Block, IntArray
from penstock.simulator.draws import IndexedDraws, uniforms
from penstock.simulator.operator_state import OperatorState
from penstock.simulator.pipeline import Pipeline
from penstock.topology import ARRIVALS, Path, Stream

_AT_ONCE = 1 << 15
"""Records of the source taken in one step: the columns of a step then stay in the processor's cache."""


@dataclass(slots=True)
class PathRecords:
    """What came to the end of one path: when, and when it had come to the pipeline."""

    ended: list[FloatArray] = field(default_factory=list)
    arrived: list[FloatArray] = field(default_factory=list)

    def ended_at(self) -> FloatArray:
        """When each record ended, rising."""
        return _one(self.ended)

    def arrived_at(self) -> FloatArray:
        """When each of them had arrived at the pipeline."""
        return _one(self.arrived)

    def latencies(self) -> FloatArray:
        """The latency of each record, in the order of their ends."""
        return self.ended_at() - self.arrived_at()


@dataclass(frozen=True, slots=True)
class _Flow:
    """What flows out of an operator, or into the pipeline, in one step."""

    times: FloatArray
    origin: FloatArray
    way: IntArray | None
    number: IntArray | None


class Simulation:
    """A pipeline under a virtual clock.

    Parameters
    ----------
    pipeline
        What is simulated.
    times
        When records arrive at its source: seconds from 0, none smaller than the one before.
    seed
        Of the service times and selectivities: the same seed, the same answer.
    start
        Allocations at time zero where they are not the top of the limits.

    Notes
    -----
    It is its own clock (`penstock.clock.Clock`): waiting is simulating.

    Examples
    --------
    >>> from penstock.simulator import Deterministic, Operator, Pipeline
    >>> simulation = Simulation(Pipeline.of_one(Operator("parser", Deterministic(1.0))), np.array([0.0, 0.5, 3.0]))
    >>> simulation.finish()
    >>> simulation.records[("parser",)].latencies().tolist()
    [1.0, 1.5, 1.0]
    """

    def __init__(
        self,
        pipeline: Pipeline,
        times: FloatArray,
        *,
        seed: int = 0,
        start: Mapping[str, Allocation] | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.times = np.asarray(times, dtype=np.float64)
        _check_times(self.times)
        self._now = 0.0
        begin = start or {}
        self.operators: Mapping[str, OperatorState] = {
            o.name: OperatorState(o, seed, begin.get(o.name, o.limits.top), pipeline.round_trips)
            for o in pipeline.order
        }
        self.records: Mapping[Path, PathRecords] = {path: PathRecords() for path in pipeline.paths}
        self._fed = 0
        self._plans = [self._plan(name, seed) for name in self.operators]
        self._keep: dict[str, Callable[[IntArray], IntArray]] = {
            o.name: keep for o in pipeline.order if (keep := _copies(o.selectivity, seed, o.name)) is not None
        }

    def now(self) -> float:
        """The virtual present."""
        return self._now

    def monotonic(self) -> float:
        """The virtual present: nobody sets this clock."""
        return self._now

    def wait(self, seconds: float, until: threading.Event) -> bool:
        """Simulate for `seconds`; nothing sleeps."""
        if not until.is_set():
            self.advance(self._now + max(0.0, seconds))
        return until.is_set()

    @property
    def arrived(self) -> int:
        """How many records have arrived at the source so far."""
        return self._fed

    @property
    def is_done(self) -> bool:
        """Whether every record has arrived and gone through."""
        return self._fed == len(self.times) and all(o.done == o.arrived for o in self.operators.values())

    def advance(self, until: float) -> None:
        """Simulate up to the instant `until`."""
        if not self._now <= until < math.inf:
            raise ValueError(f"time does not run backwards or to its end: advance({until}) at {self._now}")
        end = int(np.searchsorted(self.times, until, side="right"))
        while end - self._fed > _AT_ONCE:
            # Up to this record's instant, with all that came at the same one: a step ends between instants.
            instant = float(self.times[self._fed + _AT_ONCE - 1])
            self._step(instant, int(np.searchsorted(self.times, instant, side="right")))
        self._step(until, end)
        self._now = until

    def finish(self) -> None:
        """Simulate until every record has gone through, under the allocations in force."""
        self.advance(max(self._now, float(self.times[-1])))
        # Whatever the time unit: twice as far ahead each time, from the mean gap on (or from the work of one record).
        ahead = max(float(self.times[-1]) / len(self.times), *(o.operator.server.mean for o in self.operators.values()))
        while not self.is_done:
            self.advance(self._now + ahead)
            ahead *= 2.0

    def _step(self, until: float, end: int) -> None:
        arriving = self.times[self._fed : end]
        numbers = np.arange(self._fed, end, dtype=np.int64)
        self._fed = end
        flows = {ARRIVALS: _Flow(arriving, arriving, None, numbers)}
        for plan in self._plans:
            state = self.operators[plan.name]
            flow = plan.gather(flows)
            done = state.advance(until, flow.times, flow.origin, flow.way)
            if plan.paths:
                self._count(plan.paths, done)
            else:
                flows[plan.name] = self._flow_out(plan.name, done)

    def _flow_out(self, name: str, done: Block) -> _Flow:
        keep = self._keep.get(name)
        if keep is None:
            return _Flow(done.done, done.origin, done.way, done.number)
        copies = keep(done.number)
        way = None if done.way is None else np.repeat(done.way, copies)
        return _Flow(np.repeat(done.done, copies), np.repeat(done.origin, copies), way, np.repeat(done.number, copies))

    def _count(self, paths: tuple[Path, ...], done: Block) -> None:
        if done.way is None:
            if len(done):
                self.records[paths[0]].ended.append(done.done)
                self.records[paths[0]].arrived.append(done.origin)
            return
        for way, path in enumerate(paths):
            mine = done.way == way
            if mine.any():
                self.records[path].ended.append(done.done[mine])
                self.records[path].arrived.append(done.origin[mine])

    def _plan(self, name: str, seed: int) -> _Plan:
        pipeline, first, inputs = self.pipeline, 0, []
        for stream in pipeline.topology.inputs(name):
            # Where this stream's part of the unit interval begins: after those of the streams before it.
            siblings = pipeline.streams[: pipeline.streams.index(stream)]
            offset = sum(s.selectivity % 1.0 for s in siblings if s.source == stream.source) % 1.0
            copies = _copies(stream.selectivity, seed, f"{stream.source}/streams", offset)
            inputs.append(_Input(stream, first, copies))
            first += len(pipeline.topology.ways[stream.source])
        paths = pipeline.topology.ways[name] if name in pipeline.topology.sinks else ()
        return _Plan(name, tuple(inputs), is_tagged=first > 1, paths=paths)


@dataclass(frozen=True, slots=True)
class _Input:
    stream: Stream
    first_way: int
    copies: Callable[[IntArray], IntArray] | None

    def flow(self, flows: Mapping[str, _Flow], is_tagged: bool) -> _Flow:
        flow = flows[self.stream.source]
        times, origin, way = flow.times, flow.origin, flow.way
        if is_tagged:
            way = np.full(len(times), self.first_way) if way is None else way + self.first_way
        if self.copies is not None:
            assert flow.number is not None
            copies = self.copies(flow.number)
            times, origin = np.repeat(times, copies), np.repeat(origin, copies)
            way = None if way is None else np.repeat(way, copies)
        return _Flow(times, origin, way, None)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one operator is fed: its inputs, whether records must know their way, and the paths that end at it."""

    name: str
    inputs: tuple[_Input, ...]
    is_tagged: bool
    paths: tuple[Path, ...]

    def gather(self, flows: Mapping[str, _Flow]) -> _Flow:
        """The streams into the operator, merged by time; of records at one instant the first stream's come first."""
        parts = [one.flow(flows, self.is_tagged) for one in self.inputs]
        if len(parts) == 1:
            return parts[0]
        times = np.concatenate([part.times for part in parts])
        order = np.argsort(times, kind="stable")
        ways = [part.way for part in parts if part.way is not None]
        return _Flow(
            times[order],
            np.concatenate([part.origin for part in parts])[order],
            np.concatenate(ways)[order] if ways else None,
            None,
        )


def _copies(selectivity: float, seed: int, name: str, offset: float = 0.0) -> Callable[[IntArray], IntArray] | None:
    """How many records go on for each, by number; None where it is always one."""
    whole, rest = divmod(selectivity, 1.0)
    if rest == 0.0:
        return None if whole == 1.0 else lambda numbers: np.full(len(numbers), int(whole))
    draws = uniforms(seed, f"{name}/selectivity")
    return lambda numbers: int(whole) + ((_at(draws, numbers) - offset) % 1.0 < rest).astype(np.int64)


def _at(draws: IndexedDraws, numbers: IntArray) -> FloatArray:
    if not len(numbers):
        return np.empty(0)
    first, last = int(numbers.min()), int(numbers.max())
    drawn: FloatArray = draws.between(first, last + 1)[numbers - first]
    return drawn


def _one(parts: list[FloatArray]) -> FloatArray:
    if len(parts) != 1:
        parts[:] = [np.concatenate(parts) if parts else np.empty(0)]
    return parts[0]


def _check_times(times: FloatArray) -> None:
    if times.ndim != 1:
        raise ConfigurationError("times: give one row of arrival times", field="times")
    if not len(times):
        raise ConfigurationError("times: there is no arrival; give at least one time", field="times")
    if not (np.isfinite(times[0]) and np.isfinite(times[-1]) and times[0] >= 0.0 and (np.diff(times) >= 0.0).all()):
        raise ConfigurationError("times: arrival times must be finite, from 0 on, and never fall", field="times")
