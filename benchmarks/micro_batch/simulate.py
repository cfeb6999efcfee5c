# SPDX-License-Identifier: Apache-2.0
"""A micro-batch queue simulated record by record, sharing nothing with the model but the meaning of its numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Simulated:
    """Latencies in order of arrival, and the batches."""

    latencies: FloatArray
    batch_sizes: FloatArray
    batch_seconds: FloatArray

    def mean_interval(self, batches: int = 40) -> tuple[float, float]:
        """Give the mean and the half-width of its 95 % interval (means of consecutive parts)."""
        parts = np.array([part.mean() for part in np.array_split(self.latencies, batches)])
        return float(self.latencies.mean()), float(2.02 * parts.std(ddof=1) / math.sqrt(batches))

    def percentile_interval(self, p: float, batches: int = 20) -> tuple[float, float]:
        """Give a percentile and the half-width of its 95 % interval (percentiles of consecutive parts)."""
        parts = np.array([np.quantile(part, p) for part in np.array_split(self.latencies, batches)])
        return float(np.quantile(self.latencies, p)), float(2.09 * parts.std(ddof=1) / math.sqrt(batches))


def simulate(
    arrivals: FloatArray,
    fixed: float,
    per_record: float,
    rng: np.random.Generator,
    *,
    cap: int | None = None,
    trigger: float | None = None,
    fixed_scv: float = 0.0,
    per_record_scv: float = 0.0,
) -> Simulated:
    """Run the records that arrive at the given instants through batches; a loop per batch, not per record.

    Triggers are the multiples of `trigger`. When a batch starts, the next may start at the first multiple after
    that start, or when the batch ends, whichever is later. A trigger that finds nothing passes.
    """
    total = len(arrivals)
    ends: list[float] = []
    sizes: list[int] = []
    seconds: list[float] = []
    done, now = 0, 0.0 if trigger is None else trigger
    block = 1 << 14
    f_shape = 1 / fixed_scv if fixed_scv > 0 else 0.0
    r_shape = 1 / per_record_scv if per_record_scv > 0 else 0.0
    drawn: list[float] = []
    while done < total:
        first = float(arrivals[done])
        if first > now:
            now = first if trigger is None else math.ceil(first / trigger) * trigger
        here = int(arrivals.searchsorted(now, side="right"))
        size = here - done if cap is None else min(here - done, cap)
        if f_shape > 0 and not drawn:
            drawn = (fixed * rng.gamma(f_shape, 1 / f_shape, size=block)).tolist()
        length = drawn.pop() if f_shape > 0 else fixed
        length += per_record * (rng.gamma(size * r_shape) / r_shape if r_shape > 0 else size)
        start, now = now, now + length
        done += size
        ends.append(now)
        sizes.append(size)
        seconds.append(length)
        if trigger is not None:
            # Half a millionth guards against a multiple that comes out a rounding below itself.
            now = max(now, (math.floor(start / trigger + 5e-7) + 1) * trigger)
    latencies = np.repeat(np.array(ends), sizes) - arrivals
    return Simulated(latencies, np.array(sizes, dtype=float), np.array(seconds))
