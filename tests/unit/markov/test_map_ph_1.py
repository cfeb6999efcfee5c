# SPDX-License-Identifier: Apache-2.0
"""The solved MAP/PH/1 queue: balance of its phases, and systems that absorb rarely."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.markov import MAP, PH, ctmc, superpose
from penstock.markov.fluid import first_return
from penstock.markov.map_ph_1 import AbsorptionSolver, Arrivals, Services, busy_period, solve_sojourns

STREAM = superpose(MAP.mmpp([[-0.1, 0.1], [0.3, -0.3]], [0.2, 2.0]), MAP.renewal(PH.erlang(2, mean=3.0))).with_rate(1.0)
SERVICE = PH.coxian([4.0, 1.0], [0.3]).with_mean(0.7)


def test_phases_balance() -> None:
    """A record waits or does not: p0 and W sum to one, and all are probabilities."""
    solved = solve_sojourns(Arrivals.of([STREAM]), Services.of([SERVICE]))
    assert (solved.p0 + solved.W.sum(axis=2))[0] == pytest.approx(np.ones(4), rel=1e-14)
    assert solved.W.min() >= 0.0
    assert solved.p0.min() >= 0.0
    # Time the server is idle per record: an interval less a service.
    assert solved.xi.sum() == pytest.approx(1.0 - 0.7, rel=1e-12)


def test_chain_absorbs() -> None:
    """A and a are a phase-type distribution's: no negative rates, rows summing to minus the absorption."""
    solved = solve_sojourns(Arrivals.of([STREAM]), Services.of([SERVICE]))
    A, a = solved.chain()
    off = A[0] - np.diag(A[0].diagonal())
    assert off.min() >= 0.0
    assert a.min() >= 0.0
    assert A[0].sum(axis=1) == pytest.approx(-a[0], rel=1e-12, abs=1e-12)
    assert solved.start().sum() == pytest.approx(1.0, rel=1e-14)


def test_phases_never_arrived_into_do_no_harm() -> None:
    """Renewal arrivals enter one phase only; the others are given no weight and no invalid number."""
    solved = solve_sojourns(Arrivals.of([MAP.renewal(PH.erlang(3, mean=1.0))]), Services.of([SERVICE]))
    A, a = solved.chain()
    assert np.isfinite(A).all()
    assert np.isfinite(a).all()
    assert np.count_nonzero(solved.pi) == 1


def test_the_fluid_rises_only_where_records_arrive() -> None:
    """Leaving out phases that nothing arrives into changes nothing for the others, alone or beside a fuller queue."""
    few, many = MAP.renewal(PH.erlang(4, mean=1.0)), STREAM
    assert few.order == many.order
    whole = busy_period(Arrivals.of([few]), Services.of([SERVICE]))
    for others in ([], [many]):
        solved = solve_sojourns(Arrivals.of([few, *others]), Services.of([SERVICE] * (1 + len(others))))
        assert solved.into.shape[1] == (4 if others else 1)
        assert solved.Psi[0, :2] == pytest.approx(whole.Psi[0, :2], rel=1e-12)
        assert solved.xi[0] / solved.xi[0].sum() == pytest.approx(whole.resting[0], rel=1e-12)
        assert solved.p0[0, 0] + solved.W[0, 0].sum() == pytest.approx(1.0, rel=1e-14)


def test_rare_absorption_keeps_its_digits() -> None:
    """With an absorption of 1e-13 per step the expected number of steps is right to twelve digits."""
    P = np.array([[0.0, 1.0], [1.0, 0.0]])
    p0 = np.array([0.0, 1e-13])
    P[1, 0] = 1.0 - 1e-13
    steps = AbsorptionSolver(P[None], p0[None]).solve(np.ones((1, 2)))[0]
    exact = ctmc.fundamental(P, p0).sum(axis=1)
    assert exact == pytest.approx([2e13, 2e13], rel=1e-12)
    assert steps == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("service", [SERVICE, PH.exponential(mean=0.6), PH.hyperexponential([0.3, 0.7], [0.5, 1e4])])
def test_the_fluid_of_the_queue_is_that_of_its_whole_generator(service: PH) -> None:
    """The blocks put together from arrivals and service lead to the first return of the generator written out."""
    n, m = STREAM.order, service.order
    Q = np.zeros((n + n * m, n + n * m))
    Q[:n, :n], Q[:n, n:] = STREAM.D0, np.kron(STREAM.D1, service.alpha[None])
    Q[n:, :n], Q[n:, n:] = np.kron(np.eye(n), service.exits[:, None]), np.kron(np.eye(n), service.T)
    whole, solved = first_return(Q[None], n), solve_sojourns(Arrivals.of([STREAM]), Services.of([service]))
    assert solved.Psi == pytest.approx(whole.Psi, rel=1e-12)
    assert solved.xi[0] / solved.xi.sum() == pytest.approx(whole.resting[0], rel=1e-12)
    assert solved.residuals.max() <= 1e-13
