# SPDX-License-Identifier: Apache-2.0
"""Time as an argument: the wall clock for the real world, a virtual one for tests and simulation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

_SOON_SECONDS = 60.0
"""Records are about an interval apart, also around a pass or two that failed."""


class Clock(Protocol):
    """What the loop needs of time: the wall clock for what is recorded, and one that nobody sets for what is due."""

    def now(self) -> float:
        """Return the present instant, in seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some instant. They never go back, and do not jump when the wall clock is set."""
        ...

    def wait(self, seconds: float, until: threading.Event) -> bool:
        """Let `seconds` pass, or return at once with True when `until` is set."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        """Return the present instant, in seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds since some instant, whoever sets the wall clock."""
        return time.monotonic()

    def wait(self, seconds: float, until: threading.Event) -> bool:
        """Sleep, or return at once with True when `until` is set."""
        return until.wait(max(0.0, seconds))


class VirtualClock:
    """A clock that stands still until it is moved. Waiting moves it; nothing sleeps."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = self._monotonic = start

    def now(self) -> float:
        """Return the virtual present."""
        return self._now

    def monotonic(self) -> float:
        """Return how far the clock was moved, without what it was set by."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move the present forward."""
        if seconds < 0:
            raise ValueError(f"time does not run backwards: advance({seconds})")
        self._now += seconds
        self._monotonic += seconds

    def set_by(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or a time server does; no time passes."""
        self._now += seconds

    def wait(self, seconds: float, until: threading.Event) -> bool:
        """Move the present forward by `seconds` without sleeping."""
        if not until.is_set():
            self.advance(max(0.0, seconds))
        return until.is_set()


class ClockSteps:
    """Notices when the wall clock is set while time goes on.

    Parameters
    ----------
    least_seconds
        Smaller differences are a clock that is slewed, or two readings that are not of one instant.

    Examples
    --------
    >>> steps = ClockSteps()
    >>> steps.take(1000.0, 5.0), steps.take(1001.0, 6.0), steps.take(-2598.0, 7.0)
    (0.0, 0.0, -3600.0)
    """

    def __init__(self, least_seconds: float = 2.0) -> None:
        self._least = least_seconds
        self._offset: float | None = None

    def take(self, now: float, monotonic: float) -> float:
        """Return by how much the wall clock was set since the last call; 0.0: it was not."""
        offset = now - monotonic
        step = 0.0 if self._offset is None else offset - self._offset
        if abs(step) < self._least and self._offset is not None:
            return 0.0
        self._offset = offset
        return step


class PassedTime:
    """How long it took from one record to the next, where only the wall clock's instants were kept.

    A clock that was set back, and later forward again by as much, took no time. A step forward alone looks as if
    nobody had made records meanwhile, and counts.

    Examples
    --------
    >>> passed = PassedTime()
    >>> [passed.take(at) for at in (5000.0, 5001.0, 1402.0, 1403.0, 5004.0)]
    [0.0, 1.0, 0.0, 1.0, 2.0]
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self._set_back = 0.0
        """What the clock was set back by and not yet forward again."""

    def take(self, at: float) -> float:
        """Return the seconds from the record before to this one; 0.0 for the first."""
        passed = 0.0 if self._last is None else at - self._last
        self._last = at
        if passed < 0.0:
            self._set_back -= passed
            return 0.0
        if 0.0 < self._set_back <= passed <= self._set_back + _SOON_SECONDS:
            passed, self._set_back = passed - self._set_back, 0.0
        return passed


def stopwatch() -> Callable[[], float]:
    """Start a stopwatch. Calling it returns the seconds since, unaffected by changes of the wall clock."""
    began = time.perf_counter()
    return lambda: time.perf_counter() - began
