# SPDX-License-Identifier: Apache-2.0
"""The best Markovian arrival processes for a window of inter-arrival times.

Moments, autocorrelation, dispersion and bicovariance of the window are matched by Kronecker compositions of MAPs of
two phases (Casale, Zhang and Smirni 2010), and by chains of stages where those fall short. Many processes match them
equally well and yet predict response times that differ severalfold; so the window is also replayed through a queue,
which the fits have to predict, by which they are ranked, and which drops the absurd ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.clock import stopwatch
from penstock.errors import ConfigurationError
from penstock.markov import MAP
from penstock.workload import cycle_search, search, simple_fits
from penstock.workload.candidates import ABSURD, QUEUE_BAR, FittedMap, Found, Recipe, best_distinct, score
from penstock.workload.mixture import mixture_renewal
from penstock.workload.moments import TraceDescription, check_iats, describe_iats
from penstock.workload.replay_queue import ReplayedQueue, replay
from penstock.workload.targets import Targets, targets_of

FloatArray = npt.NDArray[np.float64]

NEEDED = 256
"""Fewest inter-arrival times a process is fitted to."""

_CLOSE_QUEUE = 0.06
"""Error of the best composition's queue up to which chains of stages are not tried."""


_STEPS, _SMALLER_STEPS, _AGAIN_STEPS = 24, 12, 7
"""Iterations of the search of all of a chain's rates: of the largest, of smaller ones, and from an earlier window's."""

_HOPEFUL = 1.5
"""Error of a chain's queue, in units of what is tolerable, up to which its rates are worth searching."""

_GOOD_LOSS = 2.5
"""Loss up to which a fit taken on from the last window is good enough, whatever the last window's was."""

_WORSE = 1.5
"""Factor by which its loss may else be above the last window's."""


