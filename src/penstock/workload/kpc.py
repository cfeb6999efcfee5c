# SPDX-License-Identifier: Apache-2.0
"""Searches compositions (`product_form`) of increasing size for a correlated window.

Least squares on moments, autocorrelation, dispersion and bicovariance runs from several starts, as in the KPC-Toolbox
(Casale, Zhang and Smirni 2010). The queue plays no part: what such a process predicts is found out afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from penstock.workload import free_chain, product_form
from penstock.workload.candidates import Found, Recipe, valid
from penstock.workload.least_squares import IsLate, least_squares
from penstock.workload.product_form import Shape
from penstock.workload.targets import STIFF, Targets

FloatArray = npt.NDArray[np.float64]


def shapes_for(targets: Targets, max_states: int) -> list[Shape]:
    """Return the compositions worth trying for a window, smallest first.

    A composition without a base has SCV of at least 1, m3 of at least 1.5 m2^2, and autocorrelations below
    (SCV - 1) / (2 SCV); a base of k phases widens all three.
    """
    c2, strongest = targets.scv, float(np.max(targets.acf, initial=0.0))
    least = free_chain.parts_needed(targets.m2, targets.m3)
    shapes = []
    if c2 > 1.0 + 1e-6 and least == 1:
        shapes += [Shape(j) for j in range(1, 6)]
    k = max(2, least)
    while k <= max_states // 2 and not _reaches(c2, strongest, k):
        k += 1
    # Below SCV 1 the base sets the third moment: more of its phases are worth more than more components.
    wider = range(k, max_states // 2 + 1) if c2 <= 1.0 else (k,)
    shapes += [Shape(j, b) for b in wider for j in range(1, 5)]
    fitting = [shape for shape in shapes if shape.order <= max_states]
    return sorted(fitting, key=lambda shape: (shape.order, shape.base))


def _reaches(c2: float, strongest: float, k: int) -> bool:
    spread = (1.0 + c2) / (1.0 + 1.0 / k) - 1.0
    return spread > 0 and spread / c2 > 1.05 * strongest


def compose(
    shape: Shape, targets: Targets, rng: np.random.Generator, is_late: IsLate, most: int = 4
) -> Iterator[Found]:
    """Search the compositions of one shape, and return the `most` promising."""
    low, high = product_form.bounds(shape, targets.n)
    count = 3 if shape.components == 1 else 8
    start = product_form.starts(shape, targets, count, rng)

    def descriptors(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return product_form.evaluate(theta, shape, targets)

    theta, loss = least_squares(
        descriptors, start, low, high, iterations=30, is_late=is_late, stiff=STIFF,
        retract=lambda rows: product_form.on_moments(rows, shape, targets, rounds=1),
    )  # fmt: skip
    for i in _different(loss, product_form.invariants(theta, shape), most):
        d0, d1 = product_form.matrices(theta[i : i + 1], shape)
        name = f"composition of {shape.components}" + (f", base of {shape.base}" if shape.base else "")
        yield from valid(d0[0], d1[0], Recipe(name))


def _different(loss: FloatArray, marks: FloatArray, most: int) -> list[int]:
    """Return the best rows, no two of them alike."""
    keep: list[int] = []
    for i in np.argsort(loss):
        if np.isfinite(loss[i]) and all(float(np.max(np.abs(marks[i] - marks[k]))) > 0.05 for k in keep):
            keep.append(int(i))
        if len(keep) == most:
            break
    return keep
