# SPDX-License-Identifier: Apache-2.0
"""Describes a window of inter-arrival times (IATs): moments, dependence and dispersion, each with a standard error.

Everything is computed on times divided by their mean, so microseconds and hours are treated alike. Standard errors
are by batch means (`standard_errors`), not by formulas for independent or Gaussian data: real traces are neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import ConfigurationError, NotReadyError
from penstock.workload.lag_grid import lag_grid
from penstock.workload.standard_errors import BATCHES, batch_means, standard_error
from penstock.workload.tail import tail_note

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

LEAST = 64
"""Fewest inter-arrival times that can be described: two in each batch of the standard errors."""

_SMALLEST_MEAN = 1e-90

_PAIRS = ((1, 1), (1, 4), (4, 4), (4, 16), (16, 16), (16, 64), (64, 64), (64, 256), (256, 256))


@dataclass(frozen=True, eq=False)
class TraceDescription:
    """The statistics of a window of inter-arrival times. Times are in the unit of the window.

    ``acf[k - 1]`` is the autocorrelation at lag k; its errors are given on the coarser grid `lags`, with the
    autocorrelations there repeated. `bicovariances` are E[(X_0 - m)(X_i - m)(X_(i+j) - m)] / m^3 for each pair (i, j)
    of `pairs`. `idi` is Var(X_1 + ... + X_k) / (k m^2) for each k of `idi_counts`, and `idc` the variance over the
    mean of the counts in intervals of each length of `idc_widths`. `tail_share` is the part of the second moment from
    the largest thousandth of the values. `coarse_step` is the step of the clock if it is too long to separate
    arrivals, else ``None``. A constant series has no skewness, acf or bicovariance: ``None`` and empty.
    """

    n: int
    mean: float
    m2: float
    m3: float
    scv: float
    skewness: float | None
    acf: FloatArray
    lags: IntArray
    acf_at_lags: FloatArray
    acf_errors: FloatArray
    pairs: tuple[tuple[int, int], ...]
    bicovariances: FloatArray
    bicovariance_errors: FloatArray
    idi_counts: IntArray
    idi: FloatArray
    idi_errors: FloatArray
    idc_widths: FloatArray
    idc: FloatArray
    idc_errors: FloatArray
    mean_error: float
    scv_error: float
    skewness_error: float | None
    largest: float
    tail_share: float
    zero_share: float
    distinct: int
    coarse_step: float | None
    notes: tuple[str, ...]

    @property
    def is_constant(self) -> bool:
        """Whether all inter-arrival times are the same."""
        return self.skewness is None

    @property
    def rate(self) -> float:
        """Arrivals per unit of time."""
        return 1.0 / self.mean


def check_iats(iats: npt.ArrayLike, field: str = "iats", *, needed: int = LEAST, task: str = "describe") -> FloatArray:
    """Return the inter-arrival times as an array. Raise if a value is not one, or if a task needs more of them."""
    values = np.asarray(iats, dtype=np.float64)
    if values.ndim != 1:
        raise ConfigurationError(f"{field}: a single series is needed, this has {values.ndim} dimensions", field=field)
    if values.size < needed:
        raise NotReadyError(
            f"{values.size} inter-arrival times are too few to {task}; {needed} are needed",
            needed=needed,
            available=int(values.size),
        )
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if wrong.size:
        i = int(wrong[0])
        raise ConfigurationError(
            f"{field}[{i}] = {values[i]:g}: a time between arrivals is finite and not negative; "
            "sort the arrivals and remove what is not a time",
            field=field,
        )
    mean = float(values.mean()) if values.any() else 1.0
    if not _SMALLEST_MEAN < mean < 1.0 / _SMALLEST_MEAN:
        raise ConfigurationError(
            f"{field}: a mean of {mean:g} is out of range for its third power; choose another unit of time", field=field
        )
    if not values.any():
        raise ConfigurationError(f"{field}: every time is 0, so there is no rate; use a finer clock", field=field)
    return values


def describe_iats(iats: npt.ArrayLike, *, max_lag: int = 1000) -> TraceDescription:
    """Describe a window of inter-arrival times.

    Parameters
    ----------
    iats
        Times between successive arrivals, in any unit; at least `LEAST`.
    max_lag
        Largest lag of the autocorrelation. At most a quarter of the window is used.

    Raises
    ------
    NotReadyError
        Too few times, with the number needed.
    ConfigurationError
        A time is negative or not finite, or all are 0.

    Examples
    --------
    >>> window = np.random.default_rng(1).exponential(3.0, 10_000)
    >>> trace = describe_iats(window)
    >>> abs(trace.mean - 3.0) < 4 * trace.mean_error, abs(trace.scv - 1.0) < 4 * trace.scv_error
    (True, True)
    """
    values = check_iats(iats)
    n, mean = values.size, float(values.mean())
    x = values / mean
    furthest = max(1, min(max_lag, n // 4))
    d = x - 1.0
    square = d * d
    variance = float(square.mean())
    m2, m3 = 1.0 + variance, float((x * x * x).mean())
    zero_share, distinct, step, largest = _granularity(values, mean)
    notes = _notes(x, zero_share, step, mean)
    top = np.sort(np.partition(x, n - max(1, n // 1000))[n - max(1, n // 1000) :])
    common: dict[str, Any] = {
        "n": n, "mean": mean, "m2": m2 * mean**2, "m3": m3 * mean**3, "zero_share": zero_share,
        "distinct": distinct, "coarse_step": step, "largest": largest,
        "tail_share": float((top * top).sum() / (m2 * n)),
    }  # fmt: skip
    grid = lag_grid(max(1, min(max(furthest, 1), n // 8)))
    counts = _idi_counts(n)
    widths, idc, idc_errors = _dispersion_of_counts(x)
    if variance <= 1e-18:
        none, no_lags = np.zeros(0), np.zeros(0, dtype=np.int64)
        return TraceDescription(
            **common, scv=0.0, skewness=None, acf=none, lags=no_lags, acf_at_lags=none, acf_errors=none, pairs=(),
            bicovariances=none, bicovariance_errors=none, idi_counts=counts, idi=np.zeros(counts.size),
            idi_errors=np.zeros(counts.size), idc_widths=widths * mean, idc=idc, idc_errors=idc_errors,
            mean_error=0.0, scv_error=0.0, skewness_error=None, notes=(*notes, "all inter-arrival times are the same"),
        )  # fmt: skip
    acf = _autocorrelation(d, furthest)
    at_grid, errors = _autocorrelation_errors(d, square, variance, grid)
    pairs = tuple((i, j) for i, j in _PAIRS if i + j <= n // 8)
    bicovariances, bicovariance_errors = _bicovariances(d, pairs)
    skewness = float((square * d).mean()) / variance**1.5
    spread = batch_means(np.stack([d, square, square * d]))
    # Delta method: each statistic's own influence, averaged over batches.
    scv_influence = spread[1] - 2.0 * variance * spread[0]
    third = float((square * d).mean())
    skew_influence = (spread[2] - 3.0 * variance * spread[0]) / variance**1.5 - 1.5 * third / variance**2.5 * spread[1]
    idi, idi_errors = _dispersion_of_intervals(x, counts)
    return TraceDescription(
        **common, scv=variance, skewness=skewness, acf=acf, lags=grid, acf_at_lags=at_grid, acf_errors=errors,
        pairs=pairs, bicovariances=bicovariances, bicovariance_errors=bicovariance_errors, idi_counts=counts,
        idi=idi, idi_errors=idi_errors, idc_widths=widths * mean, idc=idc, idc_errors=idc_errors,
        mean_error=float(standard_error(spread[0])) * mean, scv_error=float(standard_error(scv_influence)),
        skewness_error=float(standard_error(skew_influence)), notes=notes,
    )  # fmt: skip


def spread_ties(iats: npt.ArrayLike, step: float) -> FloatArray:
    """Return the times between arrivals, with those that share a tick of `step` spread evenly over it.

    For traces whose clock is coarser than the arrivals. What happened within a tick is lost; spreading evenly is the
    assumption that adds no burst of its own.

    Examples
    --------
    >>> spread_ties([1.0] + [0.0, 0.0, 0.0, 1.0] * 32, 1.0)[:4].tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    values = check_iats(iats)
    ticks = np.round(np.cumsum(values) / step).astype(np.int64)
    _, first, size = np.unique(ticks, return_index=True, return_counts=True)
    place = np.arange(ticks.size) - np.repeat(first, size)
    times = (ticks + (place + 0.5) / np.repeat(size, size)) * step
    gaps: FloatArray = np.diff(times)
    return gaps


