# SPDX-License-Identifier: Apache-2.0
"""Searches chains of alternating short and long times, for windows in which short times follow long ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from penstock.markov.queue_gradient import stationary_rows
from penstock.workload import free_chain
from penstock.workload.candidates import Found, Recipe, valid
from penstock.workload.free_chain import Chain, Chains, FreeChain, moment_factors
from penstock.workload.least_squares import Evaluate, IsLate, least_squares
from penstock.workload.queue_terms import with_queue
from penstock.workload.targets import STIFF, Targets

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_ITERATIONS = 24
_TOLERANCE = 3e-4
"""The search of all rates goes on while a step lowers the sum of squares by this part."""

MOST_PARTS = 5
"""Most stages of a time, four times as many states. A step takes about the third power of them, and closed forms
(`simple_fits`) reach times that are more regular."""


def _free(chain: Chain, targets: Targets, is_late: IsLate) -> Iterator[Found]:
    """Search on from a chain, with every mean time and transition free."""
    wanted = _reachable(chain, targets)
    kind = FreeChain.like(chain.p, chain.phases)
    start = kind.on_moments(kind.parameters(chain.mu, chain.p)[None], wanted)[0]
    low, high = kind.bounds(start)
    theta, loss = least_squares(
        _chain_evaluate(kind.chains, chain.phases, wanted, pull=start), start[None], low, high,
        iterations=_ITERATIONS, is_late=is_late, stiff=STIFF, retract=lambda rows: kind.on_moments(rows, wanted),
        tolerance=_TOLERANCE,
    )  # fmt: skip
    if np.isfinite(loss[0]):
        mu, p = kind.chains(theta)
        yield from _found(Chain(mu[0], p[0], chain.phases))


def alternate(targets: Targets, max_states: int, is_late: IsLate) -> Iterator[Found]:
    """Search chains of alternating short and long times, two states of each kind, for negative correlation."""
    for parts in range(1, min(max_states // 4, MOST_PARTS) + 1):
        spread = max((1.0 + targets.scv) / (1.0 + 1.0 / parts) - 1.0, 0.02)
        half = min(float(np.sqrt(spread)), 0.7)
        mu = np.array([(1.0 - half) * 0.7, (1.0 - half) * 1.3, (1.0 + half) * 0.7, (1.0 + half) * 1.3])
        stay = min(max(0.5 * (1.0 + float(targets.acf[0]) * targets.scv / spread), 0.03), 0.45)
        p = np.kron(np.array([[stay, 1.0 - stay], [1.0 - stay, stay]]), np.array([[0.6, 0.4], [0.6, 0.4]]))
        chain = Chain(mu, p, np.full(4, parts, dtype=np.int64))
        yield from _free(chain, targets, is_late)


def _found(chain: Chain) -> Iterator[Found]:
    d0, d1 = free_chain.rates_of(chain.mu[None], chain.p[None], chain.phases)
    yield from valid(d0[0], d1[0], Recipe("alternating states"))


def _chain_evaluate(chains: Chains, phases: IntArray, targets: Targets, pull: FloatArray | None = None) -> Evaluate:
    def descriptors(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return free_chain.evaluate_chain(theta, chains, phases, targets, pull)

    return with_queue(descriptors, lambda theta: free_chain.rates_of(*chains(theta), phases), targets)


def _reachable(chain: Chain, targets: Targets) -> Targets:
    return targets.with_third_moment_above(_least_third_moment(chain))


def _least_third_moment(chain: Chain) -> float:
    """Return the least m3 / m2^2 of chains of such phases, with as much time in each kind.

    With shares s of the time, it is 1 / sum of s c2^2 / c3 (Cauchy and Schwarz).
    """
    pi = stationary_rows((chain.p - np.eye(len(chain.mu)))[None])[0]
    time = pi * chain.mu
    c2, c3 = moment_factors(chain.phases)
    return float(time.sum() / (time * c2 * c2 / c3).sum())
