# SPDX-License-Identifier: Apache-2.0
"""What every cluster has to do for Penstock: one story, told on a real standalone cluster, YARN and Kubernetes.

A module of tests for a cluster has a class that inherits from `ClusterContract`, and two fixtures of the module's
scope: `query`, a query to which Penstock is attached, and `place`, what the test sees of the cluster from outside. The
tests follow each other on one application.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest
from tests.contract.steered_query import SteeredQuery, alone

from penstock.adaptors.clusters import SparkCluster
from penstock.adaptors.spark.actuator import SparkActuator
from penstock.adaptors.spark.scaling import ExecutorScaler
from penstock.errors import ActuationRejectedError, MetricSourceError
from penstock.records import Action, Allocation
from penstock.testing import check_cluster


@dataclass(frozen=True)
class ClusterPlace:
    """A cluster seen from outside.

    Attributes
    ----------
    executor_cores
        The CPU of an executor with a whole share, in cores.
    capacity
        Returns the CPU that the kernel allows all executors of the application together, in cores; None: all of it.
    end
        Ends an executor from outside, given its id.
    most
        How many executors can be had, with those that there are.
    """

    executor_cores: float
    capacity: Callable[[], float | None]
    end: Callable[[str], None]
    most: int


def nodes_of(cluster: SparkCluster) -> list[str]:
    """The nodes of the executors that take tasks, in order; none where they cannot be read at this moment."""
    active = set(cluster.census().active)
    with suppress(MetricSourceError):
        return sorted(e.host for e in cluster.executors() if e.executor_id in active)
    return []


class ClusterContract:
    """The tests, in their order."""

    def test_shares_can_be_set_here(self, query: SteeredQuery) -> None:
        """Nothing says that they cannot."""
        notes = query.scaler.notes
        assert not [note for note in notes if "CPU shares are not used" in note], notes

    def test_no_more_is_planned_than_can_be_had(self, query: SteeredQuery, place: ClusterPlace) -> None:
        """The policy is asked within what the cluster gives."""

        def most() -> int | None:
            request = query.policy.request
            return None if request is None else request.limits.max_executors

        query.until(lambda: most() == place.most)

    def test_a_share_is_set_while_the_executor_runs(self, query: SteeredQuery, place: ClusterPlace) -> None:
        """Half a share is half the kernel's quota, for the executor that is there."""
        before = query.hosts()
        query.decide(1, 0.5)
        query.until(lambda: self.shares(place) == 0.5)
        assert query.hosts() == before
        query.next_batches(1)

    def test_one_that_is_asked_for_comes_and_is_held(self, query: SteeredQuery, place: ClusterPlace) -> None:
        """It stands beside the first, which is not touched."""
        (first,) = query.hosts()
        query.decide(2, 0.5)
        query.settle(2)
        assert first in query.hosts()
        query.until(lambda: self.shares(place) == 1.0)

    @pytest.mark.kill
    def test_one_that_is_ended_from_outside_is_replaced_and_held(
        self, query: SteeredQuery, place: ClusterPlace
    ) -> None:
        """While two are wanted, another comes."""
        lost = min(query.hosts())
        place.end(lost)
        query.until(lambda: lost not in query.hosts() and len(query.hosts()) == 2)
        query.until(lambda: self.shares(place) == 1.0)
        query.next_batches(1)

    @pytest.mark.kill
    def test_a_kill_leaves_the_wanted_total_alone(self, query: SteeredQuery) -> None:
        """So another comes in place of one that is removed without a drain."""
        lost = min(query.hosts())
        query.port.kill([lost])
        total = query.port.asked()
        assert total is not None
        assert total >= 2
        query.until(lambda: lost not in query.hosts() and len(query.hosts()) == 2)
        query.until(lambda: query.port.asked() == 2)

    def test_one_that_is_too_many_is_drained_and_not_replaced(self, query: SteeredQuery, place: ClusterPlace) -> None:
        """One of the two stays and has a whole share; nobody is asked for in place of the other."""
        query.settle(2)
        before = set(query.hosts())
        query.decide(1, 1.0)
        query.settle(1)
        assert set(query.hosts()) < before
        assert query.port.asked() == 1
        query.until(lambda: self.shares(place) == 1.0)
        query.next_batches(2)
        assert len(query.hosts()) == 1

    @pytest.mark.kill
    def test_the_port_keeps_its_promises(self, query: SteeredQuery) -> None:
        """The suite that clusters in memory pass, too: Penstock is detached, and the cluster is held alone."""
        with alone(query) as cluster:
            check_cluster(cluster, query.until, nodes=sorted(set(nodes_of(cluster))))
        query.next_batches(1)

    def test_nodes_are_chosen_or_refused_with_a_reason(self, query: SteeredQuery) -> None:
        """Where the cluster says that nodes can be chosen executors come there; elsewhere the request says why not."""
        with alone(query) as cluster:
            query.until(lambda: nodes_of(cluster))
            node = nodes_of(cluster)[0]
            actuator = SparkActuator(ExecutorScaler(cluster, cluster.executors), reconcile_every_seconds=0.5)
            action = Action(str(query.query.name), time.time(), Allocation(2, 1.0, nodes=((node, 2),)), None)
            why_none = cluster.nodes.why_none
            if why_none is not None:
                before = cluster.asked()
                with pytest.raises(ActuationRejectedError, match=re.escape(why_none)):
                    actuator.request(action)
                assert cluster.asked() == before
                return
            try:
                actuator.request(action)
                query.until(lambda: nodes_of(cluster) == [node] * 2)
            finally:
                actuator.release()
        query.next_batches(1)

    @staticmethod
    def shares(place: ClusterPlace) -> float | None:
        """What the kernel allows all executors, in whole executors."""
        capacity = place.capacity()
        return None if capacity is None else round(capacity / place.executor_cores, 3)
