# SPDX-License-Identifier: Apache-2.0
"""Moments and autocorrelation of a sliding window: adds what enters and subtracts what leaves.

It keeps sums of powers and of products at each lag, of values minus a reference near their mean, so that nothing
cancels. The sums are recomputed once the whole window has been replaced, so that rounding does not accumulate. New
arrivals cost their number times the lags, independent of the window's length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import ConfigurationError, NotReadyError
from penstock.workload.moments import LEAST

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SlidingSummary:
    """Moments and autocorrelation of the present window. A constant window has no skewness and an empty acf."""

    n: int
    mean: float
    m2: float
    m3: float
    scv: float
    skewness: float | None
    acf: FloatArray


class SlidingMoments:
    """A window of the newest inter-arrival times, described at any moment without a pass over it.

    Parameters
    ----------
    capacity
        Most times in the window. Older ones are removed.
    lags
        Largest lag of the autocorrelation.

    Examples
    --------
    >>> window = SlidingMoments(1000, lags=2)
    >>> window.add(np.random.default_rng(3).exponential(2.0, 5000))
    >>> window.n, window.summary().acf.shape
    (1000, (2,))
    """

    def __init__(self, capacity: int, lags: int = 100) -> None:
        if capacity < LEAST:
            raise ConfigurationError(f"capacity: {capacity} must be at least {LEAST}", field="capacity")
        if not 0 <= lags < capacity:
            raise ConfigurationError(f"lags: {lags} must lie below the capacity {capacity}", field="lags")
        self._capacity, self._lags = capacity, lags
        self._buffer = np.empty(2 * capacity)
        self._start = self._stop = 0
        self._reference = 0.0
        self._powers = np.zeros(3)
        self._products = np.zeros(lags)
        self._since_exact = 0

    @property
    def n(self) -> int:
        """Number of times in the window."""
        return self._stop - self._start

    def values(self) -> FloatArray:
        """Return a copy of the window, oldest first."""
        return self._window().copy()

    def add(self, iats: npt.ArrayLike) -> None:
        """Add new times, oldest first. What exceeds the capacity is removed at the other end."""
        new = np.asarray(iats, dtype=np.float64).ravel()
        wrong = np.flatnonzero(~(np.isfinite(new) & (new >= 0)))
        if wrong.size:
            i = int(wrong[0])
            raise ConfigurationError(f"iats[{i}] = {new[i]:g} must be finite and not negative", field="iats")
        if new.size >= self._capacity:
            self._start, self._stop = 0, self._capacity
            self._buffer[: self._capacity] = new[-self._capacity :]
            self._recompute()
            return
        excess = self.n + new.size - self._capacity
        if excess > 0:
            self.remove(excess)
        if self._stop + new.size > self._buffer.size:
            count = self.n
            self._buffer[:count] = self._window()
            self._start, self._stop = 0, count
        before = self._window()[-self._lags :] if self._lags else np.zeros(0)
        joined = np.concatenate([before, new]) - self._reference
        self._account(joined, before.size, joined.size, 1.0)
        self._buffer[self._stop : self._stop + new.size] = new
        self._stop += new.size
        self._since_exact += new.size
        if self._since_exact >= self._capacity or self._reference == 0.0:
            self._recompute()

    def remove(self, count: int) -> None:
        """Remove the `count` oldest times."""
        if not 0 <= count <= self.n:
            raise ConfigurationError(f"count: {count} must lie between 0 and {self.n}", field="count")
        piece = self._window()[: count + self._lags][::-1] - self._reference
        # Backwards in time, the oldest are the newest.
        self._account(piece, piece.size - count, piece.size, -1.0)
        self._start += count

    def summary(self) -> SlidingSummary:
        """Describe the window.

        Raises
        ------
        NotReadyError
            The window is still too short.
        """
        n = self.n
        if n < LEAST:
            raise NotReadyError(f"{n} inter-arrival times so far; {LEAST} are needed", needed=LEAST, available=n)
        r, (s1, s2, s3) = self._reference, self._powers / n
        mean = r + s1
        if mean <= 0:
            raise ConfigurationError("iats: every time in the window is 0, so there is no rate", field="iats")
        variance = max(s2 - s1 * s1, 0.0)
        third = s3 - 3.0 * s1 * s2 + 2.0 * s1**3
        scv = variance / mean**2
        if scv <= 1e-18:
            return SlidingSummary(n, mean, mean**2, mean**3, 0.0, None, np.zeros(0))
        window = self._window()
        lags = np.arange(1, min(self._lags, n - 1) + 1)
        # sum of (x_t - m)(x_(t+k) - m): the ends without a partner are subtracted from the sums.
        head = np.cumsum(window[: lags.size] - r)
        tail = np.cumsum(window[::-1][: lags.size] - r)
        total = s1 * n
        covariance = self._products[: lags.size] - s1 * (2.0 * total - head - tail) + (n - lags) * s1 * s1
        m3 = third + 3.0 * mean * variance + mean**3
        return SlidingSummary(n, mean, variance + mean**2, m3, scv, third / variance**1.5, covariance / (n * variance))

    def _window(self) -> FloatArray:
        return self._buffer[self._start : self._stop]

    def _account(self, series: FloatArray, start: int, stop: int, sign: float) -> None:
        """Add or subtract the powers of series[start:stop], and their products with what lies before them."""
        new = series[start:stop]
        self._powers += sign * np.array([new.sum(), (new**2).sum(), (new**3).sum()])
        for lag in range(1, min(self._lags, series.size - 1) + 1):
            first = max(start, lag)
            self._products[lag - 1] += sign * float(series[first:stop] @ series[first - lag : stop - lag])

    def _recompute(self) -> None:
        window = self._window()
        self._reference = float(window.mean()) if window.size else 0.0
        self._powers[:], self._products[:] = 0.0, 0.0
        self._account(window - self._reference, 0, window.size, 1.0)
        self._since_exact = 0
