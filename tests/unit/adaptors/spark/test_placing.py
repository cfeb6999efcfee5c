# SPDX-License-Identifier: Apache-2.0
"""Executors come to chosen nodes of a cluster that starts them where it likes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.adaptors.spark.placing import next_step
from penstock.adaptors.spark.scaling import ExecutorScaler
from penstock.errors import ActuationError, ActuationRejectedError, MetricSourceError
from penstock.ports import Census
from penstock.records import ExecutorState
from penstock.testing import FakeCluster


class FakeNodes(FakeCluster):
    """A cluster with one place on each node, which fills its places in an order of its own."""

    def __init__(self, order: Sequence[str], running: Sequence[str] = ()) -> None:
        super().__init__(0)
        self.order = list(order)
        self.chosen: list[tuple[str, ...]] = []
        self.on = {str(number): node for number, node in enumerate(running)}
        self.leaving: list[str] = []
        self.limit = len(running)
        self.started = len(running)
        self.is_readable = True
        self.can_drain = True
        self.most_totals: list[int] = []

    def refusal(self) -> str | None:
        """Nothing is refused."""
        return None

    def census(self) -> Census:
        """Who is registered."""
        return Census(tuple(i for i in self.on if i not in self.leaving), tuple(self.leaving))

    def asked(self) -> int | None:
        """The limit."""
        return self.limit

    def ask(self, executors: int) -> None:
        """Set the limit."""
        self.limit = executors
        self.most_totals.append(executors)

    def choose(self, nodes: Sequence[str]) -> None:
        """Take them down; the master has its own order."""
        self.chosen.append(tuple(nodes))

    def drain(self, executor_id: str, reason: str) -> None:
        """Take out of scheduling."""
        self.leaving.append(executor_id)

    def kill(self, executor_ids: Sequence[str]) -> None:
        """End at once."""
        for executor_id in executor_ids:
            del self.on[executor_id]
            if executor_id in self.leaving:
                self.leaving.remove(executor_id)

    def read(self) -> tuple[ExecutorState, ...]:
        """Where they are."""
        if not self.is_readable:
            raise MetricSourceError("no page", target="spark-ui")
        return tuple(ExecutorState(i, node, 1, True, 0, 0.0, float(i)) for i, node in self.on.items())

    def step(self) -> None:
        """The draining end, and the master fills free places up to its limit."""
        self.kill(list(self.leaving))
        for node in self.order:
            if len(self.on) < self.limit and node not in self.on.values():
                self.on[str(self.started)] = node
                self.started += 1

    @property
    def placed(self) -> Counter[str]:
        """How many executors each node has."""
        return Counter(node for i, node in self.on.items() if i not in self.leaving)


class Time:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The instant."""
        return self.now


def bring(cluster: FakeNodes, scaler: ExecutorScaler, wanted: dict[str, int], steps: int = 12) -> None:
    """Take steps until the cluster has settled."""
    for _ in range(steps):
        scaler.place(wanted)
        cluster.step()


def test_executors_come_to_the_wanted_nodes_and_the_others_go() -> None:
    """The master fills c and b first; a gets its executor all the same, and then only a and b have one."""
    cluster = FakeNodes("cba")
    scaler = ExecutorScaler(cluster, cluster.read)
    bring(cluster, scaler, {"a": 1, "b": 1})
    assert cluster.placed == {"a": 1, "b": 1}
    assert cluster.limit == 2
    assert cluster.started == 3, "one in vain, on c"
    assert scaler.take_notes() == ("1 executors came to other nodes first, until a, b had theirs",)


def test_a_move_keeps_the_old_executor_until_the_new_one_is_there() -> None:
    """The query never has fewer executors than wanted on its way from one node to another."""
    cluster = FakeNodes("abc", running="a")
    scaler = ExecutorScaler(cluster, cluster.read)
    fewest = []
    for _ in range(6):
        scaler.place({"c": 1})
        fewest.append(sum(cluster.placed.values()))
        cluster.step()
    assert cluster.placed == {"c": 1}
    assert min(fewest) == 1


def test_once_placed_further_steps_do_nothing() -> None:
    """Nothing is asked for and nobody is let go."""
    cluster = FakeNodes("ab", running="a")
    scaler = ExecutorScaler(cluster, cluster.read)
    bring(cluster, scaler, {"a": 1})
    cluster.most_totals.clear()
    bring(cluster, scaler, {"a": 1})
    assert (cluster.most_totals, cluster.placed) == ([], {"a": 1})


