# SPDX-License-Identifier: Apache-2.0
"""The departures of a queue as a MAP, built from idle and busy periods such that their dispersion is conserved.

==========  ==========================================================================================
Symbol      Meaning
==========  ==========================================================================================
V, G        phase of the arrivals after a busy period that starts in each phase; G = V (I x alpha)
Gamma       (I x alpha) V, the same from the start of a service
V(z)        the same with z^N, N the records served in the busy period; V', V'', ... at z = 1
xi          phase of the arrivals while the server is idle: xi (D0 + D1 Gamma) = 0
phi_k       factorial moments of N - 1
eta         how much of the variability of N beyond a geometric number is kept
I           index of dispersion for counts in the long run
==========  ==========================================================================================

While the server is busy records leave at the ends of services, one after the other; while it is idle nothing leaves.
So the departures alternate between the arrivals' idle phases, taken over as they are, and runs of N services. The
factorial moments of N, by the phase the run starts in, are exact: V(z) solves (I x t) z + A1 V + A0 V (I x alpha) V = 0
(Neuts, "Structured Stochastic Matrices of M/G/1 Type", 1989), and its derivatives linear equations, which are summed up
as series of non-negative terms. A mixture of two geometric numbers takes them over. A completion ends the run with a
probability that depends on its service phase as it does in the queue: a long service is seldom the last.

This loses how the length of a run depends on what comes before and after it. But what goes into a
stable queue comes out: in the long run the counts of departures have the dispersion of the arrivals' counts, exactly.
So eta is chosen such that I is conserved (`departure_dispersion`). For M/M/1 the result is the Poisson process (Burke).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from penstock.errors import ConfigurationError, ConvergenceError
from penstock.markov import MAP, PH, fit_three_moments
from penstock.markov.conditions import BoolArray, FloatArray, IntArray
from penstock.markov.ctmc import eliminate
from penstock.markov.map_ph_1 import Arrivals, Services, busy_period
from penstock.performance.queueing.departure_dispersion import DepartureDispersion
from penstock.performance.queueing.queue_inputs import SATURATION, check_processes, entered

MOST_STATES = 48
"""States of a stream between two operators. With 32, random pipelines of up to five operators were less accurate."""

_LEAST_EXCESS = 1e-6
"""Relative excess of the second moment below which one geometric number is enough."""
_LARGEST_ETA = 1e4
_MOST_STEPS = 40
_MOST_DOUBLINGS, _DIED_OUT = 64, 1e-17
_CONSERVED = 1e-6
"""Relative error of the long-run dispersion that is accepted."""
_MOSTLY_CONSERVED = 0.9
"""Part of the dispersion that runs of one part must keep: arrivals then vary by their phases, not by their runs."""
_POISSON = 1e-9
"""Relative error of moments and correlations within which a process is the Poisson process."""


@dataclass(frozen=True)
class _Runs:
    """Busy periods by the phase they start in: moments of N - 1, phase after, and how each start is reached."""

    moments: FloatArray  # phi_1 .. phi_3, one column for each start
    idle: FloatArray  # rates between the idle phases
    M: FloatArray  # expected time in each of them
    entries: FloatArray  # rates from the idle phases, one column for each start
    after: FloatArray  # phase of the arrivals after, one row for each start
    last: FloatArray  # how much likelier than on average a completion from each service phase ends the run

    def of(self, starts: BoolArray) -> _Runs:
        """Give the runs that start in some phases."""
        return replace(self, moments=self.moments[:, starts], entries=self.entries[:, starts], after=self.after[starts])


@dataclass(frozen=True)
class _Kinds:
    """Runs of a geometric number of services each."""

    start: IntArray  # where they start, as a column of the entries
    chance: FloatArray  # which part of the runs that start there is of this kind
    ends: FloatArray  # chance that a completion from each service phase ends the run, one row for each kind


def departure_process(
    arrivals: MAP, service: PH, *, most_states: int = MOST_STATES, Psi: FloatArray | None = None
) -> MAP:
    """Give the departures of a stable MAP/PH/1 queue as a MAP; `Psi` is V, if the queue was solved already.

    The runs of services are distinguished by the phase in which they start, and have two geometric parts each, if that
    needs no more than `most_states` states. Otherwise they have one part each, if that keeps nine tenths of the
    long-run dispersion. Otherwise all starts are one; and at last the idle time becomes a `PH` of two phases. The rate
    and the mean run are always kept, and the dispersion in all other cases.

    Raises
    ------
    ConfigurationError
        If the queue is not stable, or two runs of services alone need more states.
    ConvergenceError
        If its busy periods could not be solved.

    Examples
    --------
    >>> departure_process(MAP.poisson(1.0), PH.exponential(mean=0.5)).intervals.scv
    1.0
    """
    check_processes(arrivals, service, PH)
    utilisation = arrivals.rate * service.mean
    if not utilisation < SATURATION:
        raise ConfigurationError(
            f"service: at utilisation {utilisation:.6g} the queue never empties; its departures are its service times",
            field="service",
        )
    service = entered(service)
    runs = _busy_runs(arrivals, service, Psi)
    n, m = arrivals.order, service.order
    starts = len(runs.after)
    if n + 2 * starts * m > most_states:
        if n + starts * m <= most_states:
            single, of_runs = _kinds(0.0, runs), _dispersion(runs, service)
            kept = of_runs.of(single.start, single.chance, single.ends)
            if kept >= _MOSTLY_CONSERVED * arrivals.asymptotic_idc:
                return _simplest(_assembled(single, runs, service, of_runs.frequency), kept)
        runs = _lumped(runs, arrivals)
        if n + 2 * m > most_states:
            runs = _as_renewal(arrivals, runs)
            states = len(runs.idle) + 2 * m
            if states > most_states:
                raise ConfigurationError(
                    f"most_states: runs of services of {m} phases need {states} states, more than {most_states}; fit "
                    "the service with fewer phases",
                    field="most_states",
                )
    of_runs = _dispersion(runs, service)
    kinds, kept = _conserving(arrivals.asymptotic_idc, runs, of_runs)
    return _simplest(_assembled(kinds, runs, service, of_runs.frequency), kept)


def _busy_runs(arrivals: MAP, service: PH, V: FloatArray | None) -> _Runs:
    n, m = arrivals.order, service.order
    D0, D1, t = arrivals.D0, arrivals.D1, service.exits
    up = _kron(D1, np.eye(m))
    local = _kron(D0, np.eye(m)) + _kron(np.eye(n), service.T)
    if V is None:
        V = busy_period(Arrivals.of([arrivals]), Services.of([service])).Psi[0]
    start = _kron(np.eye(n), service.alpha[None, :])
    Gamma = start @ V
    K = local + (up @ V) @ start
    inner: FloatArray = np.asarray(np.linalg.inv(-K))
    summed = _series(inner @ up, Gamma)
    V1 = summed(inner @ _kron(np.eye(n), t[:, None]))
    V2 = summed(2.0 * inner @ (up @ (V1 @ (start @ V1))))
    third = np.linalg.solve(K + up, -3.0 * up @ (V2 @ (start @ V1.sum(axis=1)) + V1 @ (start @ V2.sum(axis=1))))
    f1, f2, f3 = start @ V1.sum(axis=1), start @ V2.sum(axis=1), start @ third
    moments = np.array([f1 - 1.0, f2 - 2.0 * f1 + 2.0, f3 - 3.0 * f2 + 6.0 * f1 - 6.0])
    idle = _stationary(D0 + D1 @ Gamma)
    alone = (np.outer(idle @ D1, service.alpha).ravel() @ inner).reshape(n, m).sum(axis=0) * t
    ends = (service.alpha @ service.M) * t
    last = np.divide(alone / alone.sum(), ends, out=np.ones(m), where=ends > 0)
    return _Runs(np.maximum(moments, 0.0), D0, arrivals.M, D1, Gamma, last).of(np.asarray(D1.any(axis=0)))


def _kron(A: FloatArray, B: FloatArray) -> FloatArray:
    rows, columns = len(A) * len(B), A.shape[1] * B.shape[1]
    return np.asarray((A[:, None, :, None] * B[None, :, None, :]).reshape(rows, columns))  # numpy's own is slow


def _stationary(Q: FloatArray) -> FloatArray:
    return eliminate(np.maximum(Q - np.diag(Q.diagonal()), 0.0))


def _series(P: FloatArray, Gamma: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Give what sums P^k X Gamma^k over all k >= 0, by doubling; P dies out, and no term is negative."""
    powers = [(P, Gamma)]
    while (left_over := float(powers[-1][0].max())) > _DIED_OUT:
        if len(powers) == _MOST_DOUBLINGS:
            raise ConvergenceError("the busy period hardly ever ends", iterations=len(powers), residual=left_over)
        left, right = powers[-1]
        powers.append((left @ left, right @ right))

    def summed(X: FloatArray) -> FloatArray:
        for left, right in powers:
            X = X + left @ X @ right
        return X

    return summed


