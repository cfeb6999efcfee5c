# SPDX-License-Identifier: Apache-2.0
"""Operators that take records in micro-batches: all that wait, up to a cap, ride together and are done together.

A batch of n records over m executors is f + c n / m of work, done at the speed of the CPU share in force while it
runs; what the driver does for it, planning and commits, takes its time whatever the share, and so do the round trips
between nodes that its stages wait for. Executors that come during a batch serve from the next one on. Without a
trigger a batch starts when the last one has ended and a record is there. With a trigger interval it starts at the
multiples of the interval; a batch that overruns is followed by the next at once, as Spark's processing-time trigger
does.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from penstock.errors import ConfigurationError
from penstock.ports import FloatArray
from penstock.records import Allocation
from penstock.simulator.block import Block, join
from penstock.simulator.draws import IndexedDraws
from penstock.simulator.service import Deterministic, Gamma, Service
from penstock.simulator.work_time import WorkTime


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What a batch costs.

    Parameters
    ----------
    fixed, per_record
        Mean work of a batch, and of each record in it, in seconds at full share.
    cap
        Most records of a batch; None: all that wait.
    trigger
        Seconds between the starts of batches; None: the next as soon as the last has ended.
    fixed_scv, per_record_scv
        Squared coefficients of variation; above zero they are gamma distributed.
    driver
        Seconds of a batch that no CPU share makes longer: the driver keeps its cores.
    round_trips
        How many round trips between its nodes a batch waits for, one after the other; each takes as long as the
        longest.
    parallel
        m executors do the work of records m^parallel times as fast as one: below 1 they spend some of it on each other.
    """

    fixed: float
    per_record: float
    cap: int | None = None
    trigger: float | None = None
    fixed_scv: float = 0.0
    per_record_scv: float = 0.0
    driver: float = 0.0
    round_trips: float = 0.0
    parallel: float = 1.0

    def __post_init__(self) -> None:
        for field in ("fixed", "per_record", "fixed_scv", "per_record_scv", "driver", "round_trips"):
            value = getattr(self, field)
            if not 0.0 <= value < math.inf:
                raise ConfigurationError(f"{field}: {value!r} must be zero or a positive number", field=field)
        if self.fixed == 0.0 and self.per_record == 0.0:
            raise ConfigurationError("per_record: a batch must be some work; fixed is zero too", field="per_record")
        if not 0.0 < self.parallel <= 1.0:
            raise ConfigurationError(f"parallel: {self.parallel!r} must be above 0 and at most 1", field="parallel")
        if self.cap is not None and self.cap < 1:
            raise ConfigurationError(f"cap: {self.cap!r} must be a whole number from 1", field="cap")
        if self.trigger is not None and not 0.0 < self.trigger < math.inf:
            raise ConfigurationError(f"trigger: {self.trigger!r} must be a positive time", field="trigger")

    @property
    def mean(self) -> float:
        """Mean time of a batch of one record, at full share."""
        return self.fixed + self.per_record + self.driver

    def sustained(self, executors: int, delay: float = 0.0, share: float = 1.0) -> float:
        """Records a second that it does with full batches, on average; without a cap, with batches of any length."""
        alone = share * executors**self.parallel / self.per_record if self.per_record > 0.0 else math.inf
        if self.cap is None:
            return alone
        seconds = self.cap / alone + self.fixed / share + self.driver + self.round_trips * delay
        return self.cap / max(seconds, self.trigger or 0.0)

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Give the times of `size` batches of one record each, at full share."""
        total = np.full(size, self.driver)
        for part in (_work(self.fixed, self.fixed_scv), _work(self.per_record, self.per_record_scv)):
            if part is not None:
                total += part.draw(rng, size)
        return total


def _work(mean: float, scv: float) -> Service | None:
    if mean == 0.0:
        return None
    return Deterministic(mean) if scv == 0.0 else Gamma(mean, scv)


@dataclass(frozen=True, slots=True)
class FinishedBatch:
    """A batch that has ended: when, and which records it carried."""

    number: int
    started_at: float
    ended_at: float
    records: Block


@dataclass(frozen=True, slots=True)
class _Running:
    started_at: float
    start_work: float
    work: float
    """CPU seconds over all executors."""
    length: float
    """In work time: `work` where nothing is done side by side."""
    records: int
    wait: float
    """Seconds that no share makes longer: the driver's, and those of round trips."""
    in_tasks: float
    """The part of `length` that executors are at work."""
    delay: float


