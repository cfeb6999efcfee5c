# SPDX-License-Identifier: Apache-2.0
"""The course of one fit: what to try on a window, in which order, and when to stop.

First the simple kinds, then the result for an earlier window, then chains of bursts of growing size, until the queue is
right along the whole load. If none is, the window's own course is repeated as a cycle: at once, if a few pieces of
constant rate tell all of the window. A window with a period is first taken for a cycle of one turn. Compositions are
tried if gaps are regular and nothing else is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.markov import MAP
from penstock.workload import alternating, burst_search, cycle_search, kpc, modulated_search, simple_fits
from penstock.workload.burst_chain import Bursts
from penstock.workload.burst_search import Aim
from penstock.workload.candidates import SAFE, SMALL, FittedMap, Found, Recipe, best_distinct, score
from penstock.workload.course import Course, course_of
from penstock.workload.exponential_mixture import mixture_renewal
from penstock.workload.moments import TraceDescription
from penstock.workload.replay_queue import ReplayedQueue
from penstock.workload.targets import targets_of
from penstock.workload.turns import Turns
from penstock.workload.window_features import WindowFeatures

FloatArray = npt.NDArray[np.float64]

_GOOD = 0.4
"""A worst error of at most this part of its bar ends the search."""

_NEGATIVE = 2.0
"""Up to this worst error a window in which short times follow long ones needs no processes of other kinds."""

_MOST_KINDS = 3
_FEWER_SHARES, _STAGED_SHARES = (0.05, 0.5), (0.5, 0.8, 0.95)

_FEW_CYCLES = 3.0
"""If one kind leaves an error above this, the window has but a few cycles of burst and lull, and cycles (of a small
process: bursts in stages) are tried at once."""

_TOLD, _HARDLY_TOLD, _HOPELESS = 0.6, 4.0, 1.6
"""If its course in pieces loses no more than the first part of a window's queue, cycles are tried first. If it loses
more than the second, they are tried only if chains of bursts leave an error above the third, in units of its bar. In a
small process, more kinds do not help above that, but regular ones may."""

_PARTS_OF_A_TURN, _UNEVEN = (2, 4), 0.15
"""Turns are cycles of so many parts. If their levels spread by more than this part, they are told at several."""

_SURE, _MOST_NEAR, _ABOUT = 0.8, 3, 1.4
"""If the worst error is above the first part of its bar, so many of the best chains are searched further by the bars
alone. Bursts of one kind are tried in stages if more kinds are not better by the last factor."""

_STAGED = (Bursts((2,), base=2), Bursts((3,), base=4))

_AGAIN_STEPS, _STAGED_STEPS, _TRIES, _FEW_TRIES = 2, (8, 4), 3, 2

_MOST_CONTINUED, _FEW_STATES = 3, 5
"""How many fits of an earlier window are continued, and the most states of those after the first."""

_AGAIN_DAMPING = 1.0
"""Damping of the first step from an earlier window's chain: the way is short."""

