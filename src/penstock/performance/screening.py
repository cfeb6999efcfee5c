# SPDX-License-Identifier: Apache-2.0
"""A quick guess of which arrival processes will be the worst.

A micro-batch queue takes a hundred times as long to solve as a queue of single records, and more the burstier it is.
Processes are ranked by the sum of three terms, in the statistic of the objective: the queue of single records with the
same work, which waits for long bursts as batches do; one and a half settled batches T = f / (1 - rho); and how much two
batches, the running one and the record's own, vary with the records that arrive during T, by their index of dispersion.
The ranking is done once with all the CPU and once with half of it, and the worst of both are kept. The worst of those
kept may be some percent better than the worst of all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import ndtri

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.performance.queueing.departure_process import MOST_STATES
from penstock.performance.queueing.single_server import solve_many, solve_map_ph_1
from penstock.performance.queueing.stream_transforms import every_nth, selected
from penstock.records import Allocation

STAGES = 4
"""Stages of the Erlang distribution that stands for a record's time, which hardly varies within a batch."""
_BATCHES_SEEN = 1.5
"""A record waits half a batch on average, and then stays for its own."""
_BUSY = 0.5
"""Utilisation of the busiest operator at which processes are compared: about that of plans."""


def worst_processes(
    pipeline: PipelineModel,
    workload: Mapping[str, MAP],
    count: int = 2,
    executors: Mapping[str, int] | None = None,
) -> dict[str, MAP]:
    """Give the processes under which the paths are likely to be slowest, in their order: `count` for each rank.

    Operators have the `executors` named, else one.

    Examples
    --------
    >>> from penstock.records import Objective
    >>> pipeline = PipelineModel([OperatorModel("a", BatchDemand(0.2, 0.01))], Objective("p95", 5.0))
    >>> list(worst_processes(pipeline, {"calm": MAP.poisson(5.0), "busy": MAP.poisson(40.0)}, count=1))
    ['busy']
    """
    if count < 1:
        raise ConfigurationError(f"count: {count} must be at least 1", field="count")
    kept: set[str] = set()
    labels = list(workload)
    for share in (1.0, 0.5):
        for path in pipeline.paths:
            p = pipeline.probability(path)
            judged = [
                [
                    _judged(
                        pipeline.operator(name),
                        selected(process, pipeline.visits[name], most_states=MOST_STATES),
                        Allocation((executors or {}).get(name, 1), share),
                        p,
                    )
                    for name in path
                ]
                for process in workload.values()
            ]
            seconds = np.array([sum(time for time, _ in one) for one in judged])
            load = np.array([max(load for _, load in one) for one in judged])
            kept.update(labels[i] for i in np.lexsort((load, seconds))[-count:])
    return {label: process for label, process in workload.items() if label in kept}


def likely_worst(pipeline: PipelineModel, workload: Mapping[str, MAP]) -> str:
    """The process under which the times at all operators add up to most, were the busiest of them busy to a half.

    For operators that serve records one by one. Each is given the arrivals themselves, which is quick to solve.

    Examples
    --------
    >>> from penstock.performance.demand import RecordDemand
    >>> from penstock.records import Objective
    >>> pipeline = PipelineModel([OperatorModel("a", RecordDemand(PH.exponential(mean=0.01)))], Objective("p95", 5.0))
    >>> likely_worst(pipeline, {"calm": MAP.poisson(5.0), "busy": MAP.poisson(40.0)})
    'busy'
    """
    services = [
        one.demand.service.time_scaled(pipeline.visits[one.name])
        for one in pipeline.operators
        if isinstance(one.demand, RecordDemand)
    ]
    busiest = max(process.rate for process in workload.values()) * max(service.mean for service in services)
    p = pipeline.probability(pipeline.paths[0])
    answers = solve_many(
        list(workload.values()),
        [service.time_scaled(_BUSY / busiest) for service in services],
        [] if p is None else [p],
    )
    seconds = answers.mean if p is None else answers.percentiles[:, :, 0]
    return list(workload)[int(np.argmax(seconds.sum(axis=1)))]


def single_records(demand: BatchDemand, allocation: Allocation) -> PH:
    """The time of a record, were it served alone and the fixed time free."""
    return PH.erlang(STAGES, mean=demand.at(allocation).per_record)


def _judged(operator: OperatorModel, stream: MAP, allocation: Allocation, p: float | None) -> tuple[float, float]:
    """A latency that ranks processes, and the utilisation."""
    if not isinstance(operator.demand, BatchDemand):
        part = every_nth(stream, allocation.executors, most_states=MOST_STATES)
        answer = solve_map_ph_1(part, operator.demand.at(allocation))
        return answer.mean if p is None else answer.percentile(p), answer.utilisation
    answer = solve_map_ph_1(stream, single_records(operator.demand, allocation))
    if not answer.is_stable:
        return answer.mean, answer.utilisation
    server, left = operator.demand.at(allocation), 1.0 - answer.utilisation
    batch = server.fixed / left
    varies = math.sqrt(stream.rate * batch * float(stream.idc(batch))) * server.per_record / left
    seconds = answer.mean if p is None else answer.percentile(p) + 2.0 * float(ndtri(p)) * varies
    return seconds + _BATCHES_SEEN * batch, answer.utilisation
