# SPDX-License-Identifier: Apache-2.0
"""Forecasts that rules ask for: made at every look, and kept as long as a rule looks back at them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress

from penstock.errors import NotReadyError
from penstock.metrics import metric_named
from penstock.policies.rules.readings import Reading, reach
from penstock.records import Observation, Quality
from penstock.rules.nodes import MetricTrigger
from penstock.workload.forecast import Forecaster


class Forecasts:
    """The forecasts of one operator's metrics.

    Parameters
    ----------
    triggers
        Those that compare a forecast.
    interval_seconds
        How often there is a reading.
    turn
        A number that differs between operators, so that they do not learn all at once.
    """

    def __init__(self, triggers: Iterable[MetricTrigger], interval_seconds: float, turn: int = 0) -> None:
        self._kept: dict[tuple[str, float], float] = {}
        for trigger in triggers:
            if trigger.ahead_seconds is not None:
                key = (trigger.metric, trigger.ahead_seconds)
                self._kept[key] = max(self._kept.get(key, 0.0), reach(trigger.for_seconds, interval_seconds))
        horizons: dict[str, list[float]] = {}
        for metric, ahead in self._kept:
            horizons.setdefault(metric, []).append(ahead)
        # No metric of the catalogue is ever below zero.
        self._models = {
            metric: Forecaster(interval_seconds, of_metric, least=0.0, turn=turn)
            for metric, of_metric in horizons.items()
        }
        self._made: dict[tuple[str, float], deque[Reading]] = {key: deque() for key in self._kept}

    def add(self, seen: Observation) -> None:
        """Learn from a look, and forecast from it."""
        for metric, model in self._models.items():
            value = metric_named(metric).read(seen) if seen.quality is Quality.GOOD else None
            model.update(value if value is not None and math.isfinite(value) else None)
        for (metric, ahead), seconds in self._kept.items():
            made = self._made[metric, ahead]
            with suppress(NotReadyError):  # no forecast is no reading
                made.append((seen.at, self._models[metric].at(ahead).value))
            while made and abs(seen.at - made[0][0]) > seconds:
                made.popleft()

    def newest_first(self, trigger: MetricTrigger) -> Iterator[Reading]:
        """The forecasts that a trigger compares, by the instants at which they were made."""
        assert trigger.ahead_seconds is not None
        return reversed(self._made[trigger.metric, trigger.ahead_seconds])
