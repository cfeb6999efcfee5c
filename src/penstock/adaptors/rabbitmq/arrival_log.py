# SPDX-License-Identifier: Apache-2.0
"""What a tap has seen, kept so that it can be asked by time: when records arrived, before any batch carried them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from penstock.adaptors.rabbitmq.queue_tap import TapRun
from penstock.errors import AdaptorError
from penstock.ports import FloatArray

KEPT = 1_000_000
"""The newest arrivals are kept, so many."""
_WAIT_SECONDS = 1.5
"""Longer than the tap pauses where more arrives than it reads."""
_Span = tuple[float, float]


class Tap(Protocol):
    """What the log asks of a tap (`QueueTap`)."""

    is_watching: bool
    lost: AdaptorError | None

    def start(self) -> None:
        """Begin to watch."""
        ...

    def take(self) -> list[TapRun]:
        """Return what arrived since the last call; AdaptorError: it has ended for good."""
        ...

    def stop(self) -> None:
        """End."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class LoggedArrivals:
    """Arrival times in order; `is_exact`: none was put between others because the tap had missed it."""

    times: FloatArray
    is_exact: bool


class ArrivalLog:
    """The newest arrivals by a tap. Times never fall, and an answer does not change afterwards.

    Messages that the tap missed are put evenly between those that it saw, where their producer's numbers say how many
    they were. A message that comes later than it was asked for counts from then on. Both make an answer inexact.

    Parameters
    ----------
    make_tap
        Gives a tap that is not started yet.
    clock
        Gives the present instant.
    """

    def __init__(self, make_tap: Callable[[], Tap], clock: Callable[[], float] = time.time) -> None:
        self._make_tap, self._clock = make_tap, clock
        self._guard = threading.Lock()
        self._tap: Tap | None = None
        self._times: FloatArray = np.empty(0)
        self._known_from = float("inf")
        self._asked_to = float("-inf")
        self._unknown: list[_Span] = []
        self._inexact: list[_Span] = []
        self._is_torn = False
        self.fault: AdaptorError | None = None
        """Why the tap has ended for good; `start` begins with another."""

    def start(self) -> None:
        """Watch, or watch again with another tap. AdaptorError if that fails."""
        tap = self._make_tap()
        tap.start()
        with self._guard:
            self._is_torn = self._tap is not None
            self._known_from = min(self._known_from, self._clock())
            self._tap, self.fault = tap, None

    def close(self) -> None:
        """Stop watching. May be called twice."""
        if self._tap is not None:
            self._tap.stop()

    def between(self, start: float, end: float) -> LoggedArrivals | None:
        """Return what arrived after `start` and up to `end`, or None if some of it is not known.

        What came before the log began is no part of it.
        """
        self._await_watching()
        with self._guard:
            self._drain()
            self._asked_to = max(self._asked_to, end)
            if not self._is_watching or _touches(self._unknown, start, end):
                return None
            first, last = np.searchsorted(self._times, [start, end], side="right")
            return LoggedArrivals(self._times[first:last].copy(), not _touches(self._inexact, start, end))

    def count_after(self, at: float) -> int | None:
        """Return how many arrived after `at`, or None if that is not known (any more)."""
        with self._guard:
            self._drain()
            if at < self._known_from or not self._is_watching or _touches(self._unknown, at, float("inf")):
                return None
            return len(self._times) - int(np.searchsorted(self._times, at, side="right"))

    @property
    def lost(self) -> AdaptorError | None:
        """Why nothing is seen now, though the tap goes on as soon as it can; None: all is well."""
        return None if self._tap is None or self.fault is not None else self._tap.lost

    @property
    def _is_watching(self) -> bool:
        return self._tap is not None and self.fault is None and self._tap.is_watching

    def _await_watching(self) -> None:
        give_up_at = time.monotonic() + _WAIT_SECONDS
        while not self._is_watching and self.fault is None and time.monotonic() < give_up_at:
            time.sleep(0.02)

    def _drain(self) -> None:
        if self._tap is None or self.fault is not None:
            return
        try:
            for run in self._tap.take():
                self._add(run)
        except AdaptorError as fault:
            self.fault = fault

    def _add(self, run: TapRun) -> None:
        times = np.maximum.accumulate(run.times)
        last = float(self._times[-1]) if len(self._times) else self._known_from
        if self._is_torn or (run.follows_break and run.missed is None):
            self._unknown.append((last, float(times[0])))
        elif run.missed:
            times = np.concatenate([np.linspace(last, max(last, times[0]), run.missed + 2)[1:-1], times])
            self._inexact.append((last, float(times[run.missed])))
        self._is_torn = False
        if times[0] <= self._asked_to:
            following = float(np.nextafter(self._asked_to, np.inf))
            self._inexact.append((self._asked_to, following))
            times = np.maximum(times, following)
        self._times = np.concatenate([self._times, np.maximum(times, last) if len(self._times) else times])
        if len(self._times) > KEPT:
            self._times = self._times[-KEPT:].copy()
            self._known_from = float(self._times[0])
            self._unknown = [span for span in self._unknown if span[1] >= self._known_from]
            self._inexact = [span for span in self._inexact if span[1] >= self._known_from]


def _touches(spans: list[_Span], start: float, end: float) -> bool:
    return any(low < end and high > start for low, high in spans)
