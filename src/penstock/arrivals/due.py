# SPDX-License-Identifier: Apache-2.0
"""Exact arrival times of replayed records: an offset range gives the records and when they were due.

A replay offset is ``{"epoch_us": time zero in microseconds since 1970, "index": records due}``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from penstock.arrivals.contract import Arrivals
from penstock.errors import ConfigurationError
from penstock.ports import FloatArray
from penstock.records import SourceProgress


@dataclass(frozen=True, slots=True)
class ReplayOffset:
    """How far a replay has come: the records before `index`, of a trace whose time zero is `epoch_us`."""

    epoch_us: int
    index: int

    @classmethod
    def parse(cls, text: str | None) -> ReplayOffset | None:
        """Parse an offset. None if the text is not a replay's."""
        try:
            fields = json.loads(text) if text else None
        except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, or nested without end
            return None
        if not isinstance(fields, dict):
            return None
        epoch_us, index = fields.get("epoch_us"), fields.get("index")
        return cls(epoch_us, index) if type(epoch_us) is int and type(index) is int else None  # true is no number

    def as_dict(self) -> dict[str, int]:
        """Return the offset as the engine keeps it."""
        return {"epoch_us": self.epoch_us, "index": self.index}


def due_index(arrivals: Arrivals, speed: float, epoch_us: int, at: float) -> int:
    """Return how many records are due at the instant `at`: those whose time, divided by `speed`, has passed."""
    return arrivals.count_until((at - epoch_us / 1e6) * speed)


class ReplayArrivals:
    """The arrival times of a replay (`penstock.ports.ArrivalTimes`).

    Parameters
    ----------
    arrivals, speed
        The replayed arrivals, and how many times faster than recorded.
    epoch_us
        Time zero in microseconds since 1970. None: taken from the first offset.
    """

    def __init__(self, arrivals: Arrivals, speed: float = 1.0, *, epoch_us: int | None = None) -> None:
        if not 0 < speed < float("inf"):
            raise ConfigurationError(f"speed: {speed!r} is not a positive number; 1 is real time", field="speed")
        self.arrivals = arrivals
        self.speed = speed
        self._epoch_us = epoch_us

    @property
    def epoch_us(self) -> int | None:
        """Time zero in microseconds since 1970, or None before it is known."""
        return self._epoch_us

    def begin(self, at: float) -> None:
        """Set time zero, in seconds since 1970, as the sender of the records reports it."""
        self._epoch_us = round(at * 1e6)

    def of(self, source: SourceProgress) -> FloatArray | None:
        """Return the arrival times of the records in a batch's offset range, in seconds since the epoch.

        None if the offsets are not of this replay: of another kind of source, or beyond the trace's end.
        """
        end = self._learn(source)
        if end is None:
            return None
        # The first batch has no start offset. Use the end's time zero: only that one is in the checkpoint.
        start = ReplayOffset.parse(source.start_offset)
        first = 0 if start is None else start.index
        if not 0 <= first <= end.index:
            return None
        times: FloatArray = end.epoch_us / 1e6 + self.arrivals.times(first, end.index) / self.speed
        return times

    def arrived_by(self, at: float) -> int | None:
        """Return how many records have arrived up to `at`, or None before time zero is known."""
        if self._epoch_us is None:
            return None
        return due_index(self.arrivals, self.speed, self._epoch_us, at)

    def between(self, start: float, end: float) -> FloatArray | None:
        """Arrival times after `start` and up to `end`; None before time zero is known."""
        first, last = self.arrived_by(start), self.arrived_by(end)
        if first is None or last is None or self._epoch_us is None:
            return None
        times: FloatArray = self._epoch_us / 1e6 + self.arrivals.times(first, last) / self.speed
        return times

    def done_index(self, source: SourceProgress) -> int | None:
        """Return how many records are done when this batch is, or None if the offsets are not of this replay."""
        end = self._learn(source)
        return None if end is None else end.index

    def _learn(self, source: SourceProgress) -> ReplayOffset | None:
        end = ReplayOffset.parse(source.end_offset)
        if end is None or not 0 <= end.index <= self.arrivals.total:
            return None
        self._epoch_us = end.epoch_us
        return end
