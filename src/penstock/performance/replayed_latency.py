# SPDX-License-Identifier: Apache-2.0
"""What a window of arrivals would have met under any allocation of a pipeline.

With the service demands known, a window can be replayed right where it is planned for: Lindley's recursion, operator by
operator, or batch by batch, on the window's own arrival times. `checked_latency` holds fits against that.

A window of a fast stream may be over within a few batches. So batches are replayed from the size at which they settle
under the window's rate, over the window twice, and the second time counts. Batches take their mean times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.errors import ConfigurationError
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.pipeline_model import PipelineModel
from penstock.performance.replay import batch_ends, record_ends, selected, statistic
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
            self._known[which, p] = statistic(times, p)
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
    errors
        Standard errors by which a learnt demand is moved to the slow side.

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

    def __init__(self, pipeline: PipelineModel, arrivals: FloatArray, *, seed: int = 0, errors: float = 0.0) -> None:
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
        self._seed, self._errors = seed, errors
        self._in_batches = any(isinstance(o.demand, BatchDemand) for o in pipeline.operators)
        self._work: dict[str, FloatArray] = {}
        self._mean_work: dict[str, float] = {}
        self._passed: dict[str, _Passed] = {}
        self._counted_from = 0.0
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
        if not self._passed:
            replayed, nothing = self._twice(), np.empty(0)
            self._counted_from = float(replayed[-1] - self._arrivals[-1])
            self._passed[ARRIVALS] = _Passed(0, 0, None, replayed, replayed, nothing, nothing)
        for name in self.operators:
            self._replay(name, allocations[name])
        return tuple(self._path(path, allocations) for path in self.paths)

    def rest(self) -> None:
        """Let go of all records; the next prediction begins anew. A window has tens of thousands of them."""
        self._passed.clear()
        self._work.clear()

    def _replay(self, name: str, has: Allocation) -> None:
        """Replay one operator, unless nothing has changed for it since the last time.

        Of many allocations that a search asks for, one differs from the next in an operator or two.
        """
        operator = self.pipeline.operator(name)
        (stream,) = operator.streams
        before, last = self._passed[stream.source], self._passed.get(name)
        if last is not None and last.after == before.number and last.allocation == has:
            return
        came, origin = selected(stream.selectivity, before.left, before.origin)
        ended = self._ended(name, came, has)
        left, left_origin = selected(operator.selectivity, ended, origin)
        self._replays += 1
        counted = int(np.searchsorted(origin, self._counted_from))
        self._passed[name] = _Passed(
            self._replays, before.number, has, left, left_origin, (ended - came)[counted:], (ended - origin)[counted:]
        )

    def _ended(self, name: str, came: FloatArray, has: Allocation) -> FloatArray:
        demand = self.pipeline.operator(name).demand
        if isinstance(demand, BatchDemand):
            rate = self._rate * self.pipeline.visits[name]
            server = demand.moved(self._errors, rate, has).at(has)
            settled = server.smooth_batch_seconds(rate)
            return batch_ends(came, server, 0.0 if math.isinf(settled) else settled)
        return record_ends(came, self._work_of(name, demand)[: len(came)] / has.cpu_share, has.executors)

    def _work_of(self, name: str, demand: RecordDemand) -> FloatArray:
        """The service times of an operator's records at full share: the same whenever they are asked for."""
        if name not in self._work:
            count = math.ceil(len(self._arrivals) * self.pipeline.visits[name]) + 1
            generator = np.random.default_rng([self._seed, self.pipeline.order.index(name)])
            self._work[name] = demand.moved(self._errors).service.sample(count, generator)
            self._mean_work[name] = float(self._work[name].mean())
        return self._work[name]

    def _twice(self) -> FloatArray:
        """The window's arrivals once to settle and once to look at; single records need no settling."""
        if not self._in_batches:
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
            rate = self._rate * self.pipeline.visits[name]
            return demand.moved(self._errors, rate, allocation).at(allocation).utilisation(rate)
        return self._rate * self.pipeline.visits[name] * self._mean_work[name] / allocation.capacity
