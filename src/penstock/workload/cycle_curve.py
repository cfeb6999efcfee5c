# SPDX-License-Identifier: Apache-2.0
"""Response times of a cycle (`cycle_chain`) along the load: its fluid, corrected by its queue at a few loads.

The queue of a chain of many stages is dear to solve. The fluid is nearly right at all loads at which bursts queue, and
what it lacks changes slowly along the load.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.workload.cycle_chain import Cycle
from penstock.workload.fluid_curve import fluid_curves
from penstock.workload.load_curve import load_curves

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Missing:
    """What a fluid lacks of its queue at some loads: logarithms of the queue's means and percentiles over its own."""

    loads: FloatArray
    means: FloatArray
    percentiles: FloatArray

    @classmethod
    def of(cls, theta: FloatArray, shape: Cycle, loads: FloatArray) -> Missing:
        """Solve the queue of a cycle at these loads."""
        d0, d1 = shape.matrices(theta[None])
        fluid = fluid_of(theta[None], shape, loads)[0].reshape(2, -1)
        mean, percentile = load_curves(d0, d1, loads)
        with np.errstate(invalid="ignore"):
            return cls(loads, np.log(mean[0] / fluid[0]), np.log(percentile[0] / fluid[1]))

    def at(self, loads: FloatArray) -> FloatArray:
        """Return what is missing of the means, then of the percentiles, at other loads."""
        return np.concatenate([np.interp(loads, self.loads, part) for part in (self.means, self.percentiles)])


def fluid_of(theta: FloatArray, shape: Cycle, loads: FloatArray) -> FloatArray:
    """Return means, then percentiles, of the fluid queue of each row of parameters at each load."""
    rates, ends = shape.by_stage(theta)
    flow = (rates / ends).sum(axis=1) / (1.0 / ends).sum(axis=1)
    rates, ends = rates / flow[:, None], ends / flow[:, None]
    i = np.arange(shape.order)
    moves = np.zeros((len(theta), shape.order, shape.order))
    moves[:, i, i] = -ends
    moves[:, i, (i + 1) % shape.order] += ends
    return np.concatenate(fluid_curves(rates, moves, loads), axis=1)


def cycle_curves(theta: FloatArray, shape: Cycle, loads: FloatArray, missing: Missing) -> tuple[FloatArray, FloatArray]:
    """Return means and percentiles of a cycle's queue: the fluid, and what was found missing at a cycle close by.

    The queue itself is solved at loads at which the fluid cannot be: where a part neither rises nor falls.
    """
    curves = fluid_of(theta[None], shape, loads)[0] * np.exp(missing.at(loads))
    mean, percentile = curves.reshape(2, -1)
    open_loads = ~(np.isfinite(mean) & np.isfinite(percentile))
    if open_loads.any():
        means, percentiles = load_curves(*shape.matrices(theta[None]), loads[open_loads])
        mean[open_loads], percentile[open_loads] = means[0], percentiles[0]
    return mean, percentile
