# SPDX-License-Identifier: Apache-2.0
"""Percentiles of a stack of phase-type distributions, by doubling; nothing cancels, no eigenvectors.

=======  ====================================================================================================
Symbol   Meaning
=======  ====================================================================================================
A, a     rates between the phases (the diagonal is minus the row's total), rates of absorption
q        largest rate at which a phase is left
P, z     I + A / q and a / q: the uniformised chain, one jump
h        the shortest step, at most 1 / (8 q); y = q h
B_j      exp(A h 2^j), and beside it as last column the probabilities of absorption by then
=======  ====================================================================================================

The percentile is found digit by digit: the doubled steps B_j are taken from the longest to the shortest wherever that
does not overshoot, and what is left within one h is a short Poisson sum (Jensen's uniformisation) solved by Newton
steps inside its bracket. Each probability is a sum of non-negative terms, and rows are brought back to sum one after
each squaring, so that the slow modes of a stiff chain keep their rates. Eigenvectors would be no help: where service
times are Erlang their basis is singular, and for phases this few the doubling is quicker.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.errors import ConvergenceError
from penstock.markov.conditions import FloatArray

_Y = 0.125
_TERMS = 12
"""Terms of a Poisson sum of mean 1/8: the next would be below 1e-20."""

_ORDERS = np.arange(_TERMS)
_FACTORIALS = np.array([math.factorial(m) for m in range(_TERMS)], dtype=np.float64)
_MOST_DOUBLINGS = 1000


class Tails:
    """Phase-type distributions that share their number of phases, ready to be asked for percentiles.

    Parameters
    ----------
    A
        Rates between the phases, shape (queues, N, N); the diagonal is not read.
    a
        Rates of absorption, shape (queues, N).
    """

    def __init__(self, A: FloatArray, a: FloatArray) -> None:
        diagonal = np.arange(a.shape[1])
        P = A.copy()
        P[:, diagonal, diagonal] = 0.0
        leaving = P.sum(axis=2) + a
        self._q = leaving.max(axis=1)[:, None]
        P /= self._q[:, :, None]
        P[:, diagonal, diagonal] = 1.0 - leaving / self._q
        jumps = np.empty((*a.shape, _TERMS))
        jumps[:, :, 0] = a / self._q
        for m in range(1, _TERMS):
            jumps[:, :, m] = (P @ jumps[:, :, m - 1, None])[:, :, 0]
        self._P, self._jumps = P, jumps
        self._y = np.full((len(P), 1), _Y)
        self._powers: list[FloatArray] = []
        """Steps of y jumps in the mean, and of twice as many each; the first is made when the length is settled."""

    def quantiles(self, start: FloatArray, p: FloatArray) -> FloatArray:
        """Give the times by which shares p are absorbed, from starts of shape (queues, N) and p of (queues, shares)."""
        left = 1.0 - p
        self._double(start, left.min(axis=1))
        lower = p < 0.5
        # The smaller of the two shares is the one to judge by: the other has lost its digits.
        judge_by_absorbed = bool(lower.any())
        rows = np.zeros((*p.shape, start.shape[1] + 1))
        rows[:, :, :-1] = start[:, None, :]
        steps = np.zeros(p.shape)
        for level in range(len(self._powers) - 1, -1, -1):
            ahead = _advanced(rows, self._powers[level])
            short = ahead[:, :, :-1].sum(axis=2) > left
            if judge_by_absorbed:
                short = np.where(lower, ahead[:, :, -1] < p, short)
            rows = np.where(short[:, :, None], ahead, rows)
            steps += short * 2.0**level
        live, gone = rows[:, :, :-1], rows[:, :, -1]
        wanted = np.where(lower, p - gone, live.sum(axis=2) - left)
        before = steps * self._y
        return np.asarray((before + _newton(live @ self._jumps, wanted, before, self._y)) / self._q)

    def absorbed(self, start: FloatArray, times: FloatArray) -> FloatArray:
        """Give the shares absorbed by finite times, from starts of shape (queues, N) and times of (queues, times)."""
        y = times * self._q
        self._power(max(math.frexp(float((y / self._y).max()))[1] - 1, 0))
        rows = np.zeros((*y.shape, start.shape[1] + 1))
        rows[:, :, :-1] = start[:, None, :]
        for level in range(len(self._powers) - 1, -1, -1):
            step = 2.0**level * self._y
            far = y >= step
            if far.any():
                rows = np.where(far[:, :, None], _advanced(rows, self._powers[level]), rows)
                y = np.where(far, y - step, y)
        by_jump = np.cumsum(rows[:, :, :-1] @ self._jumps, axis=2)
        return np.asarray(rows[:, :, -1] + (_poisson(y)[:, :, 1:] * by_jump[:, :, :-1]).sum(axis=2))

    def absorbed_on_grid(self, start: FloatArray, step: float, count: int) -> FloatArray:
        """Give the shares absorbed by `count` equidistant times from 0 on, from starts of shape (queues, N).

        With k = a b + c the share absorbed by k steps is what a long steps of b have absorbed, and what c short ones
        absorb of the rest. So about 2 sqrt(`count`) products with a vector suffice. Both steps are among those doubled:
        the shortest one is chosen for that, and b is a power of two.
        """
        digits = (count - 1).bit_length()
        doublings, block = digits // 2, 2 ** (digits - digits // 2)
        at = self._aligned(step)
        short, long = self._power(at), self._power(at + digits - doublings)
        within = np.zeros((*start.shape, block))  # absorbed by c short steps, from each phase
        for c in range(1, block):
            within[:, :, c] = (short[:, :, :-1] @ within[:, :, c - 1, None])[:, :, 0] + short[:, :, -1]
        row = np.concatenate([start, np.zeros((len(start), 1))], axis=1)[:, None, :]
        blocks = 2**doublings
        shares = np.empty((len(start), blocks, block))
        for a in range(blocks):
            shares[:, a] = row[:, 0, -1:] + (row[:, :, :-1] @ within)[:, 0]
            row = _advanced(row, long)
        return np.asarray(shares.reshape(len(start), -1)[:, :count])

    def _aligned(self, seconds: float) -> int:
        """The level of a step that lasts so long in all queues; begins anew where none does."""
        steps = seconds * self._q / self._y
        level = math.frexp(float(steps[0, 0]))[1] - 1
        if level >= 0 and (steps == 2.0**level).all():
            return level
        level = max(math.ceil(math.log2(seconds * float(self._q.max()) / _Y)), 0)
        self._y, self._powers = seconds * self._q / 2.0**level, []
        return level

    def _power(self, level: int) -> FloatArray:
        if not self._powers:
            self._powers.append(_short_step(self._P, self._jumps, self._y[:, 0]))
        while len(self._powers) <= level:
            self._powers.append(_squared(self._powers[-1]))
        return self._powers[level]

    def _double(self, start: FloatArray, left: FloatArray) -> None:
        """Square until the longest step leaves less than `left` of every start."""
        self._power(0)
        while True:
            remaining = (start * self._powers[-1][:, :, :-1].sum(axis=2)).sum(axis=1)
            if not (remaining > left).any():
                return
            if len(self._powers) > _MOST_DOUBLINGS:
                raise ConvergenceError("the tail does not end", iterations=_MOST_DOUBLINGS, residual=remaining.max())
            self._powers.append(_squared(self._powers[-1]))


def _short_step(P: FloatArray, jumps: FloatArray, y: FloatArray) -> FloatArray:
    """Give a Poisson sum of mean y of powers of P, three at a time (Paterson and Stockmeyer)."""
    poisson = _poisson(y[:, None])[:, 0]
    k, N, _ = P.shape
    below = np.empty((k, 3, N, N))
    below[:, 0], below[:, 1] = np.eye(N), P
    P2 = np.matmul(P, P, out=below[:, 2])
    P3 = P2 @ P
    # All sums of three in one product: to add them up term by term takes longer than the powers.
    sums = (poisson.reshape(k, -1, 3) @ below.reshape(k, 3, N * N)).reshape(k, -1, N, N)
    total = sums[:, -1]
    for m in range(_TERMS // 3 - 2, -1, -1):
        total = total @ P3
        total += sums[:, m]
    # Absorbed by jump m + 1: counts if more than m jumps fall into the step.
    later = np.zeros((len(P), _TERMS, 1))
    later[:, :-1, 0] = np.cumsum(poisson[:, :0:-1], axis=1)[:, ::-1]
    return _rows_to_one(np.concatenate([total, jumps @ later], axis=2))


def _newton(arrivals: FloatArray, wanted: FloatArray, before: FloatArray, most: FloatArray) -> FloatArray:
    """Give the y at which `wanted` is absorbed, 0 <= y <= `most`, to the last digits of `before` + y.

    `arrivals` is what each jump absorbs.
    """
    by_jump = np.cumsum(arrivals, axis=2)
    low, high = np.zeros(wanted.shape), np.broadcast_to(most, wanted.shape)
    y = 0.5 * high
    for _ in range(100):
        poisson = _poisson(y)
        value = (poisson[:, :, 1:] * by_jump[:, :, :-1]).sum(axis=2)
        step = (wanted - value) / np.maximum((poisson * arrivals).sum(axis=2), 1e-300)
        settled = (np.abs(step) <= 1e-15 * (before + y)) | (high - low <= 1e-15 * (before + y))
        if settled.all():
            break
        over = value >= wanted
        high, low = np.where(over, y, high), np.where(over, low, y)
        guess = y + step
        y = np.where(settled, y, np.where((guess > low) & (guess < high), guess, 0.5 * (low + high)))
    return y


def _squared(step: FloatArray) -> FloatArray:
    square = step[:, :, :-1] @ step
    square[:, :, -1] += step[:, :, -1]
    return _rows_to_one(square)


def _rows_to_one(step: FloatArray) -> FloatArray:
    step *= 1.0 / (step @ np.ones((step.shape[2], 1)))  # half the time of a sum along the rows and a division
    return step


def _advanced(rows: FloatArray, step: FloatArray) -> FloatArray:
    ahead = rows[:, :, :-1] @ step
    ahead[:, :, -1] += rows[:, :, -1]
    return ahead


def _poisson(y: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-y)[:, :, None] * (y[:, :, None] ** _ORDERS) / _FACTORIALS)
