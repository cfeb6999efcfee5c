# SPDX-License-Identifier: Apache-2.0
"""Forecasts that rules ask for: made at every look, and kept as long as a rule looks back at them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from penstock.errors import NotReadyError
from penstock.policies.rules.readings import Series, reach, reading_of
from penstock.records import Observation
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
        kept: dict[tuple[str, float], float] = {}
        for trigger in triggers:
            if trigger.ahead_seconds is not None:
                key = (trigger.metric, trigger.ahead_seconds)
                kept[key] = max(kept.get(key, 0.0), reach(trigger.for_seconds, interval_seconds))
        horizons: dict[str, list[float]] = {}
        for metric, ahead in kept:
            horizons.setdefault(metric, []).append(ahead)
        # No metric of the catalogue is ever below zero.
        self._models = {
            metric: Forecaster(interval_seconds, of_metric, least=0.0, turn=turn)
            for metric, of_metric in horizons.items()
        }
        self._made = {key: Series(seconds) for key, seconds in kept.items()}

    def add(self, seen: Observation) -> None:
        """Learn from a look, and forecast from it."""
        for metric, model in self._models.items():
            value = reading_of(seen, metric)
            model.update(value if value is not None and math.isfinite(value) else None)
        for (metric, ahead), made in self._made.items():
            try:
                made.add(seen.at, self._models[metric].at(ahead).value)
            except NotReadyError:
                made.add(seen.at, None)  # no forecast is no reading

    def series(self, trigger: MetricTrigger) -> Series:
        """The forecasts that a trigger compares, by the instants at which they were made."""
        assert trigger.ahead_seconds is not None
        return self._made[trigger.metric, trigger.ahead_seconds]
