# SPDX-License-Identifier: Apache-2.0
"""The sufficient statistics of some attributes: by leaf and class, count, sum, sum of squares, least and greatest.

They are whole numbers, so they do not depend on the order of instances or on how attributes are divided into groups.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.apps.vht.tree import Values

Whole = NDArray[np.int64]
_LEAST, _GREATEST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


@dataclass(slots=True)
class LeafStatistics:
    """What a leaf has seen: `counts` by class, the others by class (rows) and attribute of the group (columns)."""

    counts: Whole
    sums: Whole
    squares: Whole
    lows: Whole
    highs: Whole
    attempted_at: int = 0
    """How many instances it had seen when a split was last looked for."""

    @classmethod
    def nothing(cls, classes: int, attributes: int) -> LeafStatistics:
        """Return those of a new leaf."""
        shape = (classes, attributes)
        return cls(
            np.zeros(classes, dtype=np.int64),
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape, dtype=np.int64),
            np.full(shape, _LEAST, dtype=np.int64),
            np.full(shape, _GREATEST, dtype=np.int64),
        )

    @property
    def seen(self) -> int:
        """How many instances."""
        return int(self.counts.sum())


class GroupStatistics:
    """The statistics of a group of attributes, by leaf.

    Parameters
    ----------
    classes, attributes
        How many, the latter in this group.
    kept
        What `to_bytes` returned. None: no instance yet.
    """

    def __init__(self, classes: int, attributes: int, kept: bytes | None = None) -> None:
        self._classes, self._attributes = classes, attributes
        self.leaves: dict[int, LeafStatistics] = {} if kept is None else pickle.loads(kept)

    def to_bytes(self) -> bytes:
        """Everything, for the next batch."""
        return pickle.dumps(self.leaves, protocol=5)

    def forget(self, but: Collection[int]) -> None:
        """Drop the statistics of leaves that were split."""
        self.leaves = {leaf: statistics for leaf, statistics in self.leaves.items() if leaf in but}

    def learn(self, leaves: NDArray[np.int64], classes: NDArray[np.int64], values: Values) -> None:
        """Take in instances: the leaf and class of each, and its values of the group's attributes."""
        if not len(leaves):
            return
        keys = leaves * self._classes + classes
        order = np.argsort(keys, kind="stable")
        in_order, found = values[order].astype(np.int64), keys[order]
        starts = np.flatnonzero(np.append(True, found[1:] != found[:-1]))
        counts = np.diff(np.append(starts, len(found)))
        sums, squares = np.add.reduceat(in_order, starts), np.add.reduceat(in_order**2, starts)
        lows, highs = np.minimum.reduceat(in_order, starts), np.maximum.reduceat(in_order, starts)
        for row, key in enumerate(found[starts].tolist()):
            leaf, label = divmod(key, self._classes)
            if leaf not in self.leaves:
                self.leaves[leaf] = LeafStatistics.nothing(self._classes, self._attributes)
            statistics = self.leaves[leaf]
            statistics.counts[label] += counts[row]
            statistics.sums[label] += sums[row]
            statistics.squares[label] += squares[row]
            np.minimum(statistics.lows[label], lows[row], out=statistics.lows[label])
            np.maximum(statistics.highs[label], highs[row], out=statistics.highs[label])
