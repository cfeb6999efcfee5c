# SPDX-License-Identifier: Apache-2.0
"""A metric source of this process that also reads metrics which somebody has subscribed to."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace

from penstock.adaptors.agent.meters import Meters, add_own_metrics
from penstock.ports import MetricSource
from penstock.records import Telemetry


class MeteredSource:
    """Adds metrics to the telemetry of a source (a `ports.SubscribableSource`).

    Parameters
    ----------
    source
        Measures the operator.
    meters
        What else can be read; the user's own metrics come to them.
    """

    def __init__(
        self, source: MetricSource, meters: Meters, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._source, self._meters, self._monotonic = source, meters, monotonic
        self._wanted: tuple[str, ...] = ()
        self._every_seconds = 1.0
        self._due = float("-inf")
        self._newest: dict[str, float | None] = {}

    def subscribe(self, metrics: Collection[str], every_seconds: float) -> None:
        """Read these metrics so often from now on."""
        self._wanted, self._every_seconds, self._due, self._newest = tuple(metrics), every_seconds, float("-inf"), {}

    def collect(self) -> Telemetry:
        """Return what is new since the last call, with the newest of these metrics."""
        telemetry = self._source.collect()
        if not self._wanted:
            return telemetry
        now = self._monotonic()
        if now >= self._due:
            add_own_metrics(self._meters)
            self._newest = self._meters.sample(self._wanted)
            self._due = now + self._every_seconds
        return replace(telemetry, metrics=self._newest)
