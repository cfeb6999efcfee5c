# SPDX-License-Identifier: Apache-2.0
"""Response times of the arrivals of a piece of a course, where no work of earlier pieces is left.

Arrivals of a piece are Poisson. At the load u and the rate r its server is busy for u r of the time, so one table of
mean and tail along the load serves all pieces at all loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from penstock.workload.load_curve import load_times

FloatArray = npt.NDArray[np.float64]

_LOADS = np.array([0.01, 0.05, 0.1, 0.17, 0.25, 0.34, 0.43, 0.52, 0.61, 0.7, 0.78, 0.85, 0.91, 0.95, 0.97])
"""Loads of the table. Above the last, tails have the shape of the last."""

_SHARES = np.array([0.5, 0.8, 0.9, 0.95, 0.98, 0.995])
"""Between these shares, tails fall exponentially."""

LOGS = np.concatenate([[0.0], np.log1p(-_SHARES)])
"""Logarithms of what is left beyond each of the times, which begin with 0."""


@dataclass(frozen=True, eq=False)
class RestTimes:
    """Per load of the table: the mean and the times at which `LOGS` are reached, over the load.

    Shapes (loads,) and (loads, times).
    """

    means: FloatArray
    times: FloatArray

    def at(self, busy: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means and times at loads `busy`, in units of the mean service time; times along a new first axis."""
        held = np.clip(busy, _LOADS[0], _LOADS[-1])
        right = np.clip(np.searchsorted(_LOADS, held), 1, _LOADS.size - 1)
        share = (held - _LOADS[right - 1]) / (_LOADS[right] - _LOADS[right - 1])
        means = (1.0 - share) * self.means[right - 1] + share * self.means[right]
        low, high = self.times[right - 1], self.times[right]
        times = low + share[..., None] * (high - low)
        return means, np.moveaxis(times, -1, 0)


@lru_cache(maxsize=1)
def poisson_times() -> RestTimes:
    """Return the table of Poisson arrivals."""
    means, times = load_times(np.full((1, 1, 1), -1.0), np.ones((1, 1, 1)), _LOADS, _SHARES)
    begun = np.concatenate([np.zeros((_LOADS.size, 1)), times[0]], axis=1)
    return RestTimes(means[0] / _LOADS, begun / _LOADS[:, None])
