# SPDX-License-Identifier: Apache-2.0
"""Quasi-birth-death chains: levels that change by one at a time, with phases inside.

=========  ==================================================================================================
Symbol     Meaning
=========  ==================================================================================================
A0         rates one level up
A1         rates within a level; the diagonal makes the rows of A0 + A1 + A2 sum to 0
A2         rates one level down
G          phase in which the chain first comes one level down, from each phase
R          time in the phases one level up per unit of time in each phase, before the level is come back to
H, L       probabilities that the chain, seen at changes by 2^k levels, goes up or down next; H + L has rows of sum 1
drift      rate up minus rate down, of phases in equilibrium; negative if the chain comes down in the long run
=========  ==================================================================================================

G by logarithmic reduction (Latouche and Ramaswami, "A logarithmic reduction algorithm for quasi-birth-death processes",
Journal of Applied Probability 30, 1993): L and H are squared, so that the steps grow with the logarithm of the levels
looked at. Rows of H and L are brought back to sum one after each step, which keeps the weight of rare changes of phase
and the digits close to saturation. Levels are pi_k = pi_1 R^(k-1), with R = A0 (-(A1 + A0 G))^-1 (Neuts,
"Matrix-Geometric Solutions in Stochastic Models", 1981).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import ConvergenceError, InvalidProcessError
from penstock.markov import conditions, ctmc
from penstock.markov.conditions import FloatArray

MOST_STEPS = 80
_LEFT = 1e-17

RESIDUAL = 1e-10
"""Largest residual of the equation for G, as a probability, that counts as solved."""


@dataclass(frozen=True)
class QuasiBirthDeath:
    """A solved chain: `G`, `R`, the drift, what is left of the equation for G as a probability, and the steps taken."""

    G: FloatArray
    R: FloatArray
    drift: float
    residual: float
    steps: int

    @property
    def is_recurrent(self) -> bool:
        """Whether the chain always comes down again, in finite mean time."""
        return self.drift < 0.0


def solve_qbd(A0: npt.ArrayLike, A1: npt.ArrayLike, A2: npt.ArrayLike) -> QuasiBirthDeath:
    """Solve a chain whose phases, levels left aside, are irreducible.

    Raises
    ------
    InvalidProcessError
        If the matrices are no such chain.
    ConvergenceError
        If the equation for G was not solved to `RESIDUAL`, as happens where the drift is 0.

    Examples
    --------
    >>> chain = solve_qbd([[1.0]], [[-3.0]], [[2.0]])  # M/M/1 of load 0.5
    >>> chain.G.tolist(), chain.R.tolist(), chain.drift
    ([[1.0]], [[0.5]], -1.0)
    """
    up, inside, down = (conditions.as_square(name, A) for name, A in (("A0", A0), ("A1", A1), ("A2", A2)))
    if not up.shape == inside.shape == down.shape:
        raise InvalidProcessError(
            f"A0, A1 and A2 have {len(up)}, {len(inside)} and {len(down)} phases: they must agree"
        )
    scale = np.maximum.reduce([np.abs(A).max(axis=1) for A in (up, inside, down)])
    conditions.negative_diagonal("A1", inside)
    conditions.rates_off_diagonal("A1", inside, scale)
    conditions.rates_everywhere("A0", up, scale)
    conditions.rates_everywhere("A2", down, scale)
    conditions.zero_row_sums("A0 + A1 + A2", (up + inside + down).sum(axis=1), scale)
    np.fill_diagonal(inside, 0.0)
    stay = (up + inside + down).sum(axis=1)
    np.fill_diagonal(inside, -stay)
    drift = _drift(up, inside, down)
    G, steps = _logarithmic_reduction(up, inside, down, drift)
    inner = np.linalg.inv(-(inside + up @ G))
    residual = float((np.abs(down + inside @ G + up @ (G @ G)).sum(axis=1) / stay).max())
    if not residual <= RESIDUAL:
        raise ConvergenceError("the quasi-birth-death chain was not solved", iterations=steps, residual=residual)
    return QuasiBirthDeath(G, up @ inner, drift, residual, steps)


def _drift(up: FloatArray, inside: FloatArray, down: FloatArray) -> float:
    rates = up + inside + down
    np.fill_diagonal(rates, 0.0)
    ctmc.require_irreducible(rates, "A0 + A1 + A2")
    phases = ctmc.eliminate(rates)
    return float(phases @ up.sum(axis=1) - phases @ down.sum(axis=1))


def _logarithmic_reduction(
    up: FloatArray, inside: FloatArray, down: FloatArray, drift: float
) -> tuple[FloatArray, int]:
    n = len(up)
    changes: FloatArray = np.asarray(np.linalg.solve(-inside, np.hstack([up, down])), dtype=np.float64)
    changes /= changes.sum(axis=1, keepdims=True)
    H, L = changes[:, :n], changes[:, n:]
    G, reached = L.copy(), H.copy()  # `reached`: up by 2^k - 1 levels before one down
    steps = 0
    while float(reached.max()) > _LEFT and float(L.max()) > _LEFT and steps < MOST_STEPS:
        leaving = np.eye(n) - H @ L - L @ H
        squared: FloatArray = np.asarray(np.linalg.solve(leaving, np.hstack([H @ H, L @ L])), dtype=np.float64)
        squared /= squared.sum(axis=1, keepdims=True)
        H, L = squared[:, :n], squared[:, n:]
        G += reached @ L
        reached = reached @ H
        steps += 1
    if drift < 0.0:
        G /= G.sum(axis=1, keepdims=True)
    return G, steps
