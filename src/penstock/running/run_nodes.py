# SPDX-License-Identifier: Apache-2.0
"""The nodes that a run may choose: which there are, how many executors one holds, and how far they are apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from penstock.errors import ConfigurationError
from penstock.latency_map import LatencyMap, read_latency_map
from penstock.plan.placement import Placement
from penstock.policies import policy_entry
from penstock.records import Allocation, Limits
from penstock.settings import OperatorSettings, RunSettings
from penstock.settings.geo import HOME, GeoSettings
from penstock.settings.nodes import AS_SET, MEASURED, NodesSettings

DRIVER = "driver"
"""The driver's node where round trips are measured and nobody named it."""
_STANDALONE, _KUBERNETES = "spark://", "k8s://"


@dataclass(frozen=True)
class RunNodes:
    """The nodes of a run.

    Attributes
    ----------
    names
        Those that may be chosen.
    round_trips
        How far they are apart, as far as that is known before anything is measured; None: nobody knows.
    is_measured
        Whether measurements take the place of `round_trips` while the run goes on.
    executors
        The most executors of an operator on one node, as the settings say; None: they do not.
    slots
        The cores for executors that a node has, the largest where they differ; None: that is not known.
    """

    names: tuple[str, ...]
    round_trips: LatencyMap | None = None
    is_measured: bool = False
    executors: int | None = None
    slots: int | None = None

    @property
    def driver(self) -> str | None:
        """The driver's node; None: it does not count."""
        return None if self.round_trips is None else self.round_trips.driver

    def __str__(self) -> str:
        names = ", ".join(self.names) or "the workers that the master lists"
        if self.is_measured:
            trips = "measured round trips"
        elif self.round_trips is None:
            trips = "no round trips are known"
        else:
            holes = len(self.round_trips.holes)
            missing = "1 pair is" if holes == 1 else f"{holes} pairs are"
            trips = f"round trips as given{f', {missing} missing' if holes else ''}"
        return f"{names}; {trips}" + ("" if self.driver is None else f"; the driver is on {self.driver}")

    def on(self, operator: OperatorSettings) -> Limits:
        """The limits of an operator with these nodes to choose from."""
        fitting = None if self.slots is None else max(1, self.slots // operator.executor_sizes[-1].cores)
        allowed = [count for count in (self.executors, fitting) if count is not None]
        return replace(operator.limits(), nodes=self.names, executors_per_node=min(allowed, default=None))

    def first(self, operator: OperatorSettings, limits: Limits) -> Allocation:
        """What an operator begins with: as many executors as its settings say, on the nodes nearest to the driver."""
        executors = operator.first_executors or limits.room
        begin = Allocation(executors, limits.cpu_shares[-1])
        return Placement(self.round_trips, "best").resized(begin, executors, limits)


def run_nodes(
    settings: RunSettings,
    *,
    workers: Sequence[str] = (),
    cores: Mapping[str, int] | None = None,
    has_own_policy: bool = False,
) -> RunNodes | None:
    """The nodes that a run may choose; None: the cluster chooses.

    Parameters
    ----------
    settings
        Of the run, with the name of its policy.
    workers
        The hosts of the cluster's workers, where it was asked for them.
    cores
        The cores for executors on those of them that say so.
    has_own_policy
        Whether an object decides in place of the policy that the settings name. It is given nodes where the settings
        have them.

    Raises
    ------
    ConfigurationError
        The table of round trips cannot be read.
    """
    given, geo = settings.nodes, settings.cluster.geo
    if given is None and (geo is None or has_own_policy or not _policy_chooses(settings)):
        return None
    part = given or NodesSettings()
    # The table of a geo cluster has its home too, where no executor can be.
    names = part.known_names or tuple(workers) if geo is None else part.names or tuple(geo.nodes)
    source = part.round_trips or (None if geo is None else MEASURED)
    driver = part.driver or (HOME if geo is not None else DRIVER if source == MEASURED else None)
    return RunNodes(
        names,
        _before_measuring(part, geo, names, driver),
        is_measured=source == MEASURED,
        executors=part.executors,
        slots=_most_cores(names, cores or {}) if geo is None else geo.slots,
    )


def _most_cores(names: Sequence[str], cores: Mapping[str, int]) -> int | None:
    """Of the largest node; None where one does not say how many it has: it may have any number.

    A smaller one is found to be full when it gives no more (`policies.gesscale.lost_nodes`).
    """
    return max(cores[name] for name in names) if names and all(name in cores for name in names) else None


def as_set(geo: GeoSettings, nodes: Sequence[str] | None = None) -> LatencyMap:
    """The round trips that a geo cluster is asked for; pairs that are not listed have none."""
    names = (HOME, *(geo.nodes if nodes is None else nodes))
    both = {frozenset(pair): seconds for pair, seconds in geo.pairs.items()}
    pairs = [(*pair, both.get(frozenset(pair), 0.0)) for pair in combinations(dict.fromkeys(names), 2)]
    return LatencyMap.of(pairs, names, HOME)


def _before_measuring(
    part: NodesSettings, geo: GeoSettings | None, names: tuple[str, ...], driver: str | None
) -> LatencyMap | None:
    if part.table is not None:
        part.check_driver()
        return read_latency_map(part.table, names, driver)
    if geo is not None:
        return as_set(geo, names)
    return None if driver is None else LatencyMap.of((), names, driver)


def _policy_chooses(settings: RunSettings) -> bool:
    return settings.policy.name is not None and policy_entry(settings.policy.name).chooses_nodes


def check_nodes(settings: RunSettings, *, has_own_policy: bool = False) -> None:
    """Raise ConfigurationError with all that keeps a run from choosing its nodes, as far as it can be known before.

    `has_own_policy`: an object decides in place of the policy that the settings name.
    """
    given, geo, cluster = settings.nodes, settings.cluster.geo, settings.cluster
    faults: list[str] = []
    is_standalone = cluster.master.startswith(_STANDALONE)
    if cluster.page is not None and not is_standalone:
        faults.append("cluster.page: is that of a standalone master of your own; give `master: spark://host:port` too")
    if given is not None:
        if geo is None and not is_standalone and not cluster.master.startswith(_KUBERNETES):
            faults.append(
                "nodes: executors are placed on the workers of a standalone cluster or on nodes of Kubernetes; give "
                "`cluster.geo`, or a `cluster.master` like spark://host:port or k8s://https://host:port"
            )
        if not has_own_policy and not _policy_chooses(settings):
            faults.append(
                f"nodes: the policy {settings.policy.name} chooses no nodes; name gesscale, gesscale+ or threshold, or "
                "leave `nodes` out"
            )
        faults += _source_faults(given, geo, page=cluster.page)
        if geo is not None:
            faults += [
                f"nodes.names: {name} is not a node of cluster.geo ({', '.join(geo.nodes)}); name those alone"
                for name in given.names
                if name not in geo.nodes
            ]
            if given.table is not None and not {*given.latency_map().nodes} & {*geo.nodes}:
                faults.append(
                    f"nodes.round_trips: {given.table} has no node of cluster.geo ({', '.join(geo.nodes)}); name nodes "
                    "there as here"
                )
    if faults:
        raise ConfigurationError.of_all("nodes", faults)
    nodes = run_nodes(settings, has_own_policy=has_own_policy)
    if nodes is None or not nodes.names:
        return  # the cluster chooses, or is asked for its workers when it is there
    for i, operator in enumerate(settings.operators):
        limits = nodes.on(operator)
        if limits.room < limits.max_executors:
            faults.append(
                f"operators.{i}.executors: {limits.max_executors} do not fit on {len(nodes.names)} nodes with "
                f"{limits.executors_per_node} each; give a smaller maximum"
            )
    if faults:
        raise ConfigurationError.of_all("nodes", faults)


def _source_faults(given: NodesSettings, geo: GeoSettings | None, *, page: str | None) -> list[str]:
    faults = []
    if geo is None and given.round_trips == AS_SET:
        faults.append("nodes.round_trips: `as-set` are the delays of cluster.geo; give a table, or `measured`")
    if geo is None and page is None and given.round_trips == MEASURED:
        faults.append(
            "nodes.round_trips: to measure them, workers have to be known; give `cluster.page`, the web page of the "
            "master, such as http://host:8080"
        )
    if geo is None and page is None and given.table is None and not given.names and given.round_trips != MEASURED:
        faults.append("nodes: give their `names`, a table of `round_trips`, or `cluster.page` to ask the master")
    if geo is None and page is None and given.table is not None and not given.known_names:
        faults.append(f"nodes.round_trips: {given.table} has no node; add rows, or give the nodes' `names`")
    return faults
