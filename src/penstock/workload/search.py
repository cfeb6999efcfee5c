# SPDX-License-Identifier: Apache-2.0
"""The searches for a correlated window: compositions of ever more states, then chains of stages if those fall short.

1. Compositions (`product_form`): least squares on moments, autocorrelation, dispersion and bicovariance from several
   starts; the best few then with the replayed queue as further terms.
2. If the queue of none comes close, chains of burst and lull stages (`staged`), started from the best composition of
   two components: first what all stages share, then every rate alone.

Order selection is by the loss with its price per state, never by the fit of the autocorrelation alone: with as many
decays as lags any autocorrelation is met, noise included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidProcessError
from penstock.markov import MAP
from penstock.workload import product_form, staged
from penstock.workload.candidates import Recipe
from penstock.workload.least_squares import Evaluate, least_squares
from penstock.workload.product_form import Shape
from penstock.workload.queue_terms import Matrices, queue_terms
from penstock.workload.staged import Chain, Chains, Cycle, FreeChain, Stages
from penstock.workload.targets import Targets

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
IsLate = Callable[[], bool]
Found = tuple[MAP, Recipe]

STIFF = 2
"""Leading terms of every fit are the second and third moment, held nearly as constraints."""


def shapes_for(targets: Targets, max_states: int) -> list[Shape]:
    """Give the compositions worth trying for a window, smallest first.

    A composition without a base has SCV of at least 1, m3 of at least 1.5 m2^2, and autocorrelations below
    (SCV - 1) / (2 SCV); a base of k phases widens all three.
    """
    c2, strongest = targets.scv, float(np.max(targets.acf, initial=0.0))
    least = staged.parts_needed(targets.m2, targets.m3)
    shapes = []
    if c2 > 1.0 + 1e-6 and least == 1:
        shapes += [Shape(j) for j in range(1, 6)]
    k = max(2, least)
    while k <= max_states // 2 and not _reaches(c2, strongest, k):
        k += 1
    # Below SCV 1 the base is what sets the third moment: more phases of it are worth more than more components.
    wider = range(k, max_states // 2 + 1) if c2 <= 1.0 else (k,)
    shapes += [Shape(j, b) for b in wider for j in range(1, 5)]
    fitting = [shape for shape in shapes if shape.order <= max_states]
    return sorted(fitting, key=lambda shape: (shape.order, shape.base))


def _reaches(c2: float, strongest: float, k: int) -> bool:
    spread = (1.0 + c2) / (1.0 + 1.0 / k) - 1.0
    return spread > 0 and spread / c2 > 1.05 * strongest


def compose(
    shape: Shape, targets: Targets, rng: np.random.Generator, is_late: IsLate, most: int = 4
) -> Iterator[Found]:
    """Search the compositions of one shape; the `most` promising go on to the queue."""
    low, high = product_form.bounds(shape, targets.n)
    count = 3 if shape.components == 1 else 8
    start = product_form.starts(shape, targets, count, rng)

    def descriptors(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return product_form.evaluate(theta, shape, targets)

    theta, loss = least_squares(
        descriptors, start, low, high, iterations=30, is_late=is_late, stiff=STIFF,
        retract=lambda rows: product_form.on_moments(rows, shape, targets, rounds=1),
    )  # fmt: skip
    keep = _different(loss, product_form.invariants(theta, shape), most)
    if keep:
        yield from polish(shape, theta[keep], targets, is_late)


def _different(loss: FloatArray, marks: FloatArray, most: int) -> list[int]:
    """Give the best rows, no two of them alike."""
    keep: list[int] = []
    for i in np.argsort(loss):
        if np.isfinite(loss[i]) and all(float(np.max(np.abs(marks[i] - marks[k]))) > 0.05 for k in keep):
            keep.append(int(i))
        if len(keep) == most:
            break
    return keep


def polish(shape: Shape, theta: FloatArray, targets: Targets, is_late: IsLate, iterations: int = 12) -> Iterator[Found]:
    """Search on from compositions of one shape, the queue included."""
    low, high = product_form.bounds(shape, targets.n)

    def matrices(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        return product_form.matrices(rows, shape)

    def descriptors(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        return product_form.evaluate(rows, shape, targets)

    theta, loss = least_squares(
        _with_queue(descriptors, matrices, targets), theta, low, high, iterations=iterations, is_late=is_late,
        stiff=STIFF, retract=lambda rows: product_form.on_moments(rows, shape, targets),
    )  # fmt: skip
    for i in np.argsort(loss):
        if np.isfinite(loss[i]):
            d0, d1 = matrices(theta[i : i + 1])
            name = f"composition of {shape.components}" + (f", base of {shape.base}" if shape.base else "")
            yield from _valid(d0[0], d1[0], Recipe(name, shape=shape, theta=theta[i]))


def stages_for(targets: Targets, max_states: int) -> list[Stages]:
    """Give the chains of stages worth trying, the largest first."""
    parts = staged.parts_needed(targets.m2, targets.m3)
    burst = max(1, (3 * max_states) // 8)
    largest = Stages(burst, max(1, (max_states - burst) // (1 + parts)), parts)
    smaller = [Stages(k, k, parts) for k in (4, 3, 2) if k + (1 + parts) * k < largest.order]
    return [s for s in (largest, *smaller[:1], *smaller[-1:]) if s.order <= max_states][:3]


def stage(stages: Stages, start: Found, targets: Targets, is_late: IsLate) -> Iterator[Found]:
    """Search the chains of these stages, started from a composition of two components."""
    cycle = cycle_of(start[1], stages)
    if cycle is None:
        return
    low, high = staged.cycle_bounds(stages, targets.n)
    phases = stages.phases()

    def chains(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        return staged.chains_of_cycles(rows, stages)

    theta, loss = least_squares(
        _chain_evaluate(chains, phases, targets), np.clip(cycle.parameters(), low, high)[None], low, high,
        iterations=8, is_late=is_late, stiff=STIFF,
    )  # fmt: skip
    if np.isfinite(loss[0]):
        mu, p = chains(theta)
        yield from free(Chain(mu[0], p[0], phases), targets, is_late)


def free(
    chain: Chain, targets: Targets, is_late: IsLate, iterations: int = 24, family: str = "stages"
) -> Iterator[Found]:
    """Search on from a chain, every mean time and transition being free."""
    kind = FreeChain.like(chain.p, chain.phases)
    start = kind.on_moments(kind.parameters(chain.mu, chain.p)[None], targets)[0]
    low, high = kind.bounds(start)
    theta, loss = least_squares(
        _chain_evaluate(kind.chains, chain.phases, targets, pull=start), start[None], low, high,
        iterations=iterations, is_late=is_late, stiff=STIFF, retract=lambda rows: kind.on_moments(rows, targets),
    )  # fmt: skip
    if not np.isfinite(loss[0]):
        return
    mu, p = kind.chains(theta)
    d0, d1 = staged.rates_of(mu, p, chain.phases)
    yield from _valid(d0[0], d1[0], Recipe(family, chain=Chain(mu[0], p[0], chain.phases)))


def again(recipe: Recipe, targets: Targets, is_late: IsLate) -> Iterator[Found]:
    """Search on from what an earlier window's fit ended with."""
    if recipe.shape is not None and recipe.theta is not None:
        theta = product_form.on_moments(recipe.theta[None], recipe.shape, targets, rounds=6)
        yield from polish(recipe.shape, theta, targets, is_late, iterations=8)
    elif recipe.chain is not None:
        yield from free(recipe.chain, targets, is_late, iterations=7, family=recipe.family)


