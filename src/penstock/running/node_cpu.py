# SPDX-License-Identifier: Apache-2.0
"""The CPU of an operator on a geo cluster: what the nodes of its executors use, of what they are allowed.

Executors of a geo cluster have no CPU share of their own: each node has a cap, and all its processes a cgroup. A task
that waits for a far node, or for its node's CPU, counts as busy where time in tasks is all that is known. The cgroup
tells them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.clock import Clock
from penstock.errors import MetricSourceError
from penstock.ports import MetricSource, SubscribableSource
from penstock.records import CpuReading, ExecutorState, Limits, Telemetry
from penstock.settings import RunSettings

if TYPE_CHECKING:
    from penstock.adaptors.spark.cluster import EmbeddedCluster


def with_node_cpu(
    source: MetricSource, settings: RunSettings, limits: Limits, cluster: EmbeddedCluster | None, clock: Clock
) -> MetricSource:
    """The source of an operator, with the CPU of its nodes where that is its own: alone on capped nodes, no shares.

    Only where nodes are chosen: other policies count what an executor can do in its cores, of which the node has fewer.
    """
    geo = settings.cluster.geo
    if cluster is None or geo is None or len(settings.operators) > 1:
        return source
    if limits.cpu_shares != (1.0,) or not limits.nodes:
        return source
    caps = {node: cores for node, cores in geo.nodes.items() if cores is not None}
    if len(caps) < len(geo.nodes):
        return source  # what an executor on the others uses, nobody counts
    from penstock.adaptors.geo.cluster import GeoCluster

    assert isinstance(cluster, GeoCluster)
    return NodeCpuSource(source, caps, cluster.quotas.used_seconds, clock)


class NodeCpuSource:
    """A metric source whose telemetry has the CPU of the operator's nodes (a `ports.SubscribableSource`).

    Parameters
    ----------
    source
        Measures the operator.
    caps
        The nodes, each with the cores that its processes get together. No other operator has executors on them.
    used_seconds
        The CPU time that a node has used so far.
    clock
        Says when that was read.

    Notes
    -----
    A node counts from the look after its executor has registered to the last one before that drains, so that neither
    the start of its JVM nor what it does for blocks that move is taken for work.
    """

    def __init__(
        self,
        source: MetricSource,
        caps: Mapping[str, float],
        used_seconds: Callable[[str], float | None],
        clock: Clock,
    ) -> None:
        self._source, self._caps, self._used_seconds, self._clock = source, dict(caps), used_seconds, clock
        self._total = 0.0
        self._before: Mapping[str, float] = {}
        """What each node had used at the last look that showed executors."""
        self._counted: Mapping[str, float] = {}
        """The nodes that had executors then."""

    def subscribe(self, metrics: Collection[str], every_seconds: float) -> None:
        """Pass on what is wanted besides, where the source can measure it."""
        if isinstance(self._source, SubscribableSource):
            self._source.subscribe(metrics, every_seconds)

    def collect(self) -> Telemetry:
        """Return what is new since the last call."""
        try:
            look = self._source.collect()
        except MetricSourceError:
            self._counted = {}  # executors that come next may be new, and their start is no work
            raise
        if look.cpu is not None or look.executors is None:
            return look
        try:
            return replace(look, cpu=self._read(look.executors))
        except MetricSourceError as fault:  # the rest of the look is right
            return replace(look, faults=(*look.faults, str(fault)))

    def _read(self, executors: tuple[ExecutorState, ...]) -> CpuReading:
        at = self._clock.now()
        used = {node: seconds for node in self._caps if (seconds := self._used_seconds(node)) is not None}
        there = Counter[str]()
        for one in executors:
            if one.is_active and not one.is_draining and one.host in used:
                there[one.host] += one.cores
        # More executor cores than the node has CPU share that; fewer cannot use all of it.
        allowed = {node: min(self._caps[node], float(cores)) for node, cores in there.items()}
        both = [node for node in allowed if node in self._counted]
        self._total += sum(max(0.0, used[node] - self._before[node]) for node in both)
        self._before, self._counted = used, allowed
        return CpuReading(
            at, self._total, None, None, len(executors), parents_quota_cores=sum(allowed[node] for node in both)
        )
