# SPDX-License-Identifier: Apache-2.0
"""Samples of an operator's throughput that its own batches give while it runs, for nothing.

The maximum sustainable throughput of a query in micro-batches depends on how long a batch may be: a batch of n records
takes f + c n, so with batches of B seconds it does (1 - f / B) / c records a second, and more with longer ones. B is
the user's (option `batch`).

A batch says what c was under its allocation, once f is known: `BatchDemandLearner` finds f, as for MEAD. One batch of
the records of B seconds says much, one of a few records little, since noise in f hides their time. So batches are put
together until their records have taken half of B or five seconds, and make one sample then. A query that catches up
gives a sample with every batch, an idle one every few minutes, and all samples are about equally sure.

Before f is known only batches count that were as long as that by themselves, or hit the query's cap. What they did is
a rough sample, rather too low: it counts until there is a better one of that allocation.

CPU used per record is known sooner. Like Flink's true processing rate, records a second over the busy part of the
CPU is what all of it would do. But the driver's time is not in it, and it is taken for what it is, a first guess.
"""

from __future__ import annotations

import math
from collections import deque

from penstock.errors import NotReadyError
from penstock.monitor.steady import SteadyBatches
from penstock.performance.cpu_demand_learning import CpuDemandLearner
from penstock.performance.demand import BatchDemand
from penstock.performance.demand_learning import BatchDemandLearner, Verdict
from penstock.ports import Look, OperatorSite
from penstock.records import Allocation, BatchProgress, Quality, ThroughputSample

_WARM_UP_BATCHES = 8
"""As MEAD has them: a JVM's first minutes are not its next."""
_NEW_EXECUTORS = 1
"""Batches after a change of executors that do not count: new ones compile their code first."""
_POOLED = 0.5
_POOLED_SECONDS = 5.0
"""Part of B that the records of a sample's batches have taken, and the most that is asked for."""
_FIXED_ERROR = 0.15
"""Most part of a sample's time that may be due to an error of f."""
_KEPT = 12
"""Samples that are kept of each allocation."""
_HALF_LIFE_WINDOWS = 8.0
_FALLS_BEHIND = 0.95
"""Utilisation from which arrivals may be more than what is served."""
_ONE_WINDOW = 0.1
"""Relative error of CPU per record that is assumed while windows are too few to see it."""


