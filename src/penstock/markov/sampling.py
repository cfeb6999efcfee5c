# SPDX-License-Identifier: Apache-2.0
"""Random times of phase-type distributions and arrival processes: exact in distribution, quick, repeatable.

======  ======================================================================================
Symbol  Meaning
======  ======================================================================================
D0, D1  rates without and with an arrival
P       (-D0)^-1 D1, the phase chain seen just after arrivals
h_j(s)  P[s, j], probability that from phase s the next arrival leads into phase j
======  ======================================================================================

The phase just after each arrival follows the chain P. That one path is drawn step by step (inverse of the
cumulative row, one bisection a step); everything else is drawn for all arrivals at once: between two arrivals
the hidden phases are a Markov chain conditioned on where it ends, which is again a Markov chain, with jump
probabilities weighted by h_j(next) / h_j(present) (Doob's h-transform; Rogers and Williams, "Diffusions, Markov
Processes and Martingales" volume 1, III.45). So no replicas are glued together: the sequence is one stationary
path, correlated throughout.

The tables of that conditioning grow with the cube of the number of phases. Beyond `LARGEST_CONDITIONED` phases
every jump, hidden or not, is drawn step by step instead: the same law, another use of the random numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from penstock.errors import InvalidProcessError
from penstock.markov.conditions import FloatArray, IntArray

_BLOCK = 1 << 16

LARGEST_CONDITIONED = 64
"""Most phases for which hidden phases are drawn all at once, given where they end."""


class AliasTable:
    """Draws from many discrete distributions at once, one row each, in constant time per draw.

    Walker's alias method ("An efficient method for generating discrete random variables with general
    distributions", ACM Transactions on Mathematical Software 3, 1977), all rows built together.
    """

    def __init__(self, probabilities: FloatArray) -> None:
        rows, columns = probabilities.shape
        possible = probabilities > 0.0
        self._only: IntArray | None = np.argmax(possible, axis=1) if (possible.sum(axis=1) == 1).all() else None
        left = probabilities * columns / probabilities.sum(axis=1, keepdims=True)
        keep = np.ones((rows, columns))
        alias = np.tile(np.arange(columns), (rows, 1))
        every = np.arange(rows)
        unfilled = np.ones((rows, columns), dtype=bool)
        for _ in range(columns - 1):
            # Each round fills the emptiest open column of every row from its fullest one.
            small = np.argmin(np.where(unfilled, left, np.inf), axis=1)
            large = np.argmax(np.where(unfilled, left, -np.inf), axis=1)
            need = left[every, small]
            keep[every, small] = np.clip(need, 0.0, 1.0)
            alias[every, small] = large
            unfilled[every, small] = False
            same = small == large
            left[every, large] -= np.where(same, 0.0, np.maximum(1.0 - need, 0.0))
        self._columns = columns
        self._keep = keep.ravel()
        self._alias = alias.ravel()

    def draw(self, rows: IntArray, rng: np.random.Generator) -> IntArray:
        """Give one column per entry of `rows`, drawn with that row's probabilities."""
        uniform = rng.random(rows.size)
        if self._only is not None:  # drawn all the same: what is drawn next does not depend on it
            return np.asarray(self._only[rows])
        scaled = uniform * self._columns
        column = scaled.astype(np.int64)
        cell = rows * self._columns + column
        chosen: IntArray = np.where(scaled - column < self._keep[cell], column, self._alias[cell])
        return chosen


