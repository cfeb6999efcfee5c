# SPDX-License-Identifier: Apache-2.0
"""The latency of one operator under each of many allocations, with bounds.

Several arrival processes describe one workload about equally well, and the service demand is known to within a
standard error. The value of a prediction is the worst over the processes with the demand as given (MEAD, Sec. IV). Its
lower bound is the best over the processes with the demand some standard errors lower, and its upper bound is the worst
with the demand as many standard errors higher.

Models:

* ``map``: the arrival processes as they are. Records one by one: MAP/PH/1. Micro-batches: the micro-batch queue.
* ``m/g/1``: Poisson arrivals of the same rate, blind to bursts. Records one by one: M/G/1 (Pollaczek-Khinchine).
  Micro-batches: the micro-batch queue.
* ``gi/g/1``: independent gaps of the same mean and variability (Kingman). It gives means only, and no micro-batches.

Executors that serve records one by one have a queue each. They take records in turn, so each of `n` gets every n-th.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from penstock.errors import ConfigurationError, ConvergenceError
from penstock.markov import MAP, PH
from penstock.markov.conditions import FloatArray
from penstock.performance.demand import BatchDemand, Demand, RecordDemand, check_allocation
from penstock.performance.queueing.departure_process import MOST_STATES
from penstock.performance.queueing.general import solve_gi_g_1, solve_m_g_1
from penstock.performance.queueing.micro_batch import MicroBatchSolver
from penstock.performance.queueing.response import Response, Unsolved, check_probability, solved_or_not
from penstock.performance.queueing.single_server import ManyAnswers, solve_many, solve_map_ph_1
from penstock.performance.queueing.stream_transforms import every_nth
from penstock.records import Allocation, Bounded, CandidateLatency, Limits

Model = Literal["map", "m/g/1", "gi/g/1"]
MODELS: tuple[Model, ...] = ("map", "m/g/1", "gi/g/1")

Progress = Callable[[float], None]

_NAMES = {
    ("map", RecordDemand): "MAP/PH/1",
    ("m/g/1", RecordDemand): "M/G/1",
    ("gi/g/1", RecordDemand): "GI/G/1",
    ("map", BatchDemand): "micro-batch queue, MAP arrivals",
    ("m/g/1", BatchDemand): "micro-batch queue, Poisson arrivals",
}


@dataclass(frozen=True, slots=True)
class _Question:
    workload: Sequence[MAP]
    allocations: Sequence[Allocation]
    percentiles: Sequence[float]
    moves: Sequence[float]
    """Shifts of the demand in standard errors; the first is zero."""
    model: Model
    progress: Progress

    def unanswered(self) -> _Answers:
        shape = (len(self.moves), len(self.workload), len(self.allocations))
        times = None if self.model == "gi/g/1" else np.full((*shape, len(self.percentiles)), np.nan)
        return _Answers(np.zeros(shape, dtype=np.bool_), np.full(shape, np.nan), np.full(shape, np.nan), times)


@dataclass(frozen=True, slots=True)
class _Answers:
    """What was solved, over variants of the demand (as given, lower, higher) x arrival processes x allocations."""

    stable: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    utilisation: FloatArray
    mean: FloatArray
    percentiles: FloatArray | None
    unsolved: dict[tuple[int, int, int], str] = field(default_factory=dict)
    """Why some have no answer."""

    def put(self, at: tuple[int, int, int], answer: Response, percentiles: Sequence[float]) -> None:
        self.stable[at], self.utilisation[at], self.mean[at] = answer.is_stable, answer.utilisation, answer.mean
        if isinstance(answer, Unsolved):
            self.stable[at], self.unsolved[at] = answer.utilisation < 1.0, answer.why
        if self.percentiles is not None:
            self.percentiles[at] = answer.percentiles(percentiles)

    def edges(self, j: int, *, highest: bool) -> set[int]:
        """The processes that, with the demand as given, have the highest or lowest of any statistic."""
        columns = [self.utilisation[0, :, j], self.mean[0, :, j]]
        if self.percentiles is not None:
            columns += list(self.percentiles[0, :, j].T)
        return {int(np.argmax(column) if highest else np.argmin(column)) for column in columns}

    def repeat(self, variant: int, i: int, j: int) -> None:
        """Give a moved demand the answer of the demand as given, because it sets no bound."""
        for values in (self.stable, self.utilisation, self.mean, self.percentiles):
            if values is not None:
                values[variant, i, j] = values[0, i, j]


def predict(
    workload: Sequence[MAP],
    demand: Demand,
    allocations: Sequence[Allocation],
    *,
    percentiles: Sequence[float] = (0.5, 0.95, 0.99),
    model: Model = "map",
    errors: float = 2.0,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> list[CandidateLatency]:
    """Give the latency of each allocation, in their order; what they have in common is done once.

    An allocation whose queue cannot be solved for one of the processes is said to be `unsolved`; the others stand.

    Parameters
    ----------
    workload
        Arrival processes that describe the workload, in records per second.
    demand
        What the records ask of one executor at full share.
    allocations
        The candidates.
    percentiles
        Probabilities between 0 and 1, both excluded.
    model
        Which queue; see the module.
    errors
        How many standard errors of the demand the bounds reach.
    limits
        If given, an allocation outside them is refused.
    progress
        Called with the share of the work that is done, now and then.

    Raises
    ------
    ConfigurationError
        No arrival process, a probability outside (0, 1), an allocation outside the limits, an unknown model.

    Examples
    --------
    >>> workload, demand = [MAP.poisson(80.0)], RecordDemand(PH.exponential(mean=0.01))
    >>> full, less = predict(workload, demand, [Allocation(1, 1.0), Allocation(1, 0.7)], percentiles=[0.95])
    >>> full.is_stable, round(full.mean_seconds.value, 9), round(full.percentile_seconds[0.95].value, 9)
    (True, 0.05, 0.149786614)
    >>> less.is_stable, less.mean_seconds.value
    (False, inf)
    """
    _check(workload, demand, allocations, model, limits)
    wanted = tuple(check_probability(float(p)) for p in percentiles)
    if not allocations:
        return []
    if not 0.0 <= errors < math.inf:
        raise ConfigurationError(
            f"errors: {errors:g} is not a number of standard errors; give 0 or more, such as 2", field="errors"
        )
    moves = (0.0, -errors, errors) if _is_uncertain(demand) and errors else (0.0,)
    question = _Question(workload, allocations, wanted, moves, model, progress or (lambda _: None))
    answers = _solve_batches(question, demand) if isinstance(demand, BatchDemand) else _solve_records(question, demand)
    return [
        _prediction(answers, j, allocation, wanted, _NAMES[model, type(demand)])
        for j, allocation in enumerate(allocations)
    ]


def _check(
    workload: Sequence[MAP], demand: Demand, allocations: Sequence[Allocation], model: str, limits: Limits | None
) -> None:
    if not workload:
        raise ConfigurationError("workload: give at least one arrival process", field="workload")
    if model not in MODELS:
        raise ConfigurationError(f"model: {model!r} is unknown; use one of {', '.join(MODELS)}", field="model")
    if (model, type(demand)) not in _NAMES:
        raise ConfigurationError(f"model: {model} has no form for micro-batches; use map or m/g/1", field="model")
    for allocation in allocations:
        check_allocation(allocation)
        if limits is not None and not limits.allows(allocation):
            raise ConfigurationError(
                f"allocations: {allocation} is outside the limits: {limits.min_executors} to {limits.max_executors} "
                f"executors, shares {', '.join(f'{share:g}' for share in limits.cpu_shares)}",
                field="allocations",
            )


def _is_uncertain(demand: Demand) -> bool:
    return demand.has_errors if isinstance(demand, BatchDemand) else demand.spread > 0.0


def _solve_records(question: _Question, demand: RecordDemand) -> _Answers:
    """One queue for each distinct number of executors, process and service time."""
    answers = question.unanswered()
    moved = [demand.moved(move) for move in question.moves]
    counts = sorted({allocation.executors for allocation in question.allocations})
    for done, executors in enumerate(counts, start=1):
        places = [j for j, allocation in enumerate(question.allocations) if allocation.executors == executors]
        streams = [every_nth(process, executors, most_states=MOST_STATES) for process in question.workload]
        services = [one.at(question.allocations[j]) for one in moved for j in places]
        if question.model == "map":
            try:
                _put_many(answers, solve_many(streams, services, question.percentiles), places)
            except ConvergenceError:
                _put_each(answers, streams, services, question.percentiles, places)
        else:
            for number, service in enumerate(services):
                variant, place = divmod(number, len(places))
                for i, stream in enumerate(streams):
                    answer = _solve_general(stream, service, question.model)
                    answers.put((variant, i, places[place]), answer, question.percentiles)
        question.progress(done / len(counts))
    return answers


def _put_many(answers: _Answers, solved: ManyAnswers, places: Sequence[int]) -> None:
    """From processes x (variants x places) to variants x processes x places."""
    variants, processes, _ = answers.mean.shape
    shape = (processes, variants, len(places))
    answers.stable[:, :, places] = solved.stable.reshape(shape).swapaxes(0, 1)
    answers.utilisation[:, :, places] = solved.utilisation.reshape(shape).swapaxes(0, 1)
    answers.mean[:, :, places] = solved.mean.reshape(shape).swapaxes(0, 1)
    assert answers.percentiles is not None
    answers.percentiles[:, :, places] = solved.percentiles.reshape((*shape, -1)).swapaxes(0, 1)


def _put_each(
    answers: _Answers,
    streams: Sequence[MAP],
    services: Sequence[PH],
    percentiles: Sequence[float],
    places: Sequence[int],
) -> None:
    """Queue by queue, so that those that cannot be solved do not cost the others."""
    for number, service in enumerate(services):
        variant, place = divmod(number, len(places))
        for i, stream in enumerate(streams):
            at = (variant, i, places[place])
            load = stream.rate * service.mean
            try:
                answers.put(at, solve_map_ph_1(stream, service), percentiles)
            except ConvergenceError as fault:  # also from percentiles, which are found when they are asked for
                answers.put(at, Unsolved(load, str(fault)), percentiles)


def _solve_general(stream: MAP, service: PH, model: str) -> Response:
    if model == "m/g/1":
        return solve_m_g_1(stream.rate, service)
    return solve_gi_g_1(stream.rate, stream.scv, service.mean, service.scv)


def _solve_batches(question: _Question, demand: BatchDemand) -> _Answers:
    """Use one solver for each process, as its allocations share much of the work.

    A moved demand is solved only for the processes that are the best (the worst) in any statistic with the demand as
    given. They set the bounds as long as the order of the processes stays the same.
    """
    answers, allocations, streams = question.unanswered(), question.allocations, list(question.workload)
    if question.model == "m/g/1":
        streams = [MAP.poisson(process.rate) for process in streams]
    solvers = [MicroBatchSolver(stream) for stream in streams]
    cells = list(np.ndindex(len(question.moves), len(streams), len(allocations)))
    for done, (variant, i, j) in enumerate(cells, start=1):
        move = question.moves[variant]
        if move and i not in answers.edges(j, highest=move > 0.0):
            answers.repeat(variant, i, j)
            continue
        moved = demand.moved(move, streams[i].rate, allocations[j]) if move else demand
        server = moved.at(allocations[j])
        answer = solved_or_not(partial(solvers[i].solve, server), server.utilisation(streams[i].rate))
        answers.put((variant, i, j), answer, question.percentiles)
        question.progress(done / len(cells))
    return answers


def _prediction(
    answers: _Answers, j: int, allocation: Allocation, percentiles: Sequence[float], model: str
) -> CandidateLatency:
    by_probability = None
    if answers.percentiles is not None:
        by_probability = {p: _bounded(answers.percentiles[:, :, j, k]) for k, p in enumerate(percentiles)}
    return CandidateLatency(
        allocation=allocation,
        model=model,
        is_stable=bool(answers.stable[0, :, j].all()),
        utilisation=_bounded(answers.utilisation[:, :, j]),
        mean_seconds=_bounded(answers.mean[:, :, j]),
        percentile_seconds=by_probability,
        unsolved=_unsolved(answers, j),
    )


def _unsolved(answers: _Answers, j: int) -> str | None:
    """Why there is no value: the demand as given could not be solved for a process."""
    processes = answers.mean.shape[1]
    for i in range(processes):
        why = answers.unsolved.get((0, i, j))
        if why is not None:
            return why if processes == 1 else f"process {i + 1} of {processes}: {why}"
    return None


def _bounded(values: FloatArray) -> Bounded:
    """Variants x processes as one number with bounds."""
    worst = int(np.argmax(values[0]))
    return Bounded(float(values[0, worst]), float(values.min()), float(values.max()), worst)
