# SPDX-License-Identifier: Apache-2.0
"""What a window of arrivals would have met under any allocation of a pipeline.

With the service demands known, a window can be replayed right where it is planned for: Lindley's recursion, operator by
operator, or batch by batch, on the window's own arrival times. MEAD plans by that wherever it is possible.

A window of a fast stream may be over within a few batches. So batches are replayed from the size at which they settle
under the window's rate, over the window twice, and the second time counts. Batches take their mean times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.errors import ConfigurationError
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.pipeline_model import PipelineModel
from penstock.performance.queueing.micro_batch.server import MicroBatch
from penstock.performance.replay import batch_ends, record_ends, selected, statistic
from penstock.ports import FloatArray
from penstock.records import Allocation, Prediction
from penstock.topology import ARRIVALS, Path


def why_not_replayed(inputs: Mapping[str, int], in_batches: Mapping[str, bool]) -> str | None:
    """Why a pipeline cannot be replayed, from how many streams operators read and how; None: it can.

    Examples
    --------
    >>> why_not_replayed({"left": 1, "both": 2}, {"left": True, "both": True})
    'both reads several streams'
    """
    joins = [name for name, streams in inputs.items() if streams > 1]
    if joins:
        return f"{joins[0]} reads several streams"
    if len(set(in_batches.values())) > 1:
        return "some operators take records one by one, others in batches"
    return None


def why_model_not_replayed(pipeline: PipelineModel) -> str | None:
    """Why this model of a pipeline cannot be replayed; None: it can."""
    return why_not_replayed(
        {o.name: len(o.streams) for o in pipeline.operators},
        {o.name: isinstance(o.demand, BatchDemand) for o in pipeline.operators},
    )


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
        Operators, graph and objectives; see `why_not_replayed`.
    arrivals
        When the window's records arrived at the source, rising.
    seed
        Seed of the service times. All shares are replayed with the same work, so that more CPU never makes a path
        slower.
    errors
        Standard errors by which a learnt demand is moved to the slow side.
    records_each
        How many records each arrival stands for; more than one only in batches.

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

    def __init__(
        self,
        pipeline: PipelineModel,
        arrivals: FloatArray,
        *,
        seed: int = 0,
        errors: float = 0.0,
        records_each: int = 1,
    ) -> None:
        why_not = why_model_not_replayed(pipeline)
        if why_not is not None:
            raise ConfigurationError(f"pipeline: {why_not}, and that cannot be replayed", field="pipeline")
        if len(arrivals) < 2 or not arrivals[-1] > arrivals[0]:
            raise ConfigurationError("arrivals: a window needs two arrivals or more, at two instants", field="arrivals")
        self.pipeline = pipeline
        self._arrivals: FloatArray = arrivals - arrivals[0]
        self._gap = float(self._arrivals[-1]) / (len(arrivals) - 1)
        self._rate = records_each / self._gap
        self._seed, self._errors, self._each = seed, errors, records_each
        self._in_batches = any(isinstance(o.demand, BatchDemand) for o in pipeline.operators)
        if records_each > 1 and not self._in_batches:
            raise ConfigurationError(
                "records_each: records that are served one by one cannot be replayed in groups", field="records_each"
            )
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
            return batch_ends(came, _in_groups(server, self._each), 0.0 if math.isinf(settled) else settled)
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
        return np.concatenate([self._arrivals, self._arrivals + float(self._arrivals[-1]) + self._gap])

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


def _in_groups(server: MicroBatch, each: int) -> MicroBatch:
    """The server as it is for groups of so many records that arrive together."""
    if each == 1:
        return server
    cap = None if server.cap is None else max(1, server.cap // each)
    return replace(server, per_record=each * server.per_record, cap=cap)
