# SPDX-License-Identifier: Apache-2.0
"""Back pressure at an operator's input, from 0 to 1, out of what waits, how that grows, and how busy the operator is.

Flink measures how long an operator is blocked by the one behind it. Between operators that a broker joins nothing is
blocked: what one cannot take waits in the broker, so pressure shows at the input. With Q records that wait or are in
work, growing by G a second, and P done a second, a record that comes a horizon H from now will wait for about

    D = max(0, Q + G H) / P

seconds if all goes on as it does. H is a minute for a backlog that grows, and thirty for one that shrinks: an
operator that works its backlog off does more than arrives, and needs time, not executors. With b the part of the time
in which a batch ran, and W the time that is waited without harm (a window, or two batches where those are longer),

    pressure = b D / (D + W),

so that it is above one half where an operator that is busy all the time lets records wait for longer than W, now or
before long, and falls again as soon as the backlog is on its way to be gone. An operator that stands still (a restart)
has no batches, and so no pressure: more executors would not help it.

docs/background/back-pressure.md has the reasoning, and what holds for capped and real-time queries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from penstock.records import BatchProgress

HORIZON_SECONDS = 60.0
"""H of a backlog that grows: the period at which Gesscale looks (Section IV-B)."""
PATIENCE_SECONDS = 1800.0
"""H of one that shrinks: what will be gone by then presses nobody."""


class PressureGauge:
    """Remembers the backlog over the last while, and gives the pressure.

    Parameters
    ----------
    window_seconds
        What growth is taken over, and the least wait that counts.
    """

    def __init__(self, window_seconds: float) -> None:
        self._window_seconds = window_seconds
        self._backlogs: deque[tuple[float, float]] = deque()

    def add(self, at: float, backlog: float | None) -> None:
        """Take what waits or is in work; None: it is not known."""
        if backlog is not None:
            self._backlogs.append((at, backlog))
        while len(self._backlogs) > 2 and self._backlogs[1][0] <= at - self._window_seconds:
            self._backlogs.popleft()

    def clear(self) -> None:
        """Forget: the clock was set."""
        self._backlogs.clear()

    def growth(self) -> float | None:
        """Records by which the backlog grows a second (below 0: it shrinks); None: not known yet."""
        if len(self._backlogs) < 2:
            return None
        (since, before), (at, now) = self._backlogs[0], self._backlogs[-1]
        return (now - before) / (at - since) if at - since >= 0.5 * self._window_seconds else None

    def pressure(self, busy: float | None, processed: float | None, batch_seconds: float | None) -> float | None:
        """Pressure at the input; None where a part of it is not known."""
        growth = self.growth()
        if busy is None or growth is None:
            return None
        if busy == 0.0:
            return 0.0
        if processed is None:
            return None
        harmless = max(self._window_seconds, 2.0 * (batch_seconds or 0.0))
        return pressure_by(self._backlogs[-1][1], growth, processed, busy, harmless)


def pressure_by(backlog: float, growth: float, processed: float, busy: float, harmless_seconds: float) -> float:
    """Pressure by what waits or is in work, by how much that grows a second, and by what is done a second."""
    horizon = HORIZON_SECONDS if growth >= 0.0 else PATIENCE_SECONDS
    waits = max(0.0, backlog + growth * horizon)
    if processed <= 0.0:
        return busy if waits > 0.0 else 0.0
    return pressure_of(waits / processed, busy, harmless_seconds)


def pressure_of(wait_seconds: float, busy: float, harmless_seconds: float) -> float:
    """The module's formula.

    Examples
    --------
    >>> pressure_of(wait_seconds=15.0, busy=1.0, harmless_seconds=15.0)
    0.5
    """
    return busy * wait_seconds / (wait_seconds + harmless_seconds)


def busy_fraction(batches: Iterable[BatchProgress], since: float, until: float) -> float | None:
    """Part of a time in which batches ran; None where the time is empty.

    Batches are known when they end. What runs at `until` is not, so the time ends with the last batch that is.
    """
    found = list(batches)
    end = max((batch.ended_at for batch in found), default=until)
    if end <= since:
        return None
    ran = sum(max(0.0, batch.ended_at - max(since, batch.started_at)) for batch in found)
    return min(1.0, ran / (end - since))
