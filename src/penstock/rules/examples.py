# SPDX-License-Identifier: Apache-2.0
"""Looks for readings of a metric under which triggers hold together: an example that shows a doubt is real.

An example is a short history: a value for each stretch between the times that the triggers look back, and in each
stretch perhaps a part with another value. Every example is checked against what the triggers mean, so it is never
wrong; that none is found proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, product

from penstock.metrics import METRICS
from penstock.rules.intervals import Interval, Series, beyond, domain, rank
from penstock.rules.nodes import MetricTrigger
from penstock.rules.numbers import duration_text, number_text, percent_text

_PARTS = (0.02, 0.2, 0.5)
"""How much of a stretch may have another value: a peak that percentiles do not see, and more than they can miss."""
MOST_TRIES = 5_000
_WORK_PER_TRY = 50
"""Triggers times stretches: where a try has more of them, there are fewer tries, for people wait for the answer."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time with one value, but for a part at its beginning."""

    starts_ago: float
    ends_ago: float
    value: float
    peak: float
    part: float = _PARTS[0]

    def readings(self, within: float) -> list[tuple[float, float]]:
        """Values and their lengths, as far as they are not older than `within`."""
        starts = min(self.starts_ago, within)
        peak_until = self.starts_ago - self.part * (self.starts_ago - self.ends_ago)
        parts = [
            (self.value, min(starts, peak_until) - self.ends_ago),
            (self.peak, starts - max(peak_until, self.ends_ago)),
        ]
        return [(value, length) for value, length in parts if length > 0.0]


@dataclass(frozen=True, slots=True)
class History:
    """The readings of one series, the newest stretch first."""

    stretches: tuple[Stretch, ...]

    def satisfies(self, trigger: MetricTrigger) -> bool:
        """Whether a trigger holds."""
        newest = self.stretches[0].value
        if not trigger.for_seconds:
            return newest in beyond(trigger)
        readings = [r for stretch in self.stretches for r in stretch.readings(trigger.for_seconds)]
        values = [value for value, _ in readings]
        if trigger.statistic is None:
            return all(value in beyond(trigger) for value in values)
        return _statistic(trigger, readings) in beyond(trigger)

    def text(self, series: Series) -> str:
        """As an example names it."""
        metric, ahead = series
        name = metric if ahead is None else f"the forecast of {metric} in {duration_text(ahead)}"
        if len({value for s in self.stretches for value in (s.value, s.peak)}) == 1:
            return f"{name} {_value(metric, self.stretches[0].value)}"
        parts = []
        for stretch in self.stretches:
            when = f"in the last {duration_text(stretch.starts_ago)}" if not stretch.ends_ago else (
                f"from {duration_text(stretch.starts_ago)} to {duration_text(stretch.ends_ago)} ago"
            )  # fmt: skip
            is_even = stretch.peak == stretch.value
            peak = "" if is_even else f" (but {_value(metric, stretch.peak)} for {percent_text(stretch.part)} of it)"
            parts.append(f"{_value(metric, stretch.value)} {when}{peak}")
        return f"{name} {', '.join(parts)}"


def example(triggers: Sequence[MetricTrigger], tries: int = MOST_TRIES) -> History | None:
    """Readings of one series under which all triggers hold; None where none is found in so many tries."""
    edges = sorted({t.for_seconds for t in triggers if t.for_seconds > 0.0}) or [1.0]
    levels = _levels(triggers)
    tries = min(tries, max(1, _WORK_PER_TRY * tries // (len(triggers) * len(edges))))
    for part, values in islice(_choices(levels, len(edges)), tries):
        starts = [0.0, *edges[:-1]]
        history = History(
            tuple(
                Stretch(edge, start, value, peak, part)
                for edge, start, (value, peak) in zip(edges, starts, values, strict=True)
            )
        )
        if all(history.satisfies(trigger) for trigger in triggers):
            return history
    return None


def _choices(levels: Sequence[float], stretches: int) -> Iterator[tuple[float, tuple[tuple[float, float], ...]]]:
    """Both values of every stretch: first one value throughout, then steps, then parts with another value as well."""
    for level in levels:
        yield _PARTS[0], ((level, level),) * stretches
    for steps in product(levels, repeat=stretches):
        yield _PARTS[0], tuple((step, step) for step in steps)
    for values in product(tuple(product(levels, levels)), repeat=stretches):
        for part in _PARTS:
            yield part, values


def _levels(triggers: Sequence[MetricTrigger]) -> list[float]:
    """The ends of what is possible, a value from each range between two thresholds, and some far beyond the last."""
    whole = domain(triggers[0].metric)
    borders = sorted({whole.low, whole.high, *(t.value for t in triggers if t.value in whole)})
    picked = [Interval(low, high, is_whole=whole.is_whole).pick() for low, high in pairwise(borders)]
    ends = [end for end in (whole.low, whole.high) if end in whole]
    levels = sorted({*ends, *(value for value in picked if value is not None)})
    if math.isinf(whole.high) and levels:
        levels += [levels[-1] * 10.0, levels[-1] * 1000.0]
    return levels


def _statistic(trigger: MetricTrigger, readings: Sequence[tuple[float, float]]) -> float:
    total = sum(length for _, length in readings)
    if trigger.statistic == "mean":
        return sum(value * length for value, length in readings) / total
    wanted, passed = (rank(trigger) or 0.0) / 100.0 * total, 0.0
    ordered = sorted(readings)
    for value, length in ordered:
        passed += length
        if passed >= wanted and passed > 0.0:
            return value
    return ordered[-1][0]


def _value(metric: str, value: float) -> str:
    unit = METRICS[metric].unit
    if unit == "fraction":
        return percent_text(value)
    return f"{number_text(value)} {unit}" if unit != "executors" else number_text(value)
