# SPDX-License-Identifier: Apache-2.0
"""Quasi-birth-death chains: equations, drift, chains near saturation and nearly reducible, bad input."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import InvalidProcessError
from penstock.markov import MAP, PH
from penstock.markov.conditions import FloatArray
from penstock.markov.quasi_birth_death import solve_qbd


def blocks(arrivals: MAP, service: PH) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The chain of MAP/PH/1 above level 0."""
    n, m = arrivals.order, service.order
    inside = np.kron(arrivals.D0, np.eye(m)) + np.kron(np.eye(n), service.T)
    up, down = np.kron(arrivals.D1, np.eye(m)), np.kron(np.eye(n), np.outer(service.exits, service.alpha))
    return np.asarray(up, np.float64), np.asarray(inside, np.float64), np.asarray(down, np.float64)


BURSTY = MAP.mmpp([[-0.01, 0.01], [0.03, -0.03]], [0.5, 2.5]).with_rate(1.0)


@pytest.mark.parametrize("load", [0.3, 0.97, 0.999, 1.0 - 1e-7])
@pytest.mark.parametrize("slow", [1.0, 1e-8])
def test_equations_hold(load: float, slow: float) -> None:
    """G and R solve their equations up to saturation, for nearly reducible phases too."""
    arrivals = MAP.mmpp([[-0.01 * slow, 0.01 * slow], [0.03 * slow, -0.03 * slow]], [0.5, 2.5]).with_rate(1.0)
    A0, A1, A2 = blocks(arrivals, PH.erlang(2, mean=load))
    chain = solve_qbd(A0, A1, A2)
    scale = np.abs(A1).max()
    assert np.abs(A2 + A1 @ chain.G + A0 @ chain.G @ chain.G).max() < 1e-13 * scale
    assert np.abs(A0 + chain.R @ A1 + chain.R @ chain.R @ A2).max() < 1e-9 * scale
    assert chain.G.sum(axis=1) == pytest.approx(np.ones(4), rel=1e-14)
    assert chain.is_recurrent
    # Rate up less rate down: 1 less the rate of the server.
    assert chain.drift == pytest.approx(1.0 - 1.0 / load, rel=1e-6)


def test_transient_chain_may_never_come_down() -> None:
    """Above saturation G has rows below 1: M/M/1 of load 2 comes down with probability 1/2."""
    chain = solve_qbd([[2.0]], [[-3.0]], [[1.0]])
    assert chain.G[0, 0] == pytest.approx(0.5, rel=1e-14)
    assert not chain.is_recurrent
    assert chain.drift == pytest.approx(1.0)


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_unit_of_time_does_not_matter(factor: float) -> None:
    """Rates in another unit give the same G and R."""
    A0, A1, A2 = blocks(BURSTY, PH.erlang(2, mean=0.9))
    one, other = solve_qbd(A0, A1, A2), solve_qbd(A0 * factor, A1 * factor, A2 * factor)
    assert pytest.approx(one.G, rel=1e-12) == other.G
    assert pytest.approx(one.R, rel=1e-12) == other.R
    assert other.drift == pytest.approx(one.drift * factor, rel=1e-12)


def test_chain_without_drift_is_solved() -> None:
    """At drift 0 the chain still comes down with probability 1, though not in finite mean time."""
    chain = solve_qbd([[1.0, 0.0], [0.0, 2.0]], [[-2.5, 0.5], [0.25, -4.25]], [[1.0, 0.0], [0.0, 2.0]])
    assert chain.G.sum(axis=1) == pytest.approx(np.ones(2), rel=1e-6)
    assert chain.drift == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize(
    ("A0", "A1", "A2", "message"),
    [
        ([[1.0]], [[-3.0]], [[1.0]], "sums to -1"),
        ([[1.0]], [[2.0]], [[1.0]], "must be negative"),
        ([[-1.0]], [[-1.0]], [[2.0]], "must not be negative"),
        ([[1.0, 0.0], [0.0, 1.0]], [[-2.0]], [[1.0]], "must agree"),
        (np.eye(2), -2 * np.eye(2), np.eye(2), "reducible"),
    ],
)
def test_what_is_no_chain_is_refused(A0: object, A1: object, A2: object, message: str) -> None:
    """Each broken condition is named."""
    with pytest.raises(InvalidProcessError, match=message):
        solve_qbd(A0, A1, A2)  # type: ignore[arg-type]
