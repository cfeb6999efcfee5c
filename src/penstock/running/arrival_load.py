# SPDX-License-Identifier: Apache-2.0
"""What arrives at a pipeline during a run: when, how much, and how much of it was read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock.ports import FloatArray
from penstock.running.checkpoint_files import committed_offsets, newest_offsets

if TYPE_CHECKING:
    from penstock.arrivals.due import ReplayArrivals


class ArrivalLoad(Protocol):
    """Everything that arrives at the pipeline during a run."""

    def span(self) -> tuple[float, float] | None:
        """When the first record arrives and when the last one has (infinite: never); None: not begun."""
        ...

    @property
    def total(self) -> int | None:
        """How many records arrive in all; None: nobody knows."""
        ...

    def arrived_by(self, at: float) -> int | None:
        """How many have arrived by then."""
        ...

    def waiting(self, done: int, at: float) -> FloatArray | None:
        """When the records arrived that are not done; None where that is not known."""
        ...

    def read(self, checkpoint: Path) -> int | None:
        """How many records a query has taken in, by its checkpoint, the batch under way included."""
        ...

    def done(self, checkpoint: Path) -> int | None:
        """How many records a query has done, by its checkpoint; None where that cannot be read from it."""
        ...


class ReplayLoad:
    """Arrivals replayed by the pipeline's own source."""

    def __init__(self, replay: ReplayArrivals) -> None:
        self._replay = replay

    def span(self) -> tuple[float, float] | None:
        """From time zero of the trace, known from the first batch on."""
        if self._replay.epoch_us is None:
            return None
        start = self._replay.epoch_us / 1e6
        return start, start + self._replay.arrivals.duration_seconds / self._replay.speed

    @property
    def total(self) -> int | None:
        """The length of the trace."""
        return self._replay.arrivals.total

    def arrived_by(self, at: float) -> int | None:
        """How many are due."""
        return self._replay.arrived_by(at)

    def waiting(self, done: int, at: float) -> FloatArray | None:
        """When those were due that are not done."""
        due = self._replay.arrived_by(at)
        if due is None or due <= done or self._replay.epoch_us is None:
            return None
        times: FloatArray = self._replay.epoch_us / 1e6 + self._replay.arrivals.times(done, due) / self._replay.speed
        return times

    def read(self, checkpoint: Path) -> int | None:
        """By the newest batch planned."""
        from penstock.arrivals.due import ReplayOffset

        offset = ReplayOffset.parse(newest_offsets(checkpoint))
        return None if offset is None else offset.index

    def done(self, checkpoint: Path) -> int | None:
        """By the newest batch done."""
        from penstock.arrivals.due import ReplayOffset

        offset = ReplayOffset.parse(committed_offsets(checkpoint))
        return None if offset is None else offset.index
