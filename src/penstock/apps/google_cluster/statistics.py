# SPDX-License-Identifier: Apache-2.0
"""Statistics of whole numbers without rounding until the last division."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PERCENTILES = {"median": 50, "p75": 75, "p90": 90, "p95": 95}


@dataclass(frozen=True, slots=True)
class Spread:
    """Total, mean and percentiles of a quantity over machines."""

    total: float
    mean: float
    percentiles: dict[str, float]

    def to_json(self, name: str) -> dict[str, float]:
        """As columns of a result: `cpu_total`, `cpu_mean`, `cpu_median`, ..."""
        values = {"total": self.total, "mean": self.mean, **self.percentiles}
        return {f"{name}_{statistic}": value for statistic, value in values.items()}


def spread(values: NDArray[np.int64], units: int = 1) -> Spread:
    """Return the statistics of `values`, which count `units` to the one.

    Examples
    --------
    >>> spread(np.array([4, 1, 2, 3]))
    Spread(total=10.0, mean=2.5, percentiles={'median': 2.5, 'p75': 3.25, 'p90': 3.7, 'p95': 3.85})
    """
    in_order = np.sort(values)
    n = len(in_order)
    total = int(in_order.sum())
    found = {}
    for name, percent in PERCENTILES.items():
        below, hundredths = divmod((n - 1) * percent, 100)
        low, high = int(in_order[below]), int(in_order[min(below + 1, n - 1)])
        # Python divides whole numbers of any size correctly rounded: nothing is lost before.
        found[name] = (100 * low + hundredths * (high - low)) / (100 * units)
    return Spread(total / units, total / (n * units), found)
