# SPDX-License-Identifier: Apache-2.0
"""The CPU of an operator whose executors are on nodes with a cap each."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from penstock.adaptors.geo.cluster import GeoCluster
from penstock.adaptors.geo.node_quotas import NodeQuotas
from penstock.clock import SystemClock, VirtualClock
from penstock.errors import MetricSourceError
from penstock.monitor.cpu import CpuWindow
from penstock.records import CpuReading, ExecutorState, Limits, Telemetry
from penstock.running.node_cpu import NodeCpuSource, with_node_cpu
from penstock.settings import parse_settings

CAPS = {"near": 0.4, "middle": 0.4, "far": 2.0}


class FakeNodes:
    """Executors on nodes, and counters that a test sets; collected as the source of an operator."""

    def __init__(self) -> None:
        self.clock = VirtualClock(100.0)
        self.used = {"near": 10.0, "middle": 20.0, "far": 30.0}
        self.there: dict[str, bool] = {}
        self.cpu: CpuReading | None = None
        self.is_broken = self.is_away = False
        self.wanted: Collection[str] = ()
        self.source = NodeCpuSource(self, CAPS, self.used_seconds, self.clock)
        self.window = CpuWindow(1000.0)

    def used_seconds(self, node: str) -> float:
        """The counter of a node."""
        if self.is_broken:
            raise MetricSourceError("cgroups: the counters cannot be read", target=node)
        return self.used[node]

    def subscribe(self, metrics: Collection[str], every_seconds: float) -> None:
        """Note what is wanted."""
        self.wanted = metrics

    def collect(self) -> Telemetry:
        """One executor on each node that has one; True: it drains."""
        if self.is_away:
            raise MetricSourceError("its driver does not answer", target="driver")
        executors = tuple(
            ExecutorState(f"on {node}", node, 1, True, 1, 0.0, is_draining=drains)
            for node, drains in self.there.items()
        )
        return Telemetry("rides", self.clock.now(), executors=executors, cpu=self.cpu, faults=("one",))

    def after(self, seconds: float, **used: float) -> float | None:
        """Let time pass in which nodes use CPU, and give the utilisation over all of it."""
        self.clock.advance(seconds)
        for node, more in used.items():
            self.used[node] += more
        self.window.add(self.source.collect())
        use = self.window.use(self.clock.now())
        return None if use is None else use.utilisation


def test_utilisation_is_the_cpu_of_the_executors_nodes_of_what_they_are_allowed() -> None:
    """Other nodes do not count, and an executor of one core cannot use two."""
    nodes = FakeNodes()
    nodes.there = {"near": False}
    assert nodes.after(1.0, middle=9.0) is None
    assert nodes.after(10.0, near=3.0, middle=9.0) == pytest.approx(3.0 / 4.0)
    nodes = FakeNodes()
    nodes.there = {"far": False}
    nodes.after(1.0)
    assert nodes.after(10.0, far=5.0) == pytest.approx(5.0 / 10.0)


def test_a_node_counts_while_its_executor_takes_tasks() -> None:
    """Neither what its JVM used to start nor what it uses while it drains is work of the operator."""
    nodes = FakeNodes()
    nodes.there = {"near": False}
    nodes.after(1.0)
    nodes.after(10.0, near=4.0, middle=4.0)
    nodes.there = {"near": False, "middle": False}
    nodes.after(10.0, near=4.0, middle=4.0)  # it has registered within these
    assert nodes.after(10.0, near=2.0, middle=1.0) == pytest.approx((4.0 + 4.0 + 3.0) / (4.0 + 4.0 + 8.0))
    nodes.there = {"near": False, "middle": True}
    assert nodes.after(10.0, near=4.0, middle=4.0) == pytest.approx((4.0 + 4.0 + 3.0 + 4.0) / (4.0 + 4.0 + 8.0 + 4.0))


def test_counters_that_cannot_be_read_are_a_fault_of_the_look() -> None:
    """All else of it stands, and the next look goes on from the last that was read."""
    nodes = FakeNodes()
    nodes.there = {"near": False}
    nodes.after(1.0)
    nodes.is_broken = True
    nodes.clock.advance(5.0)
    look = nodes.source.collect()
    assert look.cpu is None
    assert look.faults == ("one", "cgroups: the counters cannot be read")
    assert look.executors
    nodes.is_broken = False
    assert nodes.after(5.0, near=2.0) == pytest.approx(2.0 / 4.0)


def test_what_executors_use_to_start_after_their_driver_was_away_is_no_work() -> None:
    """Nobody has seen which executors were there in between."""
    nodes = FakeNodes()
    nodes.there = {"near": False}
    nodes.after(1.0)
    nodes.after(10.0, near=1.0)
    nodes.is_away = True
    nodes.clock.advance(5.0)
    with pytest.raises(MetricSourceError, match="does not answer"):
        nodes.source.collect()
    nodes.is_away = False
    nodes.after(5.0, near=4.0)
    assert nodes.after(10.0, near=1.0) == pytest.approx((1.0 + 1.0) / (4.0 + 4.0))


def test_cpu_that_the_source_knows_itself_stays() -> None:
    """An operator with CPU shares has a group of its own."""
    nodes = FakeNodes()
    nodes.cpu = CpuReading(1.0, 2.0, 3.0, 0.5, 1)
    assert nodes.source.collect().cpu is nodes.cpu


def test_what_is_wanted_besides_reaches_the_source() -> None:
    """Subscriptions pass through."""
    nodes = FakeNodes()
    nodes.source.subscribe(["gc_time"], 5.0)
    assert nodes.wanted == ["gc_time"]


@pytest.mark.parametrize(
    ("nodes", "operators", "limits", "counts"),
    [
        ({"a": 0.4, "b": 0.4}, 1, Limits(nodes=("a", "b")), True),
        ({"a": 0.4, "b": None}, 1, Limits(nodes=("a", "b")), False),
        ({"a": 0.4, "b": 0.4}, 2, Limits(nodes=("a", "b")), False),
        ({"a": 0.4, "b": 0.4}, 1, Limits(cpu_shares=(0.5, 1.0), nodes=("a", "b")), False),
        ({"a": 0.4, "b": 0.4}, 1, Limits(), False),
    ],
)
def test_the_nodes_cpu_is_the_operators_where_nobody_else_has_executors_there(
    nodes: dict[str, float | None], operators: int, limits: Limits, counts: bool
) -> None:
    """One operator, no shares, chosen nodes, and a cap on every node; else the source stays as it is."""
    settings: dict[str, Any] = {
        "name": "geo", "cluster": {"geo": {"nodes": nodes}}, "policy": "fixed",
        "arrivals": {"shape": "constant:rate=5,duration=9s"},
        "operators": [{"name": f"o{n}", "app": "a:b"} for n in range(operators)],
    }  # fmt: skip
    source, clock = FakeNodes(), SystemClock()
    cluster = GeoCluster.__new__(GeoCluster)  # making one needs root
    cluster.quotas = NodeQuotas({})
    found = with_node_cpu(source, parse_settings(settings, "here"), limits, cluster, clock)
    assert isinstance(found, NodeCpuSource) == counts
    assert counts or found is source
    assert with_node_cpu(source, parse_settings(settings, "here"), limits, None, clock) is source
