# SPDX-License-Identifier: Apache-2.0
"""From one batch start to the next: the gaps that may lie between, and what each brings.

==========  =========================================================================================
Symbol      Meaning
==========  =========================================================================================
n           records waiting when a batch starts; min(n, cap) of them form the batch, n - cap stay
o           how long after the last multiple of the trigger interval T the batch starts; 0 without
B           time of the batch
tau         time to the next start: B without a trigger, max(B, T - o) with one
==========  =========================================================================================

A *move* is a gap and a number of records left behind: from it, records and phase at the next start follow. Each
state (o, n) is a mixture of moves, each with the o it leads to: 0 if the batch was done by T - o, else o + B modulo T.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from penstock.markov import MAP
from penstock.markov.conditions import FloatArray, IntArray
from penstock.performance.queueing.micro_batch_counts import Counts, count_matrices, is_defective
from penstock.performance.queueing.micro_batch_grid import interpolation, kink_nodes, stencils
from penstock.performance.queueing.micro_batch_server import MicroBatch, batch_time_nodes

_OUTSIDE = 1e-10
"""Chernoff's bound on the mass of counts outside the window that is inverted, each side."""

_SINGLE_POINTS, _CAPPED_POINTS = 8, 3
"""Batch times that stand for the variability of a batch with all waiting records, and of a full one."""


_TO_THE_DOUBLE = 6
"""Times between one and its double, where exponentials are dear."""


@dataclass(frozen=True, eq=False)
class Moves:
    """All moves of a queue on a grid.

    `blocks[move, i, node, j]`: probability of records and phase at the next start; `mixture`: sparse, from states
    (o, n) to (move, next o); `beyond[move, i]`: mass that fell past the last node and was counted there.
    """

    nodes: FloatArray
    offsets: FloatArray
    counts: Counts
    times: FloatArray
    time_of: IntArray
    shift: FloatArray
    blocks: FloatArray
    beyond: FloatArray
    mixture: sparse.csr_array


def build_moves(arrivals: MAP, server: MicroBatch, nodes: FloatArray, frequencies: int, offsets: FloatArray) -> Moves:
    """Give the moves of a queue on `nodes` and `offsets`."""
    G, O = len(nodes), len(offsets)  # noqa: E741 (as in the symbol table)
    leftover = nodes - server.served(nodes)
    alone, behind = np.flatnonzero(leftover == 0), np.flatnonzero(leftover > 0)
    batch, q = batch_time_nodes(server, nodes[alone], _SINGLE_POINTS)
    grid, columns, weights = _time_grid(batch, q, doubling=is_defective(arrivals.D0, arrivals.D1))
    full, full_q = batch_time_nodes(server, np.array([float(server.cap or 1)]), _CAPPED_POINTS)
    deadlines = np.empty(0) if server.trigger is None else np.maximum(server.trigger - offsets, 1e-9 * server.trigger)
    times = np.concatenate([grid, deadlines, full[0] if behind.size else np.empty(0)])
    D, K = len(deadlines), len(grid)
    # Moves in order: the grid's times and the deadlines with nothing left behind; then, for each state with
    # records left behind, its full batch's times and the deadlines.
    later = np.concatenate([np.arange(K + D, len(times)), np.arange(K, K + D)])
    time_of = np.concatenate([np.arange(K + D), np.tile(later, behind.size)]).astype(np.int64)
    shift = np.concatenate([np.zeros(K + D), np.repeat(leftover[behind], len(later))])
    entries = _Entries()
    for r in range(O):
        room = deadlines[r] if D else 0.0
        for column in range(batch.shape[1]):
            on_time = (batch[:, column] <= room * (1 + 1e-9)) & (D > 0)
            rows = r * G + alone
            entries.add(rows[on_time], np.full(int(on_time.sum()), K + r), 0, np.full(int(on_time.sum()), q[column]))
            late = ~on_time
            goal, part = _next_offset(offsets[r] + batch[late, column], server, offsets)
            for a in range(columns.shape[2]):
                for b in range(goal.shape[1]):
                    value = q[column] * weights[late, column, a] * part[:, b]
                    entries.add(rows[late], columns[late, column, a], goal[:, b], value)
        for column in range(len(full_q)):
            rows = r * G + behind
            base = K + D + np.arange(behind.size) * len(later)
            if D and full[0, column] <= room * (1 + 1e-9):
                entries.add(rows, base + len(full_q) + r, 0, np.full(behind.size, full_q[column]))
                continue
            # Full batches follow each other many times over: where between triggers one starts is then as good as
            # evenly spread, and it matters only once the backlog is gone.
            for even, weight in enumerate(_even_offsets(O)):
                entries.add(rows, base + column, even, np.full(behind.size, full_q[column] * weight))
    mixture, used = entries.matrix(O * G, O)
    time_of, shift = time_of[used], shift[used]
    kept, time_of = np.unique(time_of, return_inverse=True)
    times = times[kept]
    counts = count_matrices(arrivals.D0, arrivals.D1, times, frequencies, _OUTSIDE)
    blocks, beyond = _blocks(arrivals, server, nodes, counts, time_of=time_of, shift=shift)
    return Moves(nodes, offsets, counts, times, time_of, shift, blocks, beyond, mixture)