class MicroBatchStation:
    """The query of an operator, batch after batch.

    Batches follow each other, so they are taken in turn, each with a few steps whatever the number of its records;
    what is done per record is done over whole arrays.

    Parameters
    ----------
    batch
        What a batch costs.
    seed, name
        Number its draws.
    start
        The allocation at time zero.
    """

    def __init__(self, batch: MicroBatch, seed: int, name: str, start: Allocation) -> None:
        self.batch = batch
        fixed, per_record = _work(batch.fixed, batch.fixed_scv), _work(batch.per_record, batch.per_record_scv)
        self._fixed = (
            None if batch.fixed_scv == 0.0 or fixed is None else IndexedDraws(fixed.draw, seed, f"{name}/fixed")
        )
        self._per_record = (
            None
            if batch.per_record_scv == 0.0 or per_record is None
            else IndexedDraws(per_record.draw, seed, f"{name}/per record")
        )
        self._clock = WorkTime(start.cpu_share)
        self._executors = start.executors
        self._delay = 0.0
        self._paused_until = 0.0
        self._task_seconds = 0.0
        # Records of the running batch and those that wait, in one block; new ones are joined to it when needed.
        self._here = join([])
        self._new: list[Block] = []
        self._arrived: list[float] = []
        self._running: _Running | None = None
        self._worked_at: float | None = None
        """When the running batch's work was done; the driver's part follows."""
        self._ready_at = 0.0
        self._batches = 0
        self._work_done = 0.0
        self.is_watched = False
        """Whether finished batches are kept until they are taken."""
        self._finished: list[FinishedBatch] = []

    def set_share(self, at: float, share: float) -> None:
        """From `at` on every executor has this share."""
        self._clock.set_speed(at, share)

    def set_executors(self, at: float, count: int) -> None:
        """From the next batch on there are so many executors."""
        del at
        self._executors = count

    def set_delay(self, at: float, seconds: float) -> None:
        """From the next batch on the longest round trip between nodes takes so long."""
        del at
        self._delay = seconds

    def pause(self, until: float) -> None:
        """Start no batch before `until`; the running one goes on to its end."""
        self._paused_until = max(self._paused_until, until)

    def admit(self, block: Block) -> None:
        """Take records that arrived after all before."""
        if len(block):
            self._new.append(block)

    def release(self, until: float) -> Block:
        """Run batches up to `until`; gives the records of those that have ended."""
        if self._new:
            self._here = join([*([self._here] if len(self._here) else []), *self._new])
            self._arrived = self._here.arrived.tolist()
            self._new = []
        done, ends, counts = 0, [], []
        while True:
            if self._running is not None:
                end = self._end_of(self._running, until)
                if end > until:
                    break
                ends.append(end)
                counts.append(self._running.records)
                self._end(self._running, end, done)
                done += counts[-1]
            start = self._next_start(done)
            if start is None or start > until:
                break
            self._running = self._begin(start, done)
        if not done:
            return join([])
        gone = self._here.part(slice(0, done))
        self._here = self._here.part(slice(done, None))
        del self._arrived[:done]
        return Block(gone.arrived, gone.origin, gone.way, gone.number, np.repeat(ends, counts))

    def take_finished(self) -> list[FinishedBatch]:
        """Give the batches that have ended since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def work_done(self, now: float) -> float:
        """CPU seconds of work done so far; the running batch counts by the part of its length that is done."""
        if self._running is None:
            return self._work_done
        running = self._running
        since = self._clock.work(now) - running.start_work
        part = 1.0 if since >= running.length else max(0.0, since / running.length)
        return self._work_done + running.work * part

    def task_seconds(self, now: float) -> float:
        """Time that each executor has spent in tasks so far, waiting inside a task included."""
        if self._running is None:
            return self._task_seconds
        end = self._clock.time(self._running.start_work + self._running.length) + self._running.wait
        lasts = end - self._running.started_at
        part = 1.0 if now >= end else max(0.0, (now - self._running.started_at) / lasts)
        return self._task_seconds + part * _in_tasks(self._running, end)

    def _end_of(self, running: _Running, until: float) -> float:
        """When the batch ends, if the speed stays; known for good once its work is done by `until`."""
        worked = self._worked_at
        if worked is None:
            worked = self._clock.time(running.start_work + running.length)
            self._worked_at = worked if worked <= until else None
        return worked + running.wait

    def _next_start(self, at: int) -> float | None:
        if at == len(self._arrived):
            return None
        first = self._arrived[at]
        ready = max(self._ready_at, self._paused_until)
        if first <= ready:
            return ready
        trigger = self.batch.trigger
        return first if trigger is None else _multiple_from(trigger, first)

    def _begin(self, start: float, at: int) -> _Running:
        cap = self.batch.cap
        last = len(self._arrived) if cap is None else min(len(self._arrived), at + cap)
        count = bisect_right(self._arrived, start, at, last) - at
        fixed = self.batch.fixed
        if self._fixed is not None:
            fixed = float(self._fixed.between(self._batches, self._batches + 1)[0])
        spread = self.batch.per_record * count
        if self._per_record is not None:
            first = int(self._here.number[at])
            spread = float(self._per_record.between(first, first + count).sum())
        in_tasks = spread / self._executors**self.batch.parallel
        waited = self.batch.round_trips * self._delay
        return _Running(
            start,
            self._clock.work(start),
            fixed + in_tasks * self._executors,
            fixed + in_tasks,
            count,
            wait=self.batch.driver + waited,
            in_tasks=in_tasks,
            delay=waited,
        )

    def _end(self, running: _Running, end: float, at: int) -> None:
        if self.is_watched:
            records = self._here.part(slice(at, at + running.records))
            self._finished.append(FinishedBatch(self._batches, running.started_at, end, records))
        self._batches += 1
        self._work_done += running.work
        self._task_seconds += _in_tasks(running, end)
        self._running, self._worked_at = None, None
        trigger = self.batch.trigger
        # The trigger after the one it started at (or, having started late, after its start).
        due = 0.0 if trigger is None else _multiple_from(trigger, math.nextafter(running.started_at, math.inf))
        self._ready_at = max(end, due)


def _in_tasks(running: _Running, end: float) -> float:
    """A batch's time in tasks; a share that changed meanwhile is spread over all of it."""
    worked = end - running.wait - running.started_at
    return running.delay + (worked * running.in_tasks / running.length if running.length > 0.0 else 0.0)


def _multiple_from(interval: float, at: float) -> float:
    """The first multiple of the interval at or after an instant, as the product is rounded."""
    count = math.ceil(at / interval)
    while (count - 1) * interval >= at:
        count -= 1
    while count * interval < at:
        count += 1
    return count * interval
