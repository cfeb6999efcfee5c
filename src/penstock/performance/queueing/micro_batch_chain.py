# SPDX-License-Identifier: Apache-2.0
"""The chain of a micro-batch queue, seen whenever a batch starts: records waiting, phase of the arrivals.

==========  =========================================================================================
Symbol      Meaning
==========  =========================================================================================
n           records waiting when a batch starts; min(n, cap) of them form the batch, n - cap stay
B(n)        time of that batch: mean f + c min(n, cap), variance as `MicroBatch` says
tau         time until the next batch may start: B(n), or max(B(n), T) with a trigger interval T
x[a, i]     stationary probability of nodes[a] records and phase i at a start
==========  =========================================================================================

docs/background/micro-batch-queue.md derives it. Counts stand on nodes: every whole number where they are few, else
ever wider apart; mass between nodes is carried over so that its first three moments stay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from penstock.markov import MAP
from penstock.markov.conditions import FloatArray, IntArray
from penstock.performance.queueing.micro_batch_counts import (
    Counts,
    count_matrices,
    expected_counts,
    interpolation,
)
from penstock.performance.queueing.micro_batch_server import MicroBatch

_OUTSIDE = 1e-10
"""Chernoff's bound on the mass of counts outside the window that is inverted, each side."""


@dataclass(frozen=True, eq=False)
class Chain:
    """A solved chain: its grids, transition pieces and stationary vector."""

    arrivals: MAP
    server: MicroBatch
    nodes: FloatArray
    first: int
    stationary: FloatArray
    times: FloatArray
    weights: FloatArray
    counts: Counts
    left_out: float

    @property
    def leftover(self) -> FloatArray:
        """Records that stay behind when a batch starts, for each node."""
        return self.nodes - self.server.served(self.nodes)


def batch_time_nodes(server: MicroBatch, sizes: FloatArray, points: int) -> tuple[FloatArray, FloatArray]:
    """Give batch times `[size, q]` and their weights, with the mean and variance of each size's batch time.

    A batch's time is taken as gamma distributed (beyond f if f does not vary); an empty batch takes no time.
    """
    mean, variance = server.batch_moments(sizes)
    if not np.any(variance > 0):
        return mean[:, None], np.ones(1)
    x, w = np.polynomial.legendre.leggauss(points)
    x, w = (x + 1) / 2, w / 2
    floor = np.where(sizes > 0, server.fixed if server.fixed_scv == 0 else 0.0, 0.0)
    part = np.where(variance > 0, mean - floor, 1.0)
    shape = np.where(variance > 0, part**2 / np.where(variance > 0, variance, 1.0), 1.0)
    drawn = gammaincinv(shape[:, None], x[None, :]) / shape[:, None]
    centred = drawn - (drawn @ w)[:, None]
    spread = np.sqrt(1 / (shape * (centred**2 @ w)))
    relative = np.maximum(1.0 + centred * spread[:, None], 0.0)
    return np.where((variance > 0)[:, None], floor[:, None] + part[:, None] * relative, mean[:, None]), w


def solve_chain(arrivals: MAP, server: MicroBatch, nodes: FloatArray, frequencies: int, *, points: int = 8) -> Chain:
    """Build the transition matrix on `nodes` and solve for its stationary vector."""
    D0, D1 = arrivals.D0, arrivals.D1
    G, m = len(nodes), arrivals.order
    first = 1 if nodes[0] == 0 else 0
    breaks = _breaks(server, nodes, first)
    batch, q = batch_time_nodes(server, server.served(nodes), points)
    gaps = batch if server.trigger is None else np.maximum(batch, server.trigger)
    times, weights = _time_grid(gaps, q)
    counts = count_matrices(D0, D1, times, frequencies, _OUTSIDE)
    leftover = nodes - server.served(nodes)
    to_first = np.eye(m) if server.trigger is not None else arrivals.P
    beyond = np.zeros((G, m))
    rows = np.zeros((G, m, G, m))
    single = np.flatnonzero(leftover == 0)
    for k in range(len(times)):
        users = single[weights[single, k] != 0]
        if users.size:
            block = _carried(counts, k, 0.0, nodes, breaks)
            block[:, 0, :] += counts.none[k] @ to_first
            rows[users] += weights[users, k][:, None, None, None] * block
            over = counts.mass[k][counts.at[k] > nodes[-1]].sum(axis=(0, 2))
            beyond[users] += weights[users, k][:, None] * over
    for a in np.flatnonzero(leftover > 0):
        for k in np.flatnonzero(weights[a]).tolist():
            block = _carried(counts, k, leftover[a], nodes, breaks)
            here = interpolation(leftover[a : a + 1], nodes, breaks)[0]
            block += counts.none[k][:, None, :] * here[None, :, None]
            rows[a] += weights[a, k] * block
            beyond[a] += weights[a, k] * counts.mass[k][counts.at[k] + leftover[a] > nodes[-1]].sum(axis=(0, 2))
    x = _stationary(rows.reshape(G * m, G * m)).reshape(G, m)
    left_out = float((x * np.maximum(beyond, 0.0)).sum())
    return Chain(arrivals, server, nodes, first, x, times, weights, counts, left_out)