class _Entries:
    """Entries of the mixture, gathered."""

    def __init__(self) -> None:
        self._parts: list[tuple[IntArray, IntArray, IntArray, FloatArray]] = []

    def add(self, rows: IntArray, moves: IntArray, goals: IntArray | int, values: FloatArray) -> None:
        self._parts.append((rows, moves, np.broadcast_to(np.asarray(goals), rows.shape), values))

    def matrix(self, rows: int, offsets: int) -> tuple[sparse.csr_array, IntArray]:
        """Give the mixture over the moves that are made at all, and their numbers."""
        row, move, goal, value = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        used, index = np.unique(move[value != 0], return_inverse=True)
        some = value != 0
        columns = index * offsets + goal[some]
        return sparse.csr_array((value[some], (row[some], columns)), shape=(rows, len(used) * offsets)), used


def _next_offset(ends: FloatArray, server: MicroBatch, offsets: FloatArray) -> tuple[IntArray, FloatArray]:
    """Give the offsets, with weights, at which batches that end so long after a trigger are followed."""
    if server.trigger is None or len(offsets) == 1:
        return np.zeros((len(ends), 1), dtype=np.int64), np.ones((len(ends), 1))
    return stencils(np.mod(ends, server.trigger), offsets, np.array([0, len(offsets) - 1]))


def _even_offsets(count: int) -> FloatArray:
    """Give weights of an even spread over the offsets (the trapezoidal rule)."""
    if count == 1:
        return np.ones(1)
    weights = np.full(count, 1.0 / (count - 1))
    weights[[0, -1]] /= 2
    return weights


def _time_grid(batch: FloatArray, q: FloatArray, *, doubling: bool) -> tuple[FloatArray, IntArray, FloatArray]:
    """Give times to invert at, and for every batch time `[node, q]` the times and weights that stand for it.

    With `doubling`, times are a few and their doubles, for processes whose exponentials are dear.
    """
    mean = batch @ q
    # The shortest of varied times are of no account beside their mean; they are taken as a tenth of it.
    low = max(float(batch[batch > 0].min()), 0.1 * float(mean[mean > 0].min()))
    if doubling and batch.max() > 2 * low:
        octaves = int(np.ceil(np.log2(batch.max() / low))) + 1
        times = np.sort(
            np.outer(2.0 ** np.arange(octaves), low * (1 + np.arange(_TO_THE_DOUBLE) / _TO_THE_DOUBLE)), axis=None
        )
        times = times[: int(np.searchsorted(times, batch.max())) + 1]
        columns, weights = stencils(batch.ravel(), times, np.array([0, len(times) - 1]))
        return times, columns.reshape(*batch.shape, -1), weights.reshape(*batch.shape, -1)
    if len(q) == 1:
        times, index = _distinct(batch[:, 0])
        return times, index[:, None, None], np.ones((len(index), 1, 1))
    low, high = float(batch.min()), float(batch.max())
    spread = np.quantile(batch, np.linspace(0, 1, 48))
    even = np.geomspace(max(low, high * 1e-6), high, 17)
    times = np.unique(np.concatenate([spread, even[1:-1], [low, high]]))
    keep = np.concatenate([[True], np.diff(times) > 1e-3 * times[1:]])
    keep[-1] = True
    times = times[keep]
    columns, weights = stencils(batch.ravel(), times, np.array([0, len(times) - 1]))
    return times, columns.reshape(*batch.shape, -1), weights.reshape(*batch.shape, -1)


def _distinct(values: FloatArray) -> tuple[FloatArray, IntArray]:
    """Sort values, those equal but for rounding taken as one, with the place of each."""
    order = np.argsort(values, kind="stable")
    new = np.concatenate([[True], np.diff(values[order]) > 1e-9 * values[order][1:]])
    index = np.empty(len(values), dtype=np.int64)
    index[order] = np.cumsum(new) - 1
    return values[order][new], index


def _blocks(
    arrivals: MAP, server: MicroBatch, nodes: FloatArray, counts: Counts, *, time_of: IntArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray]:
    m, M, G = arrivals.order, counts.at.shape[1], len(nodes)
    breaks = kink_nodes(server, nodes)
    blocks = np.empty((len(time_of), m, G, m))
    beyond = np.zeros((len(time_of), m))
    to_first = np.eye(m) if server.trigger is not None else arrivals.P
    by_source = counts.mass.sum(axis=3)
    points = counts.at[time_of] + shift[:, None]
    over = (points > nodes[-1]).astype(float)
    for k in range(len(counts.at)):
        moves = np.flatnonzero(time_of == k)
        carry = interpolation(points[moves].ravel(), nodes, breaks).reshape(len(moves), M, G)
        carried = counts.mass[k].reshape(M, m * m).T @ carry.transpose(1, 0, 2).reshape(M, -1)
        carried = carried.reshape(m, m, len(moves), G)
        blocks[moves] = carried.transpose(2, 0, 3, 1)
        beyond[moves] = over[moves] @ by_source[k]
        for move in moves[shift[moves] == 0]:
            blocks[move, :, 0, :] += counts.none[k] @ to_first
        behind = moves[shift[moves] > 0]
        if behind.size:
            stay = interpolation(shift[behind], nodes, breaks)
            blocks[behind] += counts.none[k][None, :, None, :] * stay[:, None, :, None]
    return blocks, beyond