def _granularity(values: FloatArray, mean: float) -> tuple[float, int, float | None, float]:
    positive = np.sort(values)
    distinct_values = positive[np.concatenate([[True], np.diff(positive) > 0])]
    zero_share = float(np.searchsorted(positive, 0.0, side="right") / values.size)
    step = None
    small = distinct_values[distinct_values > 0][:1]
    if small.size and small[0] > 0.5 * mean and zero_share > 0:
        ratio = distinct_values / small[0]
        if np.all(np.abs(ratio - np.round(ratio)) < 1e-6 * np.maximum(ratio, 1.0)):
            step = float(small[0])
    return zero_share, int(distinct_values.size), step, float(positive[-1])


def _notes(x: FloatArray, zero_share: float, step: float | None, mean: float) -> tuple[str, ...]:
    notes = []
    if step is not None:
        notes.append(
            f"coarse clock: every time is a multiple of {step:.6g}, {step / mean:.3g} mean inter-arrival times; "
            "arrivals within a tick cannot be separated (penstock.workload.spread_ties spreads them)"
        )
    if zero_share > 0.05:
        notes.append(f"{100 * zero_share:.3g} % of the times are 0: arrivals share a time stamp")
    heavy = tail_note(x)
    if heavy is not None:
        notes.append(heavy)
    return tuple(notes)


