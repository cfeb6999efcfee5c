# SPDX-License-Identifier: Apache-2.0
"""Which sizes to measure where nothing was measured yet: those that determine the weights of both models best.

A set is D-optimal if it maximises the determinant of ``X' X``: the confidence region of the weights is then smallest
(Wald, 1943; found by Fedorov's exchange of one point at a time). Both models count, by the sum of the logarithms.

What a point x adds to the determinant of G is the factor ``1 + x' G^-1 x``. So all exchanges of one point are known
from one small inverse, and a million sizes need no more memory than a few columns of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.errors import ConfigurationError
from penstock.performance.sample_sizes.subset_scores import RIDGE, scales_of, throughput_terms, time_terms
from penstock.ports import FloatArray


def d_optimal_sizes(sizes: Sequence[int], number: int, scale_to: int | None = None) -> tuple[int, ...]:
    """Return the `number` of these sizes that determine the weights of both models best.

    Parameters
    ----------
    sizes
        Numbers of executors that may be measured.
    number
        How many to choose.
    scale_to
        The largest size that is to be predicted; default: the largest of `sizes`. It only scales the terms.

    Examples
    --------
    >>> d_optimal_sizes(range(1, 33), 4)
    (1, 3, 17, 32)
    """
    known = sorted(set(sizes))
    if not 2 <= number <= len(known):
        raise ConfigurationError(
            f"sizes: {number} cannot be chosen out of {len(known)}; choose fewer, or allow larger sizes", field="sizes"
        )
    if known[0] < 1:
        raise ConfigurationError(f"sizes: {known[0]} must be at least 1 executor", field="sizes")
    grid = np.array([*known, max(known[-1], scale_to or 0)], dtype=np.float64)
    features = [(terms / scales_of(terms)[:, None])[:, :-1] for terms in (time_terms(grid), throughput_terms(grid))]
    chosen = np.unique(np.round(np.linspace(0, len(known) - 1, number)).astype(int)).tolist()
    value = _information(features, np.array([chosen]))[0]
    while len(known) > number:
        near = [sorted({*chosen} - {out} | {_best_new(features, chosen, out)}) for out in chosen]
        values = _information(features, np.array(near))
        if values.max() <= value + 1e-12:
            break
        value, chosen = values.max(), near[int(values.argmax())]
    return tuple(known[i] for i in chosen)


def _best_new(features: Sequence[FloatArray], chosen: Sequence[int], out: int) -> int:
    """The point that brings most in place of `out`, of those that are not chosen."""
    kept = [place for place in chosen if place != out]
    gain = np.zeros(features[0].shape[1])
    for terms in features:
        gram = terms[:, kept] @ terms[:, kept].T + RIDGE * np.eye(len(terms))
        gain += np.log1p(np.maximum(0.0, np.einsum("ij,ij->j", terms, np.linalg.solve(gram, terms))))
    gain[list(chosen)] = -np.inf
    return int(gain.argmax())


def _information(
    features: Sequence[FloatArray], subsets: np.ndarray[tuple[int, int], np.dtype[np.int64]]
) -> FloatArray:
    """The sum of the logarithms of both determinants, for each set."""
    total = np.zeros(len(subsets))
    for terms in features:
        points = np.moveaxis(terms[:, subsets], 0, 2)
        gram = np.swapaxes(points, 1, 2) @ points + RIDGE * np.eye(len(terms))
        total += np.linalg.slogdet(gram)[1]
    return total