class MapSampler:
    """Draws inter-arrival times of one arrival process, going on where the last draw ended.

    `MAP.sampler` builds it. Two draws of n are the same process as one draw of 2 n, not the same numbers.

    Parameters
    ----------
    D0, D1
        The process.
    P
        Its embedded chain.
    phase
        Phase just after the arrival that the first interval starts from.
    step_by_step
        Whether to draw every jump in turn; by default only for more than `LARGEST_CONDITIONED` phases.
    """

    def __init__(
        self, D0: FloatArray, D1: FloatArray, P: FloatArray, phase: int, *, step_by_step: bool | None = None
    ) -> None:
        n = len(D0)
        self._n = n
        self._rates = -D0.diagonal()
        self._phase = int(phase)
        hidden = D0 - np.diag(D0.diagonal())
        conditioned = n <= LARGEST_CONDITIONED if step_by_step is None else not step_by_step
        self._hidden: AliasTable | None = None
        self._every_jump = bool(hidden.any()) and not conditioned
        if self._every_jump:
            # Outcomes 0..n-1 are hidden jumps, n..2n-1 arrivals; both lead to the rows of the phase they end in.
            rows = _cut_rows(np.hstack([hidden, D1]))
            self._rows = rows + rows
            return
        self._rows = _cut_rows(P)
        if hidden.any():
            jumps = np.zeros((n, n, n + 1))  # phase, phase after the arrival, next phase or n for the arrival
            jumps[:, :, :n] = hidden[:, None, :] * P.T[None, :, :]
            jumps[:, :, n] = D1
            table = jumps.reshape(n * n, n + 1)
            table[table.sum(axis=1) <= 0, n] = 1.0  # pairs that never occur
            self._hidden = AliasTable(table)

    @property
    def phase(self) -> int:
        """Phase just after the last arrival."""
        return self._phase

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Give the next `size` inter-arrival times."""
        intervals, _ = self.draw_with_phases(size, rng)
        return intervals

    def draw_with_phases(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Give the next `size` inter-arrival times, and the phase just after each arrival."""
        _require_size(size)
        if self._every_jump:
            intervals, after = self._draw_jumps(size, rng)
        else:
            intervals, after = self._draw_arrivals(size, rng)
        if size:
            self._phase = int(after[-1])
        return intervals, after

    def _draw_arrivals(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        phases = np.empty(size + 1, dtype=np.int64)
        phases[0] = self._phase
        for start in range(0, size, _BLOCK):
            stop = min(start + _BLOCK, size)
            phases[start + 1 : stop + 1] = _walk(self._rows, int(phases[start]), rng.random(stop - start).tolist())
        intervals = rng.standard_exponential(size) / self._rates[phases[:-1]]
        if self._hidden is not None:
            open_, phase, target = np.arange(size), phases[:-1], phases[1:]
            while open_.size:
                following = self._hidden.draw(phase * self._n + target, rng)
                goes_on = following < self._n
                open_, phase, target = open_[goes_on], following[goes_on], target[goes_on]
                intervals[open_] += rng.standard_exponential(open_.size) / self._rates[phase]
        return intervals, phases[1:]

    def _draw_jumps(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        intervals = np.empty(size)
        after = np.empty(size, dtype=np.int64)
        done, state, carried = 0, self._phase, 0.0
        while done < size:
            path = np.array([state, *_walk(self._rows, state, rng.random(_BLOCK).tolist())], dtype=np.int64)
            clock = carried + np.cumsum(rng.standard_exponential(_BLOCK) / self._rates[path[:-1] % self._n])
            arrivals = np.flatnonzero(path[1:] >= self._n)[: size - done]
            intervals[done : done + arrivals.size] = np.diff(clock[arrivals], prepend=0.0)
            after[done : done + arrivals.size] = path[arrivals + 1] - self._n
            done += arrivals.size
            state = int(path[-1])
            carried = float(clock[-1] - (clock[arrivals[-1]] if arrivals.size else 0.0))
        return intervals, after


def sample_absorption_times(
    alpha: FloatArray, T: FloatArray, exits: FloatArray, size: int, rng: np.random.Generator
) -> FloatArray:
    """Give `size` independent times to absorption of the chain with subgenerator `T`, started from `alpha`."""
    _require_size(size)
    n = len(alpha)
    rates = -T.diagonal()
    jumps = np.column_stack([T - np.diag(T.diagonal()), exits])
    table = AliasTable(jumps)
    phase = AliasTable(alpha[None, :]).draw(np.zeros(size, dtype=np.int64), rng)
    times = rng.standard_exponential(size) / rates[phase]
    open_ = np.arange(size)
    while open_.size:
        following = table.draw(phase, rng)
        goes_on = following < n
        if open_.size == size and goes_on.all():  # as in the stages of an Erlang time: nothing to pick out
            phase = following
            times += rng.standard_exponential(size) / rates[phase]
            continue
        open_, phase = open_[goes_on], following[goes_on]
        times[open_] += rng.standard_exponential(open_.size) / rates[phase]
    return times


def _require_size(size: int) -> None:
    if int(size) != size or size < 0:
        raise InvalidProcessError(f"size = {size} must be a whole number of at least 0")


def _cut_rows(weights: FloatArray) -> list[list[float]]:
    """Give each row's cumulative probabilities, cut before its last possible outcome.

    Without that outcome's own bound no rounding of the sum can lead beyond it.
    """
    cumulative = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    return [cumulative[i, : np.flatnonzero(row)[-1]].tolist() for i, row in enumerate(weights)]


def _walk(rows: Sequence[Sequence[float]], phase: int, uniforms: Sequence[float]) -> list[int]:
    # The one sequential loop: about a tenth of a microsecond a step, whatever the number of phases.
    return [phase := bisect_right(rows[phase], uniform) for uniform in uniforms]
