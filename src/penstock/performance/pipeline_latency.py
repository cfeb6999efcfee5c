# SPDX-License-Identifier: Apache-2.0
"""The latency along every path of a pipeline for any allocations: the worst case over all models of the workload.

This is the Performance Analyzer of MEAD (Sec. V-A). The pipeline is an open queueing network, which is solved operator
by operator. Each answer is kept, so that a search over allocations solves few queues.

**Between operators.** An operator that serves records one by one passes on its departures (`departure_process`): a
loaded queue smooths bursts. Selectivities thin a stream or multiply it (`stream_transforms`). Executors take records in
turn, and pass on what one executor of their combined speed would. A micro-batch operator passes records on as they
came, and so does an operator that cannot keep up. Streams that meet go back to the same arrivals, so they are not
independent: they are taken as the stream of their nearest common origin, with as many records as they have together.

**Along a path** means add up and distributions are convolved. Two things are done better than that:

* Servers in series are interchangeable. For exponential servers the time through all of them does not depend on their
  order, whatever the arrivals are (Weber, "The interchangeability of ./M/1 queues in series", Journal of Applied
  Probability 16, 1979). So of operators in a row that see the same records the bottleneck is given the arrivals
  themselves, which is exact, and the others its departures. That these are smoothed a little further from operator to
  operator is not modelled. More CPU then never makes a path slower in the model, as in reality.
* Times in a burst are long in one operator after the other. With e_j = 1 - (mean time with Poisson arrivals) / (mean
  time), the part of an operator's time that bursts cause, a percentile is moved from that of independent times towards
  the sum of the percentiles with the weight 0.4 sqrt(e_1 e_j), or sqrt(e_1 e_j) for two micro-batch operators. The
  factors were set by simulation. With Poisson arrivals and exponential services the weight is zero, which is exact
  (Reich 1957).

docs/background/networks.md gives the reasons, and benchmarks/networks compares this class with simulations.

Models: ``map`` takes the processes as fitted; ``m/g/1`` takes the same rates without bursts; ``gi/g/1`` takes the same
rates and variability without correlation. The last gives means only (Kingman), for records served one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH
from penstock.markov.conditions import FloatArray
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.operator_latency import MODELS, Model
from penstock.performance.path_sum import Laws, sum_percentiles
from penstock.performance.pipeline_model import PipelineModel
from penstock.performance.queueing.departure_process import MOST_STATES, departure_process
from penstock.performance.queueing.general import solve_gi_g_1, solve_m_g_1
from penstock.performance.queueing.micro_batch import MicroBatchAnswer, MicroBatchSolver, Suffices
from penstock.performance.queueing.queue_inputs import SATURATION
from penstock.performance.queueing.response import Response
from penstock.performance.queueing.single_server import SingleServer, solve_each, solve_map_ph_1
from penstock.performance.queueing.stream_transforms import every_nth, selected
from penstock.performance.screening import single_records
from penstock.records import Allocation, Objective, Prediction
from penstock.topology import ARRIVALS, Path, path_text

BURST_WEIGHT, BATCH_BURST_WEIGHT = 0.4, 1.0
"""How strongly bursts make times along a path long together, for single records and for two micro-batch operators.

Both were set by simulation. Micro-batch operators pass bursts on unsmoothed."""

_SMOOTH_BATCHES = 1.5
"""Batches that a record's latency lasts if records come evenly: half a batch of waiting, and its own."""

_NEAR = 0.1
"""Relative distance from a bound within which a micro-batch queue is solved on fine grids where rough ones may do."""

_FAR_BEYOND = 10.0
"""A multiple of the bound beyond which the exact latency does not matter."""


@dataclass(frozen=True)
class _Feed:
    """What comes to an operator: on average `count` records for each one of an origin (None: of the arrivals)."""

    origin: _Departures | None
    count: float

    def times(self, factor: float) -> _Feed:
        """The same with a selectivity applied."""
        return _Feed(self.origin, self.count * factor)

    @cached_property
    def sources(self) -> tuple[_Feed, ...]:
        """The same records counted from each origin upstream, the nearest first, the arrivals last."""
        if self.origin is None:
            return (self,)
        return (self, *(source.times(self.count) for source in self.origin.feed.sources))


