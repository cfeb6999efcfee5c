# SPDX-License-Identifier: Apache-2.0
"""The chain of a micro-batch queue, seen whenever a batch starts: records waiting, phase, place in the trigger.

docs/background/micro-batch-queue.md derives it. The stationary vector x[o, n, i] is found by aggregation and
disaggregation (Koury, McAllister and Stewart, "Iterative methods for computing stationary distributions of nearly
completely decomposable Markov chains", SIAM Journal on Algebraic and Discrete Methods 5, 1984), here as what
guides GMRES: summed over o, the chain is solved directly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import linalg as sparse_linalg

from penstock.errors import ConvergenceError
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.micro_batch.moves import Moves, build_moves
from penstock.performance.queueing.micro_batch.server import MicroBatch
from penstock.performance.queueing.micro_batch.spectra import Spectra

_SETTLED = 1e-8
"""Mass that may still move in a step of the whole chain."""

_MOST_TURNS = 6


@dataclass(frozen=True, eq=False)
class Chain:
    """A solved chain.

    `stationary[o, n, i]`; `flow[move, i]`: how often a move is made, with the phase at its beginning; `left_out`: mass
    past the last node.
    """

    spectra: Spectra
    server: MicroBatch
    moves: Moves
    stationary: FloatArray
    flow: FloatArray
    left_out: float

    @property
    def nodes(self) -> FloatArray:
        """Numbers of records the chain stands on."""
        return self.moves.nodes

    @property
    def by_node(self) -> FloatArray:
        """Share of the batch starts that find each number of records."""
        return np.asarray(self.stationary.sum(axis=(0, 2)))

    @property
    def moved(self) -> float:
        """By what share counts had to be moved to have the right means: how coarsely they are sampled."""
        often = np.abs(self.flow).sum(axis=1)
        return float(often @ self.moves.counts.moved[self.moves.time_of] / often.sum())


def solve_chain(
    spectra: Spectra, server: MicroBatch, nodes: FloatArray, frequencies: int, offsets: FloatArray | None = None
) -> Chain:
    """Build the chain on `nodes` and `offsets` (without: every batch is taken to start at a trigger) and solve it."""
    moves = build_moves(spectra, server, nodes, frequencies, np.zeros(1) if offsets is None else offsets)
    x, flow = _stationary(moves)
    in_phase = flow.sum(axis=1)
    left_out = float((in_phase * np.maximum(moves.beyond, 0.0)).sum())
    return Chain(spectra, server, moves, x, in_phase, left_out)


def _stationary(moves: Moves) -> tuple[FloatArray, FloatArray]:
    """Give x[o, n, i] and the flow[move, next o, i] it makes."""
    m, count, G, _ = moves.blocks.shape
    O = len(moves.offsets)  # noqa: E741
    flat = moves.blocks.reshape(m * count, G * m)
    made = sparse.csr_array(moves.mixture.T)

    def flow_of(x: FloatArray) -> FloatArray:
        return np.asarray(made @ x.reshape(O * G, m)).reshape(count, O, m)

    def step(x: FloatArray) -> FloatArray:
        return (flow_of(x).transpose(1, 2, 0).reshape(O, m * count) @ flat).reshape(O, G, m)

    spread = np.zeros((O, G, m))
    spread[0] = 1.0
    summed = _Summed(moves, spread)
    x = spread * summed.stationary()
    if O == 1:
        return x, flow_of(x)
    mass = np.abs(step(step(step(x))))
    whole = mass.sum(axis=0)
    spread = np.where(whole > 0, mass / np.where(whole > 0, whole, 1.0), spread)
    summed = _Summed(moves, spread)
    x = spread * summed.stationary()

    def whole_chain(d: FloatArray) -> FloatArray:
        return (d.reshape(O, G, m) - step(d.reshape(O, G, m))).ravel()

    def summed_chain(r: FloatArray) -> FloatArray:
        return (r.reshape(O, G, m) + spread * summed.correction(step(r.reshape(O, G, m)).sum(axis=0))).ravel()

    size = x.size
    operator = sparse_linalg.LinearOperator((size, size), matvec=whole_chain, dtype=float)
    guide = sparse_linalg.LinearOperator((size, size), matvec=summed_chain, dtype=float)
    left = -whole_chain(x.ravel())
    tolerance = _SETTLED / max(float(np.linalg.norm(left)), _SETTLED)
    change, _ = sparse_linalg.gmres(operator, left, M=guide, rtol=tolerance, restart=50, maxiter=_MOST_TURNS)
    x = x + change.reshape(O, G, m)
    residual = float(np.linalg.norm(whole_chain(x.ravel())))
    if not residual < 100 * _SETTLED:
        raise ConvergenceError(
            "the offsets from the trigger do not settle", iterations=50 * _MOST_TURNS, residual=residual
        )
    x = x / x.sum()
    return x, flow_of(x)


class _Summed:
    """The chain summed over the offsets, each state (n, i) spread over them as given, factorised."""

    def __init__(self, moves: Moves, spread: FloatArray) -> None:
        m, count, G, _ = moves.blocks.shape
        O = len(moves.offsets)  # noqa: E741
        P = np.empty((G, m, G * m))
        # The moves of a state (o, n), whatever o they lead to.
        merged = moves.mixture @ sparse.kron(sparse.eye_array(count), np.ones((O, 1)), format="csr")
        for i in range(m):
            some = np.flatnonzero(spread[:, :, i])
            rows = sparse.csr_array((spread[:, :, i].ravel()[some], (some % G, some)), shape=(G, O * G)) @ merged
            P[:, i] = rows @ moves.blocks[i].reshape(count, G * m)
        A = (np.eye(G * m) - P.reshape(G * m, G * m)).T
        A[0] = 1.0
        self._shape = (G, m)
        self._factors = linalg.lu_factor(A, overwrite_a=True, check_finite=False)

    def stationary(self) -> FloatArray:
        """Solve x P = x, x 1 = 1."""
        return self._solve(1.0, np.zeros(self._shape))

    def correction(self, residual: FloatArray) -> FloatArray:
        """Solve d (I - P) = residual, d 1 = 0."""
        return self._solve(0.0, residual)

    def _solve(self, total: float, right: FloatArray) -> FloatArray:
        flat = right.ravel().copy()
        flat[0] = total
        return np.asarray(linalg.lu_solve(self._factors, flat, check_finite=False)).reshape(self._shape)


@dataclass(frozen=True, eq=False)
class Cycle:
    """Means over one cycle, from a batch's start to the next."""

    served: float
    seconds: float
    latency_sum: float
    batch_seconds: float
    age: FloatArray
    idle: float
    imbalance: float

    @property
    def latency(self) -> float:
        """Mean latency of a record, by Little's law."""
        return self.latency_sum / self.served


