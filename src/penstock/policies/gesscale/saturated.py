# SPDX-License-Identifier: Apache-2.0
"""Samples of the maximum sustainable throughput: what an operator does while it truly runs at its maximum.

Gesscale measures at the moment of an overload (Section IV-C). Here a batch counts where more waited than it took: it
was filled to its cap, or the operator's input was under pressure while it ran all the time. What was done before
executors had settled, and the first batch after, says nothing (in real-time mode, where batches are long, the first of
all). Batches are put together until they have taken long enough to be sure of.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf

from penstock.monitor.steady import SteadyBatches
from penstock.ports import Look, OperatorSite
from penstock.records import (
    LEAST_THROUGHPUT,
    MOST_THROUGHPUT,
    Allocation,
    BatchProgress,
    Observation,
    ThroughputSample,
)

AT_MAXIMUM = 0.9
"""Part of the time in which batches run, from which on an operator under pressure runs at its maximum."""
POOLED_SECONDS = 20.0
"""Time of batches that makes one sample."""
_KEPT = 8
"""Samples that are kept of each allocation; older ones go first."""


def pooled_seconds(every_seconds: float, by_default: float) -> float:
    """Time of batches that makes one sample for a policy with this period: a shorter one than its default wants more.

    Who decides every ten seconds where others do every minute, in accelerated time, would else have no sample before
    the load is another.

    Examples
    --------
    >>> pooled_seconds(60.0, 60.0), pooled_seconds(15.0, 60.0), pooled_seconds(300.0, 60.0)
    (20.0, 5.0, 20.0)
    """
    return POOLED_SECONDS * min(1.0, every_seconds / by_default)


class SaturatedSamples:
    """Takes every look at one operator, and keeps samples of its maximum.

    Parameters
    ----------
    site
        How the operator was introduced.
    high_pressure
        Pressure above which its input is under pressure.
    delay_of
        Gives the longest round trip between an allocation's nodes as of now: a sample keeps the one it was taken with,
        for round trips may become others.
    pooled_seconds
        Time of batches that makes one sample.
    """

    def __init__(
        self,
        site: OperatorSite,
        high_pressure: float = 0.5,
        delay_of: Callable[[Allocation], float] | None = None,
        pooled_seconds: float = POOLED_SECONDS,
    ) -> None:
        self._delay_of, self._pooled_seconds = delay_of, pooled_seconds
        self._site, self._high = site, high_pressure
        self._steady = SteadyBatches()
        self._pool: tuple[Allocation, int, float] | None = None
        self._seen_batches = 0
        self._kept: dict[Allocation, deque[ThroughputSample]] = {}
        self.taken = 0
        """How many samples were ever taken."""

    @property
    def samples(self) -> tuple[ThroughputSample, ...]:
        """Those that are kept, oldest first."""
        kept = [sample for samples in self._kept.values() for sample in samples]
        return tuple(sorted(kept, key=lambda sample: sample.at or 0.0))

    @property
    def most_executors(self) -> int:
        """The most executors that were seen at their maximum; 0: none were."""
        return max((allocation.executors for allocation in self._kept), default=0)

    def watch(self, look: Look) -> None:
        """Take in one look."""
        before = self._steady.allocation
        observed = look.observation.cluster.observed
        steady = self._steady.take(look.telemetry.at, observed, look.telemetry.batches)
        if observed != before:
            # A batch of a real-time query that began after the change is a minute, and holds little of the start.
            self._pool, self._seen_batches = None, int(self._site.is_real_time and before is not None)
        for batch, had in steady:
            self._seen_batches += 1
            if self._seen_batches > 1 and self._is_at_maximum(batch, look.observation):
                self._add(batch, had)

    def _is_at_maximum(self, batch: BatchProgress, seen: Observation) -> bool:
        if batch.rows <= 0 or not 0.0 < batch.duration_seconds < inf:
            return False
        if self._site.cap is not None:
            return self._site.fills_cap(batch.rows)
        busy, pressure = seen.busy_fraction, seen.back_pressure
        return pressure is not None and busy is not None and pressure > self._high and busy >= AT_MAXIMUM

    def _add(self, batch: BatchProgress, had: Allocation) -> None:
        rows, seconds = (0, 0.0) if self._pool is None else self._pool[1:]
        rows, seconds = rows + batch.rows, seconds + batch.duration_seconds
        self._pool = (had, rows, seconds)
        if seconds < self._pooled_seconds:
            return
        self._pool = None
        if not LEAST_THROUGHPUT <= rows / seconds <= MOST_THROUGHPUT:
            return  # no clock or counter that says so can be right
        self.taken += 1
        delay = None if self._delay_of is None else self._delay_of(had)
        sample = ThroughputSample(had, rows / seconds, batch.ended_at, delay)
        self._kept.setdefault(had, deque(maxlen=_KEPT)).append(sample)
