# SPDX-License-Identifier: Apache-2.0
"""How late records went out: exact mean and maximum, and percentiles from logarithmic bins one per cent wide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.ports import FloatArray

P99_BAR_SECONDS = 0.005
"""A producer later than this for one record in a hundred distorts the load."""

_BINS_PER_OCTAVE = 72
_LOWEST_SECONDS = 1e-6
_BINS = _BINS_PER_OCTAVE * 40


@dataclass(frozen=True, slots=True)
class LatenessSummary:
    """Seconds from when records were due to when they were passed to the network."""

    records: int
    mean_seconds: float
    p50_seconds: float
    p99_seconds: float
    max_seconds: float

    @property
    def is_on_time(self) -> bool:
        """Whether 99 of 100 records went out within 5 ms."""
        return self.p99_seconds <= P99_BAR_SECONDS


class Lateness:
    """Collects lateness. Its memory does not grow with the number of records."""

    def __init__(self) -> None:
        self._counts: NDArray[np.int64] = np.zeros(_BINS, dtype=np.int64)
        self._records = 0
        self._sum_seconds = 0.0
        self._max_seconds = 0.0

    def add(self, seconds: FloatArray) -> None:
        """Count the records of one slice."""
        if not len(seconds):
            return
        bins = np.log2(np.maximum(seconds, _LOWEST_SECONDS) / _LOWEST_SECONDS) * _BINS_PER_OCTAVE
        np.add.at(self._counts, np.minimum(bins.astype(np.int64), _BINS - 1), 1)
        self._records += len(seconds)
        self._sum_seconds += float(seconds.sum())
        self._max_seconds = max(self._max_seconds, float(seconds.max()))

    def summary(self) -> LatenessSummary | None:
        """Return mean, percentiles and maximum, or None before the first record."""
        if not self._records:
            return None
        p50, p99 = (
            min(self._max_seconds, self._upper_edge(int(np.searchsorted(np.cumsum(self._counts), rank))))
            for rank in (max(1, int(np.ceil(p * self._records))) for p in (0.50, 0.99))
        )
        return LatenessSummary(self._records, self._sum_seconds / self._records, p50, p99, self._max_seconds)

    @staticmethod
    def _upper_edge(index: int) -> float:
        return float(_LOWEST_SECONDS * 2.0 ** ((index + 1) / _BINS_PER_OCTAVE))
