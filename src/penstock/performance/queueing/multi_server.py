# SPDX-License-Identifier: Apache-2.0
"""An operator on several executors: vertical (CPU share) and horizontal (count) candidates answered by one model.

Three ways of sharing the work:

*hash*, *round robin*: each executor has its own part of the arrivals and its own queue (see `partitions` for what that
does to burstiness). Each queue is solved alone, which is exact for the time of a record: what the others do does not
touch it.

*shared queue*: one queue before all executors, the next record to the first that is free: MAP/PH/c (see
`shared_queue`).

A share s of a CPU stretches the service time to 1 / s of what it is on a whole one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH
from penstock.performance.queueing.mixture import Mixture
from penstock.performance.queueing.partitions import (
    MOST_STATES,
    Burstiness,
    Partition,
    check_count,
    split_by_hash,
    split_round_robin,
)
from penstock.performance.queueing.response import Response, Saturated
from penstock.performance.queueing.shared_queue import solve_shared_queue
from penstock.performance.queueing.single_server import solve_map_ph_1

Dispatch = Literal["hash", "round robin", "shared queue"]


@dataclass(frozen=True, slots=True)
class Executors:
    """So many executors, each with this share of a CPU."""

    count: int
    cpu_share: float = 1.0

    def __post_init__(self) -> None:
        check_count("executors", self.count)
        if not (math.isfinite(self.cpu_share) and self.cpu_share > 0):
            raise ConfigurationError(
                f"cpu_share: {self.cpu_share!r} must be a positive number of CPUs", field="cpu_share"
            )

    @property
    def cpus(self) -> float:
        """CPUs in all."""
        return self.count * self.cpu_share


@dataclass(frozen=True)
class Candidate:
    """What an operator's records would see with these executors."""

    executors: Executors
    dispatch: Dispatch
    response: Response
    burstiness: Burstiness
    """Of the arrivals at one queue; with a hash of unequal weights at the most loaded one."""
    is_exact: bool
    """False where a smaller process or an approximation took the place of the exact one."""


def solve_executors(
    arrivals: MAP,
    service: PH,
    executors: Executors,
    *,
    dispatch: Dispatch = "shared queue",
    weights: Sequence[float] | None = None,
    most_states: int = MOST_STATES,
) -> Candidate:
    """Give the time of a record in an operator that has these executors.

    Parameters
    ----------
    arrivals
        All records of the operator, per second.
    service
        Time in seconds one record takes on a whole CPU.
    executors
        How many, and the CPU share of each.
    dispatch
        How records come to executors.
    weights
        With a hash: how the records spread; equally where not given.
    most_states
        States a part of the arrivals may have; see `partitions.split_round_robin`.

    Examples
    --------
    >>> arrivals, service = MAP.poisson(1.2), PH.exponential(mean=1.0)
    >>> for dispatch in ("hash", "round robin", "shared queue"):
    ...     print(dispatch, round(solve_executors(arrivals, service, Executors(2), dispatch=dispatch).response.mean, 4))
    hash 2.5
    round robin 1.9835
    shared queue 1.5625
    """
    if weights is not None and dispatch != "hash":
        raise ConfigurationError(f"weights: {dispatch!r} has none; only a hash spreads unequally", field="weights")
    if weights is not None and len(weights) != executors.count:
        raise ConfigurationError(
            f"weights: there are {len(weights)} for {executors.count} executors; give one for each", field="weights"
        )
    slowed = service.time_scaled(1.0 / executors.cpu_share)
    if dispatch == "shared queue":
        answer = solve_shared_queue(arrivals, slowed, executors.count)
        exact = isinstance(answer, Saturated) or answer.is_exact
        return Candidate(executors, dispatch, answer, Burstiness.of(arrivals), exact)
    if dispatch == "round robin":
        part = split_round_robin(arrivals, executors.count, most_states=most_states)
        return Candidate(executors, dispatch, solve_map_ph_1(part.arrivals, slowed), part.burstiness, part.is_exact)
    if dispatch != "hash":
        raise ConfigurationError(
            f'dispatch: {dispatch!r} must be "hash", "round robin" or "shared queue"', field="dispatch"
        )
    parts = split_by_hash(arrivals, weights if weights is not None else [1.0] * executors.count)
    most_loaded = max(parts, key=lambda part: part.share)
    return Candidate(executors, dispatch, _mixed(parts, slowed), most_loaded.burstiness, True)


def compare_executors(
    arrivals: MAP,
    service: PH,
    candidates: Sequence[Executors],
    *,
    dispatch: Dispatch = "shared queue",
    most_states: int = MOST_STATES,
) -> tuple[Candidate, ...]:
    """Answer every candidate, more executors or larger shares, by the same model.

    Examples
    --------
    >>> options = [Executors(1, 2.0), Executors(2, 1.0), Executors(4, 0.5)]
    >>> answers = compare_executors(MAP.poisson(1.2), PH.exponential(mean=1.0), options)
    >>> [(a.executors.cpus, round(a.response.mean, 4)) for a in answers]
    [(2.0, 1.25), (2.0, 1.5625), (2.0, 2.3588)]
    """
    return tuple(
        solve_executors(arrivals, service, executors, dispatch=dispatch, most_states=most_states)
        for executors in candidates
    )


def _mixed(parts: Sequence[Partition], service: PH) -> Response:
    answers: dict[float, Response] = {}
    for part in parts:  # equal shares are one queue
        if part.share not in answers:
            answers[part.share] = solve_map_ph_1(part.arrivals, service)
    saturated = [answer for answer in answers.values() if not answer.is_stable]
    if saturated:
        return Saturated(max(answer.utilisation for answer in saturated))
    if len(answers) == 1:
        return next(iter(answers.values()))
    return Mixture(tuple(part.share for part in parts), tuple(answers[part.share] for part in parts))
