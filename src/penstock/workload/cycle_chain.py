# SPDX-License-Identifier: Apache-2.0
"""A cycle of traffic that repeats: parts of constant rate, one after the other, each of a nearly constant length.

A window of a few long bursts is told by its own course: so long at this rate, then so long at that one, and over
again. The length of a part is a sum of equal exponential times, its stages: the more stages, the more regular.

=========  ==============================================================================================
Symbol     Meaning
=========  ==============================================================================================
P          number of parts
k_p        stages of part p
r_p        arrivals per unit of time in part p, Poisson
d_p        mean length of part p
theta      per start: log r for each part, then log d for each
=========  ==============================================================================================

Every theta is a valid process.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_DRAINING_LOAD = 0.9
"""Load at which stages are shared out: there the chance in each part's length costs most."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """The shape of a cycle: the stages of each part."""

    stages: tuple[int, ...]

    @property
    def parts(self) -> int:
        """Number of parts."""
        return len(self.stages)

    @property
    def order(self) -> int:
        """Number of states."""
        return sum(self.stages)

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return the least and the largest parameters, for arrivals of rate 1."""
        return np.repeat([-9.0, -9.0], self.parts), np.repeat([14.0, 14.0], self.parts)

    def by_stage(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the rate of arrivals in each stage, and the rate at which it ends, shapes (rows, stages)."""
        of = np.repeat(np.arange(self.parts), self.stages)
        rates, lengths = np.exp(theta[:, : self.parts]), np.exp(theta[:, self.parts :])
        return rates[:, of], (np.array(self.stages) / lengths)[:, of]

    def fluid(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return rates and generators of the states, for arrivals of rate 1."""
        rates, ends = self.by_stage(theta)
        flow = (rates / ends).sum(axis=1) / (1.0 / ends).sum(axis=1)
        rates, ends = rates / flow[:, None], ends / flow[:, None]
        i = np.arange(self.order)
        moves = np.zeros((len(theta), self.order, self.order))
        moves[:, i, i] = -ends
        moves[:, i, (i + 1) % self.order] += ends
        return rates, moves

    def matrices(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return D0 and D1 for each row of parameters.

        Examples
        --------
        >>> d0, d1 = Cycle((1, 2)).matrices(np.log([[6.0, 0.5, 2.0, 8.0]]))
        >>> d1[0].diagonal().round(3).tolist(), d0[0].round(3).tolist()
        ([6.0, 0.5, 0.5], [[-6.5, 0.5, 0.0], [0.0, -0.75, 0.25], [0.25, 0.0, -0.75]])
        """
        rates, ends = self.by_stage(theta)
        i = np.arange(self.order)
        hidden, arrive = (np.zeros((len(theta), self.order, self.order)) for _ in range(2))
        arrive[:, i, i] = rates
        hidden[:, i, i] = -(rates + ends)
        hidden[:, i, (i + 1) % self.order] += ends
        return hidden, arrive

    @classmethod
    def sharing(cls, rates: FloatArray, lengths: FloatArray, states: int) -> Cycle:
        """Share states out among parts, so that the work that a queue of high load gains over a cycle varies least.

        Part p moves the queue by m_p = (load r_p - 1) d_p in the mean, with variance m_p^2 / k_p. Each further stage
        goes where it takes most away.
        """
        moves = np.square((_DRAINING_LOAD * rates - 1.0) * lengths)
        stages = np.ones(rates.size, dtype=np.int64)
        for _ in range(states - rates.size):
            stages[int(np.argmax(moves / (stages * (stages + 1.0))))] += 1
        return cls(tuple(int(k) for k in stages))
