# SPDX-License-Identifier: Apache-2.0
"""What a window of arrivals would have met under any allocation, and predictions that are limited by it.

A fitted process is judged where its window was replayed, at utilisations of a half and more (`workload`). Pipelines
with rare, huge bursts are run far below that, and there a fit may be wrong by any factor: on the block I/O trace of the
experiments, at a utilisation of 0.03, it predicts 16 s where the window itself met 0.3 s. With the service demands
known, the window can be replayed right where it is planned for: Lindley's recursion, operator by operator, or batch by
batch, on the window's own arrival times. What was met is the least to be expected again. What a fit says beyond it is
believed up to a factor: that is what fits are for, bursts that did not happen to come within the window.

A window of a fast stream may be over within a few batches. So batches are replayed from the size at which they settle
under the window's rate, over the window twice, and the second time counts. Batches take their mean times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.errors import ConfigurationError
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.narrowed_latency import NarrowedLatency
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import PipelineModel
from penstock.performance.queueing.micro_batch.server import MicroBatch
from penstock.ports import FloatArray
from penstock.records import Allocation, Prediction
from penstock.topology import ARRIVALS, Path


def can_be_replayed(pipeline: PipelineModel) -> bool:
    """Whether each operator reads one stream, and all take records one by one or all in batches."""
    kinds = {type(o.demand) for o in pipeline.operators}
    return len(kinds) == 1 and all(len(o.streams) == 1 for o in pipeline.operators)


@dataclass(frozen=True, eq=False, slots=True)
class _Passed:
    """What the window's records met at one operator, when it was last replayed.

    `number` tells replays apart, and `after` is that of the operator before. `left` and `origin` are when records left
    and when they had arrived at the source. `here` and `since` are the times at the operator and since the arrival, of
    the records that count.
    """

    number: int
    after: int
    allocation: Allocation | None
    left: FloatArray
    origin: FloatArray
    here: FloatArray
    since: FloatArray
    _known: dict[tuple[str, float | None], float] = field(default_factory=dict)

    def at_operator(self, p: float | None) -> float:
        """A statistic of the time at the operator; None: the mean."""
        return self._statistic("here", self.here, p)

    def since_arrival(self, p: float | None) -> float:
        """A statistic of the time since the arrival at the source; None: the mean."""
        return self._statistic("since", self.since, p)

    def _statistic(self, which: str, times: FloatArray, p: float | None) -> float:
        if (which, p) not in self._known:
            self._known[which, p] = _statistic(times, p)
        return self._known[which, p]


class ReplayedLatency:
    """The path latencies of a window of arrivals, replayed through the pipeline; a `ports.PathLatency`.

    Parameters
    ----------
    pipeline
        Operators, graph and objectives; see `can_be_replayed`.
    arrivals
        When the window's records arrived at the source, rising.
    seed
        Seed of the service times. All shares are replayed with the same work, so that more CPU never makes a path
        slower.

    Examples
    --------
    >>> from penstock.markov import PH
    >>> from penstock.performance.pipeline_model import OperatorModel
    >>> from penstock.records import Objective
    >>> one = OperatorModel("matcher", RecordDemand(PH.erlang(400, mean=1.0)))
    >>> replayed = ReplayedLatency(PipelineModel([one], Objective("mean", 9.0)), np.array([0.0, 0.0, 10.0]))
    >>> [path] = replayed.predict({"matcher": Allocation(1, 1.0)})
    >>> round(path.seconds, 1)  # (1 + 2 + 1) / 3
    1.3
    """

    def __init__(self, pipeline: PipelineModel, arrivals: FloatArray, *, seed: int = 0) -> None:
        if not can_be_replayed(pipeline):
            raise ConfigurationError(
                "pipeline: it cannot be replayed; every operator must read one stream, and all must take records "
                "one by one or all in batches",
                field="pipeline",
            )
        if len(arrivals) < 2 or not arrivals[-1] > arrivals[0]:
            raise ConfigurationError("arrivals: a window needs two arrivals or more, at two instants", field="arrivals")
        self.pipeline = pipeline
        self._arrivals: FloatArray = arrivals - arrivals[0]
        self._rate = (len(arrivals) - 1) / float(self._arrivals[-1])
        self._work: dict[str, FloatArray] = {}
        self._mean_work: dict[str, float] = {}
        for number, name in enumerate(pipeline.order):
            demand = pipeline.operator(name).demand
            if isinstance(demand, RecordDemand):
                count = math.ceil(len(arrivals) * pipeline.visits[name]) + 1
                self._work[name] = demand.service.sample(count, np.random.default_rng([seed, number]))
                self._mean_work[name] = float(self._work[name].mean())
        replayed = self._twice()
        self._counted_from = float(replayed[-1] - self._arrivals[-1])
        nothing = np.empty(0)
        self._passed = {ARRIVALS: _Passed(0, 0, None, replayed, replayed, nothing, nothing)}
        self._replays = 0

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators, each after those it reads from."""
        return self.pipeline.order

    @property
    def paths(self) -> tuple[Path, ...]:
        """The source-to-sink paths."""
        return self.pipeline.paths

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[Prediction, ...]:
        """Replay the window under these allocations."""
        for name in self.operators:
            self._replay(name, allocations[name])
        return tuple(self._path(path, allocations) for path in self.paths)

    def _replay(self, name: str, has: Allocation) -> None:
        """Replay one operator, unless nothing has changed for it since the last time.

        Of many allocations that a search asks for, one differs from the next in an operator or two.
        """
        operator = self.pipeline.operator(name)
        (stream,) = operator.streams
        before, last = self._passed[stream.source], self._passed.get(name)
        if last is not None and last.after == before.number and last.allocation == has:
            return
        came, origin = _selected(stream.selectivity, before.left, before.origin)
        ended = self._ended(name, came, has)
        left, left_origin = _selected(operator.selectivity, ended, origin)
        self._replays += 1
        counted = int(np.searchsorted(origin, self._counted_from))
        self._passed[name] = _Passed(
            self._replays, before.number, has, left, left_origin, (ended - came)[counted:], (ended - origin)[counted:]
        )

    def _ended(self, name: str, came: FloatArray, has: Allocation) -> FloatArray:
        demand = self.pipeline.operator(name).demand
        if isinstance(demand, BatchDemand):
            server = demand.at(has)
            settled = server.smooth_batch_seconds(self._rate * self.pipeline.visits[name])
            return _batch_ends(came, server, 0.0 if math.isinf(settled) else settled)
        return _ends(came, self._work[name][: len(came)] / has.cpu_share, has.executors)

    def _twice(self) -> FloatArray:
        """The window's arrivals once to settle and once to look at; single records need no settling."""
        if self._work:
            return self._arrivals
        return np.concatenate([self._arrivals, self._arrivals + float(self._arrivals[-1]) + 1.0 / self._rate])

    def _path(self, path: Path, allocations: Mapping[str, Allocation]) -> Prediction:
        p = self.pipeline.probability(path)
        return Prediction(
            path=path,
            seconds=self._passed[path[-1]].since_arrival(p),
            bound_seconds=self.pipeline.bound(path),
            operator_seconds={name: self._passed[name].at_operator(p) for name in path},
            utilisation={name: self._utilisation(name, allocations[name]) for name in path},
            worst="replayed",
        )

    def _utilisation(self, name: str, allocation: Allocation) -> float:
        demand = self.pipeline.operator(name).demand
        if isinstance(demand, BatchDemand):
            return demand.at(allocation).utilisation(self._rate * self.pipeline.visits[name])
        return self._rate * self.pipeline.visits[name] * self._mean_work[name] / allocation.capacity


