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

The levels are solved by elimination (see `repeating_levels`). A record taken in that finds k others stays for the rest
of one service and k whole ones: its time is stepped through by uniformisation, exactly (see `stepped_response`). For
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
from penstock.performance.queueing.levels import kron
from penstock.performance.queueing.load import check_processes, entered
from penstock.performance.queueing.partitions import check_count
from penstock.performance.queueing.repeating_levels import RepeatingLevels
from penstock.performance.queueing.stepped_response import SteppedResponse, stepped

WhenFull = Literal["lose", "wait"]

MOST_WORK = 2e10
"""Elimination steps, room times the cube of the phases, above which a queue is refused."""

MOST_TICKS = 50_000
"""Mean number of phases a record passes through in its stay above which a queue is refused: what is full so long is
a queue without limit, or a sender that is served at the rate of the server."""

_NO_MASS = 1e-24
_EVERY = 64
"""Ticks after which the levels are looked for between which records are; what is left out is far below rounding."""


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
    empty, rows = _levels(arrivals, service, K, waits=waits)
    lengths = np.concatenate([[empty.sum()], rows.sum(axis=1)])
    alone = float(empty @ arrivals.D1.sum(axis=1)) * service.alpha  # who finds nobody is served at once
    offered = np.concatenate([alone[None], _flow(rows[:K], arrivals.D1)])
    taken = offered if waits else offered[:K]
    throughput = float(taken.sum())
    lost = 0.0 if waits else float(offered[K].sum())
    utilisation = arrivals.rate * service.mean
    q = float(np.max(-service.T.diagonal()))
    ticks = q * float(np.arange(len(lengths)) @ lengths) / throughput  # by Little's law
    if ticks > MOST_TICKS:
        raise ConfigurationError(
            f"room: with {K} places a record stays for {ticks:.3g} phases of service in the mean, more than the "
            f"{MOST_TICKS:,} that can be stepped through; give less room, or take the queue without limit",
            field="room",
        )
    answer = stepped(utilisation, q, _sojourn(taken / throughput, service, q))
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


def _levels(arrivals: MAP, service: PH, K: int, *, waits: bool) -> tuple[FloatArray, FloatArray]:
    n, m = arrivals.order, service.order
    D0, D1, eye, busy = arrivals.D0, arrivals.D1, np.eye(n), np.eye(m)
    within, up = kron(D0, busy) + kron(eye, service.T), kron(D1, busy)
    levels = RepeatingLevels(
        empty=D0,
        first_up=kron(D1, service.alpha[None, :]),
        first_down=kron(eye, service.exits[:, None]),
        inner=within,
        up=up,
        down=kron(eye, np.outer(service.exits, service.alpha)),
        top=kron(eye, service.T) if waits else within + up,
    )
    return levels.stationary(K + waits)


def _flow(rows: FloatArray, D1: FloatArray) -> FloatArray:
    """Give the rate of arrivals at each busy level by service phase."""
    return np.asarray(np.einsum("kij,i->kj", rows.reshape(len(rows), len(D1), -1), D1.sum(axis=1)))


def _sojourn(found: FloatArray, service: PH, q: float) -> Iterator[float]:
    """Give the survival of a record that finds k others with `found[k]`, by the phase of the service going on."""
    state = found.T.copy()  # column k: k whole services to come after the present one
    stay, end, start = (np.eye(service.order) + service.T / q).T.copy(), service.exits / q, service.alpha[:, None]
    low, high, tick = 0, state.shape[1], 0
    while True:
        if tick % _EVERY == 0:
            mass = state[:, low:high].sum(axis=0)
            below, above = np.cumsum(mass), np.cumsum(mass[::-1])
            if below[-1] > _NO_MASS:
                low, high = (
                    low + int(np.searchsorted(below, _NO_MASS)),
                    high - int(np.searchsorted(above, _NO_MASS)),
                )
        tick += 1
        now = state[:, low:high]
        yield float(now.sum())
        ended = end @ now
        now[...] = stay @ now
        now[:, :-1] += start * ended[1:]
        if low:
            low -= 1
            state[:, low] = ended[0] * service.alpha
