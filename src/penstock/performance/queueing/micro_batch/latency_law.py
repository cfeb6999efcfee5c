# SPDX-License-Identifier: Apache-2.0
"""The distribution of record latency in a micro-batch queue, from the solved chain.

A record that arrives a share v into the gap tau before the next start, as number p of the n then waiting, has
latency (1 - v) tau + j tau_cap + B(own), where j = ceil(p / cap) - 1 full batches go before its own. The law is a
mixture of pieces over which latency is linear in v: its distribution function is piecewise quadratic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.markov.conditions import FloatArray, IntArray
from penstock.performance.queueing.micro_batch.arrival_counts import expected_counts
from penstock.performance.queueing.micro_batch.batch_times import FINE, MEDIUM, gamma_points
from penstock.performance.queueing.micro_batch.chain import Chain, Cycle
from penstock.performance.queueing.micro_batch.server import MicroBatch

_LONG_TAIL = 1.2
"""SCV of what varies of a batch's time beyond which more points stand for it."""

_NEGLIGIBLE = 1e-5
"""Share of the records in pieces that may be left out, too small each to matter."""

_POINTS = 2048
"""Points of the table of the distribution function."""

_CLASSES, _GAP_POINTS = 96, 160
"""Classes of time after the next start, and points of the wait before it, that varied batch times are gathered by."""

_APART, _APART_VARIED = 0.03, 0.05
"""Relative steps of the counts of a gap that are distinguished; wider where batch times blur them."""

_MOST_RUNS = 16
"""Runs of batches that the records of one gap are divided into at most."""

_FEW = 20_000
"""Pieces, times points of a batch's time, that need not be gathered."""


@dataclass(frozen=True, eq=False)
class _Events:
    """Where a density jumps and changes its slope."""

    at: FloatArray
    jump: FloatArray
    slope: FloatArray

    @classmethod
    def of_pieces(
        cls, weight: FloatArray, low: FloatArray, high: FloatArray, tilt: FloatArray, narrowest: float
    ) -> _Events:
        """Give those of densities linear over [low, high]: of `tilt` 1 they fall to zero at high."""
        width = np.maximum(high - low, narrowest)
        height = weight / width
        slope = 2 * height * tilt / width
        return cls(
            np.concatenate([low, low + width]),
            np.concatenate([height * (1 + tilt), -height * (1 - tilt)]),
            np.concatenate([-slope, slope]),
        )


