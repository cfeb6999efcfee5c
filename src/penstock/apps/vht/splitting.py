# SPDX-License-Identifier: Apache-2.0
"""Which split of a leaf is best, and whether it is certain enough: information gain and the Hoeffding bound.

A class's values of an attribute are taken as normally distributed, and ten thresholds between the least and the
greatest value are tried, as in River's and MOA's trees (Pfahringer, Holmes and Kirkby, PAKDD 2008).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, xlogy

from penstock.apps.vht.statistics import LeafStatistics
from penstock.apps.vht.tree import Split

THRESHOLDS = 10
_LEAST_BRANCH = 0.01
"""A split of which one side has a smaller part of the instances counts for nothing."""


def best_splits(statistics: LeafStatistics, first_attribute: int, count: int = 2) -> list[Split]:
    """Return the best split of each of the `count` best attributes of a group, the best first.

    Parameters
    ----------
    statistics
        Those of one leaf.
    first_attribute
        The number of the group's first attribute.
    count
        How many; two are enough to compare the best with the next.
    """
    is_seen = statistics.counts > 0
    counts = statistics.counts[is_seen].astype(np.float64)[:, None, None]
    lows, highs = statistics.lows[is_seen], statistics.highs[is_seen]
    low, high = lows.min(axis=0)[:, None], highs.max(axis=0)[:, None]
    thresholds = low + (high - low) * (np.arange(1, THRESHOLDS + 1) / (THRESHOLDS + 1))
    left = counts * _shares_below(statistics, is_seen, thresholds)
    right = counts - left
    weights = np.stack([left.sum(axis=0), right.sum(axis=0)])
    total = float(counts.sum())
    after = (_entropy(left) * weights[0] + _entropy(right) * weights[1]) / total
    merits = float(_entropy(counts)[0, 0]) - after
    merits = np.where(weights.min(axis=0) > _LEAST_BRANCH * total, merits, -np.inf)
    chosen = merits.argmax(axis=1)
    best = merits[np.arange(len(chosen)), chosen]
    splits = []
    # A stable sort: of equal merits the first attribute wins, however attributes are divided into groups.
    for attribute in np.argsort(-best, kind="stable")[:count].tolist():
        at = int(chosen[attribute])
        sides = np.zeros((2, len(is_seen)))
        sides[:, is_seen] = left[:, attribute, at], right[:, attribute, at]
        splits.append(
            Split(
                first_attribute + attribute,
                float(thresholds[attribute, at]),
                float(best[attribute]),
                tuple(sides[0].tolist()),
                tuple(sides[1].tolist()),
            )
        )
    return splits


def _shares_below(
    statistics: LeafStatistics, is_seen: NDArray[np.bool_], thresholds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the share of each class's values at or below each threshold: by class, attribute and threshold."""
    counts = statistics.counts[is_seen].astype(np.float64)[:, None]
    means = statistics.sums[is_seen] / counts
    variances = (statistics.squares[is_seen] - counts * means**2) / np.maximum(counts - 1, 1)
    deviations = np.sqrt(np.maximum(variances, 1e-12))[:, :, None]
    shares = ndtr((thresholds - means[:, :, None]) / deviations)
    shares = np.where(thresholds < statistics.lows[is_seen][:, :, None], 0.0, shares)
    return np.where(thresholds >= statistics.highs[is_seen][:, :, None], 1.0, shares)


def _entropy(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entropy in bits of weights by class (first axis)."""
    total = weights.sum(axis=0)
    safe = np.where(total > 0, total, 1.0)
    entropy: NDArray[np.float64] = (np.log2(safe) * total - xlogy(weights, weights).sum(axis=0) / math.log(2)) / safe
    return entropy


def hoeffding_bound(classes: int, delta: float, seen: float) -> float:
    """Return by how much a mean of `seen` gains may be off, except with probability `delta` (Hoeffding, 1963).

    The gain lies between 0 and log2 of the number of classes.
    """
    reach = math.log2(max(2, classes))
    return math.sqrt(reach**2 * math.log(1 / delta) / (2 * seen))


def chosen_split(candidates: Iterable[Split], classes: int, seen: float, delta: float, tie: float) -> Split | None:
    """Return the split to make of a leaf. None: wait for more instances.

    The best of the candidates must gain more than the second best, and more than no split at all, by the Hoeffding
    bound; or the bound is so small that the two are as good as equal (Domingos and Hulten, KDD 2000, Table 1 and Sec.
    3.2).

    Parameters
    ----------
    candidates
        The best two splits of every group of attributes.
    classes
        How many classes the leaf has seen.
    seen
        The weight of the instances.
    delta, tie
        The probability of a wrong choice, and the bound that makes a tie.
    """
    in_order = sorted(candidates, key=lambda split: (-split.merit, split.attribute))
    if not in_order or in_order[0].merit <= 0:
        return None
    second = max(0.0, in_order[1].merit) if len(in_order) > 1 else 0.0
    bound = hoeffding_bound(classes, delta, seen)
    return in_order[0] if in_order[0].merit - second > bound or bound < tie else None
