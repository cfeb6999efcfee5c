# SPDX-License-Identifier: Apache-2.0
"""When record latency stops being exact, why, and when it is exact again."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.records import Observation


@dataclass(frozen=True, slots=True)
class ExactnessChange:
    """From `at` on, the latency of an operator over the window is exact, or (`why` says the reason) is not."""

    operator: str
    at: float
    is_exact: bool
    why: str = ""
    was_known: bool = False
    """Whether there was a latency before."""

    def __str__(self) -> str:
        if self.is_exact:
            return f"{self.operator}: latency is exact again"
        return f"{self.operator}: latency is not exact from here on: {self.why}"


class ExactnessWatch:
    """Takes the observations of one operator in order, and gives the changes.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from penstock.records import ClusterState, LatencySummary, Quality
    >>> known = LatencySummary(9, 1.0, 1.0, 1.0, 1.0, 1.0)
    >>> seen = Observation("logs", 5.0, 15.0, Quality.GOOD, ClusterState(), latency=known)
    >>> watch = ExactnessWatch()
    >>> watch.take(seen)
    >>> guessed = replace(known, is_exact=False, inexact_because="the source did not answer")
    >>> print(watch.take(replace(seen, at=6.0, latency=guessed)))
    logs: latency is not exact from here on: the source did not answer
    >>> print(watch.take(replace(seen, at=20.0)))
    logs: latency is exact again
    """

    def __init__(self) -> None:
        self._is_exact = True
        self._has_latency = False

    def take(self, seen: Observation) -> ExactnessChange | None:
        """The change that an observation shows; None: none. One without a latency shows none."""
        latency = seen.latency
        if latency is None:
            return None
        was_known, self._has_latency = self._has_latency, True
        if latency.is_exact == self._is_exact:
            return None
        self._is_exact = latency.is_exact
        why = "" if latency.is_exact else latency.inexact_because or "arrival times were interpolated"
        return ExactnessChange(seen.operator, seen.at, latency.is_exact, why, was_known)
