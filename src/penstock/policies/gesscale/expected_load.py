# SPDX-License-Identifier: Apache-2.0
"""What an operator has to do: arrivals now, before long and at their busiest of late, and what waits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.errors import NotReadyError
from penstock.records import PlanRequest

_TREND_SECONDS = 180.0
"""What a rise or fall of the arrival rate is taken over."""
_MOST_GROWTH = 3.0
"""By how much a trend may multiply the rate."""
_STRONG_FALL = 0.6
"""A falling rate that is below this part of the busiest of late is no dip: what was before it says nothing more."""
_STRONG_RISE = 0.15
"""A rise over the trend's span that is a smaller part of the rate may be an oscillation, and is not followed ahead."""
_LEAST_POINTS = 6
_CLEAR = 2.0
"""A slope counts where it is so many times its own standard error."""


@dataclass(frozen=True, slots=True)
class ExpectedLoad:
    """What an operator has to do, in records and records a second.

    Attributes
    ----------
    rate
        That arrive now, over the monitor's window.
    slope
        By how much that rises every second; 0 where no trend is clear.
    busiest
        The highest rate of late; that of now while the rate falls strongly.
    backlog
        That wait or are in work.
    """

    rate: float
    slope: float
    busiest: float
    backlog: float

    def rate_in(self, seconds: float) -> float:
        """The rate so many seconds from now, if it rises strongly and goes on so; anything else is waited for."""
        if self.slope * _TREND_SECONDS < _STRONG_RISE * self.rate:
            return self.rate
        return min(self.rate * _MOST_GROWTH, self.rate + self.slope * seconds)


def expected_load(request: PlanRequest, calm_seconds: float) -> ExpectedLoad:
    """What the operator of a request has to do; NotReadyError where arrivals or backlog are not known."""
    seen = request.observation
    rate, backlog = seen.arrival_rate_rows_per_second, seen.backlog_records
    if rate is None or backlog is None:
        missing = f" ({'; '.join(seen.missing)})" if seen.missing else ""
        raise NotReadyError(f"arrival rate and backlog are not both known{missing}")
    if not (0.0 <= rate < 1e15 and 0 <= backlog < 1e18):
        raise NotReadyError(f"an arrival rate of {rate:g} and a backlog of {backlog:g} cannot be true")
    known = [
        (one.at - request.at, one.arrival_rate_rows_per_second)
        for one in (*request.history, seen)
        if one.arrival_rate_rows_per_second is not None and math.isfinite(one.arrival_rate_rows_per_second)
    ]
    busiest = max([rate, *(value for at, value in known if -calm_seconds <= at <= 0.0)])
    slope = _slope([point for point in known if -_TREND_SECONDS <= point[0] <= 0.0])
    is_strong_fall = slope < 0.0 and rate < _STRONG_FALL * busiest
    return ExpectedLoad(rate, slope, rate if is_strong_fall else busiest, float(backlog))


def _slope(points: list[tuple[float, float]]) -> float:
    """The trend by least squares; 0 where it may be chance."""
    if len(points) < _LEAST_POINTS:
        return 0.0
    at, rates = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    if at[-1] - at[0] < 0.5 * _TREND_SECONDS:
        return 0.0
    at, rates = at - at.mean(), rates - rates.mean()
    slope = float(at @ rates / (at @ at))
    error = math.sqrt(float(np.sum((rates - slope * at) ** 2)) / ((len(at) - 2) * float(at @ at)))
    # Rates over windows that overlap are not independent: their error is larger than it looks.
    return slope if abs(slope) > _CLEAR * _CLEAR * error else 0.0
