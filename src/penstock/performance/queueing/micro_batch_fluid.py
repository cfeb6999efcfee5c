# SPDX-License-Identifier: Apache-2.0
"""How a backlog grows and drains in a micro-batch queue when rates are known: for explaining, not for percentiles.

Records are a fluid here: no randomness, batch after batch. Seen from afar, a server that runs batches of n records
serves n / (f + c n) per second, more the larger n is, up to 1 / c without a cap. Batches are followed one by one, so
that nothing else is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.errors import ConfigurationError, ConvergenceError
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.micro_batch_server import MicroBatch

_MOST_BATCHES = 1_000_000


@dataclass(frozen=True)
class Rates:
    """Records per second over time: `rates[k]` for `seconds[k]`, one after the other; the last goes on for ever."""

    rates: Sequence[float]
    seconds: Sequence[float]

    def __post_init__(self) -> None:
        if not self.rates or len(self.rates) != len(self.seconds):
            raise ConfigurationError("rates: give one rate for each length of time, and at least one", field="rates")
        if any(not (math.isfinite(rate) and rate >= 0) for rate in self.rates):
            raise ConfigurationError("rates: a rate is a number of records per second, 0 or more", field="rates")
        if any(not (math.isfinite(length) and length > 0) for length in self.seconds):
            raise ConfigurationError("seconds: a length of time is a positive number of seconds", field="seconds")

    def arrived(self, until: float) -> float:
        """Give the records that have arrived by a time."""
        total, left = 0.0, until
        for rate, length in zip(self.rates, self.seconds, strict=True):
            spent = min(left, length)
            total += rate * spent
            left -= spent
        return total + self.rates[-1] * left


def backlog_after(server: MicroBatch, arrivals: Rates, times: Sequence[float], backlog: float = 0.0) -> FloatArray:
    """Give the records in the system (waiting or in the running batch) at some times.

    Parameters
    ----------
    server
        Batch time, cap and trigger.
    arrivals
        Rates over time, from 0.
    times
        When to look, in seconds.
    backlog
        Records waiting at time 0, when a batch may start.

    Examples
    --------
    A rush of ten seconds at twice what the server can do, then nothing.

    >>> server = MicroBatch(fixed=1.0, per_record=0.01, cap=100)
    >>> backlog_after(server, Rates([100.0, 0.0], [10.0, 60.0]), [10.0, 14.0]).round(0).tolist()
    [600.0, 400.0]
    """
    if any(not (math.isfinite(when) and when >= 0) for when in times):
        raise ConfigurationError("times: a time is a number of seconds, 0 or more", field="times")
    horizon = max(times, default=0.0)
    ends, done = _batches(server, arrivals, backlog, horizon)
    return np.array([backlog + arrivals.arrived(when) - _done_by(ends, done, when) for when in times])


def drain_seconds(server: MicroBatch, rate: float, backlog: float, down_to: float | None = None) -> float:
    """Give how long a backlog takes to fall to a usual batch while records keep coming at `rate`; infinite if never.

    A usual batch is what arrives in the batch time that settles (`MicroBatch.smooth_batch_seconds`) and a tenth more,
    unless `down_to` says how many records may be waiting at a batch's start.
    """
    if backlog < 0 or not math.isfinite(backlog):
        raise ConfigurationError("backlog: a number of records, 0 or more", field="backlog")
    if server.utilisation(rate) >= 1:
        return math.inf
    usual = max(rate * max(server.smooth_batch_seconds(rate), server.trigger or 0.0), 1.0)
    goal = 1.1 * usual if down_to is None else down_to
    if goal < usual and backlog > goal:
        return math.inf
    now, waiting = 0.0, backlog
    for _ in range(_MOST_BATCHES):
        if waiting <= goal:
            return now
        size = waiting if server.cap is None else min(waiting, float(server.cap))
        gap = max(
            server.fixed + server.per_record * size, (server.trigger or 0.0) - math.fmod(now, server.trigger or 1)
        )
        now += gap
        waiting += rate * gap - size
    raise ConvergenceError("the backlog drains too slowly to follow", iterations=_MOST_BATCHES, residual=waiting)


def _batches(server: MicroBatch, arrivals: Rates, backlog: float, horizon: float) -> tuple[list[float], list[float]]:
    """Give the ends of the batches that start by a time, and the records done by each end."""
    ends: list[float] = []
    done: list[float] = []
    now, served = 0.0, 0.0
    shortest = server.trigger or server.fixed + server.per_record
    while now <= horizon:
        waiting = backlog + arrivals.arrived(now) - served
        if waiting < 1.0:
            # No record is there: look again a batch time, or a trigger, later.
            now += shortest
            continue
        size = waiting if server.cap is None else min(waiting, float(server.cap))
        served += size
        end = now + server.fixed + server.per_record * size
        ends.append(end)
        done.append(served)
        if len(ends) > _MOST_BATCHES:
            raise ConvergenceError("too many batches to follow", iterations=_MOST_BATCHES, residual=horizon - now)
        now = (
            end if server.trigger is None else max(end, (math.floor(now / server.trigger + 1e-9) + 1) * server.trigger)
        )
    return ends, done


def _done_by(ends: list[float], done: list[float], when: float) -> float:
    index = int(np.searchsorted(ends, when, side="right"))
    return done[index - 1] if index else 0.0
