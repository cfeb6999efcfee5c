# SPDX-License-Identifier: Apache-2.0
"""Predictions of path latencies with an interval around each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.performance.adaptive_interval import Margin
from penstock.ports import NarrowedPathLatency, PathLatency
from penstock.records import Allocation, Prediction
from penstock.topology import Path


@dataclass(frozen=True, eq=False, slots=True)
class MarginedLatency:
    """Predicts as `latency` does, with an interval by the margin of each path; a `ports.NarrowedPathLatency`.

    Examples
    --------
    >>> from penstock.testing.path_latencies import FakePathLatency
    >>> plain = FakePathLatency({("a",): 3.0}, {"a": 0.4})
    >>> latency = MarginedLatency(plain, {("a",): Margin(-0.1, 0.2, floor_seconds=0.15)}, confidence=0.9)
    >>> (predicted,) = latency.predict({"a": Allocation(1, 0.6)})
    >>> print(predicted)
    0.6667 s (0.589 s to 0.8475 s) of 3 s on a
    """

    latency: PathLatency
    margins: Mapping[Path, Margin]
    confidence: float

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators, each after those it reads from."""
        return self.latency.operators

    @property
    def paths(self) -> tuple[Path, ...]:
        """The source-to-sink paths."""
        return self.latency.paths

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[Prediction, ...]:
        """Predict every path, with its interval."""
        return tuple(self._with_interval(predicted) for predicted in self.latency.predict(allocations))

    def widen(self, allocations: Mapping[str, Allocation]) -> bool:
        """Look at all models here; True: predictions may be higher from now on."""
        return isinstance(self.latency, NarrowedPathLatency) and self.latency.widen(allocations)

    def _with_interval(self, predicted: Prediction) -> Prediction:
        low, high = self.margins[predicted.path].around(predicted.seconds)
        return replace(predicted, low_seconds=low, high_seconds=high, confidence=self.confidence)
