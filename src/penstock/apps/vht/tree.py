# SPDX-License-Identifier: Apache-2.0
"""The decision tree: sorts instances to leaves, predicts their class, and grows by splitting leaves. Pure numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.uint8]
"""Instances: a row each, a column for each attribute."""
Weights = tuple[float, ...]
"""A weight for each class."""


@dataclass(frozen=True, slots=True)
class Split:
    """A test that makes an inner node of a leaf."""

    attribute: int
    threshold: float
    """Instances with at most this value go left."""
    merit: float
    """Information gain in bits."""
    left: Weights
    """What the instances seen so far would have given the left child, by class."""
    right: Weights


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree; its number is its place in `Tree.nodes`."""

    weights: Weights
    """Instances of each class: those that a leaf was born with, estimated, and those that it has seen."""
    split: Split | None = None
    """None: a leaf."""
    left: int = -1
    right: int = -1


@dataclass(frozen=True, slots=True)
class Tree:
    """A decision tree; the first node is the root."""

    nodes: tuple[Node, ...]

    @classmethod
    def seedling(cls, classes: int) -> Tree:
        """Return a tree of one leaf that has seen nothing."""
        return cls((Node((0.0,) * classes),))

    @property
    def leaves(self) -> tuple[int, ...]:
        """The numbers of the leaves."""
        return tuple(number for number, node in enumerate(self.nodes) if node.split is None)

    def sort(self, values: Values) -> NDArray[np.int64]:
        """Return the leaf of each instance."""
        splits = [node.split for node in self.nodes]
        is_inner = np.array([split is not None for split in splits])
        attribute = np.array([0 if split is None else split.attribute for split in splits])
        threshold = np.array([0.0 if split is None else split.threshold for split in splits])
        left = np.array([node.left for node in self.nodes])
        right = np.array([node.right for node in self.nodes])
        at = np.zeros(len(values), dtype=np.int64)
        moving = np.flatnonzero(is_inner[at])
        while len(moving):
            node = at[moving]
            is_left = values[moving, attribute[node]] <= threshold[node]
            at[moving] = np.where(is_left, left[node], right[node])
            moving = moving[is_inner[at[moving]]]
        return at

    def predict(self, values: Values) -> NDArray[np.int64]:
        """Return the class of each instance: that with the most weight in its leaf, the first of equals."""
        return self.majorities()[self.sort(values)]

    def majorities(self) -> NDArray[np.int64]:
        """Return the class with the most weight of each node."""
        weights: NDArray[np.float64] = np.array([node.weights for node in self.nodes])
        heaviest: NDArray[np.int64] = weights.argmax(axis=1)
        return heaviest

    def learn(self, seen: Mapping[int, Weights]) -> Tree:
        """Return the tree whose leaves have seen more instances, by leaf and class."""
        nodes = list(self.nodes)
        for leaf, more in seen.items():
            weights = tuple(a + b for a, b in zip(nodes[leaf].weights, more, strict=True))
            nodes[leaf] = replace(nodes[leaf], weights=weights)
        return Tree(tuple(nodes))

    def grow(self, splits: Mapping[int, Split]) -> Tree:
        """Return the tree with leaves split; new leaves get new numbers, so a number never means another leaf."""
        nodes = list(self.nodes)
        for leaf, split in sorted(splits.items()):
            nodes[leaf] = Node(nodes[leaf].weights, split, len(nodes), len(nodes) + 1)
            nodes += [Node(split.left), Node(split.right)]
        return Tree(tuple(nodes))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the nodes as plain data."""
        return [
            {"weights": list(node.weights)}
            if node.split is None
            else {
                "weights": list(node.weights),
                "attribute": node.split.attribute,
                "threshold": node.split.threshold,
                "merit": node.split.merit,
                "left": node.left,
                "right": node.right,
            }
            for node in self.nodes
        ]

    @classmethod
    def from_json(cls, data: list[dict[str, Any]]) -> Tree:
        """Return the tree that `to_json` wrote. The weights that a split gave its children are not kept."""
        return cls(
            tuple(
                Node(tuple(node["weights"]))
                if "attribute" not in node
                else Node(
                    tuple(node["weights"]),
                    Split(node["attribute"], node["threshold"], node["merit"], (), ()),
                    node["left"],
                    node["right"],
                )
                for node in data
            )
        )