def test_a_node_that_is_gone_is_given_up_and_the_others_stay() -> None:
    """After the patience an error names the node; what came elsewhere goes, and what is right stays."""
    cluster, time = FakeNodes("ab"), Time()
    scaler = ExecutorScaler(cluster, cluster.read, placing_patience_seconds=60.0, monotonic=time)
    wanted = {"a": 1, "lost": 1}
    bring(cluster, scaler, wanted)
    assert cluster.placed == {"a": 1, "b": 1}, "b holds its place meanwhile"
    time.now = 61.0
    for _ in range(3):
        with pytest.raises(ActuationError, match=r"no executors came to lost \(1\) within 60 s"):
            scaler.place(wanted)
        cluster.step()
    assert (cluster.placed, cluster.limit) == ({"a": 1}, 1)
    bring(cluster, scaler, {"b": 1})
    assert cluster.placed == {"b": 1}, "another wish is tried anew"


def test_where_no_wanted_node_has_any_one_executor_stays_somewhere() -> None:
    """A running query is never left without executors."""
    cluster, time = FakeNodes("ab", running="ab"), Time()
    scaler = ExecutorScaler(cluster, cluster.read, placing_patience_seconds=1.0, monotonic=time)
    scaler.place({"lost": 1})
    time.now = 2.0
    for _ in range(3):
        with pytest.raises(ActuationError):
            scaler.place({"lost": 1})
        cluster.step()
    assert sum(cluster.placed.values()) == 1


def test_without_hosts_nothing_is_done() -> None:
    """If the driver's page does not answer, or does not know an executor yet, no executor is asked for or let go."""
    cluster = FakeNodes("ab", running="a")
    scaler = ExecutorScaler(cluster, cluster.read)
    cluster.is_readable = False
    with pytest.raises(ActuationError, match="no page") as caught:
        scaler.place({"b": 1})
    assert caught.value.retryable
    with pytest.raises(ActuationError, match="where 0 runs is not known"):
        ExecutorScaler(cluster, lambda: ()).place({"b": 1})
    assert (cluster.most_totals, cluster.leaving) == ([], [])


def test_a_cluster_that_can_be_asked_for_nodes_is_asked_for_those_that_lack_executors() -> None:
    """What is missing is asked for; afterwards all wanted nodes, so that one that is lost comes back to them."""
    cluster = FakeNodes("abc", running="a")
    scaler = ExecutorScaler(cluster, cluster.read)
    bring(cluster, scaler, {"a": 1, "c": 1})
    assert cluster.chosen[0] == ("c",)
    assert cluster.chosen[-1] == ("a", "c")


def test_a_cluster_that_cannot_be_asked_for_nodes_says_why() -> None:
    """Nothing is asked for."""
    cluster = FakeCluster(1, why_no_nodes="it has but one")
    with pytest.raises(ActuationRejectedError, match="nodes cannot be chosen here: it has but one"):
        ExecutorScaler(cluster, lambda: ()).place({"a": 2})
    assert cluster.total == 1


def test_no_executors_at_all_are_refused() -> None:
    """As without nodes."""
    cluster = FakeNodes("ab", running="a")
    with pytest.raises(ActuationRejectedError, match="at least 1"):
        ExecutorScaler(cluster, cluster.read).place({"a": 0})


@given(
    order=st.permutations("abcde"),
    running=st.sets(st.sampled_from("abcde"), min_size=1),
    wanted=st.sets(st.sampled_from("abcde"), min_size=1),
)
def test_whatever_the_master_prefers_the_wish_comes_true(order: list[str], running: set[str], wanted: set[str]) -> None:
    """From any executors to any nodes, with at most one executor in vain for each place that was free and unwanted."""
    cluster = FakeNodes(order, sorted(running))
    scaler = ExecutorScaler(cluster, cluster.read)
    bring(cluster, scaler, dict.fromkeys(wanted, 1))
    assert cluster.placed == dict.fromkeys(wanted, 1)
    assert cluster.limit == len(wanted)
    in_vain = cluster.started - len(running) - len(wanted - running)
    assert 0 <= in_vain <= len(set("abcde") - wanted - running)


def test_of_too_many_on_one_node_the_youngest_go() -> None:
    """The step names who goes; those on their way out are counted in the total while some are missing."""
    there = [ExecutorState(str(i), "a", 1, True, 0, 0.0, float(i)) for i in range(3)]
    assert next_step(there, (), {"a": 1}).remove == ("2", "1")
    asking = next_step(there, ("9",), {"a": 1, "b": 2})
    assert (asking.total, asking.remove, asking.missing, asking.holding) == (6, (), {"b": 2}, ("2", "1"))
