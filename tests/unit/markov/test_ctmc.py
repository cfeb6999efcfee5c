# SPDX-License-Identifier: Apache-2.0
"""Tests of chains: stationary vectors, classes, fundamental and deviation matrices."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.errors import InvalidProcessError
from penstock.markov import ctmc, stationary, stationary_of_stochastic


def test_two_states_have_their_textbook_vector() -> None:
    """The stationary vector of two states is proportional to the opposite rates."""
    assert stationary([[-3.0, 3.0], [1.0, -1.0]]) == pytest.approx([0.25, 0.75], rel=1e-15)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_stiff_chain_keeps_every_digit(unit: float) -> None:
    """A birth-death chain over 30 orders of magnitude has every probability to 14 digits, in any unit of time."""
    up = [1e-9, 1e-3, 1.0, 1e-9]
    down = [1e6, 1e-6, 1e9, 1e3]
    Q = np.diag(up, 1) + np.diag(down, -1)
    np.fill_diagonal(Q, -Q.sum(axis=1))
    # Detailed balance in exact arithmetic: pi[i + 1] / pi[i] = up[i] / down[i].
    weights = [Fraction(1)]
    for rise, fall in zip(up, down, strict=True):
        weights.append(weights[-1] * Fraction(rise) / Fraction(fall))
    exact = [float(weight / sum(weights)) for weight in weights]
    assert stationary(Q * unit) == pytest.approx(exact, rel=1e-14)


def test_nearly_separate_blocks_are_weighed_right() -> None:
    """Two pairs of states joined by rates of 1e-18 keep the split those rates imply."""
    link = 1e-18
    Q = np.array([[0.0, 1, link, 0], [1, 0, 0, 0], [3 * link, 0, 0, 1], [0, 0, 1, 0]])
    np.fill_diagonal(Q, -Q.sum(axis=1))
    assert stationary(Q) == pytest.approx([0.375, 0.375, 0.125, 0.125], rel=1e-13)


def test_periodic_stochastic_matrix_is_solved() -> None:
    """A cycle of three states has the uniform stationary vector."""
    assert stationary_of_stochastic(np.roll(np.eye(3), 1, axis=1)) == pytest.approx([1 / 3] * 3)


def test_transient_states_get_zero() -> None:
    """A state that is left for ever has probability exactly zero."""
    assert stationary([[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0], [0.0, 2.0, -2.0]])[0] == 0.0


def test_two_closed_classes_are_named() -> None:
    """A chain that splits in two is refused with the members of both classes."""
    with pytest.raises(InvalidProcessError, match=r"2 closed classes of states \[0, 1\] and \[2\]"):
        stationary([[-1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 0.0, 0.0]])


def test_irreducibility_names_transient_phases() -> None:
    """A phase that is never entered again is named as one to remove."""
    with pytest.raises(InvalidProcessError, match=r"the phases \[0\] are left for ever"):
        ctmc.require_irreducible(np.array([[0.0, 1.0], [0.0, 0.0]]), "the chain")


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[-1.0, 1.0]], r"Q has shape 1 x 2: it must be square"),
        ([[-1.0, 2.0], [1.0, -1.0]], r"row 0 of Q sums to 1: it must sum to 0"),
        ([[1.0, -1.0], [1.0, -1.0]], r"Q\[0, 1\] = -1 must not be negative"),
        ([[-1.0, np.nan], [1.0, -1.0]], r"Q\[0, 1\] = nan must be finite"),
        ([[-1.0, "x"], [1.0, -1.0]], r"Q must be a square matrix of numbers"),
        ([], r"Q must be a square matrix of numbers; this has 1 dimensions"),
    ],
)
def test_each_broken_condition_of_a_generator_has_its_message(matrix: object, message: str) -> None:
    """The message names the condition, the entry and its value."""
    with pytest.raises(InvalidProcessError, match=message):
        ctmc.generator(matrix)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.4], [1.0, 0.0]], r"row 0 of P sums to 0.9: the probabilities must sum to 1"),
        ([[1.5, -0.5], [1.0, 0.0]], r"row 0 of P\[1\] = -0.5 must not be negative"),
    ],
)
def test_each_broken_condition_of_a_stochastic_matrix_has_its_message(matrix: object, message: str) -> None:
    """The message names the row and the sum or the entry."""
    with pytest.raises(InvalidProcessError, match=message):
        ctmc.stochastic(matrix)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_rounding_is_mended_and_real_faults_are_not_in_any_unit(unit: float) -> None:
    """A row sum off by 1e-12 of its rates is made exact and one off by 1e-6 refused, whatever the unit."""
    nearly = np.array([[-1.0, 1.0 + 1e-12], [1.0, -1.0]]) * unit
    assert ctmc.generator(nearly).sum(axis=1).tolist() == [0.0, 0.0]
    with pytest.raises(InvalidProcessError, match="row 0 of Q sums to"):
        ctmc.generator(np.array([[-1.0, 1.0 + 1e-6], [1.0, -1.0]]) * unit)


def test_fundamental_matrix_inverts() -> None:
    """The fundamental matrix is the inverse of minus the subgenerator."""
    rng = np.random.default_rng(3)
    rates, exits = rng.random((6, 6)), rng.random(6)
    T = rates.copy()
    np.fill_diagonal(T, 0.0)
    np.fill_diagonal(T, -T.sum(axis=1) - exits)
    assert ctmc.fundamental(rates, exits) @ -T == pytest.approx(np.eye(6), abs=1e-13)


def test_fundamental_matrix_of_a_rare_exit_keeps_its_digits() -> None:
    """With an exit 1e-20 times slower than the rest the expected times are right; plain inversion would fail."""
    M = ctmc.fundamental(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.0, 1e-20]))
    # From either state the exit rate is 1e-20 half of the time: 1e20 spent in each.
    assert pytest.approx(np.full((2, 2), 1e20), rel=1e-14) == M


def test_fundamental_matrix_needs_an_exit() -> None:
    """Phases without any exit are refused."""
    with pytest.raises(InvalidProcessError, match="never leads to absorption"):
        ctmc.fundamental(np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros(2))


def test_deviation_matrix_agrees_with_its_definition() -> None:
    """The deviation matrix is (e pi - Q)^-1 - e pi."""
    rng = np.random.default_rng(5)
    Q = rng.random((5, 5))
    np.fill_diagonal(Q, 0.0)
    np.fill_diagonal(Q, -Q.sum(axis=1))
    pi = stationary(Q)
    limit = np.tile(pi, (5, 1))
    assert ctmc.deviation(Q, pi) == pytest.approx(np.linalg.inv(limit - Q) - limit, abs=1e-13)


def test_deviation_of_one_state_is_zero() -> None:
    """A chain of one state never deviates."""
    assert ctmc.deviation(np.zeros((1, 1)), np.ones(1)).tolist() == [[0.0]]


def test_long_vectors_do_not_overflow() -> None:
    """A chain whose probabilities grow a hundredfold over 400 states is solved."""
    up, down = np.full(399, 100.0), np.ones(399)
    Q = np.diag(up, 1) + np.diag(down, -1)
    np.fill_diagonal(Q, -Q.sum(axis=1))
    pi = stationary(Q)
    assert np.isfinite(pi).all()
    assert pi[-1] == pytest.approx(0.99)
