# SPDX-License-Identifier: Apache-2.0
"""How long an operator has been short of capacity, or calm, at the ends of its live limits."""

from __future__ import annotations

from collections import deque

import numpy as np

from penstock.plan.ladder import direction, ladder
from penstock.records import Limits, Objective, Observation, Quality

_SPANNED = 0.9
"""A trend is known once the looks span at least this part of the time asked for."""
_BATCHES = 2
"""And once so many batches have ended in them: while one runs, every backlog grows as fast as records arrive."""


class CapacitySpells:
    """Takes every observation of one operator, and measures how long it has been at an end of its limits, and how.

    Parameters
    ----------
    limits, objective
        What it may have while it runs, and what is wanted of it.
    trend_seconds
        What the growth of the backlog is taken over.
    """

    def __init__(self, limits: Limits, objective: Objective, trend_seconds: float) -> None:
        self._limits, self._objective = limits, objective
        self._trend_seconds = trend_seconds
        self._at = float("-inf")
        self.forget()

    def forget(self) -> None:
        """Begin anew: after a restart, or a decision, everything has to show again."""
        self._top_since: float | None = None
        self._broken_since: float | None = None
        self._calm_since: float | None = None
        self._backlog: deque[tuple[float, int, int | None]] = deque()
        """When, how many records, and which batch was the last to end."""

    def add(self, seen: Observation) -> None:
        """Take one look. Late or partial data change nothing; an operator that starts or stops begins anew."""
        if seen.at < self._at:  # a clock was set back: how long anything has lasted is not known
            self.forget()
        self._at = seen.at
        if seen.quality in (Quality.WARMING_UP, Quality.STOPPED):
            self.forget()
            return
        if seen.quality is not Quality.GOOD or seen.cluster.observed is None:
            return
        observed = seen.cluster.observed
        rungs = ladder(self._limits, observed.size)
        is_met = self._objective.is_met_by(seen.latency)
        is_top = direction(observed, rungs[-1]) <= 0
        self._top_since = _since(self._top_since, is_top, seen.at)
        if is_met is not None:
            self._broken_since = _since(self._broken_since, is_top and not is_met, seen.at)
        if not is_top:
            self._broken_since = None
            self._backlog.clear()
        elif seen.backlog_records is not None:
            self._backlog.append((seen.at, seen.backlog_records, seen.last_batch_id))
        while len(self._backlog) > 1 and self._is_long_enough(1, seen.at - self._trend_seconds):
            self._backlog.popleft()
        if is_met is not None or self._objective.seconds is None:  # without a bound to keep up is enough
            is_calm = direction(observed, rungs[0]) >= 0 and is_met is not False and not _is_behind(seen)
            self._calm_since = _since(self._calm_since, is_calm, seen.at)

    @property
    def top_seconds(self) -> float:
        """How long it has had the most that a live change can give."""
        return _age(self._top_since, self._at)

    @property
    def broken_seconds(self) -> float:
        """How long the objective has been broken there."""
        return _age(self._broken_since, self._at)

    @property
    def calm_seconds(self) -> float:
        """How long it has had the least that a live change can give, and met its objective."""
        return _age(self._calm_since, self._at)

    @property
    def backlog_growth_rows_per_second(self) -> float | None:
        """The trend of the backlog at the top (least squares); None before it spans the time and batches needed."""
        if len(self._backlog) < 3 or not self._is_long_enough(0, self._at - _SPANNED * self._trend_seconds):
            return None
        times, counts = (np.array([point[i] for point in self._backlog], dtype=float) for i in (0, 1))
        times -= times.mean()
        return float(times @ counts / (times @ times))

    def _is_long_enough(self, first: int, since: float) -> bool:
        """Whether the looks from number `first` on reach back to `since`, and enough batches have ended in them."""
        at, _, batch = self._backlog[first]
        newest = self._backlog[-1][2]
        return at <= since and (batch is None or newest is None or newest - batch >= _BATCHES)


def _is_behind(seen: Observation) -> bool:
    """Whether more waits than two batches' worth; where the backlog is not known the objective alone decides."""
    rate = seen.arrival_rate_rows_per_second
    if seen.backlog_records is None or rate is None or seen.batch_seconds is None:
        return False
    # A calm micro-batch query has what arrived during the running batch and the one before.
    return seen.backlog_records > rate * max(2.0 * seen.batch_seconds, seen.window_seconds)


def _since(since: float | None, holds: bool, at: float) -> float | None:
    return (at if since is None else since) if holds else None


def _age(since: float | None, at: float) -> float:
    return 0.0 if since is None else at - since
