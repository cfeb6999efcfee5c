# SPDX-License-Identifier: Apache-2.0
"""Measures how heavy the tail of a window is: whether its variance may be infinite."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_FEWEST_LARGEST_VALUES = 12
_STANDARD_ERRORS = 1.65
_LARGE_SHARE = 0.3


def tail_index(x: FloatArray) -> tuple[float, float]:
    """Return the power with which the tail falls, by Hill's estimator over the sqrt(n) / 2 largest, and its error.

    B. M. Hill, "A simple general approach to inference about the tail of a distribution", Annals of Statistics 3, 1975.
    Infinite if the largest are all the same.

    Examples
    --------
    >>> index, error = tail_index(np.random.default_rng(1).pareto(1.5, 100_000))
    >>> abs(index - 1.5) < 3 * error
    True
    """
    k = min(max(_FEWEST_LARGEST_VALUES, int(np.sqrt(x.size) / 2.0)), x.size - 1)
    top = np.sort(np.partition(x, x.size - k - 1)[x.size - k - 1 :])
    if not 0 < top[0] < top[-1]:
        return np.inf, 0.0
    index = 1.0 / float(np.log(top[1:] / top[0]).mean())
    return index, index / float(np.sqrt(k))


def tail_note(x: FloatArray) -> str | None:
    """Explain why the variance may be infinite. ``None`` if nothing suggests it."""
    index, error = tail_index(x)
    if float(x.max()) ** 2 > _LARGE_SHARE * float(x @ x):
        reason = "one value makes more than 30 % of the second moment"
    elif index + _STANDARD_ERRORS * error < 2.0:
        reason = f"the largest times fall off like a power of {index:.2g}, but a finite variance needs more than 2"
    else:
        return None
    return f"{reason}: the variance may be infinite, and the moments are only those of this sample"
