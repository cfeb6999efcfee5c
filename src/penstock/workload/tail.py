# SPDX-License-Identifier: Apache-2.0
"""How heavy the tail of a window is: whether its variance may be infinite."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_FEWEST = 12
_SIGMAS = 1.65
_LARGE_SHARE = 0.3


def tail_index(x: FloatArray) -> tuple[float, float]:
    """Give the power the tail falls off with, by Hill's estimator over the sqrt(n) / 2 largest, and its standard error.

    B. M. Hill, "A simple general approach to inference about the tail of a distribution", Annals of Statistics 3, 1975.
    Infinite where the largest are all the same.

    Examples
    --------
    >>> index, error = tail_index(np.random.default_rng(1).pareto(1.5, 100_000))
    >>> abs(index - 1.5) < 3 * error
    True
    """
    k = min(max(_FEWEST, int(np.sqrt(x.size) / 2.0)), x.size - 1)
    top = np.sort(np.partition(x, x.size - k - 1)[x.size - k - 1 :])
    if not 0 < top[0] < top[-1]:
        return np.inf, 0.0
    index = 1.0 / float(np.log(top[1:] / top[0]).mean())
    return index, index / float(np.sqrt(k))


def tail_note(x: FloatArray) -> str | None:
    """Say in words why the variance may be infinite; ``None`` where nothing speaks for it."""
    index, error = tail_index(x)
    if float(x.max()) ** 2 > _LARGE_SHARE * float(x @ x):
        reason = "one value makes more than 30 % of the second moment"
    elif index + _SIGMAS * error < 2.0:
        reason = f"the largest times fall off like a power of {index:.2g}, and the variance needs more than 2"
    else:
        return None
    return f"{reason}: the variance may be infinite, the moments are those of this sample"
