# SPDX-License-Identifier: Apache-2.0
"""What is simulated: operators with their work and limits, joined by streams."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from penstock.errors import ConfigurationError
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
    """

    name: str
    server: Service | MicroBatch
    selectivity: float = 1.0
    limits: Limits = field(default_factory=Limits)
    start_up_seconds: float = 0.0

    def __post_init__(self) -> None:
        check_selectivity(f"operator {self.name}", self.selectivity)
        if not 0.0 <= self.start_up_seconds < math.inf:
            raise ConfigurationError(
                f"operator {self.name}: start_up_seconds: {self.start_up_seconds!r} must be zero or a positive time",
                field="start_up_seconds",
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

    def __post_init__(self) -> None:
        _ = self.topology  # raises where the graph is wrong

    @classmethod
    def of_one(cls, operator: Operator) -> Pipeline:
        """A pipeline of one operator."""
        return cls((operator,), (Stream(ARRIVALS, operator.name),), operator.name)

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