@dataclass(frozen=True)
class _Departures:
    """What leaves an operator that serves records one by one, given what comes to it."""

    operator: str
    allocation: Allocation
    feed: _Feed

    @cached_property
    def _hash(self) -> int:
        return hash((self.operator, self.allocation, self.feed))

    def __hash__(self) -> int:
        return self._hash


_Question = tuple[str, Allocation, _Feed]
"""An operator, what it has and what comes to it: all that its times depend on."""


def _merged(feeds: Sequence[_Feed]) -> _Feed:
    """Merge streams: count the records of their nearest common origin."""
    if len(feeds) == 1:
        return feeds[0]
    by_origin = [{source.origin: source.count for source in feed.sources} for feed in feeds]
    common = next(source.origin for source in feeds[0].sources if all(source.origin in known for known in by_origin))
    return _Feed(common, math.fsum(known[common] for known in by_origin))


class _Answer(Laws):
    """One operator under one allocation, for every arrival process."""

    def __init__(self, responses: Sequence[Response], burst_parts: Sequence[float], *, in_batches: bool) -> None:
        super().__init__(responses)
        self.in_batches = in_batches
        self.utilisation = np.array([response.utilisation for response in responses])
        self.mean = np.array([response.mean for response in responses])
        self.burst_parts = np.array(burst_parts)
        """The part of the mean time that is caused by arrivals not being Poisson."""
        self._percentiles: dict[tuple[int, float], float] = {}

    def percentile(self, process: int, p: float) -> float:
        """The percentile under one process."""
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
        Processes that describe the arrivals at the source in records per second, each with a label (window and rank).
    model
        Which queues are solved; see the module.
    errors
        How many standard errors the demands are moved to the slow side.
    rough
        Whether a micro-batch queue that is a path by itself may be solved on a coarse grid where its time is not
        within a tenth of the bound: for planners, which ask whether a bound is kept.

    Examples
    --------
    >>> from penstock.markov import PH
    >>> from penstock.performance.demand import RecordDemand
    >>> from penstock.performance.pipeline_model import OperatorModel
    >>> from penstock.records import Objective
    >>> one = OperatorModel("matcher", RecordDemand(PH.exponential(mean=0.01)))
    >>> latency = PipelineLatency(PipelineModel([one], Objective("mean", 0.1)), {"calm": MAP.poisson(20.0)})
    >>> [path] = latency.predict({"matcher": Allocation(1, 0.5)})
    >>> round(path.seconds, 9), path.is_met, path.worst  # M/M/1 with service rate 50: 1 / (50 - 20)
    (0.033333333, True, 'calm')
    """

    def __init__(
        self,
        pipeline: PipelineModel,
        workload: Mapping[str, MAP],
        *,
        model: Model = "map",
        errors: float = 0.0,
        rough: bool = False,
    ) -> None:
        if not workload:
            raise ConfigurationError("workload: give at least one arrival process", field="workload")
        if model not in MODELS:
            raise ConfigurationError(f"model: {model!r} is unknown; use one of {', '.join(MODELS)}", field="model")
        if model == "gi/g/1":
            _require_means(pipeline)
        self.pipeline, self.model = pipeline, model
        self._errors, self._rough = errors, rough
        self._labels, self._processes = tuple(workload), tuple(workload.values())
        self._answers: dict[_Question, _Answer] = {}
        self._busy: dict[tuple[_Question, int], FloatArray | None] = {}
        self._predicted: dict[tuple[_Question, ...], Prediction] = {}
        self._streams: dict[tuple[_Feed, int], MAP] = {}
        self._leaving: dict[tuple[_Departures, int], MAP] = {}
        self._services: dict[tuple[str, Allocation], PH] = {}
        self._solvers: dict[tuple[_Feed, int], MicroBatchSolver] = {}

    def under(self, objectives: Objective | Mapping[Path, Objective]) -> PipelineLatency:
        """The same pipeline and workload under other objectives; queues that were solved are not solved again.

        How far a micro-batch queue is solved depends on the bounds, so a pipeline that has one begins anew.
        """
        pipeline = PipelineModel(self.pipeline.operators, objectives)
        workload = dict(zip(self._labels, self._processes, strict=True))
        other = PipelineLatency(pipeline, workload, model=self.model, errors=self._errors, rough=self._rough)
        if all(isinstance(operator.demand, RecordDemand) for operator in pipeline.operators):
            other._answers, other._streams, other._leaving = self._answers, self._streams, self._leaving
        return other

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
        """How many queues have been solved so far."""
        return len(self._answers) * len(self._processes)

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[Prediction, ...]:
        """Predict the latency of every path in its worst case over the processes."""
        missing = [name for name in self.operators if name not in allocations]
        if missing:
            raise ConfigurationError(
                f"allocations: there is none for {', '.join(missing)}; give one for every operator",
                field="allocations",
            )
        network = _Network(self.pipeline, allocations)
        asked = {
            path: tuple((name, allocations[name], feed) for name, feed in network.along(path)) for path in self.paths
        }
        # Another operator's CPU changes only the paths it is on.
        new = {path: questions for path, questions in asked.items() if questions not in self._predicted}
        self._answer([question for questions in new.values() for question in questions])
        for path, questions in new.items():
            self._predicted[questions] = self._predict_path(path, questions)
        return tuple(self._predicted[questions] for questions in asked.values())

    def rest(self) -> None:
        """Let go of what takes much memory; queues stay solved, and their distributions are made again on demand."""
        for answer in self._answers.values():
            answer.rest()

    def _predict_path(self, path: Path, questions: Sequence[_Question]) -> Prediction:
        answers = {question[0]: self._answers[question] for question in questions}
        bound, p = self.pipeline.bound(path), self.pipeline.probability(path)
        parts = list(answers.values())
        if p is None:
            seconds = np.sum([part.mean for part in parts], axis=0)
        else:
            seconds = sum_percentiles(parts, p, bound)
            seconds = seconds + self._burst_gain(parts, p, seconds)
        # If several processes saturate an operator, the worst is the one with the highest utilisation.
        load = np.max([part.utilisation for part in parts], axis=0)
        worst = int(np.lexsort((load, seconds))[-1])
        return Prediction(
            path=path,
            seconds=float(seconds[worst]),
            bound_seconds=bound,
            operator_seconds={
                name: float(answers[name].mean[worst]) if p is None else answers[name].percentile(worst, p)
                for name in path
            },
            utilisation={name: float(answers[name].utilisation[worst]) for name in path},
            worst=self._labels[worst],
        )

    def _burst_gain(self, parts: Sequence[_Answer], p: float, seconds: FloatArray) -> FloatArray:
        """How much longer a percentile is because bursts make times long together, for each process."""
        gains = np.zeros(len(self._processes))
        first, *others = sorted(parts, key=lambda part: -float(part.utilisation.max()))
        for i in np.flatnonzero(np.isfinite(seconds)):
            weight = max(
                (
                    (BATCH_BURST_WEIGHT if first.in_batches and part.in_batches else BURST_WEIGHT)
                    * math.sqrt(first.burst_parts[i] * part.burst_parts[i])
                    for part in others
                ),
                default=0.0,
            )
            if weight > 0.0:
                same_rank = sum(part.percentile(int(i), p) for part in parts)
                gains[i] = weight * max(same_rank - seconds[i], 0.0)
        return gains

    def _answer(self, questions: Sequence[_Question]) -> None:
        """Answer what has no answer yet, all of it together."""
        new = [question for question in dict.fromkeys(questions) if question not in self._answers]
        of_processes = [self._solve_all(new, i) for i in range(len(self._processes))]
        for question, *responses in zip(new, *of_processes, strict=True):
            name, allocation, feed = question
            parts = [
                self._burst_part(name, allocation, self._stream(feed, i).rate, response)
                for i, response in enumerate(responses)
            ]
            in_batches = isinstance(self.pipeline.operator(name).demand, BatchDemand)
            self._answers[question] = _Answer(responses, parts, in_batches=in_batches)

    def _stream(self, feed: _Feed, i: int) -> MAP:
        """The stream that comes to an operator under process `i`."""
        if (feed, i) not in self._streams:
            if self.model == "m/g/1":
                stream = MAP.poisson(self._processes[i].rate * feed.sources[-1].count)
            else:
                origin = self._processes[i] if feed.origin is None else self._departing(feed.origin, i)
                stream = selected(origin, feed.count, most_states=MOST_STATES)
            self._streams[feed, i] = stream
        return self._streams[feed, i]

    def _departing(self, origin: _Departures, i: int) -> MAP:
        if (origin, i) not in self._leaving:
            coming, service = self._stream(origin.feed, i), self._service(origin.operator, origin.allocation)
            if origin.allocation.executors > 1:
                service = service.time_scaled(1.0 / origin.allocation.executors)
            keeps_up = coming.rate * service.mean < SATURATION
            # The queue itself, if it is asked about, was solved before what it feeds.
            busy = self._busy.get(((origin.operator, origin.allocation, origin.feed), i))
            self._leaving[origin, i] = departure_process(coming, service, Psi=busy) if keeps_up else coming
        return self._leaving[origin, i]

    def _service(self, name: str, allocation: Allocation) -> PH:
        if (name, allocation) not in self._services:
            demand = self.pipeline.operator(name).demand
            assert isinstance(demand, RecordDemand)
            self._services[name, allocation] = demand.moved(self._errors).at(allocation)
        return self._services[name, allocation]

    def _solve_all(self, questions: Sequence[_Question], i: int) -> list[Response]:
        """Solve queues under process `i`, those of single records together, each after what feeds it."""
        solved: dict[_Question, Response] = {}
        if self.model == "map":
            singly = [one for one in questions if isinstance(self.pipeline.operator(one[0]).demand, RecordDemand)]
            for depth in sorted({len(feed.sources) for _, _, feed in singly}):
                level = [one for one in singly if len(one[2].sources) == depth]
                for question, queue in zip(level, solve_each([self._queue(one, i) for one in level]), strict=True):
                    solved[question] = queue
                    if isinstance(queue, SingleServer) and question[1].executors == 1:
                        self._busy[question, i] = queue.Psi
        return [solved[question] if question in solved else self._solve(question, i) for question in questions]

    def _queue(self, question: _Question, i: int) -> tuple[MAP, PH]:
        """What comes to one executor that serves records one by one, and their service time."""
        name, allocation, feed = question
        stream = self._stream(feed, i)
        if allocation.executors > 1:
            stream = every_nth(stream, allocation.executors, most_states=MOST_STATES)
        return stream, self._service(name, allocation)

    def _solve(self, question: _Question, i: int) -> Response:
        name, allocation, feed = question
        demand, stream = self.pipeline.operator(name).demand, self._stream(feed, i)
        if isinstance(demand, BatchDemand):
            moved = demand.moved(self._errors, stream.rate, allocation) if self._errors else demand
            return self._solve_batches(name, moved, allocation, feed, i)
        stream, service = self._queue(question, i)
        if self.model == "m/g/1":
            return solve_m_g_1(stream.rate, service)
        return solve_gi_g_1(stream.rate, stream.scv, service.mean, service.scv)

    def _burst_part(self, name: str, allocation: Allocation, rate: float, response: Response) -> float:
        if not response.is_stable:
            return 0.0
        demand = self.pipeline.operator(name).demand
        if isinstance(demand, BatchDemand):
            smooth = _SMOOTH_BATCHES * demand.at(allocation).smooth_batch_seconds(rate)
        else:
            service = self._service(name, allocation)
            smooth = solve_m_g_1(response.utilisation / service.mean, service).mean
        return max(0.0, 1.0 - smooth / response.mean)

    def _solve_batches(self, name: str, demand: BatchDemand, allocation: Allocation, feed: _Feed, i: int) -> Response:
        """Solve the micro-batch queue, or the queue of single records if even that takes far too long.

        Served one by one and without the fixed time, records are done no later than in batches. Far beyond the bound
        the exact time does not matter, and the micro-batch queue takes the longer to solve the fuller it is.
        """
        server, stream = demand.at(allocation), self._stream(feed, i)
        if (feed, i) not in self._solvers:
            self._solvers[feed, i] = MicroBatchSolver(stream)
        solver = self._solvers[feed, i]
        if server.utilisation(stream.rate) >= 1.0:
            return solver.solve(server)
        least = solve_map_ph_1(stream, single_records(demand, allocation))
        for path in self.paths:
            if name in path:
                p, limit = self.pipeline.probability(path), _FAR_BEYOND * self.pipeline.bound(path)
                if (least.mean if p is None else least.percentile(p)) <= limit:
                    return solver.solve(server, self._is_far_from_its_bound(name))
        return least

    def _is_far_from_its_bound(self, name: str) -> Suffices | None:
        """Whether a rough answer decides an operator's bound; None: none does, as its paths have more operators."""
        if not self._rough or (name,) not in self.paths:
            return None
        bound, p = self.pipeline.bound((name,)), self.pipeline.probability((name,))

        def is_far(answer: MicroBatchAnswer) -> bool:
            seconds = answer.mean if p is None else answer.percentile(p)
            return abs(math.log(seconds / bound)) > _NEAR

        return is_far


