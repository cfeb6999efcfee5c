# SPDX-License-Identifier: Apache-2.0
"""What a fit aims at: the window's descriptors, and the weight of each.

Times are in units of the mean. A lag's weight is how many of the first hundred it stands for, and how precisely the
window shows its autocorrelation. Beyond a hundred, a lag with a large standard error has little weight, so that noise
there creates no slow modes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.workload.lag_grid import dispersion_weights
from penstock.workload.moments import TraceDescription
from penstock.workload.replay_queue import ReplayedQueue

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

STIFF = 2
"""The leading terms of every fit are the second and third moment, held nearly as constraints."""

M2_TOLERANCE = 0.002
M3_TOLERANCE = 0.0027
ACF_TOLERANCE = 0.012
QUEUE_TOLERANCE = 0.05
_DISPERSION_TOLERANCE = 0.2
_LARGEST_SHIFT = 0.01
_MOMENT_MARGIN = 0.002
_QUEUED = (0.2, 0.5, 0.8)
"""Utilisations at which the queue is a term of a search for descriptors."""


@dataclass(frozen=True, eq=False)
class Targets:
    """Descriptors of a window in units of its mean, with the weights of a least-squares fit."""

    n: int
    m2: float
    m3: float
    lags: IntArray
    acf: FloatArray
    acf_weights: FloatArray
    pairs: IntArray
    bicovariances: FloatArray
    bicovariance_weights: FloatArray
    idi_map: FloatArray  # (dispersions, lags): the dispersion of k intervals is SCV (1 + 2 idi_map . acf)
    idi: FloatArray
    idi_weights: FloatArray
    queue: ReplayedQueue
    queue_weights: FloatArray

    @property
    def scv(self) -> float:
        """Squared coefficient of variation."""
        return self.m2 - 1.0

    def with_third_moment_above(self, least: float) -> Targets:
        """Return targets whose m3 / m2^2 is above `least`, with second and third moment moved alike, by at most 1 %.

        A search for moments that its family cannot have would sacrifice everything else for them.
        """
        gap = np.log(least * (1.0 + _MOMENT_MARGIN) * self.m2**2 / self.m3) / 3.0  # m2 counts twice
        if gap <= 0:
            return self
        shift = float(np.exp(min(gap, _LARGEST_SHIFT)))
        return replace(self, m2=self.m2 / shift, m3=self.m3 * shift)


def targets_of(trace: TraceDescription, queue: ReplayedQueue) -> Targets:
    """Return the targets of a fit of this window."""
    some = np.isin(queue.utilisations, _QUEUED)
    queue = replace(
        queue,
        utilisations=queue.utilisations[some],
        responses=queue.responses[some],
        percentiles=queue.percentiles[some],
        errors=queue.errors[some],
    )
    lags = trace.lags
    width = np.gradient(lags.astype(np.float64)) if lags.size > 1 else np.ones(1)
    near = lags <= 100
    share = np.where(near, np.sqrt(width / 100.0) + 0.1, 0.07)
    doubt = np.where(near, 0.0, trace.acf_errors)
    acf_weights = share / np.sqrt(ACF_TOLERANCE**2 + doubt**2)
    scale = trace.bicovariance_errors + 0.1 * np.abs(trace.bicovariances) + 1e-9
    chosen = (trace.idi_counts <= lags[-1]) & (trace.idi > 0)
    counts, idi = trace.idi_counts[chosen], trace.idi[chosen]
    relative = trace.idi_errors[chosen] / np.maximum(idi, 1e-300)
    spread = np.sqrt(_DISPERSION_TOLERANCE**2 + relative**2) * np.sqrt(max(counts.size, 1))
    queue_weights = 1.0 / np.sqrt(QUEUE_TOLERANCE**2 + queue.errors**2)
    return Targets(
        n=trace.n,
        m2=trace.m2 / trace.mean**2,
        m3=trace.m3 / trace.mean**3,
        lags=lags,
        acf=trace.acf_at_lags,
        acf_weights=acf_weights,
        pairs=np.array(trace.pairs, dtype=np.int64).reshape(-1, 2),
        bicovariances=trace.bicovariances,
        bicovariance_weights=0.3 / np.sqrt(max(len(trace.pairs), 1)) / scale,
        idi_map=np.array([dispersion_weights(lags, int(count)) for count in counts]).reshape(-1, lags.size),
        idi=idi,
        idi_weights=0.5 / spread,
        queue=queue,
        queue_weights=queue_weights,
    )
