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
from penstock.performance.queueing.micro_batch_times import COARSE, FINE, ROUGH

_OUTSIDE = 1e-10
"""Chernoff's bound on the mass of counts outside the window that is inverted, each side."""

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
    batch, q = batch_time_nodes(server, nodes[alone])
    grid, scale = _time_grid(batch, q, doubling=is_defective(arrivals.D0, arrivals.D1))
    full_grid = _full_times(server) if behind.size else np.empty(0)
    deadlines = np.empty(0) if server.trigger is None else np.maximum(server.trigger - offsets, 1e-9 * server.trigger)
    times = np.concatenate([grid, deadlines, full_grid])
    D, K, F = len(deadlines), len(grid), len(full_grid)
    # Moves in order: the grid's times and the deadlines with nothing left behind; then, for each state with
    # records left behind, its full batch's times and the deadlines.
    later = np.concatenate([np.arange(K + D, len(times)), np.arange(K, K + D)])
    time_of = np.concatenate([np.arange(K + D), np.tile(later, behind.size)]).astype(np.int64)
    shift = np.concatenate([np.zeros(K + D), np.repeat(leftover[behind], len(later))])
    base = K + D + np.arange(behind.size) * len(later)
    entries = _Entries()
    for r in range(O):
        room, start = deadlines[r] * (1 + 1e-9) if D else None, _Start(server, offsets, r)
        if room is not None and server.varies:
            batch, q = batch_time_nodes(server, nodes[alone], COARSE, room)
        on_time, late = _ways(batch, q, room, start, scale)
        entries.add(r * G + alone, K + r, 0, on_time)
        row, time, goal, value = late
        entries.add(r * G + alone[row], time, goal, value)
        if not behind.size:
            continue
        full, full_q = batch_time_nodes(server, np.array([float(server.cap or 1)]), FINE if D else ROUGH, room)
        on_time, (_, time, goal, value) = _ways(full, full_q, room, start, _Scale(full_grid))
        entries.add(r * G + behind, base + F + r, 0, np.full(behind.size, on_time[0]))
        if not server.varies:
            # Full batches follow each other many times over: where between triggers one starts is then as good as
            # evenly spread, and it matters only once the backlog is gone.
            time = np.zeros(O, dtype=np.int64)
            goal, value = np.arange(O), (1.0 - on_time[0]) * _even_offsets(O)
        ways = np.zeros((F, O))
        np.add.at(ways, (time, goal), value)
        for a, b in np.argwhere(ways != 0).tolist():
            entries.add(r * G + behind, base + a, b, np.full(behind.size, ways[a, b]))
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

    def add(self, rows: IntArray, moves: IntArray | int, goals: IntArray | int, values: FloatArray) -> None:
        shape = rows.shape
        whole = np.broadcast_to(np.asarray(moves), shape), np.broadcast_to(np.asarray(goals), shape)
        self._parts.append((rows, *whole, values))

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


@dataclass(frozen=True, eq=False)
class _Start:
    """A start at offset number `number`."""

    server: MicroBatch
    offsets: FloatArray
    number: int


@dataclass(frozen=True, eq=False)
class _Scale:
    """Times that counts are known for: any other is carried over to the nearest of them."""

    times: FloatArray
    merges: bool = False

    def stencils(self, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """Give the times and weights that stand for each of some values."""
        if not self.merges:
            return stencils(values, self.times, np.array([0, len(self.times) - 1]))
        # Times as they are, but for rounding.
        after = np.clip(np.searchsorted(self.times, values), 1, max(len(self.times) - 1, 1))
        before = after - 1
        after = np.minimum(after, len(self.times) - 1)
        nearer = np.abs(self.times[after] - values) < np.abs(self.times[before] - values)
        return np.where(nearer, after, before)[:, None], np.ones((len(values), 1))


def _ways(
    batch: FloatArray, q: FloatArray, room: float | None, start: _Start, scale: _Scale
) -> tuple[FloatArray, tuple[IntArray, IntArray, IntArray, FloatArray]]:
    """Give, for batch times `[row, q]`, the share done by the deadline; and row, time, next offset, share of others."""
    done = np.zeros(batch.shape, dtype=bool) if room is None else batch <= room
    row, column = np.nonzero(~done)
    values, share = batch[row, column], np.broadcast_to(q, batch.shape)[row, column]
    time, part = scale.stencils(values)
    goal, goal_part = _next_offset(start.offsets[start.number] + values, start.server, start.offsets)
    shape = (len(row), time.shape[1], goal.shape[1])
    weight = share[:, None, None] * part[:, :, None] * goal_part[:, None, :]
    spread = [np.broadcast_to(each, shape).ravel() for each in (row[:, None, None], time[:, :, None], goal[:, None, :])]
    return (done * q).sum(axis=1), (spread[0], spread[1], spread[2], weight.ravel())


def _full_times(server: MicroBatch) -> FloatArray:
    """Give times to invert at for full batches."""
    size = np.array([float(server.cap or 1)])
    times = batch_time_nodes(server, size, ROUGH)[0][0]
    if server.trigger is None:
        return np.unique(times)
    ends = batch_time_nodes(server, size, FINE)[0]
    return np.unique(np.concatenate([times, [ends.min(), ends.max()]]))


def _time_grid(batch: FloatArray, q: FloatArray, *, doubling: bool) -> tuple[FloatArray, _Scale]:
    """Give times to invert at that can stand for batch times `[node, q]`.

    With `doubling`, times are a few and their doubles, for processes whose exponentials are dear.
    """
    mean = (batch * q).sum(axis=1)
    # The shortest of varied times are of no account beside their mean; they are taken as a tenth of it.
    low = max(float(batch[batch > 0].min()), 0.1 * float(mean[mean > 0].min()))
    if doubling and batch.max() > 2 * low:
        octaves = int(np.ceil(np.log2(batch.max() / low))) + 1
        times = np.sort(
            np.outer(2.0 ** np.arange(octaves), low * (1 + np.arange(_TO_THE_DOUBLE) / _TO_THE_DOUBLE)), axis=None
        )
        times = times[: int(np.searchsorted(times, batch.max())) + 1]
        return times, _Scale(times)
    if batch.shape[1] == 1:
        times = _distinct(batch[:, 0])
        return times, _Scale(times, merges=True)
    low, high = float(batch.min()), float(batch.max())
    spread = np.quantile(batch, np.linspace(0, 1, 48))
    even = np.geomspace(max(low, high * 1e-6), high, 17)
    times = np.unique(np.concatenate([spread, even[1:-1], [low, high]]))
    keep = np.concatenate([[True], np.diff(times) > 1e-3 * times[1:]])
    keep[-1] = True
    times = times[keep]
    return times, _Scale(times)


def _distinct(values: FloatArray) -> FloatArray:
    """Sort values, those equal but for rounding taken as one."""
    ordered = np.sort(values)
    return np.asarray(ordered[np.concatenate([[True], np.diff(ordered) > 1e-9 * ordered[1:]])])


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
