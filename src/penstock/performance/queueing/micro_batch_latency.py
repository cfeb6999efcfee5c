# SPDX-License-Identifier: Apache-2.0
"""The distribution of record latency in a micro-batch queue, from the solved chain.

A record that arrives a share v into the gap tau before the next start, as number p of the n then waiting, has
latency (1 - v) tau + j tau_cap + B(own), where j = ceil(p / cap) - 1 full batches go before its own. The law is a
mixture of pieces over which latency is linear in v: its distribution function is piecewise quadratic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.micro_batch_chain import Chain, Cycle, batch_time_nodes

_POINTS = 8
_NEGLIGIBLE = 1e-9
_NARROWEST = 1e-5


@dataclass(frozen=True, eq=False)
class LatencyLaw:
    """A mixture of pieces on [low, high] with densities linear over each: `tilt` 1 falls to zero at high."""

    weight: FloatArray
    low: FloatArray
    high: FloatArray
    tilt: FloatArray

    @property
    def mean(self) -> float:
        """Mean latency of the mixture."""
        width = self.high - self.low
        return float(self.weight @ (self.low + width * (0.5 - self.tilt / 6)))

    @property
    def variance(self) -> float:
        """Variance of the mixture."""
        width = self.high - self.low
        centre = self.low + width * (0.5 - self.tilt / 6)
        within = width**2 * (1 / 12 - self.tilt**2 / 36)
        return float(self.weight @ (within + (centre - self.mean) ** 2))

    def cdf(self, times: FloatArray) -> FloatArray:
        """Share within each of some times."""
        flat = np.atleast_1d(times)
        out = np.empty(len(flat))
        width = np.maximum(self.high - self.low, _NARROWEST * float(self.high.max()))
        for k, y in enumerate(flat):
            u = np.clip((y - self.low) / width, 0.0, 1.0)
            # Density 1 + tilt (1 - 2u) on (0, 1) integrates to u + tilt (u - u^2).
            out[k] = float(self.weight @ (u + self.tilt * u * (1 - u)))
        return np.clip(out, 0.0, 1.0)

    def percentiles(self, ps: list[float]) -> FloatArray:
        """Invert the distribution function by bisection."""
        top = float(self.high.max())
        answers = np.empty(len(ps))
        for k, p in enumerate(ps):
            low, high = 0.0, top * (1 + 2 * _NARROWEST)
            while high - low > 1e-7 * high:
                middle = (low + high) / 2
                if float(self.cdf(np.array([middle]))[0]) < p:
                    low = middle
                else:
                    high = middle
            answers[k] = (low + high) / 2
        return answers


def latency_law(chain: Chain, cycle: Cycle) -> LatencyLaw:
    """Give the mixture of latencies over gaps, counts, places in the gap and batch times."""
    server, counts = chain.server, chain.counts
    # Weights carried over between nodes may be negative; clipped, they would no longer keep the moments.
    x = chain.stationary
    leftover = chain.leftover
    sources = [(0.0, chain.weights[leftover == 0].T @ x[leftover == 0])]
    sources += [(leftover[a], chain.weights[a][:, None] * x[a]) for a in np.flatnonzero(leftover > 0)]
    tilts = np.clip(6 * (0.5 - cycle.age), -1.0, 1.0)
    columns: list[FloatArray] = []
    for shift, in_phase in sources:
        joint = np.einsum("ki,ksij->ks", in_phase, counts.mass)
        size = np.maximum(counts.at, 1.0)
        k, s = np.nonzero(np.abs(joint) * size > _NEGLIGIBLE * cycle.served / max(joint.size, 1))
        columns.append(_pieces(chain, shift, chain.times[k], size[k, s], mass=joint[k, s], tilt=tilts[k]))
    weight, fixed, own, low, high, tilt = np.concatenate(columns, axis=1)
    if server.trigger is None and cycle.idle > 0:
        lone = np.array([[cycle.idle], [0.0], [1.0], [0.0], [0.0], [0.0]])
        weight, fixed, own, low, high, tilt = np.concatenate(
            [np.stack([weight, fixed, own, low, high, tilt]), lone], axis=1
        )
    batch, q = batch_time_nodes(server, own, _POINTS)
    base = fixed[:, None] + batch
    share = (weight[:, None] * q).ravel()
    return LatencyLaw(
        share / share.sum(),
        (base + low[:, None]).ravel(),
        (base + high[:, None]).ravel(),
        np.repeat(tilt, len(q)),
    )


def _pieces(
    chain: Chain, shift: float, tau: FloatArray, arrived: FloatArray, *, mass: FloatArray, tilt: FloatArray
) -> FloatArray:
    """Give rows (weight, full batches' time, size of the own batch, shortest and longest rest, tilt)."""
    server = chain.server
    total = shift + arrived
    if server.cap is None:
        return np.stack([mass * arrived, np.zeros(len(tau)), total, np.zeros(len(tau)), tau, tilt])
    cap = float(server.cap)
    full = max(server.fixed + server.per_record * cap, server.trigger or 0.0)
    before = np.floor(shift / cap)
    after = np.ceil(total / cap)
    copies = np.maximum(after - before, 1).astype(int)
    index = np.repeat(np.arange(len(tau)), copies)
    j = before + np.arange(len(index)) - np.repeat(np.cumsum(copies) - copies, copies)
    start = np.clip((j * cap - shift) / arrived[index], 0.0, 1.0)
    end = np.clip(((j + 1) * cap - shift) / arrived[index], 0.0, 1.0)
    own = np.clip(total[index] - j * cap + chain.arrivals.rate * j * full, 1.0, cap)
    inner = np.where((start <= 0) & (end >= 1), tilt[index], 0.0)
    lows, highs = (1 - end) * tau[index], (1 - start) * tau[index]
    return np.stack([mass[index] * arrived[index] * (end - start), j * full, own, lows, highs, inner])
