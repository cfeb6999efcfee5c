# SPDX-License-Identifier: Apache-2.0
"""The latency along every path of a pipeline, for any CPU shares: the worst over all models of the workload.

The Performance Analyzer of MEAD (Sec. V-A): the pipeline as an open queueing network, solved operator by operator.
What an operator answers depends on its own share alone, so that each answer is computed once and a search over
allocations only adds answers up.

Every operator is taken to see the source's process, thinned or sped up to the rate at which it is visited (the
decomposition that the solver behind MEAD calls by the source). Operators above it really smooth bursts out, so this
errs on the safe side: of two queues in a row, against simulation, by -3 % to +4 % where one is the bottleneck and by
+10 % to +45 % where both are as slow, in mean and 95th percentile (benchmarks/mead_plan). Handing on departures
reduced to their moments was tried and does worse: it forgets the bursts (-50 % to -95 %).

Along a path, times are taken as independent: means add up, distributions are convolved on a grid.

Models: ``map`` as fitted; ``m/g/1`` the same rates without bursts; ``gi/g/1`` the same rates and variability without
correlation, means alone (Kingman), for records served one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov import MAP
from penstock.performance.demand import BatchDemand
from penstock.performance.latency import MODELS, Model
from penstock.performance.path_sum import Laws, sum_percentiles
from penstock.performance.pipeline_model import Path, PipelineModel
from penstock.performance.queueing.general import solve_gi_g_1, solve_m_g_1
from penstock.performance.queueing.micro_batch import solve_micro_batch
from penstock.performance.queueing.response import Response
from penstock.performance.queueing.single_server import solve_map_ph_1
from penstock.performance.screening import single_records
from penstock.performance.streams import visited
from penstock.ports import PathPrediction
from penstock.records import Allocation

_HOPELESS = 10.0
"""Times the bound beyond which it does not matter by how much it is broken."""


class _Answer(Laws):
    """One operator under one share, for every arrival process."""

    def __init__(self, responses: Sequence[Response]) -> None:
        super().__init__(responses)
        self.utilisation = np.array([response.utilisation for response in responses])
        self.mean = np.array([response.mean for response in responses])
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
    >>> [told] = latency.predict({"matcher": 0.5})
    >>> round(told.seconds, 9), told.is_met, told.worst  # M/M/1 with service rate 50: 1 / (50 - 20)
    (0.033333333, True, 'calm')
    """

    def __init__(
        self, pipeline: PipelineModel, workload: Mapping[str, MAP], *, model: Model = "map", errors: float = 0.0
    ) -> None:
        if not workload:
            raise ConfigurationError("workload: give at least one arrival process", field="workload")
        if model not in MODELS:
            raise ConfigurationError(f"model: {model!r} is unknown; use one of {', '.join(MODELS)}", field="model")
        if model == "gi/g/1":
            _require_means(pipeline)
        self.pipeline, self.model = pipeline, model
        self._errors = errors
        self._labels, self._processes = tuple(workload), tuple(workload.values())
        self._known: dict[tuple[str, float], _Answer] = {}

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

    def predict(self, shares: Mapping[str, float]) -> tuple[PathPrediction, ...]:
        """Predict every path, each in its worst case over the processes."""
        missing = [name for name in self.operators if name not in shares]
        if missing:
            raise ConfigurationError(f"shares: none given for {', '.join(missing)}", field="shares")
        return tuple(self._predict_path(path, shares) for path in self.paths)

    def _predict_path(self, path: Path, shares: Mapping[str, float]) -> PathPrediction:
        answers = {name: self._answer(name, shares[name]) for name in path}
        bound, p = self.pipeline.bound(path), self.pipeline.probability(path)
        parts = list(answers.values())
        seconds = np.sum([part.mean for part in parts], axis=0) if p is None else sum_percentiles(parts, p, bound)
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

    def _answer(self, name: str, share: float) -> _Answer:
        if (name, share) not in self._known:
            self._known[name, share] = _Answer([self._solve(name, share, process) for process in self._processes])
        return self._known[name, share]

    def _solve(self, name: str, share: float, process: MAP) -> Response:
        operator, visits = self.pipeline.operator(name), self.pipeline.visits[name]
        allocation = Allocation(operator.executors, share)
        stream = visited(process, visits)
        if isinstance(operator.demand, BatchDemand):
            moved = operator.demand.moved(self._errors, stream.rate, allocation) if self._errors else operator.demand
            return self._solve_batches(
                name, moved, MAP.poisson(stream.rate) if self.model == "m/g/1" else stream, allocation
            )
        # Each executor has a queue of its own, and its part of the stream.
        stream = visited(stream, 1.0 / operator.executors)
        service = operator.demand.moved(self._errors).at(allocation)
        if self.model == "m/g/1":
            return solve_m_g_1(stream.rate, service)
        if self.model == "gi/g/1":
            return solve_gi_g_1(stream.rate, stream.scv, service.mean, service.scv)
        return solve_map_ph_1(stream, service)

    def _solve_batches(self, name: str, demand: BatchDemand, stream: MAP, allocation: Allocation) -> Response:
        """The micro-batch queue; but where single records would already take far too long, their queue will do.

        Served one by one and without the fixed time, records are done no later than in batches. Beyond so many times
        the bound, how much later does not matter, and the micro-batch queue is the dearer to solve the fuller it is.
        """
        server = demand.at(allocation)
        if server.utilisation(stream.rate) >= 1.0:
            return solve_micro_batch(stream, server)
        least = solve_map_ph_1(stream, single_records(demand, allocation))
        for path in self.paths:
            if name in path:
                p, limit = self.pipeline.probability(path), _HOPELESS * self.pipeline.bound(path)
                if (least.mean if p is None else least.percentile(p)) <= limit:
                    return solve_micro_batch(stream, server)
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