class _Axis:
    """Points from 0 to a top: evenly apart up to about `scale`, and ever wider beyond."""

    def __init__(self, scale: float, top: float, count: int) -> None:
        self._scale, self._last = scale, count - 2
        self._unit = np.arcsinh(top / scale) / (count - 2)
        self.points = scale * np.sinh(self._unit * np.arange(count))

    def places(self, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """Give the point before each value, and how far on the way to the next it lies."""
        before = np.minimum((np.arcsinh(values / self._scale) / self._unit).astype(np.int64), self._last)
        return before, (values - self.points[before]) / (self.points[before + 1] - self.points[before])


class LatencyLaw:
    """A distribution given by the jumps and slopes of its density.

    They are put on a grid, divided among the two points around each so that moments stay, and summed up twice: the cost
    does not depend on how many times the distribution is asked for, and hardly on how many pieces it has.
    """

    def __init__(self, events: _Events, mean: float, variance: float) -> None:
        self.mean, self.variance = mean, variance
        axis = _Axis(0.5 * mean, float(events.at.max()), _POINTS)
        before, part = axis.places(events.at)
        step = np.diff(axis.points)
        slopes = np.cumsum(_put(before, part, events.slope, _POINTS))[:-1]
        jumps = np.cumsum(_put(before, part, events.jump, _POINTS))[:-1]
        density = jumps + np.concatenate([[0.0], np.cumsum(slopes * step)[:-1]])
        shares = np.concatenate([[0.0], np.cumsum((density + slopes * step / 2) * step)])
        # Weights carried between nodes may be slightly negative; a distribution function never falls.
        self._shares = np.clip(np.maximum.accumulate(shares / shares[-1]), 0.0, 1.0)
        self._times = axis.points

    def cdf(self, times: FloatArray) -> FloatArray:
        """Share within each of some times."""
        return np.asarray(np.interp(times, self._times, self._shares))

    def percentiles(self, ps: list[float]) -> FloatArray:
        """Invert the distribution function."""
        above = np.clip(np.searchsorted(self._shares, ps), 1, _POINTS - 1)
        low, high = self._shares[above - 1], self._shares[above]
        part = np.where(high > low, (np.asarray(ps) - low) / np.where(high > low, high - low, 1.0), 1.0)
        return np.asarray(self._times[above - 1] + part * (self._times[above] - self._times[above - 1]))


def _put(before: IntArray, part: FloatArray, value: FloatArray, count: int) -> FloatArray:
    """Divide values among the points around them."""
    after = value * part
    table: FloatArray = np.bincount(before, value - after, count).astype(float)
    table[1:] += np.bincount(before, after, count)[:-1]
    return table


def latency_law(chain: Chain, cycle: Cycle) -> LatencyLaw:
    """Give the mixture of latencies over gaps, counts, places in the gap and batch times."""
    server = chain.server
    tilts = np.clip(6 * (0.5 - cycle.age), -1.0, 1.0)
    # Weights carried over between nodes may be negative; clipped, they would no longer keep the moments.
    size, mass = _seen(chain, np.ones(len(chain.spectra.rates)))
    move, s = np.nonzero(np.abs(mass) * size > _NEGLIGIBLE * cycle.served / mass.size)
    coming = np.zeros(len(move)) if server.cap is None else _coming(chain, mass)[move, s]
    pieces = _pieces(chain, move, arrived=size[move, s], mass=mass[move, s], tilt=tilts[move], coming=coming)
    if cycle.idle > 0:
        lone = np.array([cycle.idle, 0.0, 1.0, 0.0, 0.0, 0.0])
        pieces = tuple(np.concatenate([np.stack(pieces), lone[:, None]], axis=1))
    weight, passed, own, low, high, tilt = pieces
    weight = weight / weight.sum()
    after = _After.of(server, passed, own)
    width = high - low
    centre = low + width * (0.5 - tilt / 6) + after.mean
    mean = float(weight @ centre)
    variance = float(weight @ (width**2 * (1 / 12 - tilt**2 / 36) + after.variance + (centre - mean) ** 2))
    narrowest = 1e-9 * float((high + after.mean).max())
    events = _Events.of_pieces(weight, low, high, tilt, narrowest)
    if server.varies and 16 * len(weight) > _FEW:
        events, after = _gathered(events, weight, after)
        times, q = after.points()
    else:
        times, q = after.points()
        times, q = np.concatenate([times, times]), np.concatenate([q, q])
    return LatencyLaw(
        _Events(
            (events.at[:, None] + times).ravel(),
            (events.jump[:, None] * q).ravel(),
            (events.slope[:, None] * q).ravel(),
        ),
        mean,
        variance,
    )


@dataclass(frozen=True, eq=False)
class _After:
    """The time after the next start: full batches that pass, and a record's own.

    What varies of them is taken together as one gamma distributed time, with their mean and variance.
    """

    mean: FloatArray
    variance: FloatArray
    floor: FloatArray

    @classmethod
    def of(cls, server: MicroBatch, passed: FloatArray, own: FloatArray) -> _After:
        """Give it for some numbers of full batches and sizes of the own one."""
        mean, variance = server.batch_moments(own)
        floor = server.batch_floor(own)
        if server.cap is not None:
            cycle = server.full_cycle()
            least = float(server.batch_floor(np.array([float(server.cap)]))[0])
            if server.trigger is not None:
                # Starts at triggers and the few late batches: the cycle is about a constant and an exponential time.
                least = max(cycle.mean - math.sqrt(cycle.variance), 0.0)
            mean, variance = mean + passed * cycle.mean, variance + passed * cycle.variance
            floor = floor + passed * least
        return cls(mean, variance, floor)

    def points(self) -> tuple[FloatArray, FloatArray]:
        """Give times and weights `[piece, q]`."""
        is_long = np.any(self.variance > _LONG_TAIL * (self.mean - self.floor) ** 2)
        return gamma_points(self.floor, self.mean, self.variance, FINE if is_long else MEDIUM)


def _gathered(events: _Events, weight: FloatArray, after: _After) -> tuple[_Events, _After]:
    """Gather the waits before the next start by how long what follows takes: in classes, on a grid."""
    size = np.abs(weight)
    # The harmonic mean is where most records are, however long a few take.
    axis = _Axis(float(size.sum() / (size / after.mean).sum()), float(after.mean.max()), _CLASSES)
    before, part = axis.places(after.mean)
    # What a class's time varies by, and its floor, are those of the pieces in it.
    total = np.maximum(_put(before, part, size, _CLASSES), 1e-300)
    times = np.maximum(_put(before, part, size * after.mean, _CLASSES), 1e-300)
    met = total > 1e-200
    mean = np.where(met, axis.points, float(after.mean.max()))
    # Between two points a piece's relative variance and floor are kept, not the absolute ones.
    variance = np.where(met, _put(before, part, size * after.variance, _CLASSES) / times, 0.0) * mean
    floor = np.where(met, _put(before, part, size * after.floor, _CLASSES) / times, 1.0) * mean
    gaps = _Axis(0.5 * float(np.abs(events.at).mean()) + 1e-300, float(events.at.max()), _GAP_POINTS)
    place, share = gaps.places(events.at)
    before, part = np.tile(before, 2), np.tile(part, 2)
    cells = _CLASSES * _GAP_POINTS

    def table(value: FloatArray) -> FloatArray:
        on = _put(before * _GAP_POINTS + place, share, value * (1 - part), cells)
        return on + _put((before + 1) * _GAP_POINTS + place, share, value * part, cells)

    jump, slope = table(events.jump), table(events.slope)
    kept = np.flatnonzero((jump != 0) | (slope != 0))
    which, at = np.divmod(kept, _GAP_POINTS)
    found = _Events(gaps.points[at], jump[kept], slope[kept])
    return found, _After(mean[which], variance[which], np.minimum(floor[which], mean[which]))


def _seen(chain: Chain, value: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give counts `[move, s]`, and how often each is met after each move, times a value of the phase that follows."""
    moves = chain.moves
    at = np.maximum(moves.counts.at, 1.0)
    by_phase = moves.counts.mass @ value
    usual, top = chain.server.usual_size(chain.spectra.rate), float(at.max())
    most = math.ceil(math.asinh(top / usual) / (_APART_VARIED if chain.server.varies else _APART)) + 2
    if at.shape[1] > most:
        # More counts than latency needs: each is divided among the two around it of fewer.
        axis = _Axis(usual, top, most)
        before, part = axis.places(at)
        gathered = np.empty((len(at), most, len(value)))
        every = np.arange(at.shape[1])
        for k in range(len(at)):
            fewer = np.zeros((most, at.shape[1]))
            fewer[before[k], every] = 1 - part[k]
            fewer[before[k] + 1, every] += part[k]
            gathered[k] = fewer @ by_phase[k]
        by_phase, at = gathered, np.broadcast_to(np.maximum(axis.points, 1.0), (len(at), most))
    mass = np.matmul(by_phase[moves.time_of], chain.flow[:, :, None])[:, :, 0]
    return np.asarray(at[moves.time_of]), np.asarray(mass)


def _coming(chain: Chain, mass: FloatArray) -> FloatArray:
    """Give how many records come during a full batch, given the move and count before it."""
    full = np.array([chain.server.full_cycle().mean])
    usable = np.abs(mass) > 1e-300
    _, coming = _seen(chain, expected_counts(chain.spectra, full)[0][0])
    return np.where(usable, np.maximum(coming / np.where(usable, mass, 1.0), 0.0), 0.0)


def _pieces(
    chain: Chain, move: IntArray, *, arrived: FloatArray, mass: FloatArray, tilt: FloatArray, coming: FloatArray
) -> tuple[FloatArray, ...]:
    """Give weight, full batches that pass, size of the own batch, shortest and longest rest, tilt, of every piece."""
    server, moves = chain.server, chain.moves
    tau, shift = moves.times[moves.time_of[move]], moves.shift[move]
    total = shift + arrived
    zero = np.zeros(len(tau))
    if server.cap is None:
        return mass * arrived, zero, total, zero, tau, tilt
    cap, full = float(server.cap), server.full_cycle().mean
    before, after = np.floor(shift / cap), np.ceil(total / cap)
    batches = np.maximum(after - before, 1.0)
    # Records of very many batches are taken in runs of batches, the last one alone: latency is linear over a run.
    copies = np.minimum(batches, _MOST_RUNS).astype(int)
    index = np.repeat(np.arange(len(tau)), copies)
    run = np.arange(len(index)) - np.repeat(np.cumsum(copies) - copies, copies)
    length = ((batches - 1) / np.maximum(copies - 1, 1))[index]
    j = before[index] + np.round(run * length)
    is_last = run == copies[index] - 1
    end_j = np.where(is_last, j + 1, before[index] + np.round((run + 1) * length))
    start = np.clip((j * cap - shift[index]) / arrived[index], 0.0, 1.0)
    end = np.clip((end_j * cap - shift[index]) / arrived[index], 0.0, 1.0)
    own = np.clip(total[index] - j * cap + coming[index] * j, 1.0, cap)
    inner = np.where((start <= 0) & (end >= 1), tilt[index], 0.0)
    first, final = (1 - start) * tau[index], (1 - end) * tau[index] + (end_j - 1 - j) * full
    weight = mass[index] * arrived[index] * (end - start)
    return weight, j, own, np.minimum(first, final), np.maximum(first, final), inner