def cycle_means(chain: Chain) -> Cycle:
    """Give the means of a cycle.

    A record in the batch counts while the batch runs, one left behind for the whole gap, one that arrives from then
    to the end of the gap: their sum over a cycle is latency times records, since each record's latency is the sum
    of just these times.
    """
    server, moves = chain.server, chain.moves
    served = server.served(chain.nodes)
    batch, _ = server.batch_moments(served)
    arrivals, counts = chain.spectra.arrivals, moves.counts
    made = chain.flow.sum(axis=1)
    gap = moves.times[moves.time_of]
    area = (chain.flow * counts.area[moves.time_of]).sum(axis=1)
    arrived = (chain.flow * counts.expected[moves.time_of]).sum(axis=1)
    fresh = moves.shift == 0
    idle_phase = np.einsum("ki,kij->j", chain.flow[fresh], counts.none[moves.time_of[fresh]])
    waits = server.trigger is None
    # Mean age of a record at the end of its gap, as a share of the gap: 1/2 if records arrive evenly.
    total = arrived * gap
    usable = np.abs(total) > 1e-300
    size = float(chain.by_node @ served)
    seconds = float(made @ gap) + (float(idle_phase @ arrivals.M.sum(axis=1)) if waits else 0.0)
    return Cycle(
        served=size,
        seconds=seconds,
        imbalance=size / (arrivals.rate * seconds) - 1.0,
        latency_sum=float(chain.by_node @ (served * batch)) + float(made @ (moves.shift * gap)) + float(area.sum()),
        batch_seconds=float(chain.by_node @ batch),
        age=np.where(usable, area / np.where(usable, total, 1.0), 0.5),
        idle=float(idle_phase.sum()) if waits else 0.0,
    )