@dataclass(frozen=True, eq=False, slots=True)
class CheckedWindow:
    """The fits of one window, and the window itself to hold them against; None where it cannot be replayed."""

    label: str
    fitted: PipelineLatency | NarrowedLatency
    replayed: ReplayedLatency | None


@dataclass(frozen=True, eq=False, slots=True)
class CheckedLatency:
    """The worst over windows of what their fits predict, between what each met and so many times that.

    A `ports.PathLatency`. Where an operator cannot keep up with a window's rate, the time is infinite whatever the
    replay of the finite window came to. Queues are solved only where the replay leaves a bound undecided. Elsewhere
    the time given is the end of the interval that decides.

    Parameters
    ----------
    windows
        At least one.
    believed
        The factor up to which fits are believed, at least 1.
    """

    windows: Sequence[CheckedWindow]
    believed: float = 2.0

    def __post_init__(self) -> None:
        if not self.windows:
            raise ConfigurationError("windows: give at least one", field="windows")
        if not self.believed >= 1.0:
            raise ConfigurationError(f"believed: {self.believed!r} must be at least 1", field="believed")

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators, each after those it reads from."""
        return self.windows[0].fitted.operators

    @property
    def paths(self) -> tuple[Path, ...]:
        """The source-to-sink paths."""
        return self.windows[0].fitted.paths

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[Prediction, ...]:
        """Predict every path, each in its worst case over windows."""
        of_windows = [self._window(window, allocations) for window in self.windows]
        return tuple(
            max(paths, key=lambda one: (one.seconds, max(one.utilisation.values())))
            for paths in zip(*of_windows, strict=True)
        )

    def widen(self, allocations: Mapping[str, Allocation]) -> bool:
        """Look at all processes of the windows whose fits decide here; True: there are worse ones than so far."""
        widened = [self._widened(window, allocations) for window in self.windows]  # all, not up to the first
        return any(widened)

    def _widened(self, window: CheckedWindow, allocations: Mapping[str, Allocation]) -> bool:
        if not isinstance(window.fitted, NarrowedLatency):
            return False
        met = () if window.replayed is None else window.replayed.predict(allocations)
        if met and all(self._decided(window.label, path)[1] for path in met):
            return False
        return window.fitted.widen(allocations)

    def _window(self, window: CheckedWindow, allocations: Mapping[str, Allocation]) -> list[Prediction]:
        if window.replayed is None:
            return list(window.fitted.predict(allocations))
        decided = [self._decided(window.label, met) for met in window.replayed.predict(allocations)]
        if all(is_decided for _, is_decided in decided):
            return [met for met, _ in decided]
        return [
            met if is_decided else self._between(window.label, fit, met)
            for fit, (met, is_decided) in zip(window.fitted.predict(allocations), decided, strict=True)
        ]

    def _decided(self, label: str, met: Prediction) -> tuple[Prediction, bool]:
        """What the replay alone says of a path, and whether the bound is kept or broken whatever the fits say.

        The least time is given for a bound that is kept anyway, and the most for a broken one, so that times fall as
        shares rise.
        """
        if max(met.utilisation.values()) >= 1.0:
            return replace(met, seconds=math.inf, worst=f"{label}, cannot keep up"), True
        if self.believed * met.seconds <= met.bound_seconds:
            return replace(met, worst=f"{label}, replayed"), True
        if met.seconds > met.bound_seconds:
            return self._most(met, f"{label}, replayed x {self.believed:g}"), True
        return met, False

    def _between(self, label: str, fit: Prediction, met: Prediction) -> Prediction:
        if fit.seconds < met.seconds:
            return replace(met, worst=f"{label}, replayed")
        most = self._most(met, f"{fit.worst}, believed to {self.believed:g} x")
        return fit if fit.seconds <= most.seconds else most

    def _most(self, met: Prediction, worst: str) -> Prediction:
        parts = {name: self.believed * seconds for name, seconds in met.operator_seconds.items()}
        return replace(met, seconds=self.believed * met.seconds, operator_seconds=parts, worst=worst)


def _ends(came: FloatArray, work: FloatArray, executors: int) -> FloatArray:
    """When records are done that came then, each executor taking every so many in turn (Lindley 1952)."""
    if executors > 1:
        ended = np.empty_like(came)
        for first in range(executors):
            ended[first::executors] = _ends(came[first::executors], work[first::executors], 1)
        return np.maximum.accumulate(ended)  # handed on in the order in which they came
    served = np.cumsum(work)
    # D_n = max over k <= n of (A_k + S_k + ... + S_n)
    return served + np.maximum.accumulate(came - (served - work))


def _batch_ends(came: FloatArray, server: MicroBatch, running: float) -> FloatArray:
    """When records are done that came then, all that wait riding together; one batch is `running` so long already."""
    ended = np.empty_like(came)
    first, free, cap = 0, running, server.cap or len(came)
    while first < len(came):
        start = max(free, float(came[first]))
        if server.trigger is not None and start > free:  # nobody waits: the next trigger takes what has come
            start = server.trigger * math.ceil(start / server.trigger)
        last = min(int(np.searchsorted(came, start, side="right")), first + cap)
        end = start + server.fixed + server.per_record * (last - first)
        ended[first:last] = end
        # A batch that outlasts the next trigger is followed at once.
        free = end if server.trigger is None else max(end, server.trigger * math.floor(start / server.trigger + 1.0))
        first = last
    return ended


def _selected(selectivity: float, ended: FloatArray, origin: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The records that remain, evenly spread."""
    if selectivity == 1.0:
        return ended, origin
    copies = np.diff(np.floor(selectivity * np.arange(len(ended) + 1))).astype(np.int64)
    return np.repeat(ended, copies), np.repeat(origin, copies)


def _statistic(times: FloatArray, p: float | None) -> float:
    if not len(times):
        return 0.0
    if p is None:
        return float(times.mean())
    rank = max(1, math.ceil(p * len(times))) - 1
    return float(np.partition(times, rank)[rank])