def _lumped(runs: _Runs, arrivals: MAP) -> _Runs:
    """Give the same runs without regard to the phase they start in."""
    idle = _stationary(arrivals.D0 + runs.entries @ runs.after)
    flow = idle @ runs.entries
    flow = flow / flow.sum()
    return replace(
        runs,
        moments=(runs.moments @ flow)[:, None],
        entries=runs.entries.sum(axis=1, keepdims=True),
        after=(flow @ runs.after)[None],
    )


def _as_renewal(arrivals: MAP, runs: _Runs) -> _Runs:
    """Give idle times of at most two phases, each the same whatever came before."""
    times = PH.of_exits(runs.after[0], arrivals.D0, arrivals.D1.sum(axis=1), arrivals.M)
    idle = fit_three_moments(*(float(m) for m in times.moments(3)), max_phases=2).distribution
    return _Runs(runs.moments, idle.T, idle.M, idle.exits[:, None], idle.alpha[None], runs.last)


def _dispersion(runs: _Runs, service: PH) -> DepartureDispersion:
    return DepartureDispersion(runs.M, runs.entries, runs.after, 1.0 + runs.moments[0], service)


def _conserving(dispersion: float, runs: _Runs, of_runs: DepartureDispersion) -> tuple[_Kinds, float]:
    """Choose eta so that the long-run dispersion is kept, and give it; it grows with eta, nearly linearly."""

    def made(eta: float) -> tuple[_Kinds, float]:
        kinds = _kinds(eta, runs)
        return kinds, of_runs.of(kinds.start, kinds.chance, kinds.ends)

    low, high = 0.0, 1.0
    (kinds, least), (_, most) = made(low), made(high)
    if dispersion <= least or most <= least * (1.0 + _CONSERVED):
        return kinds, least  # services so variable that even geometric runs have more: nothing to take away
    while most < dispersion and high < _LARGEST_ETA:
        low, least, high = high, most, 4.0 * high
        _, most = made(high)
    for step in range(_MOST_STEPS):
        width = most - least
        share = (dispersion - least) / width if width > 0.0 and step % 3 < 2 else 0.5
        eta = low + min(max(share, 0.0), 1.0) * (high - low)
        kinds, reached = made(eta)
        if abs(reached - dispersion) <= _CONSERVED * dispersion:
            break
        if reached < dispersion:
            low, least = eta, reached
        else:
            high, most = eta, reached
    return kinds, reached


