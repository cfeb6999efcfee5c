# SPDX-License-Identifier: Apache-2.0
"""Describes a series of counts: how many records arrived in each of many equal intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import ConfigurationError, NotReadyError
from penstock.workload.moments import LEAST
from penstock.workload.standard_errors import BATCHES, batch_means, standard_error

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CountDescription:
    """The statistics of a series of counts.

    `idc[i]` is the variance over the mean of the counts in `idc_intervals[i]` intervals together; ``acf[k - 1]`` the
    autocorrelation of the counts at lag k, empty if they are all the same. Rates are per unit of `width`.
    """

    n: int
    width: float
    rate: float
    rate_error: float
    largest: float
    empty_share: float
    idc_intervals: IntArray
    idc: FloatArray
    idc_errors: FloatArray
    acf: FloatArray


def describe_counts(counts: npt.ArrayLike, width: float = 1.0, *, max_lag: int = 100) -> CountDescription:
    """Describe a series of counts in intervals of `width`.

    Raises
    ------
    NotReadyError
        Too few intervals, with the number needed.
    ConfigurationError
        A count is negative or not a number, or nothing arrived at all.

    Examples
    --------
    >>> series = describe_counts(np.random.default_rng(1).poisson(20.0, 4096), width=0.5)
    >>> abs(series.rate - 40.0) < 4 * series.rate_error, abs(series.idc[0] - 1.0) < 4 * series.idc_errors[0]
    (True, np.True_)
    """
    values = np.asarray(counts, dtype=np.float64)
    if values.ndim != 1:
        raise ConfigurationError(f"counts: one series is needed, this has {values.ndim} dimensions", field="counts")
    if not width > 0 or not np.isfinite(width):
        raise ConfigurationError(f"width: {width} must be a positive length of time", field="width")
    if values.size < LEAST:
        raise NotReadyError(
            f"{values.size} counts are too few to describe; {LEAST} are needed", needed=LEAST, available=values.size
        )
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if wrong.size:
        i = int(wrong[0])
        raise ConfigurationError(f"counts[{i}] = {values[i]:g} must be a number of at least 0", field="counts")
    mean = float(values.mean())
    if mean == 0:
        raise ConfigurationError("counts: every count is 0; give counts with arrivals", field="counts")
    sizes = [1 << k for k in range(40) if values.size // (1 << k) >= 2 * BATCHES]
    idc, errors = np.empty(len(sizes)), np.empty(len(sizes))
    for row, size in enumerate(sizes):
        whole = values.size // size
        together = values[: whole * size].reshape(whole, size).sum(axis=1)
        square = (together - mean * size) ** 2
        idc[row] = square.mean() / (mean * size)
        errors[row] = standard_error(batch_means(square)) / (mean * size)
    return CountDescription(
        n=int(values.size),
        width=float(width),
        rate=mean / width,
        rate_error=float(standard_error(batch_means(values))) / width,
        largest=float(values.max()),
        empty_share=float(np.mean(values == 0)),
        idc_intervals=np.array(sizes, dtype=np.int64),
        idc=idc,
        idc_errors=errors,
        acf=_autocorrelation(values - mean, max(1, min(max_lag, values.size // 4))),
    )


def _autocorrelation(d: FloatArray, furthest: int) -> FloatArray:
    if not np.any(d):
        return np.zeros(0)
    length = 1 << int(np.ceil(np.log2(d.size + furthest)))
    spectrum = np.fft.rfft(d, length)
    covariance = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, length)[: furthest + 1]
    acf: FloatArray = covariance[1:] / covariance[0]
    return acf
