# SPDX-License-Identifier: Apache-2.0
"""Predictions by fitted processes, held against a replay of the arrivals that the processes were fitted to.

A fitted process is judged where its window was replayed, at utilisations of a half and more (`workload`). Pipelines
with rare, huge bursts are run far below that, and there a fit may be wrong by any factor: on the block I/O trace of the
experiments, at a utilisation of 0.03, it predicts 16 s where the window itself met 0.3 s. What the window met is the
least to be expected again. What a fit says beyond it is believed up to a factor: that is what fits are for, bursts that
did not happen to come within the window. MEAD plans by this rule, and `penstock what-if` judges by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import ConfigurationError
from penstock.performance.narrowed_latency import NarrowedLatency
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.replayed_latency import ReplayedLatency
from penstock.records import Allocation, Prediction
from penstock.topology import Path

BELIEVED = 2.0
"""How many times what was met a fit is believed to be right about, unless set otherwise."""


def believed_seconds(fitted: float, met: float, believed: float) -> float:
    """A fitted time as it is believed: no less than what was met, and no more than so many times that.

    Examples
    --------
    >>> [believed_seconds(fitted, 2.0, 2.0) for fitted in (0.5, 3.0, 16.0)]
    [2.0, 3.0, 4.0]
    """
    return min(max(fitted, met), believed * met)


@dataclass(frozen=True, eq=False, slots=True)
class CheckedWindow:
    """The fits of one window, and the window itself to hold them against; None where it cannot be replayed.

    `fitted` may be several networks, of some processes each: they are solved in this order, as far as is needed.
    """

    label: str
    fitted: Sequence[PipelineLatency | NarrowedLatency]
    replayed: ReplayedLatency | None


@dataclass(frozen=True, eq=False, slots=True)
class CheckedLatency:
    """The worst over windows of what their fits predict, between what each met and so many times that.

    A `ports.PathLatency`. Where an operator cannot keep up with a window's rate, the time is infinite whatever the
    replay of the finite window came to. Queues are solved only where the replay leaves a bound undecided. Elsewhere
    the time given is the end of the interval that decides. A window whose fits could not make the time any longer than
    another window does is not solved either, nor a process beside one that is beyond belief already.

    Parameters
    ----------
    windows
        At least one.
    believed
        The factor up to which fits are believed, at least 1.
    """

    windows: Sequence[CheckedWindow]
    believed: float = BELIEVED

    def __post_init__(self) -> None:
        if not self.windows or not all(window.fitted for window in self.windows):
            raise ConfigurationError("windows: give at least one, each with a network", field="windows")
        if not self.believed >= 1.0:
            raise ConfigurationError(f"believed: {self.believed!r} must be at least 1", field="believed")

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators, each after those it reads from."""
        return self.windows[0].fitted[0].operators

    @property
    def paths(self) -> tuple[Path, ...]:
        """The source-to-sink paths."""
        return self.windows[0].fitted[0].paths

    def rest(self) -> None:
        """Let go of what takes much memory, the windows' records among it, until something is asked again."""
        for window in self.windows:
            for network in window.fitted:
                network.rest()
            if window.replayed is not None:
                window.replayed.rest()

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[Prediction, ...]:
        """Predict every path, each in its worst case over windows."""
        known: list[list[Prediction]] = [[] for _ in self.paths]
        open_windows: list[tuple[CheckedWindow, list[Prediction], list[int]]] = []
        for window in self.windows:
            if window.replayed is None:
                for place, path in enumerate(_worst(window.fitted, allocations)):
                    known[place].append(path)
                continue
            met = window.replayed.predict(allocations)
            undecided = []
            for place, path in enumerate(met):
                decided = self._decided(window.label, path)
                if decided is None:
                    undecided.append(place)
                else:
                    known[place].append(decided)
            if undecided:
                open_windows.append((window, list(met), undecided))
        # The window that met the longest times first: what it comes to may be more than others can.
        open_windows.sort(key=lambda one: -max(one[1][place].seconds for place in one[2]))
        for window, paths_met, undecided in open_windows:
            needed = [
                place
                for place in undecided
                if not any(path.seconds >= self.believed * paths_met[place].seconds for path in known[place])
            ]
            for place, path in self._solved(window, paths_met, needed, allocations).items():
                known[place].append(path)
        return tuple(max(paths, key=lambda one: (one.seconds, max(one.utilisation.values()))) for paths in known)

    def widen(self, allocations: Mapping[str, Allocation]) -> bool:
        """Look at all processes of the windows whose fits decide here; True: there are worse ones than so far."""
        widened = [self._widened(window, allocations) for window in self.windows]  # all, not up to the first
        return any(widened)

    def _widened(self, window: CheckedWindow, allocations: Mapping[str, Allocation]) -> bool:
        met = () if window.replayed is None else window.replayed.predict(allocations)
        if met and all(self._decided(window.label, path) is not None for path in met):
            return False
        widened = [isinstance(one, NarrowedLatency) and one.widen(allocations) for one in window.fitted]
        return any(widened)

    def _solved(
        self,
        window: CheckedWindow,
        met: Sequence[Prediction],
        needed: Sequence[int],
        allocations: Mapping[str, Allocation],
    ) -> dict[int, Prediction]:
        """What the fits of a window make of some paths: network after network, until no path can become longer."""
        found: dict[int, Prediction] = {}
        for network in window.fitted:
            left = [p for p in needed if p not in found or found[p].seconds < self.believed * met[p].seconds]
            if not left:
                break
            fits = network.predict(allocations)
            for place in left:
                if place not in found or fits[place].seconds > found[place].seconds:
                    found[place] = fits[place]
        return {place: self._between(window.label, fit, met[place]) for place, fit in found.items()}

    def _decided(self, label: str, met: Prediction) -> Prediction | None:
        """What the replay alone says of a path; None: whether the bound is kept depends on the fits.

        The least time is given for a bound that is kept anyway, and the most for a broken one, so that times fall as
        shares rise.
        """
        if max(met.utilisation.values()) >= 1.0:
            return replace(met, seconds=math.inf, worst=f"{label}, cannot keep up")
        if self.believed * met.seconds <= met.bound_seconds:
            return replace(met, worst=f"{label}, replayed")
        if met.seconds > met.bound_seconds:
            return self._most(met, f"{label}, replayed x {self.believed:g}")
        return None

    def _between(self, label: str, fit: Prediction, met: Prediction) -> Prediction:
        seconds = believed_seconds(fit.seconds, met.seconds, self.believed)
        if seconds == met.seconds:
            return replace(met, worst=f"{label}, replayed")
        if seconds == fit.seconds:
            return fit
        most = self._most(met, f"{fit.worst}, believed to {self.believed:g} x")
        return replace(most, unsolved=fit.unsolved)

    def _most(self, met: Prediction, worst: str) -> Prediction:
        parts = {name: self.believed * seconds for name, seconds in met.operator_seconds.items()}
        return replace(met, seconds=self.believed * met.seconds, operator_seconds=parts, worst=worst)


def _worst(
    networks: Sequence[PipelineLatency | NarrowedLatency], allocations: Mapping[str, Allocation]
) -> list[Prediction]:
    of_networks = zip(*(network.predict(allocations) for network in networks), strict=True)
    return [max(paths, key=lambda one: (one.seconds, max(one.utilisation.values()))) for paths in of_networks]
