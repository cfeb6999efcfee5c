# SPDX-License-Identifier: Apache-2.0
"""What arrives, in one sentence: "mostly 20 a second; bursts of 400 a second for about 8 s, every 40 s; ...".

Arrivals are counted in intervals of a second. Where fewer than `_FEWEST` arrive in one on average, intervals are
longer; where the trace lasts only a few seconds, they are shorter. The usual rate is the median of the counts, or their
mean where the median is 0. A burst is a run of intervals with more than three times as many, and more than Poisson
arrivals of that rate would show by chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.ports import FloatArray
from penstock.units import format_count

_WIDTHS = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 86_400.0)
_FEWEST = 5.0
"""Arrivals per interval, on average, below which chance looks like bursts."""
_FEWEST_INTERVALS = 20
_TIMES, _CHANCE = 3.0, 6.0
"""How many times the usual count a burst has, and how many standard deviations of a Poisson count it lies above it."""
_DURATIONS = ((86_400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_PER = ((1.0, "a second"), (60.0, "a minute"), (3600.0, "an hour"), (86_400.0, "a day"))

LEGEND = {
    "SCV": "how unequal the times between arrivals are: 0 all equal, 1 Poisson, more: short and long ones",
    "IDC": "how unequal the counts in intervals of that length are: 1 Poisson, more: burstier for a queue that slow",
    "rho": "whether short times between arrivals follow short ones, so many arrivals later: 0 no, 1 always",
}
"""The statistics that follow the sentence, each in one line."""


@dataclass(frozen=True, slots=True)
class PlainWords:
    """The numbers of the sentence. Rates are per second; what bursts have is None where there are none.

    Attributes
    ----------
    usual_rate
        Outside of bursts, most of the time.
    bursts
        How many there are.
    burst_rate, burst_seconds
        Their mean rate and length.
    burst_every_seconds
        Mean time from the beginning of one to that of the next; None for fewer than two.
    burstiness
        The index of dispersion over the longest intervals; None: not known.
    is_long_enough
        Whether there is enough to see bursts.
    """

    usual_rate: float
    bursts: int = 0
    burst_rate: float | None = None
    burst_seconds: float | None = None
    burst_every_seconds: float | None = None
    burstiness: float | None = None
    is_long_enough: bool = True

    def __str__(self) -> str:
        parts = [f"mostly {_rate(self.usual_rate)}" if self.bursts else f"about {_rate(self.usual_rate)}"]
        if self.bursts and self.burst_rate is not None and self.burst_seconds is not None:
            lasts = f"of {_rate(self.burst_rate)} for about {_duration(self.burst_seconds)}"
            every = self.burst_every_seconds
            parts.append(f"one burst {lasts}" if every is None else f"bursts {lasts}, every {_duration(every)}")
        elif self.is_long_enough:
            parts[0] += ", steady, without bursts"
        else:
            parts.append("too short to see bursts")
        if self.burstiness is not None:
            parts.append(f"a queue sees it as {_burstiness(self.burstiness)}")
        return "; ".join(parts)


def words_of_iats(iats: FloatArray, burstiness: float | None = None) -> PlainWords:
    """Describe times between arrivals, in seconds.

    Examples
    --------
    >>> str(words_of_iats(np.full(2000, 0.05), burstiness=0.0))
    'about 20 a second, steady, without bursts; a queue sees it as more regular than Poisson'
    """
    times = np.cumsum(iats)
    span = float(times[-1])
    if not span > 0.0:
        return PlainWords(0.0, burstiness=burstiness, is_long_enough=False)
    width = _width(len(iats) / span, span)
    counts = np.bincount((times[times < math.floor(span / width) * width] / width).astype(np.int64))
    return _described(counts, width, len(iats) / span, burstiness)


def words_of_counts(counts: NDArray[Any], period_seconds: float, burstiness: float | None = None) -> PlainWords:
    """Describe counts of arrivals in periods of one length."""
    span = len(counts) * period_seconds
    rate = float(counts.sum()) / span
    together = max(1, round(_width(rate, span) / period_seconds)) if rate > 0.0 else 1
    whole = len(counts) // together * together
    sums = counts[:whole].reshape(-1, together).sum(axis=1)
    return _described(sums, together * period_seconds, rate, burstiness)


def _width(rate: float, span: float) -> float:
    """The length of the intervals: a second if that holds enough arrivals and the trace enough seconds."""
    at = _WIDTHS.index(1.0)
    while at + 1 < len(_WIDTHS) and rate * _WIDTHS[at] < _FEWEST:
        at += 1
    while at > 0 and span < _FEWEST_INTERVALS * _WIDTHS[at] and rate * _WIDTHS[at - 1] >= _FEWEST:
        at -= 1
    return _WIDTHS[at]


def _described(counts: NDArray[Any], width: float, rate: float, burstiness: float | None) -> PlainWords:
    if len(counts) < _FEWEST_INTERVALS:
        return PlainWords(rate, burstiness=burstiness, is_long_enough=False)
    median = float(np.median(counts))
    usual = median or float(counts.mean())
    is_high = counts > max(_TIMES * usual, usual + _CHANCE * math.sqrt(usual))
    edges = np.flatnonzero(np.diff(is_high.astype(np.int8), prepend=0, append=0))
    starts, ends = edges[::2], edges[1::2]
    if not len(starts):
        return PlainWords(usual / width, burstiness=burstiness)
    return PlainWords(
        usual_rate=median / width,
        bursts=len(starts),
        burst_rate=float(counts[is_high].mean()) / width,
        burst_seconds=float((ends - starts).mean()) * width,
        burst_every_seconds=float(np.diff(starts).mean()) * width if len(starts) > 1 else None,
        burstiness=burstiness,
    )


def _rate(per_second: float) -> str:
    if per_second <= 0.0:
        return "nothing"
    seconds, words = next((pair for pair in _PER if per_second * pair[0] >= 1.0), _PER[-1])
    return f"{_number(per_second * seconds)} {words}"


def _duration(seconds: float) -> str:
    size, unit = next(
        ((size, unit) for size, unit in _DURATIONS if seconds >= (2.0 if size > 1.0 else 1.0) * size), _DURATIONS[-1]
    )
    return f"{_rounded(seconds / size):g} {unit}"


def _burstiness(idc: float) -> str:
    if idc < 0.8:
        return "more regular than Poisson"
    return "about as bursty as Poisson" if idc < 1.25 else f"{_number(idc)} times as bursty as Poisson"


def _number(value: float) -> str:
    rounded = _rounded(value)
    return format_count(rounded) if rounded >= 1e4 else f"{rounded:g}"


def _rounded(value: float) -> float:
    """Two digits: it is a description."""
    return round(value, 1 - math.floor(math.log10(value))) if value > 0.0 else 0.0