def _simplest(process: MAP, dispersion: float) -> MAP:
    """Give the Poisson process if this is one in more phases, so that later queues stay small."""
    n = process.order
    # The dispersion is known by now, and tells nearly always; the variability is not.
    if abs(dispersion - 1.0) > _CONSERVED or abs(process.scv - 1.0) > _POISSON:
        return process
    shape = process.moments(2 * n - 1) * process.rate ** np.arange(1, 2 * n)
    exponential = np.cumprod(np.arange(1.0, 2 * n))
    if np.all(np.abs(shape / exponential - 1.0) <= _POISSON) and np.all(
        np.abs(process.autocorrelation(np.arange(1, n + 1))) <= _POISSON
    ):
        return MAP.poisson(process.rate)
    return process


def _kinds(eta: float, runs: _Runs) -> _Kinds:
    found = [(i, *kind) for i, phi in enumerate(runs.moments.T) for kind in _geometric_pair(phi, eta)]
    start, chance, mean = (np.array(part) for part in zip(*found, strict=True))
    end = 1.0 / (1.0 + mean)
    spread = max(float(runs.last.max()) - 1.0, 0.0) * end
    kept = np.divide(1.0 - end, spread, out=np.ones_like(end), where=spread > 1.0 - end)  # no chance above one
    return _Kinds(start, chance, end[:, None] * (1.0 + kept[:, None] * (runs.last - 1.0)))


def _assembled(kinds: _Kinds, runs: _Runs, service: PH, frequency: FloatArray) -> MAP:
    """Give the departures; `frequency` says which part of the runs begins at each start."""
    n, m = len(runs.idle), service.order
    size = n + len(kinds.start) * m
    D0, D1, spent = np.zeros((size, size)), np.zeros((size, size)), np.empty(size)
    D0[:n, :n] = runs.idle
    spent[:n] = frequency @ runs.after @ runs.M
    stay = service.alpha @ service.M
    for k, (start, chance, ends) in enumerate(zip(kinds.start, kinds.chance, kinds.ends, strict=True)):
        own = slice(n + k * m, n + (k + 1) * m)
        D0[:n, own] = (runs.entries[:, start] * chance)[:, None] * service.alpha
        D0[own, own] = service.T
        D1[own, own] = (service.exits * (1.0 - ends))[:, None] * service.alpha
        D1[own, :n] = (service.exits * ends)[:, None] * runs.after[start]
        spent[own] = frequency[start] * chance / float(stay * service.exits @ ends) * stay
    np.fill_diagonal(D0, 0.0)
    np.fill_diagonal(D0, -(D0.sum(axis=1) + D1.sum(axis=1)))
    return MAP.of_phases(D0, D1, spent / spent.sum())


def _geometric_pair(phi: FloatArray, eta: float) -> list[tuple[float, float]]:
    """Give chances and means of two geometric numbers with the mean phi_1 and `eta` of the excess of phi_2 and phi_3.

    A geometric number from 0 with mean x has the factorial moments k! x^k: two points with given moments.
    """
    a1, a2, a3 = float(phi[0]), 0.5 * float(phi[1]), float(phi[2]) / 6.0
    excess = eta * (a2 - a1 * a1)
    if not excess > _LEAST_EXCESS * a1 * a1:
        return [(1.0, a1)]
    third = max(a3 - a2 * a2 / a1, 0.0)  # beyond the least third moment
    a2 = a1 * a1 + excess
    a3 = a2 * a2 / a1 + eta * third
    sum_, product = (a3 - a1 * a2) / excess, (a1 * a3 - a2 * a2) / excess
    root = np.sqrt(max(sum_ * sum_ - 4.0 * product, 0.0))
    large = 0.5 * (sum_ + root)
    small = max(a1 - excess / (large - a1), 0.0)
    chance = (a1 - small) / (large - small)
    return [(float(chance), float(large)), (float(1.0 - chance), float(small))]
