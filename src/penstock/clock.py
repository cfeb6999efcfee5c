# SPDX-License-Identifier: Apache-2.0
"""Time as an argument: the wall clock for the real world, a virtual one for tests and simulation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """What the loop needs of time. Instants are seconds since the epoch."""

    def now(self) -> float:
        """Return the present instant, in seconds since the epoch."""
        ...

    def wait(self, seconds: float, until: threading.Event) -> bool:
        """Let `seconds` pass, or return at once with True when `until` is set."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now(self) -> float:
        """Return the present instant, in seconds since the epoch."""
        return time.time()

    def wait(self, seconds: float, until: threading.Event) -> bool:
        """Sleep, or return at once with True when `until` is set."""
        return until.wait(max(0.0, seconds))


class VirtualClock:
    """A clock that stands still until it is moved. Waiting moves it; nothing sleeps."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        """Return the virtual present."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the present forward."""
        if seconds < 0:
            raise ValueError(f"time does not run backwards: advance({seconds})")
        self._now += seconds

    def wait(self, seconds: float, until: threading.Event) -> bool:
        """Move the present forward by `seconds` without sleeping."""
        if not until.is_set():
            self.advance(max(0.0, seconds))
        return until.is_set()


def stopwatch() -> Callable[[], float]:
    """Start a stopwatch. Calling it returns the seconds since, unaffected by changes of the wall clock."""
    began = time.perf_counter()
    return lambda: time.perf_counter() - began
