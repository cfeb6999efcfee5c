# SPDX-License-Identifier: Apache-2.0
"""The readings of one operator that its rules look back at, taken out of the history of its requests.

They are what the request's history holds, no more: each look is read once, and where a request's history does not
go on from the one before, everything is read anew. So the answer depends on the request alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.policies.rules.readings import Series, reading_of
from penstock.records import Observation, PlanRequest


class Past:
    """An operator's readings.

    Parameters
    ----------
    seconds
        By metric, how far back its readings are needed.
    """

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self.series = {metric: Series(back) for metric, back in seconds.items()}
        self._last: Observation | None = None

    def follow(self, request: PlanRequest) -> None:
        """Have the readings of a request's history, and of its observation where that is newer."""
        history = request.history
        if not history:
            self._restart()
            self._add(request.observation)
            return
        new = _after(history, self._last)
        if new is None:
            self._restart()
            new = list(history)
        for seen in new:
            self._add(seen)
        if history[-1].at < request.observation.at:
            self._add(request.observation)
        for series in self.series.values():
            series.forget(history[0].at)

    def _restart(self) -> None:
        for series in self.series.values():
            series.clear()

    def _add(self, seen: Observation) -> None:
        for metric, series in self.series.items():
            series.add(seen.at, reading_of(seen, metric))
        self._last = seen


def _after(history: tuple[Observation, ...], last: Observation | None) -> list[Observation] | None:
    """The looks after the last one that was read, oldest first; None: that one is not among them."""
    new: list[Observation] = []
    for seen in reversed(history):
        if seen is last:
            return new[::-1]
        new.append(seen)
    return None
