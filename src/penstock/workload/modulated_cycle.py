# SPDX-License-Identifier: Apache-2.0
"""A short cycle at a rate that changes slowly: bursts at every full minute, and more of all of it as the hour goes on.

The slow course has parts, each of a constant level, one after the other and over again. In each, a short cycle is gone
through whole turns, as many as chance will have it. Its parts are those of every level, with rates that the level
scales. A part of a turn is a sum of equal exponential times, its stages, and each level has its own numbers of them:
chance in the length of turns costs most where the level is near the server's rate, as the queue keeps what each turn
leaves there.

=========  ==============================================================================================
Symbol     Meaning
=========  ==============================================================================================
P, M       number of parts of a turn, of levels
k_jp       stages of part p at level j
a_p        arrivals per unit of time in part p, Poisson, at a level of 1
d_p        mean length of part p
b_j        level j
n_j        mean number of turns at level j, at least 1, geometric
theta      per start: log a for each part, log d for each, log b for each level, log n for each
=========  ==============================================================================================

Every theta is a valid process.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ModulatedCycle:
    """The shape of it: for each level, the stages of each part of a turn."""

    stages: tuple[tuple[int, ...], ...]

    @property
    def parts(self) -> int:
        """Parts of a turn."""
        return len(self.stages[0])

    @property
    def order(self) -> int:
        """Number of states."""
        return sum(sum(level) for level in self.stages)

    def with_at_most(self, stages: int) -> ModulatedCycle:
        """Return the same with at most so many stages for each part."""
        return ModulatedCycle(tuple(tuple(min(k, stages) for k in level) for level in self.stages))

    def fluid(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return rates and generators of the states, shapes (rows, states) and (rows, states, states), for rate 1.

        Examples
        --------
        Ten turns at a level of 1 and ten at a level of 3, in each 60 arrivals or 180 in a minute, half of them at once:

        >>> shape = ModulatedCycle(((1, 1), (1, 1)))
        >>> rates, moves = shape.fluid(np.log([[3e4, 30 / 59, 1e-3, 59, 1, 3, 10, 10]]))
        >>> (rates[0] / rates[0, 1]).round(3).tolist(), (moves[0, 1] / moves[0, 1, 1]).round(3).tolist()
        ([59000.0, 1.0, 177000.0, 3.0], [-0.9, 1.0, -0.1, -0.0])
        """
        p, m, rows = self.parts, len(self.stages), len(theta)
        a, d, b, n = np.split(np.exp(theta), [p, 2 * p, 2 * p + m], axis=1)
        n = np.maximum(n, 1.0)
        flow = (a * d).sum(axis=1) * (b * n).sum(axis=1) / (d.sum(axis=1) * n.sum(axis=1))
        k = np.array(self.stages)
        of = np.repeat(np.arange(m * p), k.ravel())
        rates = (b[:, :, None] * a[:, None, :]).reshape(rows, -1)[:, of] / flow[:, None]
        ends = (k / d[:, None, :]).reshape(rows, -1)[:, of] / flow[:, None]
        moves = np.zeros((rows, self.order, self.order))
        i = np.arange(self.order)
        moves[:, i[:-1], i[1:]] = ends[:, :-1]
        begins = np.concatenate([[0], np.cumsum(k.sum(axis=1))])
        for level in range(m):
            first, last, then = begins[level], begins[level + 1] - 1, begins[level + 1] % self.order
            moves[:, last, :] = 0.0
            moves[:, last, first] += ends[:, last] * (1.0 - 1.0 / n[:, level])
            moves[:, last, then] += ends[:, last] / n[:, level]
        moves[:, i, i] -= ends
        return rates, moves

    def matrices(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return D0 and D1 for each row of parameters, of rate 1."""
        rates, moves = self.fluid(theta)
        i = np.arange(self.order)
        arrive = np.zeros_like(moves)
        arrive[:, i, i] = rates
        return moves - arrive, arrive

    @classmethod
    def sharing(
        cls, theta: FloatArray, levels: int, states: int, loads: FloatArray, means: FloatArray
    ) -> ModulatedCycle:
        """Share states out among levels and parts, so that chance adds least to a queue of these means at these loads.

        At the load at which level j is the server's rate, a turn moves the queue by m_p in part p, forth and back. The
        variance of a turn is the sum of m_p^2 / k_p: least if k_p goes with |m_p|. The queue wanders with the square
        root of the variance of all turns, and the share w_j of the arrivals meets that.
        """
        p = (theta.size - 2 * levels) // 2
        a, d, b, n = np.split(np.exp(theta), [p, 2 * p, 2 * p + levels])
        mean = float((a * d).sum() / d.sum())
        usual = float((b * n).sum() / n.sum())
        level, share = b / usual, b * n / float((b * n).sum())
        at = np.clip(1.0 / level, loads[0], loads[-1])
        moves = np.abs((at * level)[:, None] * a / mean - 1.0) * d * (mean * usual)  # in units of the mean gap
        wander = np.sqrt(n) * moves.sum(axis=1) / np.exp(np.interp(at, loads, np.log(means)))
        worth = (share * wander) ** (2.0 / 3.0)
        free = states - p * levels
        of_level = free * worth / worth.sum()
        extra = of_level[:, None] * moves / moves.sum(axis=1, keepdims=True)
        return cls(tuple(tuple(1 + int(k) for k in level) for level in extra))
