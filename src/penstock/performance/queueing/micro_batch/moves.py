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

from penstock.markov.conditions import FloatArray, IntArray
from penstock.performance.queueing.micro_batch.arrival_counts import Counts, count_matrices
from penstock.performance.queueing.micro_batch.backlog_grid import Carrier, kink_nodes
from penstock.performance.queueing.micro_batch.batch_times import COARSE, FINE, ROUGH
from penstock.performance.queueing.micro_batch.server import MicroBatch, batch_time_nodes
from penstock.performance.queueing.micro_batch.spectra import Spectra

_OUTSIDE = 1e-10
"""Chernoff's bound on the mass of counts outside the window that is inverted, each side."""


@dataclass(frozen=True, eq=False)
class Moves:
    """All moves of a queue on a grid.

    `blocks[i, move, node, j]`: probability of records and phase at the next start; `mixture`: sparse, from states
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


def build_moves(
    spectra: Spectra, server: MicroBatch, nodes: FloatArray, frequencies: int, offsets: FloatArray
) -> Moves:
    """Give the moves of a queue on `nodes` and `offsets`."""
    ways = _Ways(server, nodes, offsets)
    mixture, used = ways.mixture()
    time_of, shift = ways.time_of[used], ways.shift[used]
    kept, time_of = np.unique(time_of, return_inverse=True)
    times = ways.times[kept]
    counts = count_matrices(spectra, times, frequencies, _OUTSIDE)
    blocks, beyond = _blocks(spectra, server, nodes, counts, time_of=time_of, shift=shift)
    return Moves(nodes, offsets, counts, times, time_of, shift, blocks, beyond, mixture)


class _Ways:
    """Which moves each state is a mixture of.

    Moves in order: times of batches and deadlines with nothing left behind; then, for each number with records left
    behind, its full batch's times and the deadlines.
    """

    def __init__(self, server: MicroBatch, nodes: FloatArray, offsets: FloatArray) -> None:
        self._server, self._nodes, self._offsets = server, nodes, offsets
        leftover = nodes - server.served(nodes)
        self._alone, self._behind = np.flatnonzero(leftover == 0), np.flatnonzero(leftover > 0)
        self._batch, self._q = batch_time_nodes(server, nodes[self._alone])
        grid, self._scale = _time_grid(self._batch)
        full = _full_times(server) if self._behind.size else np.empty(0)
        self._full_scale = _Scale(full)
        self._deadlines = np.empty(0)
        if server.trigger is not None:
            self._deadlines = np.maximum(server.trigger - offsets, 1e-9 * server.trigger)
        self.times = np.concatenate([grid, self._deadlines, full])
        D, K, F = len(self._deadlines), len(grid), len(full)
        later = np.concatenate([np.arange(K + D, K + D + F), np.arange(K, K + D)])
        self.time_of = np.concatenate([np.arange(K + D), np.tile(later, self._behind.size)]).astype(np.int64)
        self.shift = np.concatenate([np.zeros(K + D), np.repeat(leftover[self._behind], F + D)])
        self._K, self._F = K, F
        self._base = K + D + np.arange(self._behind.size) * (F + D)
        self._circle = None
        if server.trigger is not None and len(offsets) > 1:
            self._circle = Carrier(offsets, np.array([0, len(offsets) - 1]))

    def mixture(self) -> tuple[sparse.csr_array, IntArray]:
        """Give the mixture over the moves that are made at all, and their numbers."""
        row, move, goal, value = (
            np.concatenate(parts) for parts in zip(*self._from_alone(), *self._from_behind(), strict=True)
        )
        some = np.flatnonzero(value)
        row, move, goal, value = row[some], move[some], goal[some], value[some]
        is_used = np.zeros(len(self.time_of), dtype=bool)
        is_used[move] = True
        O = len(self._offsets)  # noqa: E741 (as in the symbol table)
        used = np.flatnonzero(is_used)
        columns = (np.cumsum(is_used) - 1)[move] * O + goal
        shape = (O * len(self._nodes), used.size * O)
        return sparse.csr_array((value, (row, columns)), shape=shape), used

    def _from_alone(self) -> list[tuple[IntArray, IntArray, IntArray, FloatArray]]:
        """From states whose records all go with the batch: row, move, next offset, share."""
        O, G, A = len(self._offsets), len(self._nodes), self._alone.size  # noqa: E741
        batch, q = np.broadcast_to(self._batch, (O, *self._batch.shape)), self._q
        start = np.repeat(np.arange(O), A)
        if self._server.varies and self._deadlines.size:
            sizes = np.tile(self._nodes[self._alone], O)
            batch, q = batch_time_nodes(self._server, sizes, COARSE, np.repeat(self._rooms(), A))
        batch = batch.reshape(O * A, -1)
        q = q if len(q) == O * A else np.tile(q, (O, 1))
        state = start * G + np.tile(self._alone, O)
        on_time, (at, time, goal, value) = self._parted(batch, q, start, self._scale)
        entries = [(state[at], time, goal, value)]
        if self._deadlines.size:
            entries.append((state, self._K + start, np.zeros_like(start), on_time))
        return entries

    def _from_behind(self) -> list[tuple[IntArray, IntArray, IntArray, FloatArray]]:
        """The same from states with records left behind: full batches, all alike."""
        O, G, F, B = len(self._offsets), len(self._nodes), self._F, self._behind.size  # noqa: E741
        if not B:
            return []
        full = np.full(O, float(self._server.cap or 1))
        D = self._deadlines.size
        batch, q = batch_time_nodes(self._server, full, FINE if D else ROUGH, self._rooms() if D else None)
        start = np.arange(O)
        on_time, (at, time, goal, value) = self._parted(batch, q, start, self._full_scale)
        ways = np.zeros((O, F, O))
        if self._server.varies:
            np.add.at(ways, (at, time, goal), value)
        else:
            # Full batches follow each other many times over: where between triggers one starts is then as good as
            # evenly spread, and it matters only once the backlog is gone.
            ways[:, 0] = (1.0 - on_time)[:, None] * _even_offsets(O)
        at, time, goal = np.nonzero(ways)
        value = ways[at, time, goal]
        if D:
            at, time = np.concatenate([at, start]), np.concatenate([time, F + start])
            goal, value = np.concatenate([goal, np.zeros_like(start)]), np.concatenate([value, on_time])
        state = (at[:, None] * G + self._behind).ravel()
        move = (time[:, None] + self._base).ravel()
        return [(state, move, np.repeat(goal, B), np.repeat(value, B))]

    def _rooms(self) -> FloatArray:
        """Give how long a batch of each start may take to be done by its deadline."""
        return self._deadlines * (1 + 1e-9)

    def _parted(
        self, batch: FloatArray, q: FloatArray, start: IntArray, scale: _Scale
    ) -> tuple[FloatArray, tuple[IntArray, IntArray, IntArray, FloatArray]]:
        """Give, for batch times `[row, q]`, the share done by the deadline; row, time, next offset, share of others."""
        done = np.zeros(batch.shape, dtype=bool)
        if self._deadlines.size:
            done = batch <= self._rooms()[start][:, None]
        q = np.broadcast_to(q, batch.shape)
        row, column = np.nonzero(~done)
        values, share = batch[row, column], q[row, column]
        time, part = scale.stencils(values)
        goal, goal_part = np.zeros((len(row), 1), dtype=np.int64), np.ones((len(row), 1))
        if self._circle is not None and self._server.trigger is not None:
            ends = np.mod(self._offsets[start[row]] + values, self._server.trigger)
            goal, goal_part = self._circle.stencils(ends)
        shape = (len(row), time.shape[1], goal.shape[1])
        weight = share[:, None, None] * part[:, :, None] * goal_part[:, None, :]
        spread = [
            np.broadcast_to(each, shape).ravel() for each in (row[:, None, None], time[:, :, None], goal[:, None, :])
        ]
        return (done * q).sum(axis=1), (spread[0], spread[1], spread[2], weight.ravel())


def _even_offsets(count: int) -> FloatArray:
    """Give weights of an even spread over the offsets (the trapezoidal rule)."""
    if count == 1:
        return np.ones(1)
    weights = np.full(count, 1.0 / (count - 1))
    weights[[0, -1]] /= 2
    return weights


class _Scale:
    """Times that counts are known for: any other is carried over to the nearest of them."""

    def __init__(self, times: FloatArray, *, merges: bool = False) -> None:
        self._times = times
        self._carrier = None if merges or not len(times) else Carrier(times, np.array([0, len(times) - 1]))

    def stencils(self, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """Give the times and weights that stand for each of some values."""
        if self._carrier is not None:
            return self._carrier.stencils(values)
        # Times as they are, but for rounding.
        after = np.clip(np.searchsorted(self._times, values), 1, max(len(self._times) - 1, 1))
        before = after - 1
        after = np.minimum(after, len(self._times) - 1)
        nearer = np.abs(self._times[after] - values) < np.abs(self._times[before] - values)
        return np.where(nearer, after, before)[:, None], np.ones((len(values), 1))


def _full_times(server: MicroBatch) -> FloatArray:
    """Give times to invert at for full batches."""
    size = np.array([float(server.cap or 1)])
    times = batch_time_nodes(server, size, ROUGH)[0][0]
    if server.trigger is None:
        return np.unique(times)
    ends = batch_time_nodes(server, size, FINE)[0]
    return np.unique(np.concatenate([times, [ends.min(), ends.max()]]))


def _time_grid(batch: FloatArray) -> tuple[FloatArray, _Scale]:
    """Give times to invert at that can stand for batch times `[node, q]`."""
    if batch.shape[1] == 1:
        times = _distinct(batch[:, 0])
        return times, _Scale(times, merges=True)
    # An empty batch takes no time and is never late; the very shortest of others are of no account.
    high = float(batch.max())
    some = np.maximum(batch[batch > 0], 1e-4 * high)
    low = float(some.min())
    # About as many as there are numbers of records: a coarser grid has fewer.
    spread = np.quantile(some, np.linspace(0, 1, min(len(batch) + 8, 48)))
    even = np.geomspace(low, high, min(len(batch) // 3 + 5, 17))
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
    spectra: Spectra, server: MicroBatch, nodes: FloatArray, counts: Counts, *, time_of: IntArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Carry the counts of every move over to the nodes: `[i, move, node, j]`, and what falls past the last."""
    (K, M), m, G = counts.at.shape, len(spectra.D0), len(nodes)
    count = len(time_of)
    carrier = Carrier(nodes, kink_nodes(server, nodes))
    points = counts.at[time_of] + shift[:, None]
    column, weight = carrier.stencils(points.ravel())
    # From counts of a time to nodes of a move: four nodes a count at most, so that a sparse product does it.
    row = np.repeat(np.arange(count), M)[:, None] * G + column
    source = np.broadcast_to((time_of[:, None] * M + np.arange(M)).reshape(-1, 1), row.shape)
    carry = sparse.csr_array((weight.ravel(), (row.ravel(), source.ravel())), shape=(count * G, K * M))
    blocks = np.empty((m, count, G, m))
    mass = counts.mass.reshape(K * M, m, m)
    for i in range(m):
        blocks[i] = (carry @ np.ascontiguousarray(mass[:, i])).reshape(count, G, m)
    over = points > nodes[-1]
    beyond = np.matmul(over[:, None, :].astype(float), (counts.mass @ np.ones(m))[time_of])[:, 0]
    to_first = np.eye(m) if server.trigger is not None else spectra.arrivals.P
    fresh = np.flatnonzero(shift == 0)
    blocks[:, fresh, 0] += (counts.none[time_of[fresh]] @ to_first).transpose(1, 0, 2)
    behind = np.flatnonzero(shift > 0)
    if behind.size:
        column, weight = carrier.stencils(shift[behind])
        stay = counts.none[time_of[behind]].transpose(1, 0, 2)
        for a in range(column.shape[1]):
            blocks[:, behind, column[:, a]] += stay * weight[:, a, None]
    return blocks, beyond
