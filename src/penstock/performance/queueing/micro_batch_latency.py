# SPDX-License-Identifier: Apache-2.0
"""The distribution of record latency in a micro-batch queue, from the solved chain.

A record that arrives a share v into the gap tau before the next start, as number p of the n then waiting, has
latency (1 - v) tau + j tau_cap + B(own), where j = ceil(p / cap) - 1 full batches go before its own. The law is a
mixture of pieces over which latency is linear in v: its distribution function is piecewise quadratic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.markov.conditions import FloatArray, IntArray
from penstock.performance.queueing.micro_batch_chain import Chain, Cycle
from penstock.performance.queueing.micro_batch_counts import expected_counts
from penstock.performance.queueing.micro_batch_server import MicroBatch
from penstock.performance.queueing.micro_batch_times import FINE, MEDIUM, gamma_points

_LONG_TAIL = 1.2
"""SCV of what varies of a batch's time beyond which more points stand for it."""

_NEGLIGIBLE = 1e-8
_NARROWEST = 1e-5
_MOST_PIECES = 12_000
_BINS = 400
_COARSE = 160
_LIKE = 50.0
"""Pieces whose widths agree to 1 / 50 may be gathered, and tilts to 1 / 50."""


@dataclass(frozen=True, eq=False)
class LatencyLaw:
    """A mixture of pieces on [low, high] with densities linear over each: `tilt` 1 falls to zero at high."""

    weight: FloatArray
    low: FloatArray
    width: FloatArray
    tilt: FloatArray

    @cached_property
    def mean(self) -> float:
        """Mean latency of the mixture."""
        return float(self.weight @ (self.low + self.width * (0.5 - self.tilt / 6)))

    @cached_property
    def variance(self) -> float:
        """Variance of the mixture."""
        centre = self.low + self.width * (0.5 - self.tilt / 6)
        within = self.width**2 * (1 / 12 - self.tilt**2 / 36)
        return float(self.weight @ (within + (centre - self.mean) ** 2))

    def cdf(self, times: FloatArray) -> FloatArray:
        """Share within each of some times."""
        raw = np.array([self._below(float(y)) for y in np.atleast_1d(times)])
        return np.asarray(np.clip(raw, 0.0, 1.0))

    def percentiles(self, ps: list[float]) -> FloatArray:
        """Invert the distribution function: between points of a table, by regula falsi with bisection."""
        for p in ps:
            if p not in self._inverted:
                self._inverted[p] = self._invert(p)
        return np.array([self._inverted[p] for p in ps])

    @cached_property
    def _inverted(self) -> dict[float, float]:
        return {}

    def _below(self, y: float) -> float:
        u = np.clip((y - self.low) / self.width, 0.0, 1.0)
        # Density 1 + tilt (1 - 2u) on (0, 1) integrates to u + tilt (u - u^2).
        return float(self.weight @ (u * (1.0 + self.tilt * (1.0 - u))))

    @cached_property
    def _table(self) -> tuple[FloatArray, FloatArray]:
        order = np.argsort(self.low)
        share = np.cumsum(np.abs(self.weight[order]))
        wanted = np.interp(np.linspace(0, 1, _COARSE // 2) * share[-1], share, self.low[order])
        top = float((self.low + self.width).max())
        points = np.unique(np.concatenate([[0.0], wanted, wanted + np.median(self.width), np.linspace(0, top, 16)]))
        # Weights carried between nodes may be slightly negative; a distribution function never falls.
        return points, np.maximum.accumulate([self._below(float(y)) for y in points])

    def _invert(self, p: float) -> float:
        points, shares = self._table
        above = min(int(np.searchsorted(shares, p)), len(points) - 1)
        low, high = float(points[max(above - 1, 0)]), float(points[above])
        f_low, f_high = float(shares[max(above - 1, 0)]) - p, float(shares[above]) - p
        for step in range(60):
            if high - low <= 1e-9 * high:
                break
            by_line = low - f_low * (high - low) / (f_high - f_low) if f_high > f_low else (low + high) / 2
            middle = by_line if step % 3 else (low + high) / 2
            value = self._below(middle) - p
            if value < 0:
                low, f_low = middle, value
            else:
                high, f_high = middle, value
        return (low + high) / 2


def latency_law(chain: Chain, cycle: Cycle) -> LatencyLaw:
    """Give the mixture of latencies over gaps, counts, places in the gap and batch times."""
    server, moves = chain.server, chain.moves
    counts = moves.counts
    tilts = np.clip(6 * (0.5 - cycle.age), -1.0, 1.0)
    # Weights carried over between nodes may be negative; clipped, they would no longer keep the moments.
    joint = np.einsum("ki,ksij->ksj", chain.flow, counts.mass[moves.time_of], optimize=True)
    size = np.maximum(counts.at, 1.0)[moves.time_of]
    mass = joint.sum(axis=2)
    move, s = np.nonzero(np.abs(mass) * size > _NEGLIGIBLE * cycle.served / np.sqrt(mass.size))
    weight, passed, own, low, high, tilt = _pieces(chain, move, size[move, s], joint[move, s], tilts[move])
    if cycle.idle > 0:
        lone = np.array([cycle.idle, 0.0, 1.0, 0.0, 0.0, 0.0])
        weight, passed, own, low, high, tilt = np.concatenate(
            [np.stack([weight, passed, own, low, high, tilt]), lone[:, None]], axis=1
        )
    batch, q = _service_points(server, passed, own)
    start = low[:, None] + batch
    share = weight[:, None] * q / weight.sum()
    width, slope = (high - low), tilt
    if share.size > _MOST_PIECES:
        return _binned(start, share, width, slope)
    longest = float((start + width[:, None]).max())
    widths = np.maximum(np.repeat(width, q.shape[1]), _NARROWEST * longest)
    return LatencyLaw(share.ravel(), start.ravel(), widths, np.repeat(slope, q.shape[1]))


def _service_points(server: MicroBatch, passed: FloatArray, own: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give times and weights `[piece, q]` of a number of full batches that pass first, and a record's own after them.

    What varies of them is taken together as one gamma distributed time, with their mean and variance.
    """
    mean, variance = server.batch_moments(own)
    floor = server.batch_floor(own)
    if server.cap is not None:
        cycle = server.full_cycle()
        least = float(server.batch_floor(np.array([float(server.cap)]))[0])
        if server.trigger is not None:
            # Starts at triggers and the few late batches: the cycle is about a constant and an exponential time.
            least = max(cycle.mean - math.sqrt(cycle.variance), 0.0)
        mean, variance, floor = mean + passed * cycle.mean, variance + passed * cycle.variance, floor + passed * least
    is_long = np.any(variance > _LONG_TAIL * (mean - floor) ** 2)
    return gamma_points(floor, mean, variance, FINE if is_long else MEDIUM)


def _binned(start: FloatArray, share: FloatArray, width: FloatArray, tilt: FloatArray) -> LatencyLaw:
    """Gather pieces of like widths whose starts fall between the same two points, keeping their mean."""
    longest = float(start.max() + width.max())
    # Relative to the longest, so that what is gathered does not depend on the unit of time.
    sizes = np.round(np.log(np.maximum(width / longest, _NARROWEST)) * _LIKE)
    slopes = np.round(tilt * _LIKE)
    keys, kind = np.unique(sizes * (4 * _LIKE) + slopes, return_inverse=True)
    kinds = np.empty((2, len(keys)))
    kinds[0, kind], kinds[1, kind] = longest * np.exp(sizes / _LIKE), slopes / _LIKE
    start = start + (width * (0.5 - tilt / 6) - kinds[0, kind] * (0.5 - kinds[1, kind] / 6))[:, None]
    low, high = float(start.min()), float(start.max())
    density, edges = np.histogram(start, bins=4096, range=(low, high), weights=np.abs(share))
    so_far = np.concatenate([[0.0], np.cumsum(density)])
    points = np.interp(np.linspace(0, 1, _BINS // 2) * so_far[-1], so_far, edges)
    points = np.unique(np.concatenate([points, np.linspace(low, high, _BINS // 2)]))
    cell = np.clip(np.searchsorted(points, start, side="right") - 1, 0, len(points) - 2)
    part = (start - points[cell]) / (points[cell + 1] - points[cell])
    place = (kind[:, None] * len(points) + cell).ravel()
    cells = kinds.shape[1] * len(points)
    table: FloatArray = np.bincount(place, (share * (1 - part)).ravel(), cells).astype(float)
    table += np.bincount(place + 1, (share * part).ravel(), cells)
    chosen = np.flatnonzero(np.abs(table) > _NEGLIGIBLE / np.sqrt(len(table)))
    which, at = np.divmod(chosen, len(points))
    return LatencyLaw(table[chosen], points[at], kinds[0, which], kinds[1, which])


def _pieces(
    chain: Chain, move: IntArray, arrived: FloatArray, joint: FloatArray, tilt: FloatArray
) -> tuple[FloatArray, ...]:
    """Give weight, full batches that pass, size of the own batch, shortest and longest rest, tilt, of every piece."""
    server, moves = chain.server, chain.moves
    tau, shift = moves.times[moves.time_of[move]], moves.shift[move]
    total, mass = shift + arrived, joint.sum(axis=1)
    zero = np.zeros(len(tau))
    if server.cap is None:
        return mass * arrived, zero, total, zero, tau, tilt
    cap = float(server.cap)
    full = server.full_cycle().mean
    # How fast records keep coming during the full batches, given the phase in which they start.
    coming = expected_counts(chain.arrivals.D0, chain.arrivals.D1, np.array([full]))[0][0]
    usable = np.abs(mass) > 1e-300
    rate = np.where(usable, (joint @ coming) / np.where(usable, mass, 1.0), 0.0)
    before, after = np.floor(shift / cap), np.ceil(total / cap)
    copies = np.maximum(after - before, 1).astype(int)
    index = np.repeat(np.arange(len(tau)), copies)
    j = before[index] + np.arange(len(index)) - np.repeat(np.cumsum(copies) - copies, copies)
    start = np.clip((j * cap - shift[index]) / arrived[index], 0.0, 1.0)
    end = np.clip(((j + 1) * cap - shift[index]) / arrived[index], 0.0, 1.0)
    own = np.clip(total[index] - j * cap + np.maximum(rate[index], 0.0) * j, 1.0, cap)
    inner = np.where((start <= 0) & (end >= 1), tilt[index], 0.0)
    lows, highs = (1 - end) * tau[index], (1 - start) * tau[index]
    return mass[index] * arrived[index] * (end - start), j, own, lows, highs, inner
