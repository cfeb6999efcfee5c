# SPDX-License-Identifier: Apache-2.0
"""The latency along every path of a pipeline, for any allocations: the worst over all models of the workload.

The Performance Analyzer of MEAD (Sec. V-A): the pipeline as an open queueing network, solved operator by operator, each
answer kept, so that a search over allocations asks for few queues. What comes to an operator below the first:

* ``source``: the source's process, thinned or sped up to the rate at which it is visited (so the solver behind MEAD
  does it by default). Operators above really smooth bursts out, so this errs on the safe side where several operators
  are about as slow. An answer depends on the operator's own allocation alone: quick, and more CPU is never slower.
* ``onward``: of operators in a row that see the same records, the fullest is given the source's process and the others
  what it passes on (`queueing.network` says why that is right). Closer, and some times as dear.

benchmarks/mead_plan has the figures of both. Along a path means add up and distributions are convolved, as if times
were independent. They are not quite: in a burst they are long in one operator after the other. For ``source`` that is
within what it is too high by; for ``onward`` percentiles are moved towards the sum of percentiles, as
`queueing.network` does it.

Models: ``map`` as fitted; ``m/g/1`` the same rates without bursts; ``gi/g/1`` the same rates and variability without
correlation, means alone (Kingman), for records served one by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov import MAP
from penstock.markov.conditions import FloatArray
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.operator_latency import MODELS, Model
from penstock.performance.path_sum import Laws, sum_percentiles
from penstock.performance.pipeline_model import PipelineModel
from penstock.performance.queueing.general import solve_gi_g_1, solve_m_g_1
from penstock.performance.queueing.micro_batch import MicroBatchSolver
from penstock.performance.queueing.departure_process import departure_process
from penstock.performance.queueing.response import Response
from penstock.performance.queueing.single_server import solve_map_ph_1
from penstock.performance.screening import single_records
from penstock.performance.streams import visited
from penstock.ports import PathPrediction
from penstock.records import Allocation
from penstock.topology import Path

Flow = Literal["source", "onward"]
FLOWS: tuple[Flow, ...] = ("source", "onward")
Row = tuple[tuple[str, Allocation], ...]
"""Operators with what they have, each given what the one before passes on."""

TOGETHER = 0.4
"""How far bursts make times along a path long together; set by simulation, as in `queueing.network`."""

_HOPELESS = 10.0
"""Times the bound beyond which it does not matter by how much it is broken."""


class _Answer(Laws):
    """One operator under one allocation, for every arrival process."""

    def __init__(self, responses: Sequence[Response], bursts: Sequence[float]) -> None:
        super().__init__(responses)
        self.utilisation = np.array([response.utilisation for response in responses])
        self.mean = np.array([response.mean for response in responses])
        self.bursts = np.array(bursts)
        """The part of the mean time that is there because arrivals are not Poisson."""
        self._percentiles: dict[tuple[int, float], float] = {}

    def percentile(self, process: int, p: float) -> float:
        """One process's percentile."""
        if (process, p) not in self._percentiles:
            self._percentiles[process, p] = float(self.responses[process].percentile(p))
        return self._percentiles[process, p]