@dataclass(frozen=True, eq=False)
class FitResult:
    """A window in numbers and its best processes, best first.

    `kind` is ``poisson``, ``renewal``, ``negative``, ``constant`` or ``correlated``; `notes` say what was left out or
    given up, in words. `seconds` is how long it took, moments and replay included. Handed to the next call as `warm`,
    it saves the search.
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
    max_states: int = 16,
    seed: int = 0,
    budget_seconds: float | None = None,
    warm: FitResult | None = None,
) -> FitResult:
    """Fit Markovian arrival processes to a window of inter-arrival times.

    Parameters
    ----------
    iats
        Times between successive arrivals, in any unit; the processes are in the same.
    best
        How many distinct processes to give; fewer are given when fewer are worth it.
    max_states
        Most phases a process may have.
    seed
        Of the starting points and of the replay's service times. The same seed gives the same result, unless a budget
        cuts the search short.
    budget_seconds
        After this long no further search is begun or continued; what has been found is given.
    warm
        The fit of the window before: its processes are taken on from where they were. If none of them fits any
        longer, the search starts anew.

    Raises
    ------
    NotReadyError
        Too few times, with the number needed.
    ConfigurationError
        A time or an argument is out of range.

    Examples
    --------
    >>> window = MAP.mmpp([[-0.02, 0.02], [0.1, -0.1]], [1.0, 12.0]).sample(20_000, np.random.default_rng(1))
    >>> fit = fit_maps(window, best=1)
    >>> fit.kind, fit.maps[0].meets_bars
    ('correlated', True)
    """
    elapsed = stopwatch()
    _check_arguments(best, max_states, budget_seconds)
    values = check_iats(iats, needed=NEEDED, task="fit a process")
    trace = describe_iats(values)
    rng = np.random.default_rng(seed)
    queue = replay(values, rng)

    def is_late() -> bool:
        return budget_seconds is not None and elapsed() >= budget_seconds

    fitting = _Fitting(values=values, trace=trace, queue=queue, best=best, max_states=max_states, is_late=is_late)
    kind = fitting.simple()
    if kind is None:
        kind = "correlated"
        if warm is not None:
            fitting.again(warm)
        if not fitting.is_good:
            fitting.search(rng)
    if all(candidate.worst_queue_factor > ABSURD for candidate in fitting.candidates):
        fitting.fall_back()
    # A Poisson process has no moments to adjust: what a process with more parameters gains is the sample's chance.
    first = next((c for c in fitting.candidates if c.family == "poisson"), None) if kind == "poisson" else None
    chosen, dropped = best_distinct(fitting.candidates, best, first)
    notes = [*trace.notes, *fitting.notes]
    if dropped:
        notes.append(f"{dropped} candidates dropped: their queue is off by more than a factor of 2")
    if is_late():
        notes.append(f"the budget of {budget_seconds:g} s ended the search")
    return FitResult(trace, tuple(chosen), elapsed(), kind, tuple(notes), queue, max_states, fitting.is_warm)


class _Fitting:
    """One window's candidates, as they are found."""

    def __init__(
        self,
        *,
        values: FloatArray,
        trace: TraceDescription,
        queue: ReplayedQueue,
        best: int,
        max_states: int,
        is_late: Callable[[], bool],
    ) -> None:
        self.values, self.trace, self.queue = values, trace, queue
        self.best, self.max_states, self.is_late = best, max_states, is_late
        self.candidates: list[FittedMap] = []
        self.notes: list[str] = []
        self.is_warm = False
        self._pairs: list[tuple[float, Found]] = []  # compositions of two components, with their losses

    def simple(self) -> str | None:
        """Try the fits that need no search; give the kind of window if one of them will do, else ``None``."""
        trace = self.trace
        if trace.is_constant:
            self._closed(simple_fits.renewal_fits(trace, self.max_states), keep_notes=True)
            return "constant"
        if self.max_states > 1 and simple_fits.is_negative(trace):
            self._closed(simple_fits.negative_fits(trace, self.max_states))
            if not any(candidate.meets_bars for candidate in self.candidates):
                targets = targets_of(trace, self.queue)
                self._add(cycle_search.alternate(targets, self.max_states, self.is_late))
                self._closed(simple_fits.renewal_fits(trace, self.max_states))
            if min((_worst(c) for c in self.candidates), default=np.inf) <= 2.0 * QUEUE_BAR:
                return "negative"
        if self.max_states == 1:
            self._add([(MAP.poisson(1.0), Recipe("poisson"))])
            self.notes.append("a single state is a Poisson process, whatever the window: allow at least 2 for a fit")
            return "correlated" if simple_fits.is_correlated(trace) else "renewal"
        if not simple_fits.is_correlated(trace):
            kind = "poisson" if simple_fits.is_exponential(trace) else "renewal"
            if kind == "poisson":
                self._add([(MAP.poisson(1.0), Recipe("poisson"))])
            self._closed(simple_fits.renewal_fits(trace, self.max_states), keep_notes=kind == "renewal")
            mixture = mixture_renewal(self.values, self.max_states) if kind == "renewal" and trace.scv > 1 else None
            if mixture is not None:
                self._add([(mixture, Recipe("renewal, mixture"))])
            if min((_worst(c) for c in self.candidates), default=np.inf) <= QUEUE_BAR:
                return kind
            self.notes.append("no single lag shows dependence, yet the queue does: fitted as correlated")
        return None

    def again(self, warm: FitResult) -> None:
        """Take the fits of an earlier window on."""
        targets = targets_of(self.trace, self.queue)
        before = min((fitted.loss for fitted in warm.maps), default=np.inf)
        for fitted in warm.maps:
            chain = fitted.recipe.chain
            if fitted.states > self.max_states:
                continue
            if chain is None:
                self._add(search.again(fitted.recipe, targets, self.is_late))
            elif cycle_search.can_have(chain, targets):
                self._freed(fitted, targets, _AGAIN_STEPS)
        if not self._still_good(before) and any(fitted.recipe.chain is not None for fitted in warm.maps):
            self._read_off(targets)
        self.is_warm = warm.max_states == self.max_states and self._still_good(before)
        if not self.is_warm:
            self.notes.append("the last window's processes no longer fit: searched anew")

    def _read_off(self, targets: Targets) -> None:
        """Try the chains whose start is read off the window, which takes a fraction of a search."""
        for place, rivals in enumerate(cycle_search.starts(targets, self.max_states, None)):
            for reached in self._add(cycle_search.cycle(rivals[0], targets, self.is_late)):
                if place < 2:
                    self._freed(reached, targets, _AGAIN_STEPS)

    def _still_good(self, before: float) -> bool:
        return min((c.loss for c in self.candidates), default=np.inf) <= max(_GOOD_LOSS, _WORSE * before)

    @property
    def is_good(self) -> bool:
        """Whether nothing more has to be searched."""
        return self.is_warm and bool(self.candidates)

    def search(self, rng: np.random.Generator) -> None:
        """Search compositions, smallest first, until enough are good; then stages, if the queue needs them."""
        targets = targets_of(self.trace, self.queue)
        hard = False
        shapes = search.shapes_for(targets, self.max_states)
        least = min((shape.base for shape in shapes), default=0)
        for shape in shapes:
            if self.candidates and self.is_late():
                return
            if hard and (shape.base > least or shape.components != 3):
                continue
            most = 4 if shape.order <= 8 and not hard else 2
            found = list(search.compose(shape, targets, rng, self.is_late, most))
            for candidate, pair in zip(self._add(found), found, strict=True):
                if shape.components == 2:
                    self._pairs.append((candidate.loss, pair))
            if self._has_enough():
                return
            # Where two components come nowhere near the queue, more bring it no closer; stages may.
            hard = bool(self._pairs) and not self._is_close()
        if self._pairs and not self._is_close():
            self._search_cycles(targets)

    def _search_cycles(self, targets: Targets) -> None:
        """Search chains of bursts and lulls, the largest first; of rivals, the better goes on and has smaller ones."""
        pair = min(self._pairs, key=lambda pair: pair[0])[1][1]
        family: str | None = None
        for rivals in cycle_search.starts(targets, self.max_states, pair):
            reached: list[FittedMap] = []
            for start in rivals:
                if family in (None, start.family) and not self.is_late():
                    reached += self._add(cycle_search.cycle(start, targets, self.is_late))
            if not reached or any(_is_settled(candidate) for candidate in reached):
                continue
            # Free rates mend moments and autocorrelation, but hardly how regular a chain is, which the queue tells.
            regular = [candidate for candidate in reached if _worst(candidate) <= _HOPEFUL * QUEUE_BAR]
            contenders = regular or [min(reached, key=lambda candidate: candidate.loss)]
            steps = _STEPS if family is None else _SMALLER_STEPS
            freed = [free for one in contenders for free in self._freed(one, targets, steps)]
            family = min((*freed, *reached), key=lambda candidate: candidate.loss).family

    def _freed(self, fitted: FittedMap, targets: Targets, iterations: int) -> list[FittedMap]:
        chain = fitted.recipe.chain
        if chain is None or self.is_late():
            return []
        return self._add(cycle_search.free(chain, targets, self.is_late, iterations, fitted.family))

    def fall_back(self) -> None:
        """Try independent times where nothing that was found predicts the queue even within a factor of 2."""
        found = len(self.candidates)
        self._closed(simple_fits.renewal_fits(self.trace, self.max_states), keep_notes=not found)
        self.notes.append(
            f"no process of up to {self.max_states} states was found whose queue is right within a factor of 2: "
            "do not plan by it; a longer budget, more states or another window may do"
            if found
            else f"no correlated process of up to {self.max_states} states was found: times taken as independent"
        )

    def _is_close(self) -> bool:
        return min((_worst(c) for c in self.candidates), default=np.inf) <= _CLOSE_QUEUE

    def _has_enough(self) -> bool:
        good = [c for c in self.candidates if c.meets_bars]
        return len(good) >= self.best and self._is_close() and len(best_distinct(good, self.best)[0]) >= self.best

    def _add(self, found: Iterable[Found]) -> list[FittedMap]:
        added = [score(process, self.trace, self.queue, recipe) for process, recipe in found]
        self.candidates += added
        return added

    def _closed(self, fits: list[tuple[str, MAP, tuple[str, ...]]], keep_notes: bool = False) -> None:
        for name, process, moved in fits:
            self._add([(process.with_rate(1.0), Recipe(name))])
            if keep_notes:
                self.notes += [note for note in moved if note not in self.notes]


def _is_settled(candidate: FittedMap) -> bool:
    return candidate.meets_bars and _worst(candidate) <= _CLOSE_QUEUE


def _worst(candidate: FittedMap) -> float:
    return max(abs(float(np.log1p(max(error, -0.999)))) for error in candidate.queue_errors.values())


def _check_arguments(best: int, max_states: int, budget_seconds: float | None) -> None:
    if best < 1:
        raise ConfigurationError(f"best: {best} must be at least 1", field="best")
    if max_states < 1:
        raise ConfigurationError(f"max_states: {max_states} must be at least 1", field="max_states")
    if budget_seconds is not None and not budget_seconds > 0:
        raise ConfigurationError(f"budget_seconds: {budget_seconds} must be positive", field="budget_seconds")
