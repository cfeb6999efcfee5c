# SPDX-License-Identifier: Apache-2.0
"""What an operator has to do: how much arrives, how that changes, what waits, and how long a throughput is enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from penstock.errors import NotReadyError
from penstock.ports import FloatArray
from penstock.records import Observation, PlanRequest, Quality

TREND_SECONDS = 45.0
"""What a rise or fall of the arrival rate is taken over: three of the monitor's windows."""
_LEAST_TREND = 0.05
"""A change over the trend's span that is a smaller part of the rate is taken for chance."""
_EXPLAINED = 0.5
"""Part of the rate's variance that a straight line has to explain; bursts and steps are no trend."""
_TREND_HOLDS_SECONDS = 60.0
"""How long a trend is taken to go on; the rate stays where it is then."""
_MOST_CHANGE = 2.0
"""By how much a trend may multiply or divide the rate in all."""
_MOST_RATE = 1e15
"""No more records arrive a second: what says so is broken."""
_SUDDEN_SECONDS, _SUDDEN = 4.0, 1.3
"""A rate over so many seconds that is so many times that of the window is a jump, and taken at once."""
LONGEST_SECONDS = 600.0
"""How far ahead is looked."""
_STEP_SECONDS = 2.5
_AHEAD: FloatArray = np.arange(0.0, LONGEST_SECONDS + _STEP_SECONDS, _STEP_SECONDS)


@dataclass(frozen=True, slots=True)
class Load:
    """What an operator has to do.

    Attributes
    ----------
    rate
        Records that arrive a second, a mean over the monitor's window.
    slope
        By how much that rises every second (negative: falls); 0 where no trend is clear.
    lag_seconds
        How old the rate is: half the monitor's window.
    backlog
        Records that wait or are in work.
    waiting
        Those of them that a query which keeps up would not have: more than two batches' worth.
    arrivals
        Arrivals of late: pairs of seconds and the records that came in them, oldest first.
    """

    rate: float
    slope: float
    lag_seconds: float
    backlog: float
    waiting: float
    arrivals: tuple[tuple[float, float], ...] = ()

    def rate_in(self, seconds: float) -> float:
        """The rate so many seconds from now, if the trend goes on for a while."""
        return float(self._rates(np.array([seconds]))[0])

    def lasts(self, throughput: float, allowed_seconds: float) -> tuple[float, float]:
        """How long a throughput is enough, and the records that wait then.

        It is enough while what waits is worked off within `allowed_seconds`; at most `LONGEST_SECONDS` are looked at.

        Examples
        --------
        >>> Load(rate=110.0, slope=0.0, lag_seconds=0.0, backlog=0.0, waiting=0.0).lasts(100.0, 30.0)
        (300.0, 3000.0)
        >>> Load(rate=90.0, slope=0.0, lag_seconds=0.0, backlog=0.0, waiting=500.0).lasts(100.0, 30.0)
        (600.0, 0.0)
        """
        if throughput <= 0.0:
            return 0.0, self.waiting
        gained = np.concatenate([[0.0], np.cumsum((self._rates(_AHEAD[:-1]) - throughput) * _STEP_SECONDS)])
        # A queue is what came in less what could go out, reflected at zero (Lindley 1952).
        waiting = self.waiting + gained
        waiting = waiting - np.minimum(np.minimum.accumulate(waiting), 0.0)
        too_much = waiting > allowed_seconds * throughput * (1.0 + 1e-9)
        if not too_much.any():
            return LONGEST_SECONDS, float(waiting[-1])
        last = max(int(np.argmax(too_much)) - 1, 0)
        return float(_AHEAD[last]), float(waiting[last])

    def after(self, seconds: float, throughput: float) -> Load:
        """What there is to do when a throughput has worked for so long, if the trend goes on.

        Examples
        --------
        >>> Load(rate=110.0, slope=0.0, lag_seconds=0.0, backlog=0.0, waiting=50.0).after(10.0, 100.0).waiting
        150.0
        """
        came = float(np.mean(self._rates(np.linspace(0.0, seconds, 9)))) * seconds
        left = came - throughput * seconds
        return replace(
            self,
            lag_seconds=self.lag_seconds + seconds,
            backlog=max(0.0, self.backlog + left),
            waiting=max(0.0, self.waiting + left),
        )

    def would_have_waited(self, throughput: float) -> float:
        """Seconds that records would have had to wait, at most, for a throughput that began without a backlog.

        Examples
        --------
        >>> Load(100.0, 0.0, 0.0, 0.0, 0.0, ((10.0, 3000.0), (20.0, 1000.0))).would_have_waited(200.0)
        5.0
        """
        if throughput <= 0.0:
            return math.inf
        waiting = most = 0.0
        for seconds, records in self.arrivals:
            waiting = max(0.0, waiting + records - throughput * seconds)
            most = max(most, waiting)
        return most / throughput

    def _rates(self, ahead: FloatArray) -> FloatArray:
        moved = self.rate + self.slope * (np.minimum(ahead, _TREND_HOLDS_SECONDS) + self.lag_seconds)
        return np.clip(moved, self.rate / _MOST_CHANGE, self.rate * _MOST_CHANGE)


