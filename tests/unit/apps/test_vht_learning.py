# SPDX-License-Identifier: Apache-2.0
"""Learning of the Vertical Hoeffding Tree: statistics, splits, and that dividing the attributes changes nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from penstock.apps.vht.check import accuracy, differences, expected_statistics, learn_alone
from penstock.apps.vht.learning import Settings, aggregate, learn_group
from penstock.apps.vht.splitting import best_splits, chosen_split, hoeffding_bound
from penstock.apps.vht.statistics import GroupStatistics
from penstock.apps.vht.tree import Split, Tree
from penstock.arrivals.feature_lines import FeatureLines

SETTINGS = Settings(attributes=32)


def batches(count: int, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Instances of 32 attributes."""
    generator = FeatureLines(2, attributes=32)
    made = [generator.instances(start, size) for start in range(0, count * size, size)]
    return [(classes.astype(np.int64), values) for values, classes in made]


def test_statistics_are_those_of_the_instances() -> None:
    """Count, sum, squares, least and greatest by leaf, class and attribute equal pandas, whatever the pieces."""
    ((classes, values),) = batches(1, 600)
    leaves = np.arange(600, dtype=np.int64) % 2
    statistics = GroupStatistics(10, 32)
    for part in (slice(0, 100), slice(100, 100), slice(100, 600)):
        statistics.learn(leaves[part], classes[part], values[part])
        statistics = GroupStatistics(10, 32, statistics.to_bytes())
    for leaf in (0, 1):
        expected = expected_statistics(classes, values, leaves, leaf)
        assert differences(statistics.leaves[leaf], expected) == []
        statistics.leaves[leaf].sums[classes[leaf], 3] += 1
        assert differences(statistics.leaves[leaf], expected) == [f"sum of class {classes[leaf]}, attribute 3"]
    statistics.forget(but={1})
    assert set(statistics.leaves) == {1}


def test_the_attribute_that_tells_the_classes_apart_is_best() -> None:
    """An attribute below 50 for one class and above for the other gains one bit; one that says nothing gains none."""
    rng = np.random.default_rng(1)
    classes = rng.integers(0, 2, 4000)
    told = rng.integers(0, 40, 4000) + 60 * classes
    values = np.stack([rng.integers(0, 100, 4000), told], axis=1).astype(np.uint8)
    statistics = GroupStatistics(2, 2)
    statistics.learn(np.zeros(4000, dtype=np.int64), classes, values)
    best, second = best_splits(statistics.leaves[0], first_attribute=10)
    assert (best.attribute, second.attribute) == (11, 10)
    assert best.merit == pytest.approx(1.0, abs=0.02)
    assert 39 <= best.threshold <= 60
    assert second.merit == pytest.approx(0.0, abs=0.01)
    assert np.sum([best.left, best.right]) == pytest.approx(4000)


def test_a_split_needs_certainty() -> None:
    """The best must lead the second by more than the bound, or be tied with it; no gain is no split."""
    bound = hoeffding_bound(2, 1e-7, 1000)
    assert bound == pytest.approx(math.sqrt(math.log(1e7) / 2000))

    def of(*merits: float) -> list[Split]:
        return [Split(number, 1.0, merit, (), ()) for number, merit in enumerate(merits)]

    sure = of(0.1, 0.1 + bound + 0.01)
    assert chosen_split(sure, 2, 1000, 1e-7, 0.05) == sure[1]
    assert chosen_split(of(0.1, 0.1 + bound - 0.01), 2, 1000, 1e-7, 0.05) is None
    tied = of(0.3, 0.3)
    assert chosen_split(tied, 2, 1000, 1e-7, 0.1) == tied[0], "of equals the first attribute"
    assert chosen_split(of(0.0, -math.inf), 2, 1000, 1e-7, 0.1) is None
    assert chosen_split([], 2, 1000, 1e-7, 0.1) is None
    alone = of(bound + 0.01)
    assert chosen_split(alone, 2, 1000, 1e-7, 0.05) == alone[0]


def test_dividing_the_attributes_changes_nothing() -> None:
    """With five groups, each with its own statistics and slices, the tree is the one learnt undivided."""
    data = batches(8, 500)
    settings = Settings(attributes=32, groups=5)
    parts = settings.slices()
    assert [len(part) for part in parts] == [6, 6, 7, 6, 7]
    groups = [GroupStatistics(10, len(part)) for part in parts]
    tree = Tree.seedling(10)
    for classes, values in data:
        leaves = tree.sort(values)
        reports = [
            learn_group(group, tree, settings, part.start, [(leaves, classes, values[:, part.start : part.stop])])
            for group, part in zip(groups, parts, strict=True)
        ]
        tree = aggregate(tree, reports, settings)
    alone, _, _ = learn_alone(data, SETTINGS)
    assert tree == alone
    assert len(tree.leaves) > 5


def test_the_tree_learns_and_stops_where_it_is_told() -> None:
    """It comes near the concept (95.5 % at best) on instances it has not seen, and keeps to its number of leaves."""
    data = batches(41, 300)
    tree, correct, _ = learn_alone(data[:40], SETTINGS)
    assert accuracy(tree, *data[40]) > 0.85
    assert 0.5 < correct / 12_000 < accuracy(tree, *data[40])
    small, _, _ = learn_alone(data[:40], Settings(attributes=32, max_leaves=3))
    assert len(small.leaves) == 3
