# SPDX-License-Identifier: Apache-2.0
"""The first return of a fluid: its equation, rare changes of phase, and fluids that hardly fall."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConvergenceError
from penstock.markov import ctmc
from penstock.markov.conditions import FloatArray
from penstock.markov.fluid import RESIDUAL, first_return, inverse


def random_fluid(rng: np.random.Generator, falling: int, rising: int) -> FloatArray:
    """A generator whose fluid falls in the mean: falling phases are left slowly."""
    n = falling + rising
    rates = rng.gamma(0.5, 1.0, (n, n))
    rates[:falling, falling:] *= 0.2
    np.fill_diagonal(rates, 0.0)
    return rates - np.diag(rates.sum(axis=1))


@pytest.mark.parametrize(("falling", "rising"), [(1, 1), (2, 5), (6, 3)])
def test_equation_holds(falling: int, rising: int) -> None:
    """Psi is stochastic and solves the Riccati equation of its fluid."""
    Q = random_fluid(np.random.default_rng(falling), falling, rising)
    found = first_return(Q[None], falling)
    Psi, f = found.Psi[0], falling
    assert Psi.sum(axis=1) == pytest.approx(np.ones(rising), rel=1e-13)
    assert Psi.min() >= 0.0
    rest = Q[f:, :f] + Q[f:, f:] @ Psi + Psi @ Q[:f, :f] + Psi @ Q[:f, f:] @ Psi
    assert np.abs(rest).max() < 1e-12 * np.abs(Q).max()
    assert found.residuals[0] < RESIDUAL


def test_phases_at_rest_are_stationary() -> None:
    """The phases at level 0 are those of the falling phases with every excursion above taken out."""
    Q = random_fluid(np.random.default_rng(4), 4, 3)
    found = first_return(Q[None], 4)
    watched = Q[:4, :4] + Q[:4, 4:] @ found.Psi[0]
    assert found.resting[0] == pytest.approx(ctmc.stationary(watched), rel=1e-12)


def test_stack_equals_single_fluids() -> None:
    """Fluids solved together come out as each alone."""
    rng = np.random.default_rng(8)
    stack = np.stack([random_fluid(rng, 3, 4) * scale for scale in (1.0, 1e-6, 1e6)])
    together = first_return(stack, 3)
    for k, Q in enumerate(stack):
        assert together.Psi[k] == pytest.approx(first_return(Q[None], 3).Psi[0], rel=1e-12)


@pytest.mark.parametrize("slow", [1e-3, 1e-7, 1e-11])
def test_rare_changes_of_phase_keep_their_weight(slow: float) -> None:
    """Two M/M/1 fluids joined at a small rate change over, per return, with probability in proportion to it."""
    # Loads 0.5 and 0.8 of a server of rate 1: to first order in the rate of change the mean time until the return,
    # 1 / (1 - 0.5) = 2 or 1 / (1 - 0.8) = 5, half of it (the falling half) under the changing phase.
    lam = np.array([0.5, 0.8])
    change = np.array([[-slow, slow], [slow, -slow]])
    Q = np.block([[change - np.diag(lam), np.diag(lam)], [np.eye(2), -np.eye(2)]])
    Psi = first_return(Q[None], 2).Psi[0]
    if slow < 1e-6:
        # P(change during the return) / slow: mean falling time of a busy period started by one service.
        assert Psi[0, 1] / slow == pytest.approx(1.0 / (1.0 - 0.5), rel=1e-4)
        assert Psi[1, 0] / slow == pytest.approx(1.0 / (1.0 - 0.8), rel=1e-4)
    assert Psi.sum(axis=1) == pytest.approx(np.ones(2), rel=1e-14)


def test_rising_fluid_is_refused() -> None:
    """A fluid that rises in the mean need not come back: the solver says so instead of answering."""
    with pytest.raises(ConvergenceError):
        first_return(np.array([[[-3.0, 3.0], [2.0, -2.0]]]), 1)


@pytest.mark.parametrize("order", [3, 25, 49])
def test_inverses_of_stacks_are_those_of_each(order: int) -> None:
    """Large matrices are inverted by halves, with the digits that LAPACK gives."""
    rates = np.random.default_rng(order).random((3, order, order))
    A = np.eye(order) - rates / (rates.sum(axis=2, keepdims=True) * (1.0 + 1e-6))
    assert inverse(A) == pytest.approx(np.linalg.inv(A), rel=1e-8)
    assert inverse(A) @ A == pytest.approx(np.broadcast_to(np.eye(order), A.shape), abs=1e-8)