def _carried(counts: Counts, k: int, shift: float, nodes: FloatArray, breaks: IntArray) -> FloatArray:
    """Give the block `[i, node, j]` of N(t) > 0 arrivals on top of `shift` records."""
    carry = interpolation(counts.at[k] + shift, nodes, breaks)
    M, m = counts.mass.shape[1], counts.mass.shape[2]
    block = counts.mass[k].reshape(M, m * m).T @ carry
    return np.ascontiguousarray(block.reshape(m, m, -1).transpose(0, 2, 1))


def _breaks(server: MicroBatch, nodes: FloatArray, first: int) -> IntArray:
    """Number the nodes where the batch time or what stays behind has a kink."""
    marks = [first, len(nodes) - 1]
    marks += [int(np.searchsorted(nodes, size)) for size in server.kinks() if nodes[first] < size < nodes[-1]]
    return np.unique(marks)


def _time_grid(gaps: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give the times to invert at and the weight of each for every node."""
    G = len(gaps)
    if gaps.shape[1] == 1:
        times, index = _distinct(gaps[:, 0])
        weights = np.zeros((G, len(times)))
        weights[np.arange(G), index] = 1.0
        return times, weights
    low, high = gaps.min(), gaps.max()
    if high <= low:
        return np.array([low]), np.ones((G, 1))
    # Quantiles of the times themselves, so that they stand where nodes do, and the ends.
    spread = np.quantile(gaps, np.linspace(0, 1, 48))
    even = np.geomspace(max(low, high * 1e-6), high, 17)
    times = np.unique(np.concatenate([spread, even[1:-1], [low, high]]))
    keep = np.concatenate([[True], np.diff(times) > 1e-3 * times[1:]])
    keep[-1] = True
    times = times[keep]
    ends = np.array([0, len(times) - 1])
    weights = np.zeros((G, len(times)))
    for column, weight in enumerate(q):
        weights += weight * interpolation(gaps[:, column], times, ends)
    return times, weights


def _distinct(values: FloatArray) -> tuple[FloatArray, IntArray]:
    """Sort values, those equal but for rounding taken as one, with the place of each."""
    order = np.argsort(values, kind="stable")
    new = np.concatenate([[True], np.diff(values[order]) > 1e-9 * values[order][1:]])
    index = np.empty(len(values), dtype=np.int64)
    index[order] = np.cumsum(new) - 1
    return values[order][new], index


def _stationary(P: FloatArray) -> FloatArray:
    """Solve x P = x, x 1 = 1."""
    A = (np.eye(len(P)) - P).T
    A[0] = 1.0
    right = np.zeros(len(P))
    right[0] = 1.0
    return np.asarray(np.linalg.solve(A, right), dtype=float)


@dataclass(frozen=True)
class Cycle:
    """Means over one cycle, from a batch's start to the next."""

    served: float
    seconds: float
    latency_sum: float
    batch_seconds: float
    age: FloatArray
    idle: float


def cycle_means(chain: Chain) -> Cycle:
    """Give the means of a cycle, and by them the mean latency: latency_sum / served (Little's law)."""
    server, x = chain.server, chain.stationary
    by_node = x.sum(axis=1)
    served = server.served(chain.nodes)
    batch, _ = server.batch_moments(served)
    gaps = chain.weights @ chain.times
    counts, areas = expected_counts(chain.arrivals.D0, chain.arrivals.D1, chain.times)
    in_phase = chain.weights.T @ x
    area = float((in_phase * areas).sum())
    single = chain.leftover == 0
    idle_phase = np.einsum("ki,kij->j", chain.weights[single].T @ x[single], chain.counts.none)
    idle = 0.0 if server.trigger is not None else float(idle_phase @ chain.arrivals.M.sum(axis=1))
    # Where in the gap the mean record arrives: 1/2 if evenly, more if towards the start (its age is larger).
    expected = (in_phase * counts).sum(axis=1) * chain.times
    age = np.where(expected > 0, (in_phase * areas).sum(axis=1) / np.where(expected > 0, expected, 1.0), 0.5)
    return Cycle(
        served=float(by_node @ served),
        seconds=float(by_node @ gaps) + idle,
        latency_sum=float(by_node @ (served * batch + chain.leftover * gaps)) + area,
        batch_seconds=float(by_node @ batch),
        age=age,
        idle=float(idle_phase.sum()),
    )
