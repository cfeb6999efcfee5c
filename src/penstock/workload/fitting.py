# SPDX-License-Identifier: Apache-2.0
"""The course of one fit: what to try on a window, in which order, and when to stop.

First the simple kinds, then the result for an earlier window, then compositions of growing size, and chains of bursts
and lulls if none of those comes close to the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from penstock.markov import MAP
from penstock.workload import cycle_search, search, simple_fits
from penstock.workload.candidates import QUEUE_BAR, FittedMap, Found, Recipe, best_distinct, score
from penstock.workload.exponential_mixture import mixture_renewal
from penstock.workload.least_squares import DAMPING
from penstock.workload.moments import TraceDescription
from penstock.workload.replay_queue import ReplayedQueue
from penstock.workload.targets import Targets, targets_of

FloatArray = npt.NDArray[np.float64]

_CLOSE_QUEUE = 0.06
"""If the best composition's queue error is at most this, chains of bursts and lulls are not tried."""


_STEPS, _SMALLER_STEPS, _READ_STEPS, _AGAIN_STEPS = 24, 12, 7, 4
"""Iterations of the search of all of a chain's rates: largest, smaller, read off the window, of an earlier window."""

_AGAIN_DAMPING = 4.0
"""Damping of the first step from an earlier window's chain: the way is short, and longer steps were all refused."""

_SEARCHABLE_QUEUE_ERROR = 1.5
"""If a chain's queue error, in units of its tolerance, is at most this, its rates are worth searching."""

_GOOD_LOSS = 2.5
"""A fit continued from the last window is good enough up to this loss, whatever the last window's loss."""

_LOSS_GROWTH_ALLOWED = 1.5
"""Otherwise, its loss may be above the last window's by this factor."""


class Fitting:
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
        """Try the fits that need no search. Return the kind of window if one of them is good enough, else ``None``."""
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
            self.notes.append("no single lag shows dependence, but the queue does: fitted as correlated")
        return None

    def again(self, known: Sequence[FittedMap], is_same_kind: bool) -> None:
        """Continue from the fits of an earlier window. `is_same_kind`: they could have as many states."""
        targets = targets_of(self.trace, self.queue)
        before = min((fitted.loss for fitted in known), default=np.inf)
        for fitted in known:
            chain = fitted.recipe.chain
            if fitted.states > self.max_states:
                continue
            if chain is None:
                self._add(search.again(fitted.recipe, targets, self.is_late))
            elif cycle_search.can_have(chain, targets):
                self._freed(fitted, targets, _AGAIN_STEPS, _AGAIN_DAMPING)
        if not self._still_good(before) and any(fitted.recipe.chain is not None for fitted in known):
            self._read_off(targets)
        self.is_warm = is_same_kind and self._still_good(before)
        if not self.is_warm:
            self.notes.append("the last window's processes no longer fit: searched anew")

    def _read_off(self, targets: Targets) -> None:
        """Try the chains whose start is read off the window, which takes a fraction of a search."""
        for place, rivals in enumerate(cycle_search.starts(targets, self.max_states, None)):
            for reached in self._add(cycle_search.cycle(rivals[0], targets, self.is_late)):
                if place < 2:
                    self._freed(reached, targets, _READ_STEPS)

    def _still_good(self, before: float) -> bool:
        return min((c.loss for c in self.candidates), default=np.inf) <= max(_GOOD_LOSS, _LOSS_GROWTH_ALLOWED * before)

    @property
    def is_good(self) -> bool:
        """Whether nothing more needs to be searched."""
        return self.is_warm and bool(self.candidates)

    def search(self, rng: np.random.Generator) -> None:
        """Search compositions, smallest first, until enough are good. Then search chains, if the queue needs them."""
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
            # If two components come nowhere near the queue, more bring it no closer. Chains may.
            hard = bool(self._pairs) and not self._is_close()
        if self._pairs and not self._is_close():
            self._search_cycles(targets)

    def _search_cycles(self, targets: Targets) -> None:
        """Search chains of bursts and lulls, the largest first. Of rivals, the better goes on, with smaller ones."""
        pair = min(self._pairs, key=lambda pair: pair[0])[1][1]
        family: str | None = None
        for rivals in cycle_search.starts(targets, self.max_states, pair):
            reached: list[FittedMap] = []
            for start in rivals:
                if family in (None, start.family) and not self.is_late():
                    reached += self._add(cycle_search.cycle(start, targets, self.is_late))
            if not reached or any(_is_settled(candidate) for candidate in reached):
                continue
            # Free rates improve moments and autocorrelation, but hardly a chain's regularity, which the queue shows.
            regular = [candidate for candidate in reached if _worst(candidate) <= _SEARCHABLE_QUEUE_ERROR * QUEUE_BAR]
            contenders = regular or [min(reached, key=lambda candidate: candidate.loss)]
            steps = _STEPS if family is None else _SMALLER_STEPS
            freed = [free for one in contenders for free in self._freed(one, targets, steps)]
            family = min((*freed, *reached), key=lambda candidate: candidate.loss).family

    def _freed(self, fitted: FittedMap, targets: Targets, iterations: int, damping: float = DAMPING) -> list[FittedMap]:
        chain = fitted.recipe.chain
        if chain is None or self.is_late():
            return []
        return self._add(cycle_search.free(chain, targets, self.is_late, iterations, fitted.family, damping=damping))

    def fall_back(self) -> None:
        """Try independent times if nothing found so far predicts the queue within a factor of 2."""
        found = len(self.candidates)
        self._closed(simple_fits.renewal_fits(self.trace, self.max_states), keep_notes=not found)
        self.notes.append(
            f"no process of up to {self.max_states} states was found whose queue is right within a factor of 2: "
            "do not plan with it; a longer budget, more states or another window may help"
            if found
            else f"no correlated process of up to {self.max_states} states was found: times treated as independent"
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