class FreeSamples:
    """Takes every look at one operator, and keeps the samples that its batches give.

    Parameters
    ----------
    site
        How the operator was introduced.
    batch_seconds
        B: how long a batch may be.
    """

    def __init__(self, site: OperatorSite, batch_seconds: float) -> None:
        self._site, self._batch_seconds = site, batch_seconds
        self._learner = BatchDemandLearner(
            skip_first=_WARM_UP_BATCHES,
            cap=site.cap,
            trigger_seconds=site.trigger_seconds,
        )
        self._steady = SteadyBatches()
        self._demand: BatchDemand | None = None
        self._fixed_error = math.inf
        self._why_not = "no batch was seen yet"
        self._pool = _Pool()
        self._seen_batches = 0
        self._kept: dict[Allocation, deque[ThroughputSample]] = {}
        self._rough: set[Allocation] = set()
        self._cpu = CpuDemandLearner(half_life_windows=_HALF_LIFE_WINDOWS)
        self._per_record: tuple[float, float] | None = None
        self._cpu_since = -math.inf
        self._cpu_had: Allocation | None = None
        self.taken = 0
        """How many samples were ever taken."""

    @property
    def samples(self) -> tuple[ThroughputSample, ...]:
        """Those that are kept, oldest first."""
        kept = [sample for samples in self._kept.values() for sample in samples]
        return tuple(sorted(kept, key=lambda sample: sample.at or 0.0))

    @property
    def sure(self) -> frozenset[Allocation]:
        """Allocations whose samples are more than rough."""
        return frozenset(self._kept.keys() - self._rough)

    @property
    def demand(self) -> BatchDemand | None:
        """f and c of its batches; None: not known yet."""
        return self._demand

    @property
    def why_not(self) -> str:
        """Why f and c are not known."""
        return self._why_not

    @property
    def whole_batches(self) -> int:
        """Batches that ran from start to end under what the operator has now; none are counted in real-time mode."""
        return self._steady.batches_since

    @property
    def seconds_per_record(self) -> tuple[float, float] | None:
        """A record's time on one executor at full share by the CPU used, and its relative error; None: not known."""
        return self._per_record

    def expected_seconds(self, rows: int, allocation: Allocation) -> float | None:
        """How long a batch should take; None: not known."""
        demand = self._demand
        if demand is None:
            return None
        server = demand.at(allocation)
        return server.fixed + server.per_record * rows

    def watch(self, look: Look) -> None:
        """Take in one look."""
        self._watch_cpu(look)
        if self._site.is_real_time:
            return  # its batches are as long as they are set to be, whatever the load
        observed = look.observation.cluster.observed
        before = self._steady.allocation
        steady = self._steady.take(look.telemetry.at, observed, look.telemetry.batches)
        if observed != before:
            self._pool = _Pool()
            has_new_executors = before is None or observed is None or before.executors != observed.executors
            self._seen_batches = 0 if has_new_executors else _NEW_EXECUTORS
        for batch, had in steady:
            self._seen_batches += 1
            verdict = self._learner.observe(batch.rows, batch.duration_seconds, had, batch.ended_at)
            if self._seen_batches > _NEW_EXECUTORS and verdict in (Verdict.TAKEN, Verdict.CHANGED):
                self._take(batch, had)
        try:
            learnt = self._learner.learnt()
            self._demand, self._fixed_error = learnt.demand, learnt.fixed_error_at_one_speed_seconds
        except NotReadyError as fault:
            # What was once known stays known, though what came since has all been alike.
            self._why_not = str(fault)

    def _take(self, batch: BatchProgress, had: Allocation) -> None:
        enough = min(_POOLED * self._batch_seconds, _POOLED_SECONDS)
        if self._demand is None:
            is_capped = self._site.fills_cap(batch.rows)
            if is_capped or batch.duration_seconds >= enough:
                rough = ThroughputSample(had, batch.rows / batch.duration_seconds, batch.ended_at)
                self._keep(rough, is_rough=not is_capped)
            return
        fixed = self._demand.at(had).fixed
        self._pool.add(batch.rows, batch.duration_seconds - fixed)
        pool, error = self._pool, self._fixed_error
        if pool.seconds < enough or pool.batches * error > _FIXED_ERROR * pool.seconds:
            return
        rate = throughput_of_batches(fixed, pool.seconds / pool.rows, self._batch_seconds, self._site.cap)
        self._pool = _Pool()
        if rate > 0.0:
            self._keep(ThroughputSample(had, rate, batch.ended_at))

    def _keep(self, sample: ThroughputSample, *, is_rough: bool = False) -> None:
        of = sample.allocation
        if is_rough and of in self.sure:
            return
        if of in self._rough and not is_rough:
            self._rough.remove(of)
            del self._kept[of]
        if is_rough:
            self._rough.add(of)
        self.taken += 1
        self._kept.setdefault(of, deque(maxlen=_KEPT)).append(sample)

    def _watch_cpu(self, look: Look) -> None:
        seen = look.observation
        had, self._cpu_had = self._cpu_had, seen.cluster.observed
        if self._cpu_had is None or had != self._cpu_had:
            # What starting executors use does not belong to any record.
            self._cpu_since = seen.at
            return
        # That of a real-time query is of the time before its last checkpoint, and its CPU is of the window.
        rate = None if self._site.is_real_time else seen.processed_rows_per_second
        if rate is None and seen.utilisation is not None and seen.utilisation < _FALLS_BEHIND:
            rate = seen.arrival_rate_rows_per_second  # a query that keeps up does what arrives
        is_window_over = seen.at - self._cpu_since >= seen.window_seconds
        if seen.quality is not Quality.GOOD or not is_window_over or rate is None or seen.utilisation is None:
            return
        if not (0.0 <= seen.utilisation < math.inf and 0.0 <= rate < math.inf):
            return
        self._cpu_since = seen.at
        busy = min(seen.utilisation, 1.0) * self._cpu_had.capacity
        self._cpu.observe(busy, rate)
        try:
            learnt = self._cpu.learnt().demand
            self._per_record = learnt.service.mean, learnt.spread
        except NotReadyError:
            # One window is a guess already: better than to keep everything until there are three.
            if busy > 0.0 and rate > 0.0:
                self._per_record = busy / rate, _ONE_WINDOW


class _Pool:
    """Batches under one allocation: their records, and the time that these took."""

    def __init__(self) -> None:
        self.rows = self.batches = 0
        self.seconds = 0.0

    def add(self, rows: int, seconds: float) -> None:
        self.rows += rows
        self.batches += 1
        self.seconds += seconds


def throughput_of_batches(fixed: float, per_record: float, batch_seconds: float, cap: int | None = None) -> float:
    """Records a second in batches of at most `batch_seconds`, each of which takes ``fixed + per_record * n``.

    0 where the fixed time alone is longer than that.

    Examples
    --------
    >>> throughput_of_batches(1.0, 0.001, 10.0)
    900.0
    >>> throughput_of_batches(1.0, 0.001, 10.0, cap=1000)
    500.0
    """
    rows = max(0.0, (batch_seconds - fixed) / per_record)
    if cap is not None and rows > cap:
        rows = float(cap)
    return 0.0 if rows == 0.0 else rows / (fixed + per_record * rows)
