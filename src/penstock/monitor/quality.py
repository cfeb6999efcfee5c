# SPDX-License-Identifier: Apache-2.0
"""How far the data can be trusted: gaps, stale data and warm-up are marked, never read as zeros."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.records import BatchProgress, Quality


@dataclass(slots=True)
class QualityJudge:
    """Judges each observation.

    Parameters
    ----------
    warm_up_seconds
        After a query's first batch: the JVM still compiles, executors still register.
    stale_after_seconds
        Telemetry older than this is not decided upon.
    """

    warm_up_seconds: float
    stale_after_seconds: float
    first_batch_end: float | None = None
    last_batch: BatchProgress | None = None
    last_look: float | None = None
    is_running: bool = True
    is_real_time: bool = False
    """Whether records come out one by one, long before the first batch ends: the first record out begins the warm-up
    then, after each time that the operator was not heard of, too."""
    _gap: str | None = None
    _batch_is_running: bool | None = None
    _batch_seen_since: float | None = None

    def looked(self, at: float, *, batch_is_running: bool | None = None) -> None:
        """Take note of a look; `batch_is_running` is known before the first batch has ended, if ever."""
        self._batch_is_running = batch_is_running
        if not batch_is_running:
            self._batch_seen_since = None
        elif self._batch_seen_since is None:
            self._batch_seen_since = at
        was_away = self.last_look is not None and at - self.last_look > self.stale_after_seconds
        if self.is_real_time and was_away:
            self.first_batch_end = None
        self.last_look = at

    def saw_record(self, at: float) -> None:
        """Take note that records come out."""
        if self.first_batch_end is None:
            self.first_batch_end = at

    def saw_batch(self, batch: BatchProgress) -> None:
        """Take note of a finished batch; missing batch numbers are a gap."""
        last = self.last_batch
        if last is None or last.run_id != batch.run_id:
            if not self.is_real_time or self.first_batch_end is None:
                self.first_batch_end = batch.ended_at
        elif batch.batch_id > last.batch_id + 1:
            self._gap = f"gap: batches {last.batch_id + 1} to {batch.batch_id - 1} were not reported"
        self.last_batch = batch

    def clock_was_set(self, seconds: float) -> None:
        """Move what is remembered with the wall clock."""
        if self.first_batch_end is not None:
            self.first_batch_end += seconds
        if self.last_look is not None:
            self.last_look += seconds
        if self._batch_seen_since is not None:
            self._batch_seen_since += seconds

    def judge(self, now: float, has_utilisation: bool) -> tuple[Quality, tuple[str, ...]]:
        """The quality, and what is wrong in words."""
        notes: list[str] = []
        if self._gap is not None:
            notes.append(self._gap)
            self._gap = None
        if not self.is_running:
            return Quality.STOPPED, (*notes, "the query has stopped")
        if self.last_look is None or now - self.last_look > self.stale_after_seconds:
            age = "never" if self.last_look is None else f"{now - self.last_look:.0f} s ago"
            return Quality.STALE, (*notes, f"stale: the operator was last heard of {age}")
        if self.first_batch_end is None:
            what = "no record has come out yet" if self.is_real_time else self._first_batch(now)
            return Quality.WARMING_UP, (*notes, f"warming up: {what}")
        if now < self.first_batch_end + self.warm_up_seconds:
            left = self.first_batch_end + self.warm_up_seconds - now
            return Quality.WARMING_UP, (*notes, f"warming up: {left:.0f} s left")
        if not has_utilisation:
            return Quality.INCOMPLETE, tuple(notes)
        return Quality.GOOD, tuple(notes)

    def _first_batch(self, now: float) -> str:
        """What is known of a first batch that has not ended."""
        if self._batch_is_running is None:
            return "no batch has ended yet"
        if self._batch_seen_since is None:
            return "no batch has begun yet"
        # A slow look ends after the instant that its pass began at.
        return f"no batch has ended yet; the first has run for {max(0.0, now - self._batch_seen_since):.0f} s"