def load_of(
    request: PlanRequest,
    *,
    calm_batch_seconds: float,
    backlog: float | None,
    remembered_seconds: float,
    follow_trend: bool = True,
) -> Load:
    """What the operator of a request has to do.

    Parameters
    ----------
    request
        What is known.
    calm_batch_seconds
        How long a batch takes, or is waited for, while the query keeps up.
    backlog
        Records that are done before one that arrives now, and with it in its batch, as far as that is known.
    remembered_seconds
        How far back arrivals are remembered.
    follow_trend
        False: the rate is taken to stay as it is.

    Raises
    ------
    NotReadyError
        The arrival rate or the backlog is not known; the message says why.
    """
    seen = request.observation
    rate = _arrival_rate(request)
    if backlog is None:
        raise NotReadyError(f"the backlog is not known{_missing(seen)}")
    if not (0.0 <= rate <= _MOST_RATE and 0.0 <= backlog < math.inf):
        raise NotReadyError(f"an arrival rate of {rate:g} and a backlog of {backlog:g} cannot be true")
    # A query that keeps up does what arrived during one batch, and then what arrives during the next.
    calm = 2.0 * calm_batch_seconds * rate
    looks = [o for o in request.history if o.at < seen.at] + [seen]
    slope = _slope(looks, rate, request.at) if follow_trend else 0.0
    arrivals = _arrivals([o for o in looks if seen.at - o.at <= remembered_seconds])
    sudden = _sudden_rate(arrivals, rate)
    if sudden is not None:
        return Load(sudden, 0.0, 0.0, backlog, max(0.0, backlog - calm), arrivals)
    return Load(rate, slope, 0.5 * seen.window_seconds if slope else 0.0, backlog, max(0.0, backlog - calm), arrivals)


def _arrivals(looks: Sequence[Observation]) -> tuple[tuple[float, float], ...]:
    """Seconds between looks, and what came in them; where records are not counted, by the rate."""
    found: list[tuple[float, float]] = []
    for before, after in pairwise(looks):
        seconds, rate = after.at - before.at, after.arrival_rate_rows_per_second
        if before.records_arrived is not None and after.records_arrived is not None:
            found.append((seconds, float(max(0, after.records_arrived - before.records_arrived))))
        elif rate is not None and math.isfinite(rate):
            found.append((seconds, rate * seconds))
    return tuple(found)


def _sudden_rate(arrivals: Sequence[tuple[float, float]], rate: float) -> float | None:
    """The rate of the last few seconds, where it has jumped far above that of the window; None: it has not."""
    seconds = records = 0.0
    for each, came in reversed(arrivals):
        seconds, records = seconds + each, records + came
        if seconds >= _SUDDEN_SECONDS:
            # Three standard deviations of a Poisson count, so that few records do not look like a jump.
            usual = rate * seconds
            return records / seconds if records > _SUDDEN * usual + 3.0 * math.sqrt(usual) else None
    return None


def _arrival_rate(request: PlanRequest) -> float:
    """What is consumed plus the change of the backlog; the monitor has it where arrivals can be counted."""
    seen = request.observation
    if seen.arrival_rate_rows_per_second is not None:
        return seen.arrival_rate_rows_per_second
    before = next(
        (o for o in reversed(request.history)
         if o.at <= seen.at - seen.window_seconds and o.backlog_records is not None), None,
    )  # fmt: skip
    if seen.processed_rows_per_second is None or seen.backlog_records is None or before is None:
        raise NotReadyError(f"the arrival rate is not known{_missing(seen)}")
    assert before.backlog_records is not None
    change = (seen.backlog_records - before.backlog_records) / (seen.at - before.at)
    return max(0.0, seen.processed_rows_per_second + change)


def _slope(looks: Sequence[Observation], rate: float, now: float) -> float:
    """The trend of the arrival rate by least squares; 0 where it may be chance."""
    points = [
        (look.at - now, look.arrival_rate_rows_per_second)
        for look in looks
        if look.arrival_rate_rows_per_second is not None
        and look.quality is Quality.GOOD
        and 0.0 <= now - look.at <= TREND_SECONDS
    ]
    if len(points) < 6:
        return 0.0
    at, rates = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    if at[-1] - at[0] < 0.5 * TREND_SECONDS or not np.isfinite(rates).all():
        return 0.0
    half = len(at) // 2
    whole, early, late = (_line(at[part], rates[part]) for part in (slice(None), slice(half), slice(half, None)))
    # A step looks like a rise while it is in the windows; a rise goes on in both halves.
    if whole is None or early is None or late is None or not early * whole > 0.0 < late * whole:
        return 0.0
    is_clear = abs(whole) * float(at[-1] - at[0]) > _LEAST_TREND * rate
    return min(whole, early, late, key=abs) if is_clear else 0.0


def _line(at: FloatArray, rates: FloatArray) -> float | None:
    """The slope of a straight line; None where that explains too little of how the rates vary."""
    at, rates = at - at.mean(), rates - rates.mean()
    slope = float(at @ rates / (at @ at))
    is_straight = slope * float(at @ rates) >= _EXPLAINED * float(rates @ rates)
    return slope if is_straight else None


def _missing(seen: Observation) -> str:
    return f" ({'; '.join(seen.missing)})" if seen.missing else ""
