# SPDX-License-Identifier: Apache-2.0
"""What is simulated: operators with their work and limits, joined by streams."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from penstock.errors import ConfigurationError
from penstock.latency_map import LatencyMap
from penstock.records import Limits
from penstock.simulator.micro_batch import MicroBatch
from penstock.simulator.service import Service
from penstock.topology import ARRIVALS, Path, Stream, Topology, check_selectivity


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator, and what it may have.

    Parameters
    ----------
    name
        Unlike every other's.
    server
        The work of a record (a `Service`), or of a batch (`MicroBatch`).
    selectivity
        Records that go on for each that is done: below 1 some are dropped, above 1 some are many; drawn for each
        record, so that the mean is met.
    limits
        Executors and CPU shares; it starts at the top.
    start_up_seconds
        How long after asking a new executor takes its first record.
    demand_is_known
        Whether policies are given its demand; otherwise they have to learn it, as on Spark.
    standstill_seconds
        How long it does nothing after each change of executors or nodes, as an engine that is stopped and started
        again; the change is there after that. 0: it goes on, as Spark does.
    cpu_is_read
        Whether CPU counters are read; otherwise utilisation is time in tasks, which counts waiting as work, as on a
        Spark without cgroups.
    """

    name: str
    server: Service | MicroBatch
    selectivity: float = 1.0
    limits: Limits = field(default_factory=Limits)
    start_up_seconds: float = 0.0
    demand_is_known: bool = True
    standstill_seconds: float = 0.0
    cpu_is_read: bool = True

    def __post_init__(self) -> None:
        check_selectivity(f"operator {self.name}", self.selectivity)
        if not 0.0 <= self.start_up_seconds < math.inf:
            raise ConfigurationError(
                f"operator {self.name}: start_up_seconds: {self.start_up_seconds!r} must be zero or a positive time",
                field="start_up_seconds",
            )
        if not 0.0 <= self.standstill_seconds < math.inf:
            raise ConfigurationError(
                f"operator {self.name}: standstill_seconds: {self.standstill_seconds!r} must be zero or a positive "
                "time",
                field="standstill_seconds",
            )
        if not isinstance(self.server, MicroBatch) and (self.standstill_seconds or not self.cpu_is_read):
            raise ConfigurationError(
                f"operator {self.name}: standstill_seconds and cpu_is_read are for operators in micro-batches; "
                "leave them out, or give a MicroBatch",
                field="standstill_seconds",
            )
        if self.limits.nodes and self.limits.room < self.limits.max_executors:
            raise ConfigurationError(
                f"operator {self.name}: executors: up to {self.limits.max_executors} do not fit on "
                f"{len(self.limits.nodes)} nodes with {self.limits.executors_per_node} each; give a smaller maximum",
                field="executors",
            )


@dataclass(frozen=True)
class Pipeline:
    """Operators and streams that form a graph without a cycle, all reached from the arrivals.

    Raises
    ------
    ConfigurationError
        With every mistake: names taken twice or not known, cycles, operators that nothing reaches.
    """

    operators: tuple[Operator, ...]
    streams: tuple[Stream, ...]
    name: str = "pipeline"
    round_trips: LatencyMap | None = None
    """How far the nodes are apart that executors may be placed on; None: nowhere is far."""

    def __post_init__(self) -> None:
        _ = self.topology  # raises where the graph is wrong

    @classmethod
    def of_one(cls, operator: Operator, round_trips: LatencyMap | None = None) -> Pipeline:
        """A pipeline of one operator."""
        return cls((operator,), (Stream(ARRIVALS, operator.name),), operator.name, round_trips)

    @cached_property
    def topology(self) -> Topology:
        """Who reads from whom."""
        return Topology(tuple(operator.name for operator in self.operators), self.streams, self.name)

    @cached_property
    def by_name(self) -> Mapping[str, Operator]:
        """The operators by their names."""
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def order(self) -> tuple[Operator, ...]:
        """The operators, each after all it reads from."""
        return tuple(self.by_name[name] for name in self.topology.order)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every path from the arrivals to an operator that nobody reads from."""
        return self.topology.paths
