# SPDX-License-Identifier: Apache-2.0
"""The contract of clusters in memory, and what it finds. `cluster_contract` has it on real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from penstock.records import Allocation
from penstock.testing import FakeCluster, check_cluster


def at_once(is_so: Callable[[], object]) -> None:
    """Wait for nothing."""
    assert is_so(), "it has not come"


@pytest.mark.parametrize(
    "cluster",
    [
        FakeCluster(2),
        FakeCluster(1, most=2),
        FakeCluster(1, why_no_nodes="it has but one"),
        FakeCluster(1, why_no_shares="no rights"),
    ],
)
def test_a_cluster_keeps_its_promises(cluster: FakeCluster) -> None:
    """What can be had comes, and the rest is refused with its reason."""
    before = cluster.total
    check_cluster(cluster, at_once, nodes=["node2"])
    assert (len(cluster.on), cluster.share) == (before, None)


class TakesAllNodes(FakeCluster):
    """Says that it cannot choose nodes, and takes them."""

    def choose(self, nodes: Sequence[str]) -> None:
        """Take them."""


class EndsAtOnce(FakeCluster):
    """Takes a lower total for an order to stop."""

    def ask(self, executors: int) -> None:
        """End those that are too many."""
        super().ask(executors)
        while len(self.on) > executors:
            del self.on[max(self.on)]


class TakesAllShares(FakeCluster):
    """Says that it cannot set shares, and takes them."""

    def resize(self, allocation: Allocation | None, *, is_starting: bool = False) -> None:
        """Take it."""


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (TakesAllNodes(why_no_nodes="it has but one"), "it was taken, though it cannot be had: it has but one"),
        (EndsAtOnce(), "asking for less has ended an executor"),
        (TakesAllShares(why_no_shares="no rights"), "it was taken, though it cannot be had: no rights"),
        (FakeCluster(1, why_no_nodes=" "), "why nodes cannot be had is not said"),
    ],
)
def test_one_that_does_not_is_found(cluster: FakeCluster, words: str) -> None:
    """The failure says what was promised."""
    with pytest.raises(AssertionError, match=words):
        check_cluster(cluster, at_once, nodes=["node2"])