_ERROR_GROWTH_ALLOWED = 1.5
"""A fit continued from the last window is good enough if it meets the bars, or is worse by at most this factor."""


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
        self.is_warm = self._has_cycles = False

    @cached_property
    def aim(self) -> Aim:
        """What searches of chains follow."""
        return Aim.of(self.queue, WindowFeatures.of(self.values, self.trace))

    @cached_property
    def course(self) -> Course:
        """The window in pieces of constant rate."""
        return course_of(self.values, self.queue)

    def simple(self) -> str | None:
        """Try the fits that need no search. Return the kind of window if one of them is good enough, else ``None``."""
        trace = self.trace
        if trace.is_constant:
            self._closed(simple_fits.renewal_fits(trace, self.max_states), keep_notes=True)
            return "constant"
        if self.max_states > 1 and simple_fits.is_negative(trace):
            self._closed(simple_fits.negative_fits(trace, self.max_states))
            if not self._has_good():
                self._alternate()
                self._closed(simple_fits.renewal_fits(trace, self.max_states))
            if self.worst <= _NEGATIVE:
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
            if self.worst <= 1.0:
                return kind
            self.notes.append("no single lag shows dependence, but the queue does: fitted as correlated")
        return None

    def _alternate(self) -> None:
        """Search chains of alternating times, smallest first, until one is good or they are known to be in vain."""
        targets = targets_of(self.trace, self.queue)
        for parts, found in enumerate(alternating.alternate(targets, self.max_states, self.is_late), start=1):
            self._add([found])
            # What irregular times are off by falls like 1 / parts, so this tells what is left with the most of them.
            in_vain = parts > 1 and self.worst * parts / alternating.MOST_PARTS > _NEGATIVE
            if in_vain or self._has_good() or self.is_late():
                return

    def again(self, known: Sequence[FittedMap], is_same_kind: bool) -> None:
        """Continue from the fits of an earlier window. `is_same_kind`: they could have as many states."""
        before = min((fitted.worst_error for fitted in known), default=np.inf)
        chains = [f for f in known if f.recipe.theta is not None and f.states <= self.max_states]
        for place, fitted in enumerate(chains[:_MOST_CONTINUED]):
            shape, theta = fitted.recipe.bursts, fitted.recipe.theta
            if theta is None or (place and (fitted.states > _FEW_STATES or self._has_enough())):
                continue
            if shape is not None:
                self._burst(shape, theta[None], _AGAIN_STEPS, damping=_AGAIN_DAMPING, last=0 if place else _AGAIN_STEPS)
            elif fitted.recipe.modulated is not None:
                self._add(modulated_search.continued(fitted.recipe, Turns.of(self.values), self.queue, self.is_late))
            else:
                self._add(cycle_search.continued(fitted.recipe, self.queue, self.is_late))
        self.is_warm = is_same_kind and self.worst <= max(1.0, _ERROR_GROWTH_ALLOWED * before)
        if not self.is_warm:
            self.notes.append("the last window's processes no longer fit: searched anew")

    @property
    def is_good(self) -> bool:
        """Whether nothing more needs to be searched."""
        return self.is_warm and bool(self.candidates)

    @property
    def worst(self) -> float:
        """The worst error of the best candidate, in units of its bar."""
        return min((candidate.worst_error for candidate in self.candidates), default=np.inf)

    def search(self, rng: np.random.Generator) -> None:
        """Search chains of bursts, smallest first, until one is good, then cycles; these first if they tell all."""
        gap, is_small = self._gap(), self.max_states <= SMALL
        if not is_small and gap == 1:
            self._search_turns()
            if self.worst > 1.0 and self.course.cost <= _TOLD:
                self._search_cycles()
            if self.worst <= 1.0:
                return
        self._search_bursts(gap)
        if is_small and self.worst > 1.0:
            self._search_stages()
        elif not is_small and self.worst > (1.0 if self.course.cost <= _HARDLY_TOLD else _HOPELESS):
            self._search_cycles()
        self._to_the_bars()
        if not self.candidates or (gap > 1 and self.worst > 1.0):
            self.compose(rng)

    def _search_turns(self) -> None:
        """If the window has turns, search cycles of one turn; at several levels if the rate changes between turns."""
        turns = Turns.of(self.values)
        if turns is None:
            return
        if turns.spread > _UNEVEN:
            self._add(modulated_search.search(turns, self.queue, self.max_states, self.is_late))
            return
        self._add(
            cycle_search.search(
                lambda pieces: turns.course(self.queue, pieces),
                self.queue,
                self.max_states,
                self.is_late,
                tries=1,
                parts_tried=_PARTS_OF_A_TURN,
            )
        )

    def _search_bursts(self, gap: int) -> None:
        """Search chains of one kind of bursts, of two and of three; cycles in between if one kind is far off."""
        for kinds in range(1, _MOST_KINDS + 1):
            shape = Bursts((1,) * kinds, gap=gap)
            if shape.order > self.max_states or (self.candidates and self.is_late()):
                return
            smaller = self._best_of(Bursts((1,) * (kinds - 1), gap=gap))
            if smaller is None:
                starts = burst_search.cold_starts(shape, self.queue)
            else:
                cold = burst_search.cold_starts(shape, self.queue, _FEWER_SHARES)
                starts = np.concatenate([burst_search.extended(smaller), cold])
            self._burst(shape, starts)
            is_far = kinds == 1 and self.worst > _FEW_CYCLES
            if is_far and self.max_states > SMALL and self.course.cost <= _HARDLY_TOLD:
                self._search_cycles()
            is_hopeless = self.max_states <= SMALL and self.worst > (_HOPELESS if kinds > 1 else _FEW_CYCLES)
            if self._has_good() or is_hopeless or (self._has_cycles and self.worst <= 1.0):
                return

    def _to_the_bars(self) -> None:
        """Search on from chains that are near the bars; if that is not enough, from bursts of one kind in stages.

        Not if a cycle is nearer: its errors are known at some loads only, and may be less than they seem.
        """
        chains = sorted(self.candidates, key=lambda c: c.worst_error)
        if not _SURE < self.worst <= _FEW_CYCLES or chains[0].recipe.bursts is None or self.is_late():
            return
        for shape in dict.fromkeys(c.recipe.bursts for c in chains[:_MOST_NEAR]):
            self._look_at_bars(shape, [c.recipe.theta for c in chains[:_MOST_NEAR] if c.recipe.bursts == shape])
        plain = self._best_of(Bursts((1,)))
        if plain is None or self.max_states <= SMALL:
            return
        for shape in _STAGED:
            # More kinds would have been better if bursts were not of one kind.
            if self.worst <= SAFE or self._error_of(Bursts((1,))) > _ABOUT * self.worst or self.is_late():
                return
            self._burst(shape, plain[None], last=0)
            self._look_at_bars(shape, [self._best_of(shape)])

    def _look_at_bars(self, shape: Bursts | None, thetas: Sequence[FloatArray | None]) -> None:
        """Search on from chains of a shape by the bars alone."""
        rows = [theta for theta in thetas if theta is not None]
        if shape is not None and rows:
            self._add(burst_search.within_bars(shape, np.array(rows), self.aim, self.is_late))

    def _error_of(self, shape: Bursts) -> float:
        return min((c.worst_error for c in self.candidates if c.recipe.bursts == shape), default=np.inf)

    def _best_of(self, shape: Bursts) -> FloatArray | None:
        """Return the parameters of the best chain of a shape so far."""
        of_shape = [c for c in self.candidates if c.recipe.bursts == shape]
        return min(of_shape, key=lambda candidate: candidate.worst_error).recipe.theta if of_shape else None

    def _search_cycles(self) -> None:
        """Search cycles, once."""
        if self._has_cycles or (self.candidates and self.is_late()):
            return
        self._has_cycles = True
        found = cycle_search.search(
            lambda pieces: course_of(self.values, self.queue, pieces),
            self.queue,
            self.max_states,
            self.is_late,
            tries=_TRIES if self.worst > _HOPELESS else _FEW_TRIES,  # little is to be gained over a chain that is near
            chains=self.worst,
        )
        self._add(found)

    def _search_stages(self) -> None:
        """Search bursts and bases of several stages each, of one and of two kinds."""
        for kinds in (1, 2):
            shape, plain = _regular(kinds, self.max_states), self._best_of(Bursts((1,) * kinds))
            if shape is None or self.is_late() or self._has_good():
                continue
            starts = burst_search.cold_starts(shape, self.queue, _STAGED_SHARES)
            if plain is not None:
                starts = np.concatenate([plain[None], starts])
            self._burst(shape, starts, _STAGED_STEPS[kinds - 1])

    def compose(self, rng: np.random.Generator) -> None:
        """Search compositions, smallest first, by their descriptors alone."""
        targets = targets_of(self.trace, self.queue)
        for shape in kpc.shapes_for(targets, self.max_states):
            if self.candidates and self.is_late():
                return
            if shape.components <= _MOST_KINDS:
                self._add(kpc.compose(shape, targets, rng, self.is_late))

    def _gap(self) -> int:
        """Return how many stages a gap needs to be as regular as the window's, apart from slow changes of the rate."""
        # The variance of one gap given the one before it, roughly: half the mean square of their difference.
        near = float(self.trace.acf[0]) if self.trace.acf.size else 0.0
        regular = self.trace.scv * (1.0 - max(near, 0.0))
        return int(np.clip(round(1.0 / max(regular, 1e-3)), 1, max(self.max_states // 2, 1)))

    def _burst(
        self, shape: Bursts, starts: FloatArray, steps: int = 8, damping: float = 1e-2, last: int | None = None
    ) -> None:
        found = burst_search.search(shape, starts, self.aim, self.is_late, iterations=steps, damping=damping, last=last)
        self._add(found)

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

    def _has_good(self) -> bool:
        return self.worst <= _GOOD

    def _has_enough(self) -> bool:
        good = [c for c in self.candidates if c.worst_error <= _GOOD]
        return len(best_distinct(good, self.best)[0]) >= min(self.best, 2) if good else False

    def _add(self, found: Iterable[Found]) -> list[FittedMap]:
        added = [score(process, self.trace, self.queue, recipe) for process, recipe in found]
        self.candidates += added
        return added

    def _closed(self, fits: list[tuple[str, MAP, tuple[str, ...]]], keep_notes: bool = False) -> None:
        for name, process, moved in fits:
            self._add([(process.with_rate(1.0), Recipe(name))])
            if keep_notes:
                self.notes += [note for note in moved if note not in self.notes]


def _regular(kinds: int, max_states: int) -> Bursts | None:
    """Return the most regular chain of so many kinds: half the states for the bursts, most for the last."""
    last = max_states // 2 - (kinds - 1)
    return Bursts((1,) * (kinds - 1) + (last,), base=max_states - max_states // 2) if last > 1 else None
