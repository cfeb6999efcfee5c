# SPDX-License-Identifier: Apache-2.0
"""Ordinary traffic interrupted by bursts (or lulls) of a few kinds: Poisson arrivals modulated by a chain of states.

The chain is in its base, then in a burst of one of K kinds, then in the base again. Arrivals of each state are Poisson.
What a queue sees of a kind is its rate (from which load on it queues), its length in arrivals (how long the queue gets)
and its share of the arrivals (how many wait that long), so these are the parameters:

=========  ==============================================================================================
Symbol     Meaning
=========  ==============================================================================================
r_k        rate of kind k, in units of the base's
N_k        mean number of arrivals of a burst of kind k
w_k        arrivals of kind k for each arrival of the base
theta      per start: log r for each kind, log N for each, log w for each
=========  ==============================================================================================

A burst may be a sequence of equal states, as may the base, which makes its length more regular than exponential. And
arrivals may be every b-th of a faster stream, which makes gaps more regular than exponential. Every theta is a valid
process.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_MOST_RATE, _MOST_LENGTH = 11.0, 13.0


@dataclass(frozen=True, slots=True)
class Bursts:
    """The shape of a chain: the stages of each kind of burst, of the base, and of each gap between arrivals."""

    stages: tuple[int, ...]
    base: int = 1
    gap: int = 1

    @property
    def kinds(self) -> int:
        """Number of kinds of bursts."""
        return len(self.stages)

    @property
    def order(self) -> int:
        """Number of states of the process."""
        return (self.base + sum(self.stages)) * self.gap

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return the least and the largest parameters."""
        low = np.repeat([-5.0, 0.0, -12.0], self.kinds)
        return low, np.repeat([_MOST_RATE, _MOST_LENGTH, 9.0], self.kinds)

    def matrices(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return D0 and D1 for each row of parameters. The base has rate 1.

        Examples
        --------
        >>> d0, d1 = Bursts((1,)).matrices(np.log([[6.0, 12.0, 0.5]]))  # rate 6, 12 arrivals, a third of them all
        >>> d1[0].round(6).tolist(), (-d0[0]).round(6).tolist()
        ([[1.0, 0.0], [0.0, 6.0]], [[1.041667, -0.041667], [-0.5, 6.5]])
        """
        k, b, size = self.kinds, self.base, self.base + sum(self.stages)
        r, length, weight = (np.exp(theta[:, i * k : (i + 1) * k]) for i in range(3))
        often = weight / length  # bursts for each arrival of the base, whose rate is 1
        rates = np.ones((len(theta), size))
        move = np.zeros((len(theta), size, size))
        for j in range(b - 1):
            move[:, j, j + 1] = b * often.sum(axis=1)
        at = b
        for kind, stages in enumerate(self.stages):
            move[:, b - 1, at] = b * often[:, kind]
            last = at + stages - 1
            for j in range(at, last + 1):
                rates[:, j] = r[:, kind]
                move[:, j, j + 1 if j < last else 0] = r[:, kind] * stages / length[:, kind]
            at = last + 1
        return _with_gaps(move, rates, self.gap)


def _with_gaps(move: FloatArray, rates: FloatArray, gap: int) -> tuple[FloatArray, FloatArray]:
    """Return D0 and D1 of arrivals at these rates in states that move so, each gap a sum of `gap` exponential times."""
    count, size = rates.shape
    d0, d1 = np.zeros((count, size, gap, size, gap)), np.zeros((count, size, gap, size, gap))
    i = np.arange(size)
    for j in range(gap):
        d0[:, :, j, :, j] += move
        (d0 if j + 1 < gap else d1)[:, i, j, i, (j + 1) % gap] += gap * rates
    hidden, arrive = (d.reshape(count, size * gap, size * gap) for d in (d0, d1))
    k = np.arange(size * gap)
    hidden[:, k, k] = -(hidden.sum(axis=2) + arrive.sum(axis=2))
    return hidden, arrive
