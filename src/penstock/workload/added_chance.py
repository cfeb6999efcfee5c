# SPDX-License-Identifier: Apache-2.0
"""What chance in the lengths of its parts adds to the queue of a course, and how that changes with the course.

It is known where a cycle was solved. Beyond that it is taken to change along the steps seen so far as it did there, and
not at all across them (Broyden, "A class of methods for solving nonlinear simultaneous equations", Mathematics of
Computation 19, 1965).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.workload.course_queue import course_curves

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Added:
    """Logarithms of means, then of percentiles, of a cycle's queue over those of its course at `loads`.

    `values` are those at the parameters `theta`, `slopes` their changes with each of these.
    """

    loads: FloatArray
    theta: FloatArray
    values: FloatArray
    slopes: FloatArray

    @classmethod
    def of(cls, loads: FloatArray, theta: FloatArray, values: FloatArray, before: Added | None) -> Added:
        """Return what is known at `theta`, with slopes learnt from the step that led there."""
        if before is None:
            return cls(loads, theta, values, np.zeros((values.size, theta.size)))
        step = theta - before.theta
        off = values - before.to(theta[None])[0]
        return cls(loads, theta, values, before.slopes + np.outer(off, step) / max(float(step @ step), 1e-12))

    def to(self, rows: FloatArray) -> FloatArray:
        """Return what is added to the course of each row of parameters."""
        return np.asarray(self.values + (rows - self.theta) @ self.slopes.T)

    def around(self, other: Added) -> Added:
        """Return these slopes around another place."""
        return replace(other, slopes=self.slopes)

    def scaled(self, factor: float) -> Added:
        """Return so many times of it."""
        return replace(self, values=self.values * factor, slopes=self.slopes * factor)

    def with_course(self, theta: FloatArray, loads: FloatArray) -> FloatArray:
        """Return logarithms of means and of percentiles of the queue of a cycle close by, shape (2, loads).

        What is added changes slowly along the load, so that it is known in between.
        """
        near = self.at(loads)
        return np.asarray((course_curves(theta[None], loads)[0] + near.values).reshape(2, -1))

    def at(self, loads: FloatArray) -> Added:
        """Return the same at other loads, without slopes."""
        values = np.concatenate([np.interp(loads, self.loads, part) for part in self.values.reshape(2, -1)])
        return Added(loads, self.theta, values, np.zeros((values.size, self.theta.size)))
