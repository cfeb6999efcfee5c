# SPDX-License-Identifier: Apache-2.0
"""A micro-batch queue simulated record by record, sharing nothing with the model but the meaning of its numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_BLOCK = 1 << 14


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


class MicroBatchRun:
    """A queue that is fed arrivals part by part and goes on where it was; a loop per batch, not per record.

    Triggers are the multiples of `trigger`. When a batch starts, the next may start at the first multiple after
    that start, or when the batch ends, whichever is later. A trigger that finds nothing passes.
    """

    def __init__(
        self,
        fixed: float,
        per_record: float,
        rng: np.random.Generator,
        *,
        cap: int | None = None,
        trigger: float | None = None,
        fixed_scv: float = 0.0,
        per_record_scv: float = 0.0,
    ) -> None:
        self._fixed, self._per_record, self._rng = fixed, per_record, rng
        self._cap, self._trigger = cap, trigger
        self._f_shape = 1 / fixed_scv if fixed_scv > 0 else 0.0
        self._r_shape = 1 / per_record_scv if per_record_scv > 0 else 0.0
        self._drawn: list[float] = []
        self._now = 0.0 if trigger is None else trigger
        self._waiting: FloatArray = np.empty(0)

    def feed(self, arrivals: FloatArray, *, is_last: bool = True) -> Simulated:
        """Run records that arrive at these instants, later than all before.

        Unless they are the last, records whose batch might yet be joined by later ones wait for the next part.
        """
        arrivals = np.concatenate([self._waiting, arrivals]) if self._waiting.size else arrivals
        total, known = len(arrivals), math.inf if is_last else float(arrivals[-1])
        cap, trigger, now = self._cap, self._trigger, self._now
        ends: list[float] = []
        sizes: list[int] = []
        seconds: list[float] = []
        done = 0
        while done < total:
            first = float(arrivals[done])
            if first > now:
                now = first if trigger is None else math.ceil(first / trigger) * trigger
            if now >= known:
                break
            here = int(arrivals.searchsorted(now, side="right"))
            size = here - done if cap is None else min(here - done, cap)
            start, length = now, self._length(size)
            now = start + length
            done += size
            ends.append(now)
            sizes.append(size)
            seconds.append(length)
            if trigger is not None:
                # Half a millionth guards against a multiple that comes out a rounding below itself.
                now = max(now, (math.floor(start / trigger + 5e-7) + 1) * trigger)
        self._now, self._waiting = now, arrivals[done:].copy()
        latencies = np.repeat(np.array(ends), sizes) - arrivals[:done]
        return Simulated(latencies, np.array(sizes, dtype=float), np.array(seconds))

    def _length(self, size: int) -> float:
        """Draw the time of a batch."""
        if self._f_shape > 0 and not self._drawn:
            self._drawn = (self._fixed * self._rng.gamma(self._f_shape, 1 / self._f_shape, size=_BLOCK)).tolist()
        length = self._drawn.pop() if self._f_shape > 0 else self._fixed
        records = self._rng.gamma(size * self._r_shape) / self._r_shape if self._r_shape > 0 else size
        return length + self._per_record * records


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
    """Run the records that arrive at the given instants through batches."""
    run = MicroBatchRun(
        fixed, per_record, rng, cap=cap, trigger=trigger, fixed_scv=fixed_scv, per_record_scv=per_record_scv
    )
    return run.feed(arrivals)
