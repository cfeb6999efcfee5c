# SPDX-License-Identifier: Apache-2.0
"""Searches chains of bursts and lulls, for windows whose queue no composition comes close to.

It tries two kinds: lulls of mixed times (`staged`) and ordinary traffic with episodes (`episodes`). First it searches
the six numbers that all stages of a kind share, in a few hundredths of a second. Then it searches every rate of the
better kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.markov.queue_gradient import stationary_rows
from penstock.workload import episodes, staged
from penstock.workload.candidates import Found, Recipe, valid
from penstock.workload.least_squares import DAMPING, Evaluate, IsLate, least_squares
from penstock.workload.queue_terms import with_queue
from penstock.workload.staged import Chain, Chains, Cycle, FreeChain, Stages, moment_factors
from penstock.workload.targets import STIFF, Targets

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_TOLERANCE = 3e-4
"""The search of all rates goes on while a step lowers the sum of squares by this part."""


@dataclass(frozen=True, eq=False)
class Start:
    """A kind of chain of some size, and the shared parameters with which its search begins."""

    family: str
    chains: Chains
    phases: IntArray
    theta: FloatArray
    low: FloatArray
    high: FloatArray
    iterations: int


def starts(targets: Targets, max_states: int, pair: Recipe | None) -> list[list[Start]]:
    """Return the chains worth trying, the largest first. Those of one list are rivals of about one size.

    Parameters
    ----------
    pair
        A composition of two components from which stages start. ``None``: no stages.
    """
    rounds: list[list[Start]] = [[], [], []]
    for rivals, size in zip(rounds, episodes.episodes_for(targets, max_states), strict=False):
        theta = episodes.start(size, targets)
        if theta is not None:
            rivals.append(Start("episodes", size.chains, size.phases(), theta, *size.bounds(targets.n), iterations=12))
    for rivals, stages in zip(rounds, stages_for(targets, max_states), strict=False):
        cycle = cycle_of(pair, stages) if pair is not None else None
        if cycle is not None:
            chains = _bound(stages)
            bounds = staged.cycle_bounds(stages, targets.n)
            rivals.append(Start("stages", chains, stages.phases(), cycle.parameters(), *bounds, iterations=8))
    return [rivals for rivals in rounds if rivals]


def _bound(stages: Stages) -> Chains:
    return lambda theta: staged.chains_of_cycles(theta, stages)


def stages_for(targets: Targets, max_states: int) -> list[Stages]:
    """Return the chains of stages worth trying, the largest first."""
    parts = staged.parts_needed(targets.m2, targets.m3)
    burst = max(1, (3 * max_states) // 8)
    largest = Stages(burst, max(1, (max_states - burst) // (1 + parts)), parts)
    smaller = [Stages(k, k, parts) for k in (4, 3, 2) if k + (1 + parts) * k < largest.order]
    return [s for s in (largest, *smaller[:1], *smaller[-1:]) if s.order <= max_states][:3]


def cycle(start: Start, targets: Targets, is_late: IsLate) -> Iterator[Found]:
    """Search the parameters that the stages of a chain share."""
    theta = np.clip(start.theta, start.low, start.high)[None]
    mu, p = start.chains(theta)
    wanted = _reachable(Chain(mu[0], p[0], start.phases), targets)
    theta, loss = least_squares(
        _chain_evaluate(start.chains, start.phases, wanted), theta, start.low, start.high, iterations=start.iterations,
        is_late=is_late, stiff=STIFF,
    )  # fmt: skip
    if np.isfinite(loss[0]):
        mu, p = start.chains(theta)
        yield from _found(Chain(mu[0], p[0], start.phases), start.family)


def free(
    chain: Chain, targets: Targets, is_late: IsLate, iterations: int, family: str, *, damping: float = DAMPING
) -> Iterator[Found]:
    """Search on from a chain, with every mean time and transition free."""
    wanted = _reachable(chain, targets)
    kind = FreeChain.like(chain.p, chain.phases)
    start = kind.on_moments(kind.parameters(chain.mu, chain.p)[None], wanted)[0]
    low, high = kind.bounds(start)
    theta, loss = least_squares(
        _chain_evaluate(kind.chains, chain.phases, wanted, pull=start), start[None], low, high,
        iterations=iterations, is_late=is_late, stiff=STIFF, retract=lambda rows: kind.on_moments(rows, wanted),
        tolerance=_TOLERANCE, damping=damping,
    )  # fmt: skip
    if np.isfinite(loss[0]):
        mu, p = kind.chains(theta)
        yield from _found(Chain(mu[0], p[0], chain.phases), family)


def can_have(chain: Chain, targets: Targets) -> bool:
    """Return whether chains of such phases can match the targets' second and third moment within a hundredth."""
    least = _least_third_moment(chain)
    wanted = targets.with_third_moment_above(least)
    return bool(wanted.m3 >= least * wanted.m2**2)


def alternate(targets: Targets, max_states: int, is_late: IsLate) -> Iterator[Found]:
    """Search chains of alternating short and long times, two states of each kind, for negative correlation."""
    for parts in range(1, max_states // 4 + 1):
        spread = max((1.0 + targets.scv) / (1.0 + 1.0 / parts) - 1.0, 0.02)
        half = min(float(np.sqrt(spread)), 0.7)
        mu = np.array([(1.0 - half) * 0.7, (1.0 - half) * 1.3, (1.0 + half) * 0.7, (1.0 + half) * 1.3])
        stay = min(max(0.5 * (1.0 + float(targets.acf[0]) * targets.scv / spread), 0.03), 0.45)
        p = np.kron(np.array([[stay, 1.0 - stay], [1.0 - stay, stay]]), np.array([[0.6, 0.4], [0.6, 0.4]]))
        chain = Chain(mu, p, np.full(4, parts, dtype=np.int64))
        yield from free(chain, targets, is_late, iterations=24, family="alternating states")


def cycle_of(recipe: Recipe, stages: Stages) -> Cycle | None:
    """Return the cycle of burst and lull that a composition of two components amounts to."""
    shape, theta = recipe.shape, recipe.theta
    if shape is None or theta is None or shape.components != 2:
        return None
    p = 1.0 / (1.0 + np.exp(-theta[:2]))
    r = np.exp(theta[2:4])
    gamma = 1.0 / (1.0 + np.exp(-theta[4:6]))
    slow = int(np.argmax(gamma))
    share, ratio = np.where(r > 1, p, 1.0 - p), np.where(r > 1, r, 1.0 / r)
    # More regular stages need a longer cycle for the same dispersion.
    regular = (2.0 / (1.0 / stages.burst + 1.0 / stages.lull)) ** 0.7
    length = regular / ((1.0 - gamma[slow]) * p[slow] * (1.0 - p[slow]))
    fast = 1 - slow
    return Cycle(
        float(share[slow]),
        float(ratio[slow]),
        float(length),
        float(share[fast]),
        float(ratio[fast]),
        float(gamma[fast]),
    )


def _found(chain: Chain, family: str) -> Iterator[Found]:
    d0, d1 = staged.rates_of(chain.mu[None], chain.p[None], chain.phases)
    yield from valid(d0[0], d1[0], Recipe(family, chain=chain))


def _chain_evaluate(chains: Chains, phases: IntArray, targets: Targets, pull: FloatArray | None = None) -> Evaluate:
    def descriptors(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return staged.evaluate_chain(theta, chains, phases, targets, pull)

    return with_queue(descriptors, lambda theta: staged.rates_of(*chains(theta), phases), targets)


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
