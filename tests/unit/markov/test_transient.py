# SPDX-License-Identifier: Apache-2.0
"""Tests of the transient probabilities of chains."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from penstock.markov.transient import AbsorbingChain, transition_matrix


def test_probabilities_agree_with_the_matrix_exponential() -> None:
    """At many instants at once, each row is alpha exp(G t)."""
    rng = np.random.default_rng(1)
    T = rng.random((4, 4))
    exits = rng.random(4)
    np.fill_diagonal(T, 0.0)
    np.fill_diagonal(T, -T.sum(axis=1) - exits)
    alpha = np.array([0.1, 0.2, 0.3, 0.4])
    G = np.zeros((5, 5))
    G[:4, :4], G[:4, 4] = T, exits
    times = np.array([0.0, 1e-3, 0.7, 3.0, 55.0])
    expected = [np.append(alpha, 0.0) @ expm(G * t) for t in times]
    assert AbsorbingChain(alpha, T, exits).probabilities(times) == pytest.approx(np.array(expected), abs=1e-14)


def test_both_tails_keep_relative_accuracy() -> None:
    """Absorption of 1e-30 and survival of 1e-30 are right to twelve digits."""
    chain = AbsorbingChain(np.array([1.0]), np.array([[-1.0]]), np.array([1.0]))
    rows = chain.probabilities(np.array([1e-30, 69.0]))
    assert rows[0, 1] == pytest.approx(1e-30, rel=1e-12)
    assert rows[1, 0] == pytest.approx(np.exp(-69.0), rel=1e-12)


def test_stiff_transition_matrix_does_not_drift() -> None:
    """Over 1e15 stays of the fast states the slow mode still has its exact weight."""
    slow = 1e-12
    Q = np.array([[-1e3 - slow, 1e3, slow], [1e3, -1e3, 0.0], [slow, 0.0, -slow]])
    t = 1.0 / slow
    # The fast pair is left at slow / 2 on average and entered at slow: relaxation rate 1.5 slow, limit 2/3.
    decay = np.exp(-1.5)
    in_pair = 2 / 3 + (1 / 3) * decay
    matrix = transition_matrix(Q, t)
    assert matrix[0, :2].sum() == pytest.approx(in_pair, rel=1e-10)
    assert matrix.sum(axis=1) == pytest.approx(np.ones(3), rel=1e-14)


def test_no_time_is_no_change() -> None:
    """exp(0) is the identity."""
    assert transition_matrix(np.array([[-1.0, 1.0], [1.0, -1.0]]), 0.0).tolist() == [[1.0, 0.0], [0.0, 1.0]]
