# SPDX-License-Identifier: Apache-2.0
"""Whether a series repeats itself, and after how many readings.

The dominant frequencies of the spectrum are candidates. A spectrum of n readings knows a period of n / k only to within
n / k^2, so each candidate is moved to the top of its hill in the autocorrelation, and then to the period that, folded,
gives the clearest mean cycle. A candidate is a period if neighbouring cycles look alike: their Pearson correlation
decides, as in PRESS. The idea to check spectral peaks on the autocorrelation is that of Vlachos, Yu and Castelli, "On
Periodicity Detection and Structural Periodic Similarity" (SDM 2005).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from penstock.ports import FloatArray

FEWEST_CYCLES = 3
SHORTEST = 6
"""Readings. A cycle of fewer has no shape to speak of."""
_PEAKS = 4
_TIMES_MEAN = 8.0
"""A frequency stands out from noise: its power is a multiple of the mean power that chance exceeds once in 3,000."""
_HILL = 0.2
"""Least autocorrelation after one period. Most of a noisy series may be noise and its period still worth knowing."""
ALIKE = 0.6
"""Least mean correlation of neighbouring cycles, smoothed by a sixteenth of the period."""
_MOST_CYCLES = 8
_FOLDED = (12, 96, 768)
_BINS = 24
_MOST_FOLDED = 4096
_CLEARLY = 0.1
_AS_WELL = 0.95


def find_period(readings: FloatArray, likely: Sequence[float] = ()) -> float | None:
    """Return after how many readings a series repeats itself, not always a whole number. None: it does not.

    Parameters
    ----------
    readings
        Equally spaced, none missing.
    likely
        Periods, in readings, that are taken in place of one close by if they explain the readings about as well: a
        load that repeats itself after about a day does so after a day.

    Examples
    --------
    >>> round(find_period(np.sin(2 * np.pi * np.arange(500) / 40.5)), 1)
    40.5
    >>> find_period(np.random.default_rng(1).normal(size=500)) is None
    True
    """
    n = readings.size
    if n < FEWEST_CYCLES * SHORTEST:
        return None
    detrended = _without_trend(readings)
    variance = float(detrended @ detrended) / n
    if not variance > 1e-18 * max(1.0, float(np.max(np.abs(readings)))) ** 2:
        return None
    correlation = _autocorrelation(detrended)
    hills = [lag for lag in (_hill(correlation, n, k) for k in _peaks(detrended)) if lag is not None]
    for lag in _best_first(hills, correlation):
        if _likeness(detrended, lag) >= ALIKE:
            return _sharpened(detrended, lag, likely)
    return None


def _without_trend(readings: FloatArray) -> FloatArray:
    """Take the straight line of least squares away: its leakage would hide every other frequency."""
    n = readings.size
    at = np.arange(n) - (n - 1) / 2.0
    slope = float(at @ readings) / float(at @ at)
    centred: FloatArray = readings - readings.mean() - slope * at
    return centred


def _autocorrelation(centred: FloatArray) -> FloatArray:
    """Return it for lags up to half the series, each over the pairs that there are."""
    n = centred.size
    size = 1 << (n + n // 2).bit_length()
    spectrum = np.fft.rfft(centred, size)
    sums = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, size)[: n // 2 + 1]
    means = sums / (n - np.arange(n // 2 + 1))
    correlation: FloatArray = means / means[0]
    return correlation


def _peaks(centred: FloatArray) -> list[int]:
    """Return the strongest frequencies, in cycles over the whole series, that stand out."""
    n = centred.size
    spectrum = np.fft.rfft(centred)
    power = spectrum.real**2 + spectrum.imag**2
    first, last = FEWEST_CYCLES - 1, n // SHORTEST
    found = []
    for k in np.argsort(power[first : last + 1])[::-1][:_PEAKS].tolist():
        if power[first + k] < _TIMES_MEAN * power[1:].mean():
            break
        found.append(first + k)
    return found


def _hill(correlation: FloatArray, n: int, cycles: int) -> int | None:
    """Return the lag at the top of the hill to which a frequency points, if there is one."""
    low = max(SHORTEST, math.floor(n / (cycles + 1)))
    high = min(n // FEWEST_CYCLES, math.ceil(n / max(cycles - 1, 1)), correlation.size - 2)
    if high <= low:
        return None
    top = low + int(np.argmax(correlation[low : high + 1]))
    is_top = correlation[top] >= correlation[top - 1] and correlation[top] >= correlation[top + 1]
    return top if is_top and correlation[top] >= _HILL else None


def _best_first(hills: list[int], correlation: FloatArray) -> list[int]:
    """Order by correlation. Of those that are about as good the shortest is first: twice a period is one as well."""
    # A spectrum of narrow bursts is strongest in their harmonics, so multiples are tried too.
    lags = {lag * times for lag in hills for times in (1, 2, 3) if lag * times <= (correlation.size - 1) * 2 // 3}
    return sorted(lags, key=lambda lag: (-round(float(correlation[lag]) / _CLEARLY), lag))


def _sharpened(centred: FloatArray, lag: int, likely: Sequence[float]) -> float:
    """Fold the newest cycles with periods near `lag`, and return the one whose mean cycle stands out most.

    More and more cycles are folded, with periods closer and closer together: a small error adds up over many cycles.
    """
    together = max(1, lag // _BINS)
    whole = centred.size // together * together
    coarse = centred[centred.size - whole :].reshape(-1, together).mean(axis=1)
    period = float(lag)
    for cycles in _FOLDED:
        newest = coarse[-min(coarse.size, math.ceil(cycles * lag / together)) :]
        period = together * _clearest(newest, period / together, 4.0 * cycles, lag // together)[0]
        if newest.size == coarse.size:
            break
    newest = centred[-min(centred.size, _MOST_FOLDED) :]
    period, best = _clearest(newest, period, 32.0 * max(newest.size / lag, 12.0), lag)
    near = period * period / (2.0 * newest.size)  # half a cycle of drift over all of them
    for other in likely:
        if abs(other - period) <= near and _strength(newest, other, lag) >= _AS_WELL * best:
            return other
    return period


def _clearest(values: FloatArray, period: float, parts: float, bins: int) -> tuple[float, float]:
    """Return the best of a few periods that differ by one of so many parts, and its strength."""
    offsets = sorted(range(-8, 9), key=abs)  # of those that are as clear, the one that was expected
    strengths = {offset: _strength(values, period * (1.0 + offset / parts), bins) for offset in offsets}
    best = max(strengths.values())
    offset = next(offset for offset in offsets if strengths[offset] >= (1.0 - 1e-9) * best)
    return period * (1.0 + offset / parts), best


def _strength(values: FloatArray, period: float, bins: int) -> float:
    """Return how much of the sum of squares a mean cycle of so many bins explains."""
    at = np.arange(values.size)
    phases = (at % period * (bins / period)).astype(np.int64)
    np.minimum(phases, bins - 1, out=phases)
    counts = np.bincount(phases, minlength=bins)
    sums = np.bincount(phases, weights=values, minlength=bins)
    return float((sums * sums / np.maximum(counts, 1)).sum())


def _likeness(centred: FloatArray, period: float) -> float:
    """Return the mean Pearson correlation of neighbouring cycles, the newest ones."""
    length = math.floor(period)
    width = max(1, length // 16)
    smooth = centred
    if width > 1:
        sums = np.concatenate([[0.0], np.cumsum(centred)])
        smooth = (sums[width:] - sums[:-width]) / width
    cycles = min(int(smooth.size // period), _MOST_CYCLES)
    if cycles < 2:
        return 0.0
    starts = np.floor(smooth.size - np.arange(cycles, 0, -1) * period).astype(np.int64)
    rows = smooth[np.maximum(starts, 0)[:, None] + np.arange(length)]
    rows = rows - rows.mean(axis=1, keepdims=True)
    norms = np.sqrt((rows * rows).sum(axis=1))
    products = norms[1:] * norms[:-1]
    likeness = np.where(products > 0.0, (rows[1:] * rows[:-1]).sum(axis=1) / np.maximum(products, 1e-300), 0.0)
    return float(likeness.mean())
