# SPDX-License-Identifier: Apache-2.0
"""Finds the best Markovian arrival processes for a window of inter-arrival times.

Many processes match a window's moments and autocorrelation equally well and yet predict response times that differ
severalfold. So the window is replayed through a queue along the whole load, and fits are searched and ranked by how
well their own queue follows it, the simplest of the good ones first (method ``auto``). Plain Kronecker compositions
that match descriptors alone (Casale, Zhang and Smirni 2010) are there to compare with (method ``kpc``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from penstock.clock import stopwatch
from penstock.errors import ConfigurationError
from penstock.workload.candidates import ABSURD, FittedMap, best_distinct
from penstock.workload.fitting import Fitting
from penstock.workload.moments import TraceDescription, check_iats, describe_iats
from penstock.workload.replay_queue import ReplayedQueue, replay

FloatArray = npt.NDArray[np.float64]
Method = Literal["auto", "kpc"]

METHODS: tuple[Method, ...] = ("auto", "kpc")

NEEDED = 256
"""Fewest inter-arrival times for a fit."""


@dataclass(frozen=True, eq=False)
class FitResult:
    """The statistics of a window and its best processes, best first.

    `kind` is ``poisson``, ``renewal``, ``negative``, ``constant`` or ``correlated``; `notes` say what was left out or
    given up. `seconds` is how long it took, including moments and replay. Passed to the next call as `warm`, it saves
    the search.
    """

    trace: TraceDescription
    maps: tuple[FittedMap, ...]
    seconds: float
    kind: str
    notes: tuple[str, ...]
    queue: ReplayedQueue
    max_states: int
    is_warm: bool = False


def fit_maps(
    iats: npt.ArrayLike,
    *,
    best: int = 5,
    max_states: int = 96,
    seed: int = 0,
    budget_seconds: float | None = None,
    warm: FitResult | None = None,
    method: Method = "auto",
) -> FitResult:
    """Fit Markovian arrival processes to a window of inter-arrival times.

    Parameters
    ----------
    iats
        Times between successive arrivals, in any unit. The processes have the same unit.
    best
        How many distinct processes to return. There may be fewer.
    max_states
        Most phases a process may have.
    seed
        Seeds the starting points and the replay's service times. The same seed gives the same result, unless a budget
        ends the search early.
    budget_seconds
        After this time, no search starts or continues, and the best so far is returned.
    warm
        The fit of the previous window. The search continues from its processes, and starts anew if none of them fits
        any longer.
    method
        ``auto``, or ``kpc`` for compositions fitted to moments, autocorrelation and bicovariances alone.

    Raises
    ------
    NotReadyError
        Too few times, with the number needed.
    ConfigurationError
        A time or an argument is out of range.

    Examples
    --------
    >>> from penstock.markov import MAP
    >>> window = MAP.mmpp([[-0.1, 0.1], [0.3, -0.3]], [1.0, 8.0]).sample(20_000, np.random.default_rng(1))
    >>> fit = fit_maps(window, best=1)
    >>> fit.kind, fit.maps[0].meets_bars
    ('correlated', True)
    """
    elapsed = stopwatch()
    _check_arguments(best, max_states, budget_seconds, method)
    values = check_iats(iats, needed=NEEDED, task="fit a process")
    trace = describe_iats(values)
    rng = np.random.default_rng(seed)
    queue = replay(values, rng)

    def is_late() -> bool:
        return budget_seconds is not None and elapsed() >= budget_seconds

    fitting = Fitting(values=values, trace=trace, queue=queue, best=best, max_states=max_states, is_late=is_late)
    kind = fitting.simple()
    if kind is None:
        kind = "correlated"
        if method == "kpc":
            fitting.compose(rng)
        else:
            if warm is not None:
                fitting.again(warm.maps, warm.max_states == max_states)
            if not fitting.is_good:
                fitting.search(rng)
    if method == "auto" and all(candidate.worst_queue_factor > ABSURD for candidate in fitting.candidates):
        fitting.fall_back()
    # A Poisson process has no moments to adjust: what a process with more parameters gains is chance.
    first = next((c for c in fitting.candidates if c.family == "poisson"), None) if kind == "poisson" else None
    chosen, dropped = best_distinct(fitting.candidates, best, first)
    notes = [*trace.notes, *fitting.notes]
    if dropped:
        notes.append(f"{dropped} candidates dropped: their queue is wrong by more than a factor of 2")
    if is_late():
        notes.append(f"the budget of {budget_seconds:g} s ended the search")
    return FitResult(trace, tuple(chosen), elapsed(), kind, tuple(notes), queue, max_states, fitting.is_warm)


def _check_arguments(best: int, max_states: int, budget_seconds: float | None, method: str) -> None:
    if method not in METHODS:
        raise ConfigurationError(f"method: {method!r} is unknown; use one of {', '.join(METHODS)}", field="method")
    if best < 1:
        raise ConfigurationError(f"best: {best} must be at least 1", field="best")
    if max_states < 1:
        raise ConfigurationError(f"max_states: {max_states} must be at least 1", field="max_states")
    if budget_seconds is not None and not budget_seconds > 0:
        raise ConfigurationError(f"budget_seconds: {budget_seconds} must be positive", field="budget_seconds")
