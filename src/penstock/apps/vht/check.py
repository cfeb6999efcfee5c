# SPDX-License-Identifier: Apache-2.0
"""The same learning without Spark, attributes undivided, and a leaf's statistics from its instances with pandas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from penstock.apps.vht.learning import Settings, aggregate, correct_predictions, learn_group
from penstock.apps.vht.statistics import GroupStatistics, LeafStatistics
from penstock.apps.vht.tree import Tree, Values

if TYPE_CHECKING:
    import pandas as pd

Batch = tuple[NDArray[np.int64], Values]
"""Classes and attributes."""


def learn_alone(batches: Iterable[Batch], settings: Settings) -> tuple[Tree, int, list[NDArray[np.int64]]]:
    """Learn batch after batch, all attributes in one group.

    Returns
    -------
    tree, correct, leaves
        The tree, how many instances it gave their class before it learnt them, and to which leaf each instance of each
        batch was sorted.
    """
    tree, correct, leaves_of = Tree.seedling(settings.classes), 0, []
    statistics = GroupStatistics(settings.classes, settings.attributes)
    for classes, values in batches:
        leaves = tree.sort(values)
        leaves_of.append(leaves)
        correct += int(np.count_nonzero(tree.predict(values) == classes))
        report = learn_group(statistics, tree, settings, 0, [(leaves, classes, values)])
        assert correct_predictions(tree, report.seen) == int(np.count_nonzero(tree.majorities()[leaves] == classes))
        tree = aggregate(tree, [report], settings)
    return tree, correct, leaves_of


def expected_statistics(
    classes: NDArray[np.int64], values: Values, leaves: NDArray[np.int64], leaf: int
) -> pd.DataFrame:
    """Return count, sum, squares, low and high by (class, attribute) of the instances that were sorted to a leaf."""
    import pandas as pd

    here = leaves == leaf
    table = pd.DataFrame(values[here].astype(np.int64)).assign(label=classes[here])
    long = table.melt(id_vars="label", var_name="attribute", value_name="value")
    long["square"] = long["value"] ** 2
    return long.groupby(["label", "attribute"]).agg(
        count=("value", "size"), sum=("value", "sum"), squares=("square", "sum"), low=("value", "min"),
        high=("value", "max"),
    )  # fmt: skip


def differences(found: LeafStatistics, expected: pd.DataFrame) -> list[str]:
    """Say where a leaf's statistics differ from `expected_statistics`; none: they are equal."""
    faults = []
    if found.seen * found.sums.shape[1] != int(expected["count"].sum()):
        faults.append(f"{found.seen} instances, {found.sums.shape[1]} attributes, {expected['count'].sum()} values")
    labels = expected.index.get_level_values("label").to_numpy()
    attributes = expected.index.get_level_values("attribute").to_numpy(dtype=np.int64)
    if not np.array_equal(found.counts[labels], expected["count"].to_numpy()):
        faults.append("counts differ")
    for column, of_leaf in {
        "sum": found.sums,
        "squares": found.squares,
        "low": found.lows,
        "high": found.highs,
    }.items():
        is_other = of_leaf[labels, attributes] != expected[column].to_numpy()
        faults += [f"{column} of class {labels[i]}, attribute {attributes[i]}" for i in np.flatnonzero(is_other)]
    return faults


def accuracy(tree: Tree, classes: NDArray[np.int64], values: Values) -> float:
    """Return the share of instances that a tree gives their class."""
    return float(np.mean(tree.predict(values) == classes))
