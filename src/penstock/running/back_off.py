# SPDX-License-Identifier: Apache-2.0
"""When an operator that died is started again: soon, then later and later, and not for ever."""

from __future__ import annotations

from collections import deque

from penstock.settings import RestartSettings


class BackOff:
    """Waits that double from restart to restart, and an end to them. Instants are those of a clock that nobody sets.

    Parameters
    ----------
    settings
        How often and how fast.

    Examples
    --------
    >>> back_off = BackOff(RestartSettings(most=3, within=60.0, first_wait=1.0, longest_wait=10.0))
    >>> [back_off.next_start(at) for at in (0.0, 5.0, 10.0, 15.0)]
    [1.0, 7.0, 14.0, None]
    """

    def __init__(self, settings: RestartSettings) -> None:
        self._settings = settings
        self._deaths: deque[float] = deque()

    @property
    def start_seconds(self) -> float:
        """How long a process may take until its query runs."""
        return self._settings.start_within

    def next_start(self, died_at: float) -> float | None:
        """When to start it again; None: it has died too often."""
        while self._deaths and self._deaths[0] <= died_at - self._settings.within:
            self._deaths.popleft()
        if len(self._deaths) >= self._settings.most:
            return None
        wait = min(self._settings.first_wait * 2.0 ** len(self._deaths), self._settings.longest_wait)
        self._deaths.append(died_at)
        return died_at + wait

    def after_failed_start(self, now: float) -> float:
        """When to try again to start what could not be started at all; that is no death of the operator."""
        return now + self._settings.longest_wait
