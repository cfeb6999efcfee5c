# SPDX-License-Identifier: Apache-2.0
"""The lags at which dependence is measured: all of the first, then evenly spaced on a logarithmic scale."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


def lag_grid(furthest: int) -> IntArray:
    """Return 1 to 8, then four lags per octave, each a power of two away from the one before, up to `furthest`.

    With steps that are powers of two, a chain can be followed along the grid with one product per lag.

    Examples
    --------
    >>> lag_grid(40).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40]
    """
    lags = list(range(1, 9))
    step = 2
    while lags[-1] < furthest:
        lags += [lags[-1] + step * (i + 1) for i in range(4)]
        step *= 2
    grid = np.array(lags, dtype=np.int64)
    return grid[grid <= furthest]


def dispersion_weights(lags: IntArray, count: int) -> FloatArray:
    """Return w such that the sum over k < count of (1 - k / count) c_k is w . c(lags), with c linear between lags.

    Beyond the grid, c is 0.
    """
    every = np.arange(1, count)
    weight = 1.0 - every / count
    at = np.clip(np.searchsorted(lags, every, side="right") - 1, 0, lags.size - 1)
    last = lags.size - 1
    inside = every <= lags[-1]
    following = np.minimum(at + 1, last)
    width = np.maximum(lags[following] - lags[at], 1)
    share = np.where(inside, (every - lags[at]) / width, 0.0)
    w = np.zeros(lags.size)
    np.add.at(w, at[inside], (weight * (1.0 - share))[inside])
    np.add.at(w, following[inside], (weight * share)[inside])
    return w
