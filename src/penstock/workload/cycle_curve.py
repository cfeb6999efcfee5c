# SPDX-License-Identifier: Apache-2.0
"""Response times of a cycle (`cycle_chain`, `modulated_cycle`) along the load: its fluid, and what that lacks.

The queue of a chain of many stages is dear to solve. The fluid is nearly right at all loads at which bursts queue, and
what it lacks hardly depends on the number of stages.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.workload.fluid_curve import fluid_curves
from penstock.workload.load_curve import load_curves

FloatArray = npt.NDArray[np.float64]

_MUCH = 0.3
"""Where a fluid lacks more than this, in logarithms, more stages are solved: the share of the arrivals that wait passes
that of the percentile there, and then a percentile depends on everything."""


class Staged(Protocol):
    """A shape of chains whose parts have stages."""

    def fluid(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return rates and generators of the states for rows of parameters, for arrivals of rate 1."""

    def matrices(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return D0 and D1 for rows of parameters."""


def lacking(theta: FloatArray, shapes: tuple[Staged, Staged], loads: FloatArray) -> FloatArray:
    """Return logarithms of means, then of percentiles, of a cycle's queue over those of its fluid.

    The queue is that of the first of the shapes; where its fluid lacks much, that of the second, which has more stages.
    """
    found = np.empty((2, loads.size))
    some = np.ones(loads.size, dtype=np.bool_)
    for shape in shapes:
        if some.any():
            fluid = fluid_of(theta[None], shape, loads[some])[0].reshape(2, -1)
            queue = np.concatenate(load_curves(*shape.matrices(theta[None]), loads[some]))
            with np.errstate(invalid="ignore"):
                found[:, some] = np.log(queue / fluid)
            some = np.abs(found).max(axis=0) > _MUCH
    return found.ravel()


def fluid_of(theta: FloatArray, shape: Staged, loads: FloatArray) -> FloatArray:
    """Return means, then percentiles, of the fluid queue of each row of parameters at each load."""
    return np.concatenate(fluid_curves(*shape.fluid(theta), loads), axis=1)
