# SPDX-License-Identifier: Apache-2.0
"""The pacing loop: sends everything that is due in slices of about a millisecond, late or not, and measures it.

The loop is open: a record is due at its own time, whatever happened to those before it. Records are prepared ahead, in
the time left between slices, so that sending one costs little when it is due. A record counts as sent when its whole
slice has been passed to the network.
"""

from __future__ import annotations

import gc
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.adaptors.produce.lateness import Lateness, LatenessSummary
from penstock.adaptors.produce.sink import Delivery, Sink
from penstock.adaptors.replay.payloads import Payload
from penstock.arrivals import Arrivals

SLICE_SECONDS = 0.001
RECORDS_PER_SLICE = 250
_READY_BLOCK = 250
_READY_AHEAD = 20_000
_LEAD_SECONDS = 0.25  # from the call to time zero; the first records are prepared meanwhile
_PROGRESS_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Produced:
    """The outcome of a load. Times are in seconds; `epoch` is time zero in seconds since 1970."""

    due: int
    """Records that came due before the end, or before the stop."""
    sent: int
    delivery: Delivery
    lateness: LatenessSummary | None
    epoch: float
    seconds: float
    """From time zero to the last send."""
    is_stopped: bool

    @property
    def unconfirmed(self) -> int:
        """Records sent whose arrival the broker never confirmed."""
        return self.sent - self.delivery.confirmed

    @property
    def records_per_second(self) -> float | None:
        """Mean sending rate, or None if nothing was sent."""
        return self.sent / self.seconds if self.sent and self.seconds > 0 else None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a load has come."""

    sent: int
    total: int
    delivery: Delivery


def produce(
    arrivals: Arrivals,
    payload: Payload,
    sink: Sink,
    *,
    speed: float = 1.0,
    records: int | None = None,
    parts: Sequence[range] | None = None,
    epoch: float | None = None,
    confirm_seconds: float = 60.0,
    stop: threading.Event | None = None,
    tell: Callable[[Progress], None] | None = None,
    on_start: Callable[[float], None] | None = None,
) -> Produced:
    """Send a load and wait for its confirmations.

    Parameters
    ----------
    arrivals, payload, sink
        When to send, what, and where to.
    speed
        How many times faster than real time.
    records
        Send only the first `records`. None: all.
    parts
        The numbers of the records to send, rising, where another producer has sent the others. None: all.
    epoch
        Time zero of what that producer sent, in seconds since 1970. Records that are due by now are sent at once, and
        their lateness, which is not this producer's, is not counted. None: time zero is now.
    confirm_seconds
        How long to wait for confirmations after the last send.
    stop
        Set it to end early. Confirmations of what was sent are still awaited.
    tell
        Receives the progress a few times a second.
    on_start
        Receives time zero, in seconds since 1970, before the first record is due.
    """
    if parts is None:
        parts = [range(arrivals.total if records is None else min(records, arrivals.total))]
    stop = stop or threading.Event()
    load = _Load(arrivals, payload, sink, speed=speed, parts=parts, epoch=epoch)
    total = load.total
    if on_start is not None:
        on_start(load.epoch_us / 1e6)
    with _no_garbage_collection():
        sent, seconds = _send_all(load, sink, stop, tell)
        was_stopped = stop.is_set() and sent < total
        _await_confirmations(sink, sent, total, confirm_seconds, tell)
    due = total if not was_stopped else load.due_by(seconds)
    return Produced(due, sent, sink.delivery(), load.lateness.summary(), load.epoch_us / 1e6, seconds, was_stopped)


class _Load:
    """The records of a load, prepared in order, and how late each went out."""

    def __init__(
        self,
        arrivals: Arrivals,
        payload: Payload,
        sink: Sink,
        *,
        speed: float,
        parts: Sequence[range],
        epoch: float | None,
    ) -> None:
        self._arrivals = arrivals
        self._payload = payload
        self._sink = sink
        self._speed = speed
        self._parts = tuple(parts)
        self._left = deque(part for part in parts if part)
        self.total = sum(map(len, parts))
        self.lateness = Lateness()
        self._ready: deque[tuple[list[Any], NDArray[np.float64]]] = deque()
        self._taken = 0  # of the first block
        # Records carry wall-clock times. Pacing uses the monotonic clock, which nobody sets.
        lead = _LEAD_SECONDS if epoch is None else epoch - time.time()
        self.zero = time.monotonic() + lead
        self.epoch_us = round((time.time() + lead if epoch is None else epoch) * 1e6)
        self._began = self.now()

    def now(self) -> float:
        """Seconds since time zero."""
        return time.monotonic() - self.zero

    def due_by(self, seconds: float) -> int:
        """Return how many records were due by then."""
        due = self._arrivals.count_until(seconds * self._speed)
        return sum(max(0, min(due, part.stop) - part.start) for part in self._parts)

    def make_ready(self) -> bool:
        """Prepare one more block. False if enough is prepared."""
        if not self._left or len(self._ready) * _READY_BLOCK >= _READY_AHEAD:
            return False
        start = self._left[0].start
        stop = min(start + _READY_BLOCK, self._left[0].stop)
        due = self._arrivals.times(start, stop) / self._speed
        due_us = self.epoch_us + np.rint(due * 1e6).astype(np.int64)
        texts = self._payload.column(start, due_us).to_pylist()
        bodies = [b"" if text is None else text.encode() for text in texts]
        self._ready.append((self._sink.prepare(start, due_us, bodies), due))
        rest = range(stop, self._left.popleft().stop)
        if rest:
            self._left.appendleft(rest)
        return True

    def next_due(self) -> float | None:
        """Return when the next record is due, in seconds since time zero, or None after the last."""
        if not self._ready and not self.make_ready():
            return None
        return float(self._ready[0][1][self._taken])

    def due_slice(self, now: float) -> tuple[list[Any], NDArray[np.float64]]:
        """Return what is due and not yet sent, within the first block."""
        records, due = self._ready[0]
        stop = min(int(np.searchsorted(due, now, side="right")), self._taken + RECORDS_PER_SLICE)
        return records[self._taken : stop], due[self._taken : stop]

    def took(self, due: NDArray[np.float64], at: float) -> None:
        """Count records as sent at `at`."""
        self.lateness.add(at - due[due >= self._began])
        self._taken += len(due)
        if self._taken == len(self._ready[0][0]):
            self._ready.popleft()
            self._taken = 0


def _send_all(
    load: _Load, sink: Sink, stop: threading.Event, tell: Callable[[Progress], None] | None
) -> tuple[int, float]:
    sent, last_at, reported_at = 0, 0.0, 0.0
    while load.now() < 0 and load.make_ready():
        pass
    while sent < load.total and not stop.is_set():
        next_due = load.next_due()
        assert next_due is not None  # fewer than all were sent
        now = load.now()
        if next_due <= now:
            records, due = load.due_slice(now)
            taken = sink.send(records)
            sink.turn(0.0)
            last_at = load.now()
            load.took(due[:taken], last_at)
            sent += taken
            if taken < len(records):
                sink.turn(SLICE_SECONDS)  # too many are unconfirmed: wait for the broker
        else:
            wait = next_due - now
            if wait < SLICE_SECONDS / 2 or not load.make_ready():
                sink.turn(min(max(wait, SLICE_SECONDS / 4), SLICE_SECONDS if wait < 0.05 else 0.02))
        if tell is not None and now - reported_at >= _PROGRESS_SECONDS:
            reported_at = now
            tell(Progress(sent, load.total, sink.delivery()))
    return sent, last_at


def _await_confirmations(
    sink: Sink, sent: int, total: int, seconds: float, tell: Callable[[Progress], None] | None
) -> None:
    give_up_at = time.monotonic() + seconds
    reported_at = 0.0
    while True:
        delivery = sink.delivery()
        now = time.monotonic()
        if tell is not None and now - reported_at >= _PROGRESS_SECONDS:
            reported_at = now
            tell(Progress(sent, total, delivery))
        if delivery.confirmed + delivery.failed >= sent or now > give_up_at:
            return
        sink.turn(0.01)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Pause Python's collector, which can stop everything for tens of milliseconds. Records hold no cycles."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
