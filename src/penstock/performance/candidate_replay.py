# SPDX-License-Identifier: Apache-2.0
"""Given arrivals sent through one operator under each of many allocations, and which verdicts rest on that.

The arrivals are played once, from an operator that has nothing to do, as the simulator plays them: for micro-batches of
constant times the figures are the simulator's. Batches take their mean times, and records that are served one by one
have their work drawn, the same under all allocations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.errors import ConfigurationError
from penstock.performance.demand import BatchDemand, Demand, RecordDemand
from penstock.performance.operator_latency import Progress
from penstock.performance.queueing.response import check_probability
from penstock.performance.replay import batch_ends, record_ends, statistic
from penstock.ports import FloatArray
from penstock.records import Allocation, Bounded, CandidateLatency, Objective

REPLAYED = "replayed"


@dataclass(frozen=True, slots=True)
class JudgedCandidate:
    """One allocation: what its model predicts, what the arrivals themselves would have met, and which of them counts.

    `replayed` is None where there are no arrivals to replay. `counted` is what the allocation is judged by.
    """

    predicted: CandidateLatency
    replayed: CandidateLatency | None
    counted: CandidateLatency

    @property
    def allocation(self) -> Allocation:
        """What the operator would have."""
        return self.predicted.allocation

    def meets(self, objective: Objective) -> bool | None:
        """Whether what counts is within the objective; None where its statistic was not predicted."""
        return self.counted.meets(objective)


def replay_candidates(
    arrivals: FloatArray,
    demand: Demand,
    allocations: Sequence[Allocation],
    *,
    percentiles: Sequence[float] = (0.5, 0.95, 0.99),
    errors: float = 2.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[CandidateLatency]:
    """Give what the arrivals would have met under each allocation, in their order.

    Parameters
    ----------
    arrivals
        When records arrived, in seconds, rising.
    demand
        What the records ask of one executor at full share.
    allocations
        The candidates.
    percentiles
        Probabilities between 0 and 1, both excluded.
    errors
        How many standard errors of the demand the bounds reach.
    seed
        Of the work of records that are served one by one.
    progress
        Called with the share of the work that is done.

    Raises
    ------
    ConfigurationError
        Fewer than two arrivals, or all at one instant.

    Examples
    --------
    >>> [one] = replay_candidates(
    ...     np.array([0.0, 0.5, 0.6]), BatchDemand(0.1, 0.1, trigger_seconds=1.0), [Allocation(1)], percentiles=[0.5])
    >>> round(one.mean_seconds.value, 2)  # ends at 0.2, 1.3 and 1.3
    0.57
    """
    if len(arrivals) < 2 or not arrivals[-1] > arrivals[0]:
        raise ConfigurationError("arrivals: a replay needs two arrivals or more, at two instants", field="arrivals")
    came = arrivals - arrivals[0]
    rate = (len(came) - 1) / float(came[-1])
    wanted = [None, *(check_probability(float(p)) for p in percentiles)]
    work: FloatArray | None = None
    if isinstance(demand, RecordDemand):
        work = demand.service.sample(len(came), np.random.default_rng(seed))
    found: list[CandidateLatency] = []
    for done, allocation in enumerate(allocations, start=1):
        variants = [_variant(demand, move, rate, allocation) for move in (0.0, -errors, errors)]
        variants = variants[:1] if variants[1] == variants[0] else variants
        times = [[statistic(_latencies(came, one, work, demand, allocation), p) for p in wanted] for one in variants]
        loads = [_utilisation(one, rate, allocation) for one in variants]
        mean, *others = (_bounded(column) for column in zip(*times, strict=True))
        found.append(
            CandidateLatency(
                allocation=allocation,
                model=REPLAYED,
                is_stable=loads[0] < 1.0,
                utilisation=_bounded(loads),
                mean_seconds=mean,
                percentile_seconds=dict(zip((float(p) for p in percentiles), others, strict=True)),
            )
        )
        if progress is not None:
            progress(done / len(allocations))
    return found


def judged_candidates(
    predicted: Sequence[CandidateLatency], replayed: Sequence[CandidateLatency] | None, *, by_replay: bool = True
) -> list[JudgedCandidate]:
    """Judge allocations by their replay, as MEAD plans, or by the model: where asked, or where nothing was replayed.

    Parameters
    ----------
    predicted
        By a model.
    replayed
        Of the same allocations in the same order; None: there is nothing to replay.
    by_replay
        Whether the replay counts where there is one.
    """
    if replayed is None:
        return [JudgedCandidate(one, None, one) for one in predicted]
    return [
        JudgedCandidate(one, met, _endless_where_saturated(met) if by_replay else one)
        for one, met in zip(predicted, replayed, strict=True)
    ]


def _endless_where_saturated(met: CandidateLatency) -> CandidateLatency:
    """A finite replay ends even where records come faster than they are done; what it met there says nothing."""

    def endless(seconds: Bounded) -> Bounded:
        low = seconds.low if met.utilisation.low < 1.0 else math.inf
        return Bounded(seconds.value if met.is_stable else math.inf, low, math.inf)

    if met.utilisation.high < 1.0:
        return met
    percentiles = met.percentile_seconds
    return replace(
        met,
        mean_seconds=endless(met.mean_seconds),
        percentile_seconds=None if percentiles is None else {p: endless(t) for p, t in percentiles.items()},
    )


def _variant(demand: Demand, move: float, rate: float, allocation: Allocation) -> Demand:
    return demand.moved(move, rate, allocation) if isinstance(demand, BatchDemand) else demand.moved(move)


def _latencies(
    came: FloatArray, variant: Demand, work: FloatArray | None, given: Demand, allocation: Allocation
) -> FloatArray:
    if isinstance(variant, BatchDemand):
        return batch_ends(came, variant.at(allocation), 0.0) - came
    assert work is not None
    assert isinstance(given, RecordDemand)
    slower = variant.service.mean / given.service.mean / allocation.cpu_share
    return record_ends(came, work * slower, allocation.executors, in_order=False) - came


def _utilisation(demand: Demand, rate: float, allocation: Allocation) -> float:
    if isinstance(demand, BatchDemand):
        return demand.at(allocation).utilisation(rate)
    return rate * demand.service.mean / allocation.capacity


def _bounded(values: Sequence[float]) -> Bounded:
    """The value with the demand as given first, and the least and most of all."""
    return Bounded(float(values[0]), float(min(values)), float(max(values)))
