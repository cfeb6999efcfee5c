# SPDX-License-Identifier: Apache-2.0
"""Knows the nodes of a run while it runs, and keeps it fresh how far they are apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigurationError
from penstock.knowledge.run_facts import ROUND_TRIPS, WORKER_CORES, WORKERS
from penstock.latency_map import FreshLatencyMap, LatencyMap, NodeDistances
from penstock.ports import KnowledgeStore
from penstock.records import Allocation, Limits
from penstock.running.run_listener import RunListener
from penstock.running.run_nodes import RunNodes, run_nodes
from penstock.settings import OperatorSettings, RunSettings
from penstock.settings.geo import HOME

if TYPE_CHECKING:
    from penstock.adaptors.round_trips import RoundTrips
    from penstock.adaptors.spark.cluster import EmbeddedCluster

_MEASURE_EVERY_SECONDS = 60.0
"""Between two measurements of the round trips between nodes."""


class NodeKeeper:
    """The nodes of a run.

    Parameters
    ----------
    settings
        Of the run.
    folders
        Of the operators.
    listener
        Hears what was found.
    has_own_policy
        Whether an object decides in place of the policy that the settings name.
    resume
        The run goes on: its nodes are the workers that there were when it began. Operators that outlived the last
        controller know no others.
    """

    def __init__(
        self,
        settings: RunSettings,
        folders: Mapping[str, Path],
        listener: RunListener,
        *,
        has_own_policy: bool = False,
        resume: bool = False,
    ) -> None:
        self._settings, self._folders, self._listener = settings, folders, listener
        self._has_own_policy, self._resume = has_own_policy, resume
        self._nodes: RunNodes | None = None
        self._trips: RoundTrips | None = None
        self._listening: Mapping[str, tuple[str, int]] = {}
        """Where workers listen now."""
        self._began_with: Mapping[str, tuple[str, int]] = {}
        """Where workers listened when the run began."""

    def find(self, cluster: EmbeddedCluster | None, store: KnowledgeStore) -> None:
        """Find out which nodes may be chosen and, where that is to be measured, how far they are apart.

        Raises
        ------
        ConfigurationError
            The cluster was to be asked for its nodes, and has none.
        ClusterError
            It cannot be asked.
        """
        page, cores = self._settings.cluster.page, dict[str, int]()
        if page is not None:
            from penstock.adaptors.spark.master_page import alive_workers, read_page, worker_cores

            state = read_page(page)
            alive, cores = alive_workers(state), worker_cores(state)
            kept = store.fact(WORKERS) if self._resume else None
            began_with: dict[str, int] = alive if kept is None else json.loads(kept)
            store.set_fact(WORKERS, json.dumps(began_with))
            if kept is not None:  # also where an earlier version did not keep them
                cores = json.loads(store.fact(WORKER_CORES) or "{}")
            store.set_fact(WORKER_CORES, json.dumps(cores))
            self._listening = {host: (host, port) for host, port in alive.items()}
            self._began_with = {host: (host, port) for host, port in began_with.items()}
        self._nodes = run_nodes(
            self._settings, workers=tuple(self._began_with), cores=cores, has_own_policy=self._has_own_policy
        )
        names = () if self._nodes is None else self._nodes.names
        if self._nodes is not None and not names:
            raise ConfigurationError(
                f"nodes: {page} lists no workers; start some, or give their `names`", field="nodes"
            )
        for name in names if page is not None else ():
            if name not in self._listening:
                self._listener.fault("cluster", f"node {name} has no worker now: executors cannot come to it")
        for operator in self._settings.operators if names else ():
            limits = self.limits(operator)
            if limits.room < limits.max_executors:
                # Known only now where the master was asked for its workers; a settings file is refused before.
                text = (
                    f"{limits.max_executors} executors do not fit on {len(names)} nodes: it gets {limits.room} at most"
                )
                self._listener.fault(operator.name, text)
        self._measure(cluster, store)

    def stop(self) -> None:
        """Measure no more. May be called twice."""
        if self._trips is not None:
            self._trips.stop()

    @property
    def are_chosen(self) -> bool:
        """Whether nodes are chosen; else the cluster chooses."""
        return self._nodes is not None

    @property
    def measure_to(self) -> Mapping[str, tuple[str, int]]:
        """By node, where a worker listens that executors measure the way to; empty: they measure nothing."""
        return self._began_with if self._nodes is not None and self._nodes.is_measured else {}

    def limits(self, operator: OperatorSettings) -> Limits:
        """What an operator may have, with the nodes that may be chosen."""
        return operator.limits() if self._nodes is None else self._nodes.on(operator)

    def first(self, operator: OperatorSettings, limits: Limits) -> Allocation | None:
        """What an operator begins with; None: with what it gets, which is the most."""
        if self._nodes is not None:
            return self._nodes.first(operator, limits)
        first = operator.first_executors
        return None if first is None else Allocation(first, limits.cpu_shares[-1])

    def distances(self) -> NodeDistances | None:
        """How far the nodes are apart, as measured last where that is measured; None: nobody knows."""
        nodes, trips = self._nodes, self._trips
        if nodes is None or not nodes.is_measured or trips is None:
            return None if nodes is None else nodes.round_trips
        names, driver = nodes.names, nodes.driver

        def read() -> LatencyMap:
            counted = {*names, driver}
            pairs = [(a, b, s) for (a, b), s in trips.seconds().items() if a in counted and b in counted]
            return LatencyMap.of(pairs, names, driver)

        return FreshLatencyMap(read)

    def _measure(self, cluster: EmbeddedCluster | None, store: KnowledgeStore) -> None:
        """Say how far the nodes are apart, as measured, and keep it fresh while the run goes on."""
        if cluster is not None and self._settings.cluster.geo is not None:
            from penstock.adaptors.geo.cluster import GeoCluster
            from penstock.adaptors.geo.probe import geo_round_trips

            assert isinstance(cluster, GeoCluster)
            home, self._trips = HOME, geo_round_trips(cluster)
        elif self._nodes is not None and self._nodes.is_measured and self._nodes.driver is not None:
            from penstock.running.executor_round_trips_file import standalone_round_trips

            home = self._nodes.driver
            self._trips = standalone_round_trips(self._listening, home, self._folders.values(), self._nodes.names)
        else:
            return
        self._trips.refresh()
        measured = self._trips.seconds()
        store.set_fact(ROUND_TRIPS, json.dumps([[*pair, seconds] for pair, seconds in measured.items()]))
        far = ", ".join(f"{there} {1000 * s:.0f} ms" for (here, there), s in measured.items() if here == home)
        self._listener.phase(f"round trips from {home}: {far}")
        self._trips.start(_MEASURE_EVERY_SECONDS)
