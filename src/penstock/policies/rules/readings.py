# SPDX-License-Identifier: Apache-2.0
"""Whether a metric has been beyond a value for a time: the readings of that time, and how many there should be.

A trigger with a time of T holds at an instant when

* the newest look has a reading (what is not known now is not decided upon),
* there is a reading at the start of the last T seconds or before it, so that the whole time is covered,
* of the readings that are expected in that time (T over the interval of the loop, and one), 90 % are there,
* and each of them, from the one that covers the start on, is beyond the value; or their statistic is.

A look that does not know the metric, or whose data are not good, is no reading.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import ConfigurationError
from penstock.metrics import metric_named
from penstock.records import Observation, Quality
from penstock.rules.nodes import Comparison, MetricTrigger
from penstock.units import format_count, format_seconds

ENOUGH = 0.9
"""The part of the expected readings that has to be there."""
_SAME_INSTANT = 1e-3
"""Seconds by which instants may differ and still be the same: they are sums of intervals, each of them rounded."""

Reading = tuple[float, float]
"""When, and how much."""


@dataclass(frozen=True, slots=True)
class Window:
    """The readings for which a trigger holds."""

    readings: int
    expected: int
    seconds: float
    low: float
    high: float
    value: float
    """What was compared: the newest reading, or the statistic."""

    def __str__(self) -> str:
        if self.expected <= 1:
            return format_count(self.value)
        span = f"{format_count(self.low)} to {format_count(self.high)}"
        return f"{self.readings} of {self.expected} readings in {format_seconds(self.seconds)}, {span}"


class Series:
    """Readings in the order of time, as far back as they are needed.

    Parameters
    ----------
    seconds
        How far back.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._times: list[float] = []
        self._values: list[float] = []
        self._first = 0
        """Where those begin that are still needed; what is before goes from time to time, many at once."""

    def __len__(self) -> int:
        return len(self._times) - self._first

    @property
    def newest(self) -> Reading | None:
        """The last reading."""
        return (self._times[-1], self._values[-1]) if len(self) else None

    def add(self, at: float, value: float | None) -> None:
        """Take a reading; None: there is none at this instant.

        Where a clock was set back, what was before does not join what comes now, and goes.
        """
        if len(self) and at <= self._times[-1]:
            self.clear()
        if value is not None and math.isfinite(value):
            self._times.append(at)
            self._values.append(value)
        self.forget(at - self._seconds)

    def forget(self, before: float) -> None:
        """Let go of what is older than an instant."""
        self._first = bisect_left(self._times, before - _SAME_INSTANT, self._first)
        if self._first > 64 and 2 * self._first > len(self._times):
            del self._times[: self._first], self._values[: self._first]
            self._first = 0

    def clear(self) -> None:
        """Let go of everything."""
        self._times, self._values, self._first = [], [], 0

    def since(self, start: float) -> tuple[list[float], list[float]] | None:
        """The values from an instant on, and those with the one that covers it; None: nothing is known of the instant.

        That is the reading at the instant or, where there is none, the one before it.
        """
        inside = bisect_left(self._times, start - _SAME_INSTANT, self._first)
        is_at_start = inside < len(self._times) and self._times[inside] <= start + _SAME_INSTANT
        covering = inside if is_at_start else inside - 1
        if covering < self._first:
            return None
        return self._values[inside:], self._values[covering:]


def reading_of(seen: Observation, metric: str) -> float | None:
    """A metric's reading; None where it is not known, or not to be trusted."""
    return metric_named(metric).read(seen) if seen.quality is Quality.GOOD else None


def reach(seconds: float, interval_seconds: float) -> float:
    """How far back readings are needed for a time: a tenth of them may be missing, also around its start."""
    return 1.1 * seconds + 2.0 * interval_seconds


def expected_readings(seconds: float, interval_seconds: float) -> int:
    """How many readings a time has, both its ends included."""
    return math.floor(seconds / interval_seconds + 1e-9) + 1


def window_held(trigger: MetricTrigger, series: Series, at: float, interval_seconds: float) -> Window | None:
    """The readings for which the trigger holds at `at`; None: it does not hold.

    Parameters
    ----------
    trigger
        What has to be beyond which value, for how long.
    series
        The readings.
    at
        The instant.
    interval_seconds
        How often there should be a reading.
    """
    is_above, bound = trigger.comparison is Comparison.ABOVE, trigger.value
    newest = series.newest
    if newest is None or abs(newest[0] - at) > _SAME_INSTANT:
        return None  # the newest look has no reading
    is_each = trigger.statistic is None
    if is_each and not (newest[1] > bound if is_above else newest[1] < bound):
        return None
    found = series.since(at - trigger.for_seconds)
    expected = expected_readings(trigger.for_seconds, interval_seconds)
    if found is None:
        return None
    values, covering = found
    if len(values) < math.ceil(ENOUGH * expected - 1e-9):
        return None
    if is_each:
        worst = min(covering) if is_above else max(covering)
        compared = newest[1]
    else:
        worst = compared = statistic_of(values, str(trigger.statistic))
    if not (worst > bound if is_above else worst < bound):
        return None
    return Window(len(values), expected, trigger.for_seconds, min(values), max(values), compared)


def statistic_of(values: Sequence[float], name: str) -> float:
    """The ``mean``, ``max``, ``min`` or a percentile such as ``p90`` of some values."""
    if name == "mean":
        return math.fsum(values) / len(values)
    if name in ("max", "min"):
        return max(values) if name == "max" else min(values)
    try:
        percent = float(name.removeprefix("p")) if name.startswith("p") else math.nan
    except ValueError:
        percent = math.nan
    if not 0.0 <= percent <= 100.0:
        raise ConfigurationError(
            f"statistic: {name!r} is unknown; write mean, max, min or a percentile such as p90", field="statistic"
        )
    ordered = sorted(values)
    place = percent / 100.0 * (len(ordered) - 1)  # between two readings: on the line from one to the other
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
