# SPDX-License-Identifier: Apache-2.0
"""MAP/PH/1/K: a queue with room for K records, the one in service among them.

========  ==========================================================================================
Symbol    Meaning
========  ==========================================================================================
K         room, at least 1
pi_k      stationary vector of k records, over the phases of arrivals and service
f_k       rate at which records are taken in that find k others, by service phase
========  ==========================================================================================

What happens to a record that finds no room is said by the caller:

*lose*: it is dropped. Arrivals go on: at level K both D0 and D1 leave the level as it is.

*wait*: its sender holds it and stands still. The arrivals' phase is frozen in a level K + 1 (the record in the
sender's hand), and moves on when a completion makes room. No record is lost; the sender is slowed down.

The levels are solved by elimination (see `levels`). A record taken in that finds k others stays for the rest of one
service and k whole ones: its time is stepped through by uniformisation, exactly (see `stepped_response`). For
*wait* it is counted from the moment the record was ready, standing in the sender's hand included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.levels import kron, stationary_levels
from penstock.performance.queueing.load import check_processes, entered
from penstock.performance.queueing.partitions import check_count
from penstock.performance.queueing.stepped_response import SteppedResponse, stepped

WhenFull = Literal["lose", "wait"]

MOST_WORK = 2e10
"""Elimination steps, room times the cube of the phases, above which a queue is refused."""


@dataclass(frozen=True)
class FiniteBuffer(SteppedResponse):
    """A `Response` of the sojourn time of the records that are taken in; never saturated, as the room is finite."""

    room: int
    when_full: WhenFull
    throughput: float
    """Records completed per second."""
    loss_probability: float
    """Share of the records that are dropped; 0 when they wait."""
    full_share: float
    """Share of the time without room: arrivals are dropped, or the sender stands still with a record in hand."""
    busy_share: float
    """Share of the time the server works."""
    queue_length: FloatArray
    """Probability of 0, 1, ... records; with *wait* the last entry counts the record in the sender's hand."""

    @property
    def queue_length_mean(self) -> float:
        """Mean number of records, the one in the sender's hand among them."""
        return float(np.arange(len(self.queue_length)) @ self.queue_length)


def solve_finite_buffer(arrivals: MAP, service: PH, room: int, *, when_full: WhenFull = "lose") -> FiniteBuffer:
    """Give the queue MAP/PH/1/K.

    Parameters
    ----------
    arrivals, service
        Records per second that are offered; service time in seconds.
    room
        Records that may be there at once, the one in service among them.
    when_full
        Whether a record that finds no room is lost, or its sender waits.

    Examples
    --------
    >>> queue = solve_finite_buffer(MAP.poisson(1.0), PH.exponential(mean=1.0), 4)
    >>> round(queue.loss_probability, 9), round(queue.throughput, 9), round(queue.mean, 9)
    (0.2, 0.8, 2.5)
    """
    check_processes(arrivals, service, PH)
    K, service = check_count("room", room), entered(service)
    if when_full not in ("lose", "wait"):
        raise ConfigurationError(f'when_full: {when_full!r} must be "lose" or "wait"', field="when_full")
    n, m = arrivals.order, service.order
    if K * float(n * m) ** 3 > MOST_WORK:
        raise ConfigurationError(
            f"room: {K} places with {n} phases of arrivals and {m} of service are too many to eliminate; take a "
            "process of fewer phases, or the queue without limit",
            field="room",
        )
    waits = when_full == "wait"
    vectors = _levels(arrivals, service, K, waits=waits)
    total = sum(float(v.sum()) for v in vectors)
    vectors = [v / total for v in vectors]
    lengths = np.array([v.sum() for v in vectors])
    offered = [_flow(v, arrivals.D1, 1 if k == 0 else m) for k, v in enumerate(vectors[: K + 1])]
    taken = offered if waits else offered[:K]
    throughput = sum(float(f.sum()) for f in taken)
    lost = 0.0 if waits else float(offered[K].sum())
    utilisation = arrivals.rate * service.mean
    q = float(np.max(-service.T.diagonal()))
    answer = stepped(utilisation, q, _sojourn([f / throughput for f in taken], service, q))
    return FiniteBuffer(
        utilisation,
        q,
        answer.survival,
        answer.decay,
        room=K,
        when_full=when_full,
        throughput=throughput,
        loss_probability=lost / (throughput + lost),
        full_share=float(lengths[-1]),
        busy_share=float(1.0 - lengths[0]),
        queue_length=lengths,
    )


def _levels(arrivals: MAP, service: PH, K: int, *, waits: bool) -> list[FloatArray]:
    n, m = arrivals.order, service.order
    D0, D1, eye = arrivals.D0, arrivals.D1, np.eye(n)
    busy = np.eye(m)
    within = kron(D0, busy) + kron(eye, service.T)
    restart = kron(eye, np.outer(service.exits, service.alpha))
    up = kron(D1, busy)
    local = [D0, *[within] * (K - 1)]
    ups = [kron(D1, service.alpha[None, :]), *[up] * (K - 1)]
    downs = [kron(eye, service.exits[:, None]), *[restart] * (K - 1)]
    if waits:
        local += [within, kron(eye, service.T)]
        ups.append(up)
        downs.append(restart)
    else:
        local.append(within + up)
    return stationary_levels(local, ups, downs)


def _flow(vector: FloatArray, D1: FloatArray, phases: int) -> FloatArray:
    """Give the rate of arrivals at a level by service phase (one entry for the empty queue)."""
    flow: FloatArray = vector.reshape(len(D1), phases).T @ D1.sum(axis=1)
    return flow


def _sojourn(found: list[FloatArray], service: PH, q: float) -> Iterator[float]:
    """Give the survival of a record that finds k others with `found[k]`, by the phase of the service going on."""
    state = np.zeros((len(found), service.order))  # row k: k whole services to come after the present one
    state[0] = found[0].sum() * service.alpha
    for k in range(1, len(found)):
        state[k] = found[k]
    stay, end = np.eye(service.order) + service.T / q, service.exits / q
    while True:
        yield float(state.sum())
        ended = state @ end
        state = state @ stay
        state[:-1] += np.outer(ended[1:], service.alpha)