class PipelineLatency:
    """Predicts a pipeline's path latencies; a `ports.PathLatency`.

    Parameters
    ----------
    pipeline
        Operators, graph and objectives.
    workload
        Processes that describe the arrivals at the source, by a label each (window and rank), in records per second.
    model
        Which queues; see the module.
    flow
        What comes to operators below the first: ``"source"`` or ``"onward"``; see the module.
    errors
        How many standard errors the demands are moved to the slow side.

    Examples
    --------
    >>> from penstock.markov import PH
    >>> from penstock.performance.demand import RecordDemand
    >>> from penstock.performance.pipeline_model import OperatorModel
    >>> from penstock.records import Objective
    >>> one = OperatorModel("matcher", RecordDemand(PH.exponential(mean=0.01)))
    >>> latency = PipelineLatency(PipelineModel([one], Objective("mean", 0.1)), {"calm": MAP.poisson(20.0)})
    >>> [told] = latency.predict({"matcher": Allocation(1, 0.5)})
    >>> round(told.seconds, 9), told.is_met, told.worst  # M/M/1 with service rate 50: 1 / (50 - 20)
    (0.033333333, True, 'calm')
    """

    def __init__(
        self,
        pipeline: PipelineModel,
        workload: Mapping[str, MAP],
        *,
        model: Model = "map",
        flow: Flow = "source",
        errors: float = 0.0,
    ) -> None:
        if not workload:
            raise ConfigurationError("workload: give at least one arrival process", field="workload")
        if model not in MODELS:
            raise ConfigurationError(f"model: {model!r} is unknown; use one of {', '.join(MODELS)}", field="model")
        if flow not in FLOWS:
            raise ConfigurationError(f"flow: {flow!r} is unknown; use one of {', '.join(FLOWS)}", field="flow")
        if model == "gi/g/1":
            _require_means(pipeline)
        self.pipeline, self.model, self.flow = pipeline, model, flow
        self._errors = errors
        self._labels, self._processes = tuple(workload), tuple(workload.values())
        self._known: dict[Row, _Answer] = {}
        self._leaving: dict[tuple[Row, int], MAP] = {}
        self._solvers: dict[MAP, MicroBatchSolver] = {}

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators, each after those it reads from."""
        return self.pipeline.order

    @property
    def paths(self) -> tuple[Path, ...]:
        """The source-to-sink paths."""
        return self.pipeline.paths

    @property
    def queues_solved(self) -> int:
        """How many queues were solved so far."""
        return len(self._known) * len(self._processes)

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[PathPrediction, ...]:
        """Predict every path, each in its worst case over the processes."""
        missing = [name for name in self.operators if name not in allocations]
        if missing:
            raise ConfigurationError(f"allocations: none given for {', '.join(missing)}", field="allocations")
        return tuple(self._predict_path(path, allocations) for path in self.paths)

    def _predict_path(self, path: Path, allocations: Mapping[str, Allocation]) -> PathPrediction:
        answers = {row[-1][0]: self._answer(row) for row in self._rows(path, allocations)}
        bound, p = self.pipeline.bound(path), self.pipeline.probability(path)
        parts = list(answers.values())
        seconds = np.sum([part.mean for part in parts], axis=0) if p is None else sum_percentiles(parts, p, bound)
        if p is not None and self.flow == "onward":
            seconds = seconds + self._together(parts, p, seconds)
        # Of several that cannot keep up, the one that lacks most.
        load = np.max([part.utilisation for part in parts], axis=0)
        worst = int(np.lexsort((load, seconds))[-1])
        return PathPrediction(
            path=path,
            seconds=float(seconds[worst]),
            bound_seconds=bound,
            operator_seconds={
                name: float(part.mean[worst]) if p is None else part.percentile(worst, p)
                for name, part in answers.items()
            },
            utilisation={name: float(part.utilisation[worst]) for name, part in answers.items()},
            worst=self._labels[worst],
        )

    def _together(self, parts: Sequence[_Answer], p: float, seconds: FloatArray) -> FloatArray:
        """What a percentile gains because bursts make times long together, for each process."""
        gains = np.zeros(len(self._processes))
        first, *others = sorted(parts, key=lambda part: -float(part.utilisation.max()))
        for i in np.flatnonzero(np.isfinite(seconds)):
            weight = max((math.sqrt(first.bursts[i] * part.bursts[i]) for part in others), default=0.0)
            if weight > 0.0:
                ranks = sum(part.percentile(int(i), p) for part in parts)
                gains[i] = TOGETHER * weight * max(ranks - seconds[i], 0.0)
        return gains

    def _rows(self, path: Path, allocations: Mapping[str, Allocation]) -> list[Row]:
        """Each operator of a path, last in the row of those whose records it is given."""
        rows: list[Row] = []
        for run in self._runs(path, allocations):
            row: Row = ()
            for name in sorted(run, key=lambda name: -self._fullness(name, allocations[name])):
                row = (*row, (name, allocations[name]))
                rows.append(row)
        return rows

    def _runs(self, path: Path, allocations: Mapping[str, Allocation]) -> list[list[str]]:
        """Operators in a row that see the same records and serve them one by one."""
        runs = [[path[0]]]
        for before, name in pairwise(path):
            one, other = self.pipeline.operator(before), self.pipeline.operator(name)
            alone = allocations[before].executors == allocations[name].executors == 1
            same = one.selectivity == 1.0 and len(other.inputs) == 1 and alone
            singly = isinstance(one.demand, RecordDemand) and isinstance(other.demand, RecordDemand)
            if self.flow == "onward" and same and singly:
                runs[-1].append(name)
            else:
                runs.append([name])
        return runs

    def _fullness(self, name: str, allocation: Allocation) -> float:
        """What orders operators of a run by utilisation: they see the same rate."""
        demand = self.pipeline.operator(name).demand
        return demand.service.mean / allocation.cpu_share if isinstance(demand, RecordDemand) else 0.0

    def _answer(self, row: Row) -> _Answer:
        if row not in self._known:
            name, has = row[-1]
            responses = [self._solve(name, has, self._stream(row, i)) for i in range(len(self._processes))]
            self._known[row] = _Answer(responses, [self._bursts(name, has, response) for response in responses])
        return self._known[row]

    def _stream(self, row: Row, i: int) -> MAP:
        """What comes to the last operator of a row under process `i`."""
        name, _ = row[-1]
        if len(row) == 1:
            return visited(self._processes[i], self.pipeline.visits[name])
        above, coming = row[:-1], self._stream(row[:-1], i)
        if self.model == "m/g/1":
            return coming  # Poisson again, by the model's own blindness
        if not self._answer(above).responses[i].is_stable:
            return coming  # the path is endless, whatever comes to this one
        if (above, i) not in self._leaving:
            demand = self.pipeline.operator(above[-1][0]).demand
            assert isinstance(demand, RecordDemand)
            service = demand.moved(self._errors).at(above[-1][1])
            self._leaving[above, i] = departure_process(coming, service)
        return self._leaving[above, i]

    def _solve(self, name: str, allocation: Allocation, stream: MAP) -> Response:
        operator = self.pipeline.operator(name)
        if isinstance(operator.demand, BatchDemand):
            moved = operator.demand.moved(self._errors, stream.rate, allocation) if self._errors else operator.demand
            return self._solve_batches(
                name, moved, MAP.poisson(stream.rate) if self.model == "m/g/1" else stream, allocation
            )
        # Each executor has a queue of its own, and its part of the stream.
        stream = visited(stream, 1.0 / allocation.executors)
        service = operator.demand.moved(self._errors).at(allocation)
        if self.model == "m/g/1":
            return solve_m_g_1(stream.rate, service)
        if self.model == "gi/g/1":
            return solve_gi_g_1(stream.rate, stream.scv, service.mean, service.scv)
        return solve_map_ph_1(stream, service)

    def _bursts(self, name: str, allocation: Allocation, response: Response) -> float:
        demand = self.pipeline.operator(name).demand
        if self.flow == "source" or not isinstance(demand, RecordDemand) or not response.is_stable:
            return 0.0
        service = demand.moved(self._errors).at(allocation)
        smooth = solve_m_g_1(response.utilisation / service.mean, service).mean
        return max(0.0, 1.0 - smooth / response.mean)

    def _solve_batches(self, name: str, demand: BatchDemand, stream: MAP, allocation: Allocation) -> Response:
        """The micro-batch queue; but where single records would already take far too long, their queue will do.

        Served one by one and without the fixed time, records are done no later than in batches. Beyond so many times
        the bound, how much later does not matter, and the micro-batch queue is the dearer to solve the fuller it is.
        """
        server = demand.at(allocation)
        solver = self._solvers.setdefault(stream, MicroBatchSolver(stream))
        if server.utilisation(stream.rate) >= 1.0:
            return solver.solve(server)
        least = solve_map_ph_1(stream, single_records(demand, allocation))
        for path in self.paths:
            if name in path:
                p, limit = self.pipeline.probability(path), _HOPELESS * self.pipeline.bound(path)
                if (least.mean if p is None else least.percentile(p)) <= limit:
                    return solver.solve(server)
        return least


def _require_means(pipeline: PipelineModel) -> None:
    for path in pipeline.paths:
        if pipeline.probability(path) is not None:
            raise ConfigurationError(
                f"model: gi/g/1 knows means alone, and {' > '.join(path)} is bound in its "
                f"{pipeline.objective(path).statistic}; use map or m/g/1, or a bound on the mean",
                field="model",
            )
    for name in pipeline.order:
        if isinstance(pipeline.operator(name).demand, BatchDemand):
            raise ConfigurationError(
                f"model: gi/g/1 has no form for micro-batches, in which {name} works; use map or m/g/1", field="model"
            )
