# SPDX-License-Identifier: Apache-2.0
"""Response times of a cycle (`cycle_chain`) along the load: its fluid, corrected by its queue at a few loads.

The queue of a chain of many stages is dear to solve. The fluid is nearly right at all loads at which bursts queue, and
what it lacks changes slowly along the load.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.workload.cycle_chain import Cycle
from penstock.workload.fluid_curve import fluid_curves
from penstock.workload.load_curve import load_curves

FloatArray = npt.NDArray[np.float64]

CHECKED = np.array([0.05, 0.065, 0.08, 0.14, 0.26, 0.44, 0.65, 0.8, 0.9])
"""Utilisations at which the fluid is held against the queue."""


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


def missing_of(theta: FloatArray, shape: Cycle) -> FloatArray:
    """Return the logarithms of the queue's means, and of its percentiles, over the fluid's at the loads `CHECKED`."""
    d0, d1 = shape.matrices(theta[None])
    mean, percentile = load_curves(d0, d1, CHECKED)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.log(np.concatenate([mean[0], percentile[0]]) / fluid_of(theta[None], shape, CHECKED)[0]))


def cycle_curves(
    theta: FloatArray, shape: Cycle, loads: FloatArray, missing: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return means and percentiles of a cycle's queue: the fluid, and what was found `missing` at a cycle close by."""
    fluid = fluid_of(theta[None], shape, loads)[0].reshape(2, -1)
    mean, percentile = (
        curve * np.exp(np.interp(loads, CHECKED, rest))
        for curve, rest in zip(fluid, missing.reshape(2, -1), strict=True)
    )
    return mean, percentile
