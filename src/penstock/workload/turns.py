# SPDX-License-Identifier: Apache-2.0
"""Windows whose arrivals come alike again after a while, as at every full minute: the period, a turn, and its levels.

Arrivals are counted in short intervals. If the counts correlate at a lag more than at one of the lags before it, what
was there has come again. The longest such rise is at the period, or at a multiple of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.workload.course import Course, course_of
from penstock.workload.replay_queue import ReplayedQueue

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_INTERVALS, _TOGETHER, _FEWEST_TURNS = 8192, 4, 8
"""Intervals of a window, and how many neighbours are counted together, as a period need not be a whole number."""

_ALIKE, _NEARLY = 0.6, 0.8
"""Rise of the correlation from which on a window has a period; of Poisson arrivals it is a hundredth. The first lag
with the second part of the highest rise is the period."""

_PHASES = 60
_MOST_CUTS, _LEAST_LEVEL = 128, 0.01


@dataclass(frozen=True, eq=False)
class Turns:
    """The period of a window, and the times of its arrivals, both in units of the mean gap."""

    period: float
    times: FloatArray

    @classmethod
    def of(cls, values: FloatArray) -> Turns | None:
        """Return the turns of a window, or ``None`` if it has no period or too few of them.

        Examples
        --------
        >>> rng = np.random.default_rng(1)
        >>> times = np.concatenate([60.0 * minute + rng.exponential(1.0, 100) for minute in range(40)])
        >>> gaps = np.diff(np.sort(times))
        >>> round(Turns.of(gaps).period * gaps.mean(), 1)
        60.0
        >>> Turns.of(rng.exponential(1.0, 4000)) is None
        True
        """
        times = np.cumsum(values / values.mean())
        bins = min(_INTERVALS, values.size)
        per_interval = bins / times[-1]
        counts = np.bincount(np.minimum((times * per_interval).astype(np.int64), bins - 1), minlength=bins)
        smooth = np.convolve(counts - counts.mean(), np.ones(_TOGETHER), mode="same")
        products = np.fft.irfft(np.square(np.abs(np.fft.rfft(smooth, 2 * bins))))[:bins]
        if products[0] <= 0.0:
            return None
        near = products[: bins // _FEWEST_TURNS] / products[0]
        rise = near - np.minimum.accumulate(near)
        if rise.max() < _ALIKE:
            return None
        lag, turns = float(_highest(products, int(np.argmax(rise >= _NEARLY * rise.max())), _TOGETHER)), 1
        while 2 * turns * lag < bins // 2:  # the lag of many turns tells the period to a part of an interval
            turns *= 2
            lag = _highest(products, round(turns * lag), 2) / turns
        return cls(lag / per_interval, times)

    def course(self, queue: ReplayedQueue, parts: int) -> Course:
        """Return the course of a turn, all turns on top of one another, in so many pieces."""
        phases = self.times % self.period
        # It begins where arrivals set in, so that no burst is cut in two.
        counts = np.histogram(phases, _PHASES, (0.0, self.period))[0]
        begin = self.period * int(np.argmax(counts - np.roll(counts, 1))) / _PHASES
        phases = np.sort((phases - begin) % self.period)
        folded = course_of(np.diff(phases, prepend=phases[-1] - self.period), queue, parts)
        scale = self.period / phases.size
        return Course(folded.counts * scale, folded.lengths * scale, folded.cost)

    @property
    def spread(self) -> float:
        """How far the levels are from 1, as a root mean square over the turns."""
        levels, lasting = self.levels()
        return float(np.sqrt((np.square(levels - 1.0) * lasting).sum() / lasting.sum()))

    def levels(self) -> tuple[FloatArray, FloatArray]:
        """Return three levels one after the other, 1 in the mean, and how many turns each lasts.

        The turns are cut so that the least is left of the variance of their counts.
        """
        counts = np.bincount((self.times / self.period).astype(np.int64))[:-1]  # the last turn is not whole
        together = -(-counts.size // _MOST_CUTS)
        counts = counts[: counts.size // together * together].reshape(-1, together).sum(axis=1)
        total, n = np.concatenate([[0], np.cumsum(counts)]).astype(np.float64), counts.size
        i, j = (1 + cut for cut in np.triu_indices(n - 1, 1))
        told = total[i] ** 2 / i + (total[j] - total[i]) ** 2 / (j - i) + (total[-1] - total[j]) ** 2 / (n - j)
        best = int(np.argmax(told))
        cuts = np.array([0, i[best], j[best], n])
        levels = np.diff(total[cuts]) / np.diff(cuts) / counts.mean()
        return np.maximum(levels, _LEAST_LEVEL), np.asarray(together * np.diff(cuts), dtype=np.float64)


def _highest(products: FloatArray, lag: int, reach: int) -> int:
    """Return the lag of the highest product within reach of a lag."""
    first = max(lag - reach, 1)
    return first + int(np.argmax(products[first : lag + reach + 1]))
