# SPDX-License-Identifier: Apache-2.0
"""Nodes that do not give what was asked for: what they hold, and for how long they are left alone."""

from __future__ import annotations

from penstock.policies.gesscale.lost_nodes import LostNodes
from penstock.records import Allocation, ClusterState


def cluster(asked: int, there: int) -> ClusterState:
    """So many executors are asked of the node a, and so many are there."""
    wanted = Allocation(asked, nodes=(("a", asked),))
    return ClusterState(wanted, wanted, Allocation(there, nodes=(("a", there),) if there else ()))


def test_a_clock_that_is_set_back_neither_avoids_nor_waits_any_longer() -> None:
    """A day back: a node is avoided for half an hour all the same, and a change is given up after five minutes."""
    lost, day = LostNodes(), 86_400.0
    for at in (day, day + 200.0):
        assert lost.watch(at, cluster(2, 1)) == {}
    assert lost.watch(200.0, cluster(2, 1)) == {}
    assert not lost.gave_up(200.0)
    assert lost.watch(300.0, cluster(2, 1)) == {"a": 1}
    assert lost.gave_up(300.0)
    lost.watch(0.0, cluster(1, 1))
    assert lost.room == {"a": 1}
    lost.watch(1900.0, cluster(1, 1))
    assert lost.room == {}


def test_an_executor_that_died_a_moment_ago_is_waited_for() -> None:
    """Also on a node that was found to be full long before: it holds no fewer because one is started again."""
    lost = LostNodes()
    for at in (0.0, 300.0):
        found = lost.watch(at, cluster(3, 2))
    assert found == {"a": 2}
    for at, there in ((400.0, 1), (410.0, 0), (420.0, 2), (719.0, 2)):
        assert lost.watch(at, cluster(3, there)) == {}
        assert lost.room == {"a": 2}
    for at in (800.0, 1100.0):
        found = lost.watch(at, cluster(3, 0))
    assert found == {"a": 0}
