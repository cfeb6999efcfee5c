# SPDX-License-Identifier: Apache-2.0
"""Which numbers of records the chain of a micro-batch queue stands on, and how mass is carried over to them.

The far tail of the backlog falls like e^(-s n). With chi(s) the largest eigenvalue of D0 + e^s D1, N(t) grows like
e^(chi(s) t), and s is the positive root of log E[e^(chi(s) gap)] = s served, over a full batch with a cap, over one
record's share of a batch without (Glynn and Whitt, "Logarithmic asymptotics for steady-state tail probabilities in
a single-server queue", Journal of Applied Probability 31A, 1994). It says how far the grid must go and how far
apart nodes may stand out there; that it went far enough is checked on the solution.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from penstock.markov import MAP
from penstock.markov.conditions import FloatArray, IntArray
from penstock.performance.queueing.micro_batch.batch_times import COARSE, FINE
from penstock.performance.queueing.micro_batch.server import MicroBatch, batch_time_nodes


class Carrier:
    """Carries mass at any points over to nodes, so that its moments up to the third stay.

    Lagrange's cubic through the four nearest nodes of the piece a point lies in; pieces end at the nodes numbered
    `breaks` (both ends of the grid included), where what follows may have a kink. A point on a node stays there.
    Points outside the grid go to its nearest end.
    """

    def __init__(self, nodes: FloatArray, breaks: IntArray) -> None:
        self._nodes, self._first, self._last = nodes, int(breaks[0]), int(breaks[-1])
        if self._first == self._last:
            return
        cell = np.arange(self._first, self._last)
        piece = np.searchsorted(breaks, cell, side="right") - 1
        first, last = breaks[piece], breaks[piece + 1]
        size = np.minimum(last - first + 1, 4)
        start = np.clip(cell - (size - 2) // 2, first, last - size + 1)
        self._columns = np.minimum(start[:, None] + np.arange(4), last[:, None])
        used = np.arange(4) < size[:, None]
        x = nodes[self._columns]
        both = used[:, :, None] & used[:, None, :] & ~np.eye(4, dtype=bool)
        gaps = np.where(both, x[:, :, None] - x[:, None, :], 1.0)
        self._scale = np.where(used, 1.0 / gaps.prod(axis=2), 0.0)
        self._x, self._used = x, used
        self._all_used = bool(used.all())

    def stencils(self, points: FloatArray) -> tuple[IntArray, FloatArray]:
        """Give the nodes (up to four) and weights that stand for each point."""
        if self._first == self._last:
            shape = (len(points), 1)
            return np.full(shape, self._first, dtype=np.int64), np.ones(shape)
        points = np.clip(points, self._nodes[self._first], self._nodes[self._last])
        cell = np.searchsorted(self._nodes[self._first : self._last], points, side="right") - 1
        away = points[:, None] - self._x[cell]
        if not self._all_used:
            away = np.where(self._used[cell], away, 1.0)
        weights = self._scale[cell]
        left, right = away[:, 0] * away[:, 1], away[:, 2] * away[:, 3]
        weights[:, 0] *= away[:, 1] * right
        weights[:, 1] *= away[:, 0] * right
        weights[:, 2] *= away[:, 3] * left
        weights[:, 3] *= away[:, 2] * left
        return self._columns[cell], weights


def kink_nodes(server: MicroBatch, nodes: FloatArray) -> IntArray:
    """Number the nodes where pieces of the interpolation end: the first with a record, kinks, the last."""
    first = 1 if nodes[0] == 0 else 0
    marks = [first, len(nodes) - 1]
    marks += [int(np.searchsorted(nodes, size)) for size in server.kinks() if nodes[first] < size < nodes[-1]]
    return np.unique(marks)


def tail_decay(arrivals: MAP, server: MicroBatch) -> float | None:
    """Give the rate s per record at which the tail of the backlog falls; None if nothing holds it up."""
    if server.cap is not None:
        gaps, weights = batch_time_nodes(server, np.array([float(server.cap)]), FINE)
        if server.trigger is None:
            gap = gaps[0]
        else:
            # What a late batch adds to the cycle is made up for in part: the gaps have the mean of the true cycle.
            gap = np.maximum(gaps[0], server.trigger)
            gap = gap * (server.full_cycle().mean / float(weights[0] @ gap))
        served = float(server.cap)
    elif server.per_record > 0:
        alone = MicroBatch(0.0, server.per_record, per_record_scv=server.per_record_scv)
        gaps, weights = batch_time_nodes(alone, np.ones(1), FINE)
        gap, served = gaps[0], 1.0
    else:
        return None
    longest = float(gap.max())

    def excess(s: float) -> float:
        chi = float(np.linalg.eigvals(arrivals.D0 + np.exp(s) * arrivals.D1).real.max())
        return float(np.log(weights[0] @ np.exp(chi * (gap - longest))) + chi * longest) / s - served

    high = 1.0
    while excess(high) <= 0 and high < 64:
        high *= 2
    if excess(high) <= 0:
        return None
    low = high / 2
    while excess(low) > 0 and low > 1e-15:
        high, low = low, low / 2
    return float(brentq(excess, low, high, rtol=1e-2)) if excess(low) <= 0 else low


def first_reach(arrivals: MAP, server: MicroBatch, tail: float) -> float:
    """Guess how many records may wait: a usual batch, eight deviations, and the tail."""
    usual = max(server.smooth_batch_seconds(arrivals.rate), server.trigger or 0.0, server.fixed + server.per_record)
    mean = arrivals.rate * usual + 1.0
    spread = np.sqrt(mean * max(float(arrivals.idc(usual)), 1.0))
    slack = 1.0 - server.utilisation(arrivals.rate)
    decay = tail_decay(arrivals, server)
    beyond = 0.0 if decay is None else -np.log(tail) / decay
    # What the highest rate brings in a usual gap bounds the body of the distribution.
    body = min(mean + 8.0 * spread / np.sqrt(slack), 8.0 + 2 * mean * arrivals.D1.sum(axis=1).max() / arrivals.rate)
    # A batch of usual size that takes very long leaves what arrives meanwhile.
    longest = batch_time_nodes(server, server.served(np.array([mean])), COARSE)[0].max() if server.varies else 0.0
    return float(np.ceil(body + beyond + arrivals.rate * longest + 8.0))


def plain_grid(server: MicroBatch, top: float, count: int) -> FloatArray:
    """Give about `count` nodes up to `top`: whole numbers if they are that few, else ever wider apart."""
    if top <= count:
        return _with_marks(server, np.arange(1.0, top + 1), top)
    edge = top if server.cap is None else min(float(server.cap), top)
    body = count // 2 if edge < top else count
    even = np.linspace(1.0, edge, body // 2)
    ratio = np.geomspace(1.0, edge, body - body // 2)
    beyond = edge + (top - edge) * np.linspace(0.0, 1.0, count - body + 1) ** 1.5
    return _with_marks(server, np.concatenate([even, ratio, beyond]), top)


def refined_grid(server: MicroBatch, known: tuple[FloatArray, FloatArray], reach: float, count: int) -> FloatArray:
    """Give about `count` nodes up to `reach`, more of them where a first solution (nodes, mass) has its mass."""
    if reach <= count:
        return _with_marks(server, np.arange(1.0, reach + 1), reach)
    some = known[0] > 0
    nodes, mass = known[0][some], np.abs(known[1][some]) * known[0][some]
    cumulative = np.concatenate([[0.0], np.cumsum((mass[1:] + mass[:-1]) / 2)])
    fine = np.unique(np.concatenate([np.linspace(1.0, reach, 2000), np.geomspace(1.0, reach, 500)]))
    width = np.diff(fine)
    cdf = np.interp(fine, nodes, cumulative / cumulative[-1])
    # A node's share of the error goes with its mass and the square of its width: widths go with mass^(-1/3).
    parts = [np.cumsum(np.cbrt(np.diff(cdf) / width) * width), np.cumsum(width / fine[1:]), np.cumsum(width)]
    shares = (0.45, 0.2, 0.35)
    monitor = np.concatenate([[0.0], sum(share * part / part[-1] for share, part in zip(shares, parts, strict=True))])
    return _with_marks(server, np.interp(np.linspace(0, 1, count), monitor, fine), reach)


def tail_reach(nodes: FloatArray, mass: FloatArray, tail: float) -> float | None:
    """Give how many records hold all but a share `tail` of the records, or None if the grid ends before."""
    by_node = np.abs(mass) * np.maximum(nodes, 1.0)
    beyond = np.cumsum(by_node[::-1])[::-1] / by_node.sum()
    small = np.flatnonzero(beyond < tail)
    return float(nodes[small[0] + 1]) if small.size >= 2 else None


def _with_marks(server: MicroBatch, nodes: FloatArray, top: float) -> FloatArray:
    """Round to whole numbers, once each, with 0 where a trigger may find nothing and the kinks of the server."""
    marks = [1.0, float(np.ceil(top)), *(size for size in server.kinks() if size < top)]
    if server.trigger is not None:
        marks.append(0.0)
    return np.unique(np.concatenate([np.round(nodes), marks]))
