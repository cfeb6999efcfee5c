# SPDX-License-Identifier: Apache-2.0
"""How well two models predict the throughput of the sizes that were not measured, for very many sets of sizes at once.

Model 1 (Imai et al., Eq. 4) is the reciprocal of a processing time ``w0 + w1/m + w2 m + w3 m^2``, model 2 (Eq. 5) is
``w0 + w1 m - w2 m^2``; all weights are at least zero, and after its peak a prediction stays there (Sec. 4.3).
"""

from __future__ import annotations

import numpy as np

from penstock.performance.sample_sizes.benchmark_samples import BenchmarkSamples, IntArray
from penstock.performance.sample_sizes.small_nnls import solve_small_nnls
from penstock.ports import FloatArray

MODELS = 2
RIDGE = 1e-10
"""Added to the diagonal, in units of the scaled columns: decides among equally good weights where there are fewer sizes
than weights, and is too small to be seen elsewhere."""
_NEWTON_STEPS = 60
MOST_CELLS = 4_000_000
"""Sets times sizes that are worked on at once: tens of megabytes for each of a dozen arrays, not gigabytes."""


def time_terms(sizes: FloatArray) -> FloatArray:
    """The terms of model 1's processing time: a row for each weight."""
    return np.array([np.ones_like(sizes), 1.0 / sizes, sizes, sizes**2])


def throughput_terms(sizes: FloatArray) -> FloatArray:
    """The terms of model 2's throughput, the last one with its minus sign."""
    return np.array([np.ones_like(sizes), sizes, -(sizes**2)])


def scales_of(terms: FloatArray) -> FloatArray:
    """The largest value of each term: what it is divided by, so that all weights are alike."""
    scales: FloatArray = np.abs(terms).max(axis=1)
    return scales


def score_subsets(samples: BenchmarkSamples, subsets: IntArray) -> FloatArray:
    """Return the error of each set of sizes: the RMSE over all applications, both models and all other sizes (Eq. 8).

    Parameters
    ----------
    samples
        Of all applications.
    subsets
        The sets: a row each, of places in `samples.sizes`.
    """
    sizes = samples.sizes.astype(np.float64)
    at_once = max(1, MOST_CELLS // len(sizes))
    if len(subsets) > at_once:
        starts = range(0, len(subsets), at_once)
        return np.concatenate([score_subsets(samples, subsets[start : start + at_once]) for start in starts])
    is_trained = np.zeros((len(subsets), len(sizes)), dtype=bool)
    np.put_along_axis(is_trained, subsets, True, axis=1)
    squares, tested = np.zeros(len(subsets)), np.zeros(len(subsets))
    for rows in _alike(samples.counts):
        counts = samples.counts[rows[0]]
        weights1 = _train(time_terms(sizes), samples.time[rows], counts, subsets)
        weights2 = _train(throughput_terms(sizes), samples.throughput[rows], counts, subsets)
        for side, row in enumerate(rows):
            for predicted in (_model1(weights1[:, side], sizes), _model2(weights2[:, side], sizes)):
                away = counts * (samples.throughput[row] - predicted) ** 2 + samples.scatter[row]
                squares += np.where(is_trained, 0.0, away).sum(axis=1)
            tested += MODELS * np.where(is_trained, 0.0, counts).sum(axis=1)
    with np.errstate(invalid="ignore"):
        errors: FloatArray = np.sqrt(squares / tested)  # NaN where no size is left to test on
    return errors


def _alike(counts: FloatArray) -> list[list[int]]:
    """Applications with the same number of samples at each size share their matrices."""
    groups: dict[bytes, list[int]] = {}
    for row, of_application in enumerate(counts):
        groups.setdefault(of_application.tobytes(), []).append(row)
    return list(groups.values())


def _train(terms: FloatArray, targets: FloatArray, counts: FloatArray, subsets: IntArray) -> FloatArray:
    """The weights of all sets for all applications: weights x applications x sets."""
    scales = scales_of(terms)
    scaled = terms / scales[:, None]
    weighted = scaled * counts
    outer = np.ascontiguousarray(scaled[:, None, :] * weighted[None, :, :])
    moment = np.ascontiguousarray(weighted[:, None, :] * targets[None, :, :])
    gram = sum(outer[:, :, column] for column in subsets.T) + RIDGE * np.eye(len(terms))[:, :, None]
    right = sum(moment[:, :, column] for column in subsets.T)
    return solve_small_nnls(gram, np.asarray(right)) / scales[:, None, None]


def _model1(weights: FloatArray, sizes: FloatArray) -> FloatArray:
    peak = _fastest_size(weights)
    at = np.minimum(sizes, peak[:, None])
    time = weights[0][:, None] + weights[1][:, None] / at + weights[2][:, None] * at + weights[3][:, None] * at**2
    throughput: FloatArray = 1.0 / np.maximum(time, np.finfo(float).tiny)
    return throughput


def _model2(weights: FloatArray, sizes: FloatArray) -> FloatArray:
    w0, w1, w2 = weights
    with np.errstate(divide="ignore", invalid="ignore"):
        peak = np.where(w2 > 0.0, w1 / (2.0 * w2), np.inf)
    at = np.minimum(sizes, np.maximum(peak, sizes[0])[:, None])
    throughput: FloatArray = w0[:, None] + w1[:, None] * at - w2[:, None] * at**2
    return throughput


def _fastest_size(weights: FloatArray) -> FloatArray:
    """Where model 1's time is least: the root of ``w2 m^2 + 2 w3 m^3 = w1``, infinite where it never rises."""
    _, w1, w2, w3 = weights
    with np.errstate(divide="ignore", invalid="ignore"):
        # Each term alone has its root above the common one: Newton's method comes down from there on a convex function.
        of_w2 = np.where(w2 > 0.0, np.sqrt(w1 / w2), np.inf)
        of_w3 = np.where(w3 > 0.0, np.cbrt(w1 / (2.0 * w3)), np.inf)
    root = np.minimum(of_w2, of_w3)
    both = np.flatnonzero((w2 > 0.0) & (w3 > 0.0) & (w1 > 0.0))
    m, a, b, c = root[both], w2[both], w3[both], w1[both]
    for _ in range(_NEWTON_STEPS if len(both) else 0):
        step = (a * m**2 + 2.0 * b * m**3 - c) / (2.0 * a * m + 6.0 * b * m**2)
        m = m - step
        if np.all(np.abs(step) <= 1e-12 * m):
            break
    root[both] = m
    return np.maximum(root, np.finfo(float).tiny ** 0.25)
