# SPDX-License-Identifier: Apache-2.0
"""What an operator has to do: arrivals now, before long and at their busiest of late, and what waits.

A load that goes up and down every few minutes rises steeply again and again. Followed ahead, each such rise would be a
change, and the next fall another. So only a rise to a new height is followed, beyond all that came in the last half
hour. Where the rate has been higher before (yesterday, say), it is followed up to that; where it has not, half as far
as it points, and no further than by a quarter: rises end, and nobody knows where. Likewise only a fall far below all
that came of late is taken for more than a dip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from penstock.errors import NotReadyError
from penstock.records import PlanRequest

TREND_SECONDS = 120.0
"""What a rise or fall of the arrival rate is taken over, unless the user says otherwise."""
_MEAN_TRENDS = 1.5
"""So many times that the rate is averaged over that overload is judged by: longer than a window, shorter than a rush
hour begins."""
LATE_TRENDS = 15.0
"""So many times that is of late: longer than waves of a load are, shorter than a day's rise or fall."""
_NEW_HEIGHT = 1.1
"""A rate so many times above all of late, before the trend, is a new height."""
_UNKNOWN = 0.5
"""How far a rise is followed that goes beyond all that was ever seen: this part of what it points to."""
_MOST_UNKNOWN = 0.25
"""And by no more than this part of the rate."""
_MOST_AT_THE_TOP = 0.1
"""The same where the rate is hardly above the highest before: that is rather the same top again than a new one."""
_STRONG_FALL = 0.6
"""A falling rate that is below this part of the busiest of late is no dip: what was before it says nothing more."""
_LEAST_POINTS = 6
_LEAST_BEFORE = 3
_CLEAR = 2.0
"""A slope counts where it is so many times its own standard error."""
_REMEMBERED_SECONDS = 86_400.0
_SPELL_SECONDS = 600.0


class BusiestRate:
    """The highest arrival rate of the last day, spell by spell of ten minutes."""

    def __init__(self) -> None:
        self._spells: dict[int, float] = {}

    def watch(self, at: float, rate: float | None) -> None:
        """Take in one look."""
        if not _can_be_true(rate):
            return
        spell = math.floor(at / _SPELL_SECONDS)
        if spell not in self._spells:
            oldest = spell - _REMEMBERED_SECONDS / _SPELL_SECONDS
            self._spells = {then: value for then, value in self._spells.items() if then >= oldest}
        self._spells[spell] = max(rate, self._spells.get(spell, 0.0))

    def before(self, at: float) -> float:
        """The highest of all spells that were over by then; 0 where there was none."""
        return max((rate for spell, rate in self._spells.items() if (spell + 1) * _SPELL_SECONDS <= at), default=0.0)


@dataclass(frozen=True, slots=True)
class ExpectedLoad:
    """What an operator has to do, in records and records a second.

    Attributes
    ----------
    rate
        That arrive now, over the monitor's window.
    mean
        The same over some minutes.
    slope
        By how much the rate rises every second; 0 where no trend is clear.
    is_rising
        Whether it rises to a new height.
    is_falling
        Whether it has fallen far below the busiest of late, and falls on.
    highest
        The highest rate before of late, for what a rise may come to; 0 where none is known.
    backlog
        That wait or are in work.
    lag_seconds
        How old the rate is: half of the window that it is taken over.
    past
        Seconds before now and the rate then, oldest first, now included.
    """

    rate: float
    mean: float
    slope: float
    is_rising: bool
    is_falling: bool
    highest: float
    backlog: float
    lag_seconds: float
    past: tuple[tuple[float, float], ...]

    def rate_in(self, seconds: float) -> float:
        """The rate so many seconds from now, if it rises to a new height and goes on so; others are waited for."""
        if not self.is_rising:
            return self.rate
        points_to = self.slope * (self.lag_seconds + seconds)
        if self.highest > self.rate:
            return min(self.highest, self.rate + points_to)
        is_at_the_top = self.rate <= (1.0 + _MOST_UNKNOWN) * self.highest
        most = _MOST_AT_THE_TOP if is_at_the_top else _MOST_UNKNOWN
        return self.rate + min(_UNKNOWN * points_to, most * self.rate)

    def busiest(self, seconds: float) -> float:
        """The highest rate of the last so many seconds."""
        return max([self.rate, *(rate for before, rate in self.past if before <= seconds)])


def expected_load(request: PlanRequest, highest: float = 0.0, trend_seconds: float = TREND_SECONDS) -> ExpectedLoad:
    """What the operator of a request has to do.

    Parameters
    ----------
    request
        What is known of it.
    highest
        The highest rate that was seen before of late; 0: none is known.
    trend_seconds
        What a rise or fall is taken over; the mean and what is of late are in proportion.

    Raises
    ------
    NotReadyError
        Arrivals or backlog are not known, or cannot be true.
    """
    seen = request.observation
    rate, backlog = seen.arrival_rate_rows_per_second, seen.backlog_records
    if rate is None or backlog is None:
        missing = f" ({'; '.join(seen.missing)})" if seen.missing else ""
        raise NotReadyError(f"arrival rate and backlog are not both known{missing}")
    if not (_can_be_true(rate) and 0 <= backlog < 1e18):
        raise NotReadyError(f"an arrival rate of {rate:g} and a backlog of {backlog:g} cannot be true")
    past = tuple(
        (request.at - one.at, one.arrival_rate_rows_per_second)
        for one in (*request.history, seen)
        if _can_be_true(one.arrival_rate_rows_per_second) and one.at <= request.at
    )
    mean_seconds, late_seconds = _MEAN_TRENDS * trend_seconds, LATE_TRENDS * trend_seconds
    slope = _slope([point for point in past if point[0] <= trend_seconds], 0.5 * trend_seconds)
    # Windows that reach into the trend are of the rise itself.
    before = [value for ago, value in past if trend_seconds + seen.window_seconds <= ago <= late_seconds]
    of_late = max([rate, *(value for ago, value in past if ago <= late_seconds)])
    return ExpectedLoad(
        rate,
        float(np.mean([rate, *(value for ago, value in past if 0.0 < ago <= mean_seconds)])),
        slope,
        slope > 0.0 and len(before) >= _LEAST_BEFORE and rate > _NEW_HEIGHT * max(before),
        slope < 0.0 and rate < _STRONG_FALL * of_late,
        highest,
        float(backlog),
        0.5 * seen.window_seconds,
        past,
    )


def _can_be_true(rate: float | None) -> TypeGuard[float]:
    return rate is not None and 0.0 <= rate < 1e15


def _slope(points: Sequence[tuple[float, float]], least_seconds: float) -> float:
    """The trend by least squares, of rates so many seconds ago; 0 where it may be chance, or they span too little."""
    if len(points) < _LEAST_POINTS:
        return 0.0
    ago, rates = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    at = -ago
    if at[-1] - at[0] < least_seconds:
        return 0.0
    at, rates = at - at.mean(), rates - rates.mean()
    slope = float(at @ rates / (at @ at))
    error = math.sqrt(float(np.sum((rates - slope * at) ** 2)) / ((len(at) - 2) * float(at @ at)))
    # Rates over windows that overlap are not independent: their error is larger than it looks.
    return slope if abs(slope) > _CLEAR * _CLEAR * error else 0.0
