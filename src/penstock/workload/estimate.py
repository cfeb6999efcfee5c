# SPDX-License-Identifier: Apache-2.0
"""One estimate of the workload from several windows: the whole buffer, its newer half, its newest quarter.

A long window has more data, and a short one is up to date. Both are fitted, and a predictor may take the worst case
(MEAD, Sec. IV-C). A window whose older part differs from its newer by more than chance is marked: its fit mixes two
workloads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.clock import stopwatch
from penstock.errors import ConfigurationError, NotReadyError
from penstock.workload.candidates import FittedMap
from penstock.workload.change import WorkloadChange, detect_change
from penstock.workload.fit_map import NEEDED, FitResult, fit_maps
from penstock.workload.moments import check_iats, describe_iats

FloatArray = npt.NDArray[np.float64]

SHARES = (1.0, 0.5, 0.25)
"""Default windows: the newest parts of the buffer."""

LEAST_COMPARED = 128
"""Fewest inter-arrival times in a part that is compared with the rest."""


@dataclass(frozen=True, eq=False)
class WindowFit:
    """The fit of one window: the newest `n` inter-arrival times.

    `change` compares the window's newer part with its older one. ``None`` if they are too short.
    """

    n: int
    fit: FitResult
    change: WorkloadChange | None

    @property
    def is_steady(self) -> bool:
        """Whether the window's parts are alike, as far as is known."""
        return self.change is None or not self.change.is_changed


@dataclass(frozen=True, eq=False)
class FittedWorkload:
    """The workload as several windows see it, the longest first.

    `rate` is that of the longest steady window. If none is steady, it is that of the shortest, which is then the least
    wrong. `skipped` lists the windows that were too short to fit.
    """

    windows: tuple[WindowFit, ...]
    seconds: float
    skipped: tuple[str, ...] = ()

    @property
    def current(self) -> WindowFit:
        """The longest steady window, or the shortest."""
        return next((window for window in self.windows if window.is_steady), self.windows[-1])

    @property
    def rate(self) -> float:
        """Arrivals per unit of time now."""
        return self.current.fit.trace.rate

    @property
    def maps(self) -> tuple[FittedMap, ...]:
        """All processes of all windows, for predicting the worst case."""
        return tuple(fitted for window in self.windows for fitted in window.fit.maps)

    @property
    def is_changing(self) -> bool:
        """Whether the longest window mixes an older workload with a newer one."""
        return not self.windows[0].is_steady


def estimate_workload(
    iats: npt.ArrayLike,
    *,
    shares: Sequence[float] = SHARES,
    best: int = 5,
    max_states: int = 16,
    seed: int = 0,
    budget_seconds: float | None = None,
    warm: FittedWorkload | None = None,
) -> FittedWorkload:
    """Fit several windows of the same buffer.

    Parameters
    ----------
    iats
        The buffer, oldest first.
    shares
        Each window is this newest part of the buffer.
    budget_seconds
        Budget for all windows together. Each gets an equal part of what is left.
    warm
        The previous estimate. Each window continues from the window in the same place.

    Raises
    ------
    NotReadyError
        Not even the whole buffer is long enough.

    Examples
    --------
    >>> estimate = estimate_workload(np.random.default_rng(1).exponential(0.1, 8000), best=1)
    >>> [window.n for window in estimate.windows], estimate.windows[0].fit.kind
    ([8000, 4000, 2000], 'poisson')
    """
    elapsed = stopwatch()
    if not shares or any(not 0 < share <= 1 for share in shares):
        raise ConfigurationError("shares: each window is a part of the buffer, above 0 and at most 1", field="shares")
    values = check_iats(iats)
    sizes = sorted({int(values.size * share) for share in shares}, reverse=True)
    fitting = [size for size in sizes if size >= NEEDED]
    if not fitting:
        raise NotReadyError(
            f"{values.size} inter-arrival times are too few for a window; {NEEDED} are needed",
            needed=NEEDED,
            available=int(values.size),
        )
    windows: list[WindowFit] = []
    for place, size in enumerate(fitting):
        window = values[values.size - size :]
        left = None
        if budget_seconds is not None:
            left = max((budget_seconds - elapsed()) / (len(fitting) - place), 1e-3)
        before = warm.windows[place].fit if warm is not None and place < len(warm.windows) else None
        fit = fit_maps(window, best=best, max_states=max_states, seed=seed, budget_seconds=left, warm=before)
        windows.append(WindowFit(size, fit, change_within(window)))
    skipped = tuple(f"a window of {size} is too short; {NEEDED} are needed" for size in sizes if size < NEEDED)
    return FittedWorkload(tuple(windows), elapsed(), skipped)


def change_within(window: FloatArray) -> WorkloadChange | None:
    """Compare the newest quarter, half and three quarters of a window with the rest. Return the clearest difference.

    ``None`` if the parts are too short, or all zero.
    """
    found: list[WorkloadChange] = []
    for share in (0.25, 0.5, 0.75):
        cut = window.size - int(window.size * share)
        older, newer = window[:cut], window[cut:]
        if min(older.size, newer.size) >= LEAST_COMPARED and older.any() and newer.any():
            found.append(detect_change(describe_iats(older, max_lag=10), describe_iats(newer, max_lag=10)))
    return max(found, key=lambda change: max(abs(d.z) for d in change.differences), default=None)