def _idi_counts(n: int) -> IntArray:
    largest = max(2, n // 16)
    counts = np.unique(np.round(np.geomspace(2, largest, 14)).astype(np.int64))
    return counts[counts >= 2]


def _autocorrelation(d: FloatArray, furthest: int) -> FloatArray:
    length = 1 << int(np.ceil(np.log2(d.size + furthest)))
    spectrum = np.fft.rfft(d, length)
    power = spectrum.real**2 + spectrum.imag**2
    covariance = np.fft.irfft(power, length)[: furthest + 1]
    correlation: FloatArray = covariance[1:] / covariance[0]
    return correlation


def _autocorrelation_errors(
    d: FloatArray, square: FloatArray, variance: float, lags: IntArray
) -> tuple[FloatArray, FloatArray]:
    n = d.size
    base = batch_means(square)
    values, products = np.empty(lags.size), np.empty((lags.size, BATCHES))
    for row, lag in enumerate(lags):
        product = d[: n - lag] * d[lag:]
        values[row] = product.sum() / n / variance
        products[row] = batch_means(product)
    errors = standard_error(products - values[:, None] * base) / variance
    return values, errors


def _bicovariances(d: FloatArray, pairs: tuple[tuple[int, int], ...]) -> tuple[FloatArray, FloatArray]:
    n = d.size
    values, products = np.empty(len(pairs)), np.empty((len(pairs), BATCHES))
    for row, (i, j) in enumerate(pairs):
        product = d[: n - i - j] * d[i : n - j] * d[i + j :]
        values[row] = product.mean()
        products[row] = batch_means(product)
    return values, standard_error(products)


def _dispersion_of_intervals(x: FloatArray, counts: IntArray) -> tuple[FloatArray, FloatArray]:
    sums = np.concatenate([[0.0], np.cumsum(x - 1.0)])
    values, products = np.empty(counts.size), np.empty((counts.size, BATCHES))
    for row, count in enumerate(counts):
        deviation = sums[count:] - sums[:-count]
        square = deviation * deviation
        values[row] = square.mean() / count
        products[row] = batch_means(square) / count
    return values, standard_error(products)


def _dispersion_of_counts(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    arrivals = np.cumsum(x)
    span = float(arrivals[-1])
    widths = np.geomspace(1.0, max(2.0, span / (2 * BATCHES)), 10)
    values, errors = np.empty(widths.size), np.empty(widths.size)
    for row, width in enumerate(widths):
        whole = max(int(span / width), BATCHES)
        counts = np.bincount((arrivals / width).astype(np.int64), minlength=whole)[:whole].astype(np.float64)
        mean = counts.mean()
        square = (counts - mean) ** 2
        values[row] = square.mean() / mean
        errors[row] = standard_error(batch_means(square) / mean)
    return widths, values, errors
