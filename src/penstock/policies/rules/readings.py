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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

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


def readings_of(history: Sequence[Observation], metric: str) -> Iterator[Reading]:
    """A metric's readings, the newest first; what is not known, or not to be trusted, is left out."""
    read = metric_named(metric).read
    for seen in reversed(history):
        if seen.quality is Quality.GOOD:
            value = read(seen)
            if value is not None and math.isfinite(value):
                yield seen.at, value


def reach(seconds: float, interval_seconds: float) -> float:
    """How far back readings are needed for a time: a tenth of them may be missing, also around its start."""
    return 1.1 * seconds + 2.0 * interval_seconds


def expected_readings(seconds: float, interval_seconds: float) -> int:
    """How many readings a time has, both its ends included."""
    return math.floor(seconds / interval_seconds + 1e-9) + 1


def window_held(
    trigger: MetricTrigger, newest_first: Iterable[Reading], at: float, interval_seconds: float
) -> Window | None:
    """The readings for which the trigger holds at `at`; None: it does not hold.

    Parameters
    ----------
    trigger
        What has to be beyond which value, for how long.
    newest_first
        The readings, of any length: no more of them are taken than are needed.
    at
        The instant.
    interval_seconds
        How often there should be a reading.
    """
    is_above, bound = trigger.comparison is Comparison.ABOVE, trigger.value
    is_each = trigger.statistic is None
    start = at - trigger.for_seconds
    last_at, values, is_covered = math.inf, list[float](), False
    first_at = at
    for read_at, value in newest_first:
        if read_at >= last_at:  # the clock was set back: what was before does not join what is now
            return None
        if last_at == math.inf and read_at < at - _SAME_INSTANT:
            return None  # the newest look has no reading
        last_at = read_at
        if is_each and not (value > bound if is_above else value < bound):
            return None
        if read_at >= start - _SAME_INSTANT:
            values.append(value)
            first_at = read_at
        if read_at <= start + _SAME_INSTANT:
            is_covered = True
            break
    expected = expected_readings(trigger.for_seconds, interval_seconds)
    if not is_covered or len(values) < math.ceil(ENOUGH * expected - 1e-9):
        return None
    compared = values[0] if trigger.statistic is None else statistic_of(values, trigger.statistic)
    if not (compared > bound if is_above else compared < bound):
        return None
    return Window(len(values), expected, at - min(first_at, start), min(values), max(values), compared)


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
            f"statistic: {name!r} is none; write mean, max, min or a percentile such as p90", field="statistic"
        )
    return float(np.percentile(values, percent))
