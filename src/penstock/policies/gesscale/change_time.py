# SPDX-License-Identifier: Apache-2.0
"""How long a change of executors takes until it is in force, learnt from the run's own changes."""

from __future__ import annotations

from penstock.records import ClusterState

FIRST_SECONDS = 15.0
"""Until one was measured: an executor of Spark was seen to come within 5 to 20 s."""
_LONGEST_SECONDS = 600.0
_NEWEST = 0.5
"""How much the newest measurement counts against all before it."""


class ChangeTime:
    """Takes every look at one operator, and measures from asking until what was asked for is there."""

    def __init__(self) -> None:
        self.seconds = FIRST_SECONDS
        self.measured = 0
        """How many changes were seen to their end."""
        self._asked_at: float | None = None
        self._asked: object = None

    def watch(self, at: float, cluster: ClusterState) -> None:
        """Take in one look."""
        asked, there = cluster.requested, cluster.observed
        if asked is None or there is None:
            return
        if asked != self._asked:
            self._asked, self._asked_at = asked, None if there.satisfies(asked) else at
        elif self._asked_at is not None and there.satisfies(asked):
            took = min(_LONGEST_SECONDS, at - self._asked_at)
            self._asked_at = None
            self.seconds = took if not self.measured else _NEWEST * took + (1.0 - _NEWEST) * self.seconds
            self.measured += 1