class _Network:
    """What comes to each operator of a pipeline under given allocations."""

    def __init__(self, pipeline: PipelineModel, allocations: Mapping[str, Allocation]) -> None:
        self.pipeline, self.allocations = pipeline, allocations
        self._leaving: dict[str, _Feed] = {ARRIVALS: _Feed(None, 1.0)}
        self._feeds: dict[str, _Feed] = {}
        self._runs: dict[str, tuple[str, ...]] = {}
        self._ranks = {name: self._rank(name) for name in pipeline.order}
        for name in pipeline.order:
            self._place(name)

    def along(self, path: Path) -> Iterator[tuple[str, _Feed]]:
        """Each operator of a path with what comes to it; the bottleneck of each run comes first."""
        left = path
        while left:
            run = self._runs[left[-1]]
            left = left[: len(left) - len(run)]
            yield from self._ordered(run)

    def _place(self, name: str) -> None:
        operator = self.pipeline.operator(name)
        streams = self.pipeline.topology.inputs(name)
        self._feeds[name] = _merged([self._leaving[s.source].times(s.selectivity) for s in streams])
        self._runs[name] = (*self._runs[before], name) if (before := self._continued(name)) else (name,)
        if isinstance(operator.demand, BatchDemand):
            leaving = self._feeds[name]
        else:
            slowest, feed = next(self._ordered(self._runs[name]))
            leaving = _Feed(_Departures(slowest, self.allocations[slowest], feed), 1.0)
        self._leaving[name] = leaving.times(operator.selectivity)

    def _continued(self, name: str) -> str | None:
        """The operator before, if both see the same records and serve them one by one on one executor."""
        inputs = self.pipeline.topology.inputs(name)
        if len(inputs) > 1 or inputs[0].source == ARRIVALS or inputs[0].selectivity != 1.0:
            return None
        before = inputs[0].source
        if self.pipeline.operator(before).selectivity != 1.0:
            return None
        both = (before, name)
        singly = all(isinstance(self.pipeline.operator(one).demand, RecordDemand) for one in both)
        return before if singly and all(self.allocations[one].executors == 1 for one in both) else None

    def _ordered(self, run: tuple[str, ...]) -> Iterator[tuple[str, _Feed]]:
        """The operators of a run, the bottleneck first; the others get its departures."""
        first, *others = sorted(run, key=self._ranks.__getitem__)
        feed = self._feeds[run[0]]
        yield first, feed
        if others:
            behind = _Feed(_Departures(first, self.allocations[first], feed), 1.0)
            yield from ((name, behind) for name in others)

    def _rank(self, name: str) -> tuple[float, float]:
        """Orders the operators of a run, which see the same rate: by utilisation, then the most regular service first.

        Of equally loaded operators the most regular one changes the stream least, and simulations agree best.
        """
        demand = self.pipeline.operator(name).demand
        if isinstance(demand, BatchDemand):  # alone in its run
            return 0.0, 0.0
        seconds = demand.service.mean / self.allocations[name].cpu_share
        return -float(f"{seconds:.9g}"), demand.service.scv


def _require_means(pipeline: PipelineModel) -> None:
    for path in pipeline.paths:
        if pipeline.probability(path) is not None:
            raise ConfigurationError(
                f"model: gi/g/1 gives means only, but the objective of {path_text(path)} bounds its "
                f"{pipeline.objective(path).statistic}; use map or m/g/1, or bound the mean",
                field="model",
            )
    for name in pipeline.order:
        if isinstance(pipeline.operator(name).demand, BatchDemand):
            raise ConfigurationError(
                f"model: gi/g/1 has no form for micro-batches, in which {name} works; use map or m/g/1", field="model"
            )