def alternate(targets: Targets, max_states: int, is_late: IsLate) -> Iterator[Found]:
    """Search chains of short and long times that take turns, two states of each kind, for negative correlation."""
    for parts in range(1, max_states // 4 + 1):
        spread = max((1.0 + targets.scv) / (1.0 + 1.0 / parts) - 1.0, 0.02)
        half = min(float(np.sqrt(spread)), 0.7)
        mu = np.array([(1.0 - half) * 0.7, (1.0 - half) * 1.3, (1.0 + half) * 0.7, (1.0 + half) * 1.3])
        stay = min(max(0.5 * (1.0 + float(targets.acf[0]) * targets.scv / spread), 0.03), 0.45)
        p = np.kron(np.array([[stay, 1.0 - stay], [1.0 - stay, stay]]), np.array([[0.6, 0.4], [0.6, 0.4]]))
        yield from free(Chain(mu, p, np.full(4, parts, dtype=np.int64)), targets, is_late, family="alternating states")


def cycle_of(recipe: Recipe, stages: Stages) -> Cycle | None:
    """Give the cycle of burst and lull that a composition of two components amounts to."""
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


def _with_queue(descriptors: Evaluate, matrices: Matrices, targets: Targets) -> Evaluate:
    def evaluate(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        residuals, slopes = descriptors(theta)
        queue, queue_slopes = queue_terms(theta, matrices, targets)
        return np.concatenate([residuals, queue], axis=1), np.concatenate([slopes, queue_slopes], axis=1)

    return evaluate


def _chain_evaluate(chains: Chains, phases: IntArray, targets: Targets, pull: FloatArray | None = None) -> Evaluate:
    def descriptors(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return staged.evaluate_chain(theta, chains, phases, targets, pull)

    return _with_queue(descriptors, lambda theta: staged.rates_of(*chains(theta), phases), targets)


def _valid(d0: FloatArray, d1: FloatArray, recipe: Recipe) -> Iterator[Found]:
    # A composition whose rates lie too far apart for its numbers to add up is no candidate.
    try:
        process = MAP(d0, d1).with_rate(1.0)
    except InvalidProcessError:
        return
    yield process, recipe
