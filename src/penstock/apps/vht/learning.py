# SPDX-License-Identifier: Apache-2.0
"""One batch of learning, cut where Spark divides it: sort and slice, learn each group of attributes, decide on splits.

As in the original, a model aggregator holds the tree and sorts instances to leaves, and each instance is cut into
slices of attributes, which go to the local statistics of their group. They report the best splits of leaves that have
seen enough, and the aggregator decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from penstock.apps.vht.splitting import best_splits, chosen_split
from penstock.apps.vht.statistics import GroupStatistics
from penstock.apps.vht.tree import Split, Tree, Values, Weights


@dataclass(frozen=True, slots=True)
class Settings:
    """What is learnt, and how: the options of the application."""

    attributes: int = 200
    classes: int = 10
    groups: int = 8
    grace: int = 200
    delta: float = 1e-7
    tie: float = 0.05
    max_leaves: int = 200

    def slices(self) -> list[range]:
        """Return the attributes of each group."""
        edges = [self.attributes * group // self.groups for group in range(self.groups + 1)]
        return [range(a, b) for a, b in pairwise(edges)]


@dataclass(frozen=True, slots=True)
class GroupReport:
    """What the local statistics of a group report after a batch."""

    candidates: Mapping[int, tuple[Split, ...]]
    """The best splits of each leaf that is to be split if one of them is certain enough."""
    seen: Mapping[int, Weights]
    """Instances of this batch by leaf and class; each group sees all instances, and reports the same."""


def learn_group(
    statistics: GroupStatistics,
    tree: Tree,
    settings: Settings,
    first_attribute: int,
    slices: Iterable[tuple[NDArray[np.int64], NDArray[np.int64], Values]],
) -> GroupReport:
    """Take the slices of a batch (leaves, classes, values) into a group's statistics; report on its leaves."""
    statistics.forget(but=frozenset(tree.leaves))
    seen = np.zeros((len(tree.nodes), settings.classes))
    for leaves, classes, values in slices:
        statistics.learn(leaves, classes, values)
        np.add.at(seen, (leaves, classes), 1.0)
    candidates = {}
    for leaf, of_leaf in statistics.leaves.items():
        is_pure = np.count_nonzero(of_leaf.counts) < 2
        if of_leaf.seen - of_leaf.attempted_at >= settings.grace and not is_pure:
            of_leaf.attempted_at = of_leaf.seen
            candidates[leaf] = tuple(best_splits(of_leaf, first_attribute))
    by_leaf = {leaf: tuple(seen[leaf].tolist()) for leaf in np.flatnonzero(seen.any(axis=1)).tolist()}
    return GroupReport(candidates, by_leaf)


def aggregate(tree: Tree, reports: Iterable[GroupReport], settings: Settings) -> Tree:
    """Return the tree after a batch: what its leaves have seen, and the splits that are certain enough."""
    known = list(reports)
    if not known:
        return tree
    learnt = tree.learn(known[0].seen)
    splits: dict[int, Split] = {}
    room = settings.max_leaves - len(tree.leaves)
    for leaf in sorted(known[0].candidates):
        # The instances that a leaf was born with count as seen, as in MOA's, SAMOA's and River's trees.
        weights = learnt.nodes[leaf].weights
        candidates = [split for report in known for split in report.candidates[leaf]]
        classes = sum(weight > 0 for weight in weights)
        split = chosen_split(candidates, classes, sum(weights), settings.delta, settings.tie)
        if split is not None and len(splits) < room:
            splits[leaf] = split
    return learnt.grow(splits)


def correct_predictions(tree: Tree, seen: Mapping[int, Weights]) -> int:
    """Return how many instances of a batch the tree, as it was before, gives their class."""
    majorities = tree.majorities()
    return int(sum(weights[majorities[leaf]] for leaf, weights in seen.items()))
