# SPDX-License-Identifier: Apache-2.0
"""One operator's telemetry, look after look, made into observations."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.monitor.batch_arrivals import ArrivalResolver
from penstock.monitor.cpu import CpuWindow
from penstock.monitor.latency import LatencyTracker
from penstock.monitor.path import PathMonitor
from penstock.monitor.pressure import PressureGauge, busy_fraction, pressure_by, pressure_of
from penstock.monitor.quality import QualityJudge
from penstock.ports import ArrivalTimes, DoneRecords, FloatArray, Look, RecordLatencies
from penstock.records import Allocation, BatchProgress, ClusterState, LatencySummary, Observation, RunLatency, Telemetry


@dataclass(frozen=True, slots=True)
class _LongBatch:
    """The last batch, where it is longer than the window: until the next one ends, it says how things go.

    Over a window that is shorter than batches, rates are of a whole batch or of none, and the backlog is a saw.
    """

    batch: BatchProgress
    waiting: int | None
    """Records that had arrived by its end and were not done."""
    turn: float | None
    """From the end of the batch before to its own; None: that is not known."""
    growth: float | None
    """By how many records more a second waited at its end than at that of the batch before."""

    def is_fresh(self, now: float, window_seconds: float) -> bool:
        """Whether the next one can still be one like it."""
        return now - self.batch.ended_at <= 2.0 * self.batch.duration_seconds + window_seconds

    def pressure(self, now: float) -> float | None:
        """By the last two batches, if it goes on as it did between their ends."""
        if self.waiting is None or self.turn is None or self.growth is None:
            return None
        took = self.batch.duration_seconds
        waits = self.waiting + self.growth * (now - self.batch.ended_at)
        return pressure_by(waits, self.growth, self.batch.rows / took, min(1.0, took / self.turn), 2.0 * took)


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """What the newest checkpoint of a real-time query shows."""

    batch: BatchProgress
    waiting: int | None
    """Records that had arrived by then and were not read; 0 where none of them had come before the border."""

    def is_fresh(self, now: float, window_seconds: float) -> bool:
        """Whether the next one is not due yet."""
        return now - self.batch.ended_at <= self.batch.duration_seconds + window_seconds

    @property
    def rate(self) -> float | None:
        """Records read a second since the checkpoint before."""
        seconds = self.batch.duration_seconds
        return self.batch.rows / seconds if 0.0 < seconds < math.inf else None


_BORDER_SECONDS = 2.0
"""What comes so shortly before a checkpoint only waits for the next batch to begin: 0.1 to 1 s, as seen."""
_CLOCK_STEP_SECONDS = 2.0
"""Smaller differences are two readings of a clock that are not of one instant."""


class Monitor:
    """Holds the windows of one operator; `look` takes telemetry in and gives the picture.

    Parameters
    ----------
    operator
        Its name.
    arrival_times
        When its source's records arrived; None: rates come from batches, latency is interpolated.
    window_seconds
        What rates, utilisation and latency are taken over.
    warm_up_seconds, stale_after_seconds
        See `QualityJudge`.
    record_latencies
        For a query in real-time mode: who measures its latency where records come out. A batch of such a query is as
        long as it is set to be, whatever the load, and shows only at its end, a checkpoint, what was read. So its time
        is not given. Backlog and what is done a second are those of the last checkpoint until the next one is due. A
        backlog of nothing is given only where all that came is known to be done.
    path
        Follows records from their first arrival at the pipeline; None: that is not followed.
    """

    def __init__(
        self,
        operator: str,
        arrival_times: ArrivalTimes | None = None,
        *,
        window_seconds: float = 15.0,
        warm_up_seconds: float = 15.0,
        stale_after_seconds: float = 10.0,
        record_latencies: RecordLatencies | None = None,
        path: PathMonitor | None = None,
    ) -> None:
        self.operator = operator
        self.arrival_times = arrival_times
        self._window_seconds = window_seconds
        self._warm_up_seconds = warm_up_seconds
        self._resolver = ArrivalResolver(arrival_times)
        self._latency = LatencyTracker(window_seconds)
        self.path = path
        self._cpu = CpuWindow(window_seconds)
        self._records = record_latencies
        self._quality = QualityJudge(warm_up_seconds, stale_after_seconds, is_real_time=record_latencies is not None)
        self._pressure = PressureGauge(window_seconds)
        self._batches: deque[BatchProgress] = deque()
        self._long: _LongBatch | None = None
        self._checkpoint: _Checkpoint | None = None
        self._has: Allocation | None = None
        self._has_since = -math.inf
        """Since when it has what it has: before then things went at another pace."""
        self._before: BatchProgress | None = None
        """The batch before, where its end is by the clock as it is now."""
        self._clock_goes_since = -math.inf
        self._is_clock_set = False
        """Since the last batch. Of one that ran meanwhile Spark says that it took what the clock was set by, too."""
        self._records_done = 0
        self._was_taken_over = False
        self._faults: tuple[str, ...] = ()
        self._metrics: Mapping[str, float | None] = {}

    def look(self, telemetry: Telemetry, now: float, cluster: ClusterState) -> Look:
        """Take in what one look brought, and give the picture of it."""
        telemetry = _without_future(telemetry)
        done: list[DoneRecords] = []
        arrivals = self._ingest(telemetry, done)
        followed = None if self.path is None else self.path.since_last()
        if self._records is None:
            measured = DoneRecords.joined(done)
        else:  # what the path is measured by is taken once
            measured = followed if self.path is not None else self._records.since_last()
        return Look(
            telemetry, self.observe(now, cluster), arrivals, self._resolver.is_exact, done=measured, path_done=followed
        )

    def _ingest(self, telemetry: Telemetry, done: list[DoneRecords]) -> tuple[FloatArray | None, ...]:
        """Take a look in; records that it found done are added to `done`. Gives when records arrived."""
        self._quality.looked(telemetry.at, batch_is_running=telemetry.batch_is_running)
        self._quality.is_running = telemetry.is_running
        self._faults, self._metrics = telemetry.faults, telemetry.metrics
        self._cpu.add(telemetry)
        carried: list[FloatArray | None] = []
        for batch in telemetry.batches:
            before, self._before = self._before, batch
            self._quality.saw_batch(batch)
            if self._records is None:
                self._note_start(batch)
                found = self._resolver.resolve(batch)
                if found.times is not None:
                    self._latency.count(
                        batch.ended_at, found.times, is_exact=found.is_exact, why=found.why, each=found.each
                    )
                    done.append(DoneRecords(found.times, np.maximum(batch.ended_at - found.times, 0.0)))
                if self.path is not None:
                    self.path.add(batch, found.times if found.is_exact else None)
                if found.times is not None or batch.rows > 0:
                    carried.append(found.one_by_one)
            self._batches.append(batch)
            self._records_done = self._done_after(batch)
            is_timed = not self._is_clock_set and batch.started_at >= self._clock_goes_since
            self._is_clock_set = False
            if self._records is not None:
                self._checkpoint = _Checkpoint(batch, self._left_at(batch)) if is_timed else None
            elif is_timed:
                self._long = self._long_batch(batch, before)
            else:
                self._long = self._long_batch(batch, None) or self._long
        if self._resolver.comes_before_batches:
            return self._resolver.since_last(telemetry.at)
        return tuple(carried)

    def _long_batch(self, batch: BatchProgress, before: BatchProgress | None) -> _LongBatch | None:
        """What a batch says of the time until the next one ends; None: it is not longer than the window."""
        if not self._window_seconds < batch.duration_seconds < math.inf or batch.rows <= 0:
            return None
        waiting, turn, growth = self._waiting_at(batch), None, None
        if before is not None and (before.run_id, before.batch_id + 1) == (batch.run_id, batch.batch_id):
            turn = batch.ended_at - before.ended_at
            arrived = None if self.arrival_times is None else self.arrival_times.arrived_by(before.ended_at)
            if turn <= 0.0:
                turn = None
            elif waiting is not None and arrived is not None:
                growth = (waiting - max(0, arrived - (self._records_done - batch.rows))) / turn
        return _LongBatch(batch, waiting, turn, growth)

    def _waiting_at(self, batch: BatchProgress) -> int | None:
        """Records that had arrived by the end of the newest batch and are in none; None: that is not known."""
        arrived = None if self.arrival_times is None else self.arrival_times.arrived_by(batch.ended_at)
        return None if arrived is None else max(0, arrived - self._records_done)

    def _left_at(self, batch: BatchProgress) -> int | None:
        """The same for a real-time query: none where it has read all that came before the border of its batches."""
        times, waiting = self.arrival_times, self._waiting_at(batch)
        before = None if times is None else times.arrived_by(batch.ended_at - _BORDER_SECONDS)
        return waiting if before is None or before > self._records_done else 0

    def _note_start(self, batch: BatchProgress) -> None:
        """The first batch with records ends the start, the warm-up after it the start-up; a restart begins no other."""
        if self._latency.steady_from is None and batch.rows > 0:
            self._latency.steady_from = batch.ended_at + self._warm_up_seconds
            if self.path is not None:
                self.path.steady_from = self._latency.steady_from

    def observe(self, now: float, cluster: ClusterState) -> Observation:
        """The operator over the last window, without a new look: what is old is marked stale."""
        while self._batches and self._batches[0].ended_at <= now - self._window_seconds:
            self._batches.popleft()
        if cluster.observed is not None and cluster.observed != self._has:
            self._has, self._has_since = cluster.observed, -math.inf if self._has is None else now
        use = self._cpu.use(now)
        latency = self._latency.window(now) if self._records is None else self._records.window(now)
        if self._records is not None and latency is not None:
            self._quality.saw_record(now)
        quality, notes = self._quality.judge(now, has_utilisation=use is not None)
        arrived = None if self.arrival_times is None else self.arrival_times.arrived_by(now)
        arrival_rate = self._arrival_rate(now, arrived)
        backlog = self._backlog(now, arrived, arrival_rate, latency)
        self._pressure.add(now, None if backlog is None else backlog - self._under_way(now, backlog))
        last = self._quality.last_batch
        processed, batch_seconds = self._processed_rate(now), self._batch_seconds()
        busy = self._busy(now, None if use is None else use.utilisation, backlog)
        missing = [*self._faults, *notes]
        if use is None:
            missing.append(f"utilisation: no CPU counters over {self._window_seconds:.0f} s yet")
        if latency is None:
            missing.append(f"latency: no record was done in the last {self._window_seconds:.0f} s")
        if backlog is None:
            missing.append(f"backlog: {self._why_no_backlog(arrived)}")
        return Observation(
            operator=self.operator,
            at=now,
            window_seconds=self._window_seconds,
            quality=quality,
            cluster=cluster,
            arrival_rate_rows_per_second=arrival_rate,
            processed_rows_per_second=processed,
            backlog_records=backlog,
            utilisation=None if use is None else use.utilisation,
            cpu_used_cores=None if use is None else use.used_cores,
            cpu_throttled_fraction=None if use is None else use.throttled_fraction,
            batch_seconds=batch_seconds,
            latency=latency,
            path_latency=None if self.path is None else self.path.latency(now),
            records_arrived=arrived,
            records_done=self._records_done if last is not None else None,
            last_batch_id=None if last is None else last.batch_id,
            missing=tuple(missing),
            query_run=None if last is None else last.run_id,
            busy_fraction=busy,
            back_pressure=self._back_pressure(now, busy, processed, batch_seconds, latency),
            metrics=self._metrics,
        )

    def restarted(self) -> None:
        """The operator was started anew: what its CPU did before says nothing, and it warms up again."""
        self._quality.first_batch_end = None
        self._long = self._checkpoint = None
        self._cpu = CpuWindow(self._window_seconds)

    def clock_was_set(self, seconds: float) -> None:
        """The wall clock was set forward (or back, below 0): windows begin anew, the warm-up goes on where it was."""
        self._batches.clear()
        self._checkpoint = self._before = None
        self._long = None if self._long is None else replace(self._long, waiting=None)
        self._has_since += seconds
        self._is_clock_set = True
        self._pressure.clear()
        self._cpu = CpuWindow(self._window_seconds)
        self._quality.clock_was_set(seconds)
        if self._quality.last_look is not None:
            self._clock_goes_since = self._quality.last_look
        self._latency.clock_was_set(seconds)
        if self.path is not None:
            self.path.clock_was_set(seconds)

    def latency_of_run(self) -> LatencySummary | None:
        """Latency over all records done so far."""
        return self._latency.whole() if self._records is None else self._records.whole()

    def run_latency(self) -> RunLatency:
        """Latency over all records done so far, with those of the start-up apart where batches show them."""
        return self._latency.run() if self._records is None else RunLatency(self._records.whole())

    def plain(self) -> dict[str, Any]:
        """The latency that was counted since the run began, as plain data: another controller can go on from it."""
        return {
            "operator": self._latency.plain() if self._records is None else None,
            "path": None if self.path is None else self.path.plain(),
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Go on from the latency that another controller of the same run has counted.

        Raises
        ------
        ValueError, KeyError, TypeError
            That is not what `plain` gives.
        """
        self._was_taken_over = True
        if self._records is None and kept["operator"] is not None:
            self._latency.restore(kept["operator"])
        if self.path is not None and kept["path"] is not None:
            self.path.restore(kept["path"])

    def _backlog(
        self, now: float, arrived: int | None, arrival_rate: float | None, latency: LatencySummary | None
    ) -> int | None:
        if arrived is None or (self._was_taken_over and self._quality.last_batch is None):
            return None  # what earlier controllers saw done is in no batch that this one saw
        if self._records is None:
            return max(0, arrived - self._records_done)
        if self._quality.last_batch is not None and arrived <= self._records_done:
            return 0
        known = self._fresh_checkpoint(now)
        if known is None or known.waiting is None:
            return None
        # Since the checkpoint others came. By Little's law, as many as come within the mean latency are under way.
        if arrival_rate is None or latency is None:
            return known.waiting or None
        return max(known.waiting, math.ceil(arrival_rate * latency.mean_seconds)) or None

    def _fresh_checkpoint(self, now: float) -> _Checkpoint | None:
        found = self._checkpoint
        return found if found is not None and found.is_fresh(now, self._window_seconds) else None

    def _under_way(self, now: float, backlog: int) -> float:
        """Records that the running batch has done by now, if it is as the last one: it is counted when it ends.

        Without this the backlog of an overloaded operator is a saw whose teeth are a batch high. Over a window of a few
        batches that looks like growth, or hides it.
        """
        if not self._batches or self._records is not None:
            return 0.0
        last = self._batches[-1]
        if backlog < last.rows or last.duration_seconds <= 0.0:
            return 0.0  # less waits than the last one took: what runs is no batch like it
        return last.rows * min(1.0, max(0.0, now - last.ended_at) / last.duration_seconds)

    def _batch_seconds(self) -> float | None:
        return _mean_duration(self._batches) if self._records is None else None

    def _busy(self, now: float, utilisation: float | None, backlog: int | None) -> float | None:
        """Part of the window in which the operator was at work."""
        if self._records is not None:
            known = self._fresh_checkpoint(now)
            if known is not None and known.rate is not None and known.waiting:
                is_behind = known.waiting > known.rate * self._window_seconds
                if is_behind:
                    return 1.0  # what is left at a checkpoint for longer than a window leaves no time without work
            # A real-time query always runs a batch; without batches that say more, its CPU does.
            return None if utilisation is None else min(1.0, max(0.0, utilisation))
        if self._quality.last_batch is None:
            return None
        if self._batches:
            return busy_fraction(self._batches, now - self._window_seconds, now)
        # No batch has ended in the window: nothing runs if nothing waits; else one that is longer may.
        return 0.0 if backlog == 0 else None

    def _back_pressure(
        self,
        now: float,
        busy: float | None,
        processed: float | None,
        batch_seconds: float | None,
        latency: LatencySummary | None,
    ) -> float | None:
        if self._records is not None:
            return self._real_time_pressure(now, busy, processed, latency)
        if self._long is None or busy == 0.0:
            return self._pressure.pressure(busy, processed, batch_seconds)
        if self._long.batch.started_at < self._has_since or not self._long.is_fresh(now, self._window_seconds):
            return None
        return self._long.pressure(now)

    def _real_time_pressure(
        self, now: float, busy: float | None, processed: float | None, latency: LatencySummary | None
    ) -> float | None:
        if busy is None:
            return None
        if latency is not None:  # by Little's law a record waits for about the mean latency
            return pressure_of(latency.mean_seconds, busy, self._window_seconds)
        known = self._fresh_checkpoint(now)
        if known is None or not known.waiting or processed is None:
            return None
        return busy if processed <= 0.0 else pressure_of(known.waiting / processed, busy, self._window_seconds)

    def _why_no_backlog(self, arrived: int | None) -> str:
        if self._records is not None and arrived is not None:
            return "a real-time query shows what it has read at its checkpoints only"
        is_first = self._quality.last_batch is None
        return "not known before the first batch" if is_first else "the source does not say when records arrive"

    def _done_after(self, batch: BatchProgress) -> int:
        # Offsets count from the very first record, also after a restart; rows count only what this run took.
        if self.arrival_times is not None:
            indices = [i for s in batch.sources if (i := self.arrival_times.done_index(s)) is not None]
            if indices:
                return sum(indices)
        return self._records_done + batch.rows

    def _arrival_rate(self, now: float, arrived: int | None) -> float | None:
        if self.arrival_times is not None and arrived is not None:
            before = self.arrival_times.arrived_by(now - self._window_seconds)
            if before is None or (before == 0 and arrived > 0):
                return None  # the stream began within the window: taken over all of it, the rate would seem to rise
            return (arrived - before) / self._window_seconds
        return self._processed_rate(now)  # without arrival times: what the query takes in

    def _processed_rate(self, now: float) -> float | None:
        first_end = self._quality.first_batch_end
        if self._records is not None:  # a batch spans several windows
            known = self._fresh_checkpoint(now)
            return None if known is None or known.batch.started_at < self._has_since else known.rate
        if first_end is None or now - first_end < self._window_seconds or not self._batches:
            return None  # while a long batch runs, how fast it goes is not known
        return sum(b.rows for b in self._batches) / self._window_seconds


def _without_future(telemetry: Telemetry) -> Telemetry:
    """Move batches that ended after the look: the clock was set back since, and no batch is younger than its report.

    As they are, they would stay in the window, and hold up the end of the warm-up, until the clock has caught up.
    """
    at = telemetry.at
    if all(batch.ended_at <= at + _CLOCK_STEP_SECONDS for batch in telemetry.batches):
        return telemetry
    return replace(
        telemetry,
        batches=tuple(
            batch
            if batch.ended_at <= at + _CLOCK_STEP_SECONDS
            else replace(batch, started_at=at - batch.duration_seconds, ended_at=at)
            for batch in telemetry.batches
        ),
    )


def _mean_duration(batches: deque[BatchProgress]) -> float | None:
    if not batches:
        return None
    return sum(b.duration_seconds for b in batches) / len(batches)
