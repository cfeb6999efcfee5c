# SPDX-License-Identifier: Apache-2.0
"""Looks at an application whose instants go on evenly, whoever sets the wall clock while it is measured.

Batches carry the wall clock's time, and so do looks. What is due in a measurement, and what is counted, is a difference
of such instants. So each look is moved by what the clock was set since the first.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.clock import Clock
from penstock.records import BatchProgress, Telemetry

_LEAST_SECONDS = 0.5
"""Less is no clock that somebody has set, but one that is kept right, or a thread that waited between two readings."""


class SteadyLooks:
    """Moves looks to the wall clock as it was when this was made; it then goes on by the one that nobody sets.

    Examples
    --------
    >>> from penstock.clock import VirtualClock
    >>> clock = VirtualClock(100.0)
    >>> looks = SteadyLooks(clock)
    >>> clock.set_by(-3600.0)
    >>> looks.steady(Telemetry("a", clock.now())).at, looks.now()
    (100.0, 100.0)
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin = clock.now() - clock.monotonic()
        self._batch_by = 0.0
        """What the clock was set by when the newest batch ended: the next one may have begun by that clock."""

    def now(self) -> float:
        """Return the present instant."""
        return self._clock.now() - self._set_by()

    def steady(self, look: Telemetry) -> Telemetry:
        """Return a look that was taken a moment ago, moved to the clock that goes on evenly."""
        by = self._set_by()
        if by == self._batch_by == 0.0:
            return look
        cpu = None if look.cpu is None else replace(look.cpu, at=look.cpu.at - by)
        at = look.at - by
        return replace(look, at=at, cpu=cpu, batches=tuple(self._moved(batch, by, at) for batch in look.batches))

    def _set_by(self) -> float:
        by = self._clock.now() - self._clock.monotonic() - self._begin
        return by if abs(by) >= _LEAST_SECONDS else 0.0

    def _moved(self, batch: BatchProgress, by: float, at: float) -> BatchProgress:
        """A batch that ended by now. One that ended before the clock was set keeps its instants."""
        before = self._batch_by
        ends = [end for end in (batch.ended_at - by, batch.ended_at - before) if end <= at + _LEAST_SECONDS]
        if not ends or max(ends) == batch.ended_at - before:
            return replace(batch, started_at=batch.started_at - before, ended_at=batch.ended_at - before)
        self._batch_by = by
        # In the first after that the clock may have been set. It did not take what that was, nor end before it began.
        ended = max(ends)
        starts = [start for start in (batch.started_at - by, batch.started_at - before) if start <= ended]
        return replace(batch, started_at=max(starts, default=ended), ended_at=ended)
