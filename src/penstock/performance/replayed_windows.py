# SPDX-License-Identifier: Apache-2.0
"""Predictions by the arrivals themselves: the worst that any of several windows met, without a fitted process."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.errors import ConfigurationError
from penstock.performance.replayed_latency import ReplayedLatency
from penstock.records import Allocation, Prediction
from penstock.topology import Path


@dataclass(frozen=True, eq=False, slots=True)
class ReplayedWindows:
    """The worst over windows of what each would have met; a `ports.PathLatency`.

    Where an operator cannot keep up with a window's rate, the time is infinite, whatever the finite window came to.

    Parameters
    ----------
    windows
        By their labels; at least one.
    """

    windows: Mapping[str, ReplayedLatency]

    def __post_init__(self) -> None:
        if not self.windows:
            raise ConfigurationError("windows: give at least one to replay", field="windows")

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators, each after those it reads from."""
        return next(iter(self.windows.values())).operators

    @property
    def paths(self) -> tuple[Path, ...]:
        """The source-to-sink paths."""
        return next(iter(self.windows.values())).paths

    def rest(self) -> None:
        """Let go of the windows' records until something is asked again."""
        for window in self.windows.values():
            window.rest()

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[Prediction, ...]:
        """Replay every window under these allocations, and give for each path the worst."""
        of_windows = [
            [_met(label, path) for path in window.predict(allocations)] for label, window in self.windows.items()
        ]
        return tuple(
            max(paths, key=lambda one: (one.seconds, max(one.utilisation.values())))
            for paths in zip(*of_windows, strict=True)
        )


def _met(label: str, path: Prediction) -> Prediction:
    if max(path.utilisation.values()) >= 1.0:
        return replace(path, seconds=math.inf, worst=f"{label}, cannot keep up")
    return replace(path, worst=f"{label}, replayed")
