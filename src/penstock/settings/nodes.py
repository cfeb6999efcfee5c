# SPDX-License-Identifier: Apache-2.0
"""The nodes that executors may be placed on, and how far they are apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from penstock.errors import ConfigurationError
from penstock.latency_map import LatencyMap, read_latency_map
from penstock.records import Limits
from penstock.settings.fields import Part

MEASURED = "measured"
AS_SET = "as-set"


class NodesSettings(Part):
    """Nodes to choose from; without this part the cluster chooses."""

    names: tuple[str, ...] = Field(
        default=(),
        description="the nodes: hosts as executors report them. Default: those of the table of `round_trips`, else the "
        "workers of the cluster",
    )
    round_trips: Literal["measured", "as-set"] | Path | None = Field(
        default=None,
        description="a CSV table with the columns `from`, `to` and `round_trip`, such as `edge-1,edge-2,120ms`; pairs "
        "may be missing. `measured`: they are measured, again and again, while it runs. `as-set`: the delays that "
        "`cluster.geo` asks for. Default: `measured` with `cluster.geo`, else nobody knows how far they are apart",
    )
    driver: str | None = Field(
        default=None,
        min_length=1,
        description="the node of the driver, as the table names it: how far executors are from it counts too. Default: "
        "`home` with `cluster.geo`, `driver` where round trips are measured, else the driver's place does not count",
    )
    executors: int | None = Field(
        default=None,
        ge=1,
        description="most executors of an operator on one node; default: what fits on a node of `cluster.geo` or on "
        "the largest worker that `cluster.page` lists, else any number. A node that gives no more is found to be full",
    )

    @model_validator(mode="after")
    def _named_once(self) -> NodesSettings:
        repeated = sorted({name for name in self.names if self.names.count(name) > 1})
        if repeated or any(not name.strip() for name in self.names):
            raise ValueError(f"names: each node is named once; {', '.join(repeated) or 'an empty name'} is not")
        return self

    @property
    def table(self) -> Path | None:
        """The file of round trips, where there is one."""
        return self.round_trips if isinstance(self.round_trips, Path) else None

    def latency_map(self) -> LatencyMap:
        """How far they are apart, as the table says; ConfigurationError where it cannot be read."""
        if self.table is not None:
            self.check_driver()
            return read_latency_map(self.table, self.names, self.driver)
        return LatencyMap.of((), self.names, self.driver)

    def check_driver(self) -> None:
        """Raise ConfigurationError where the driver is on a node that the table does not know: all would be far."""
        if self.table is None or self.driver is None:
            return
        known = read_latency_map(self.table).nodes
        if self.driver not in known:
            raise ConfigurationError(
                f"nodes.driver: {self.driver!r} is in no row of {self.table} ({', '.join(known) or 'it has none'}); "
                "name it as the table does, or leave it out",
                field="nodes.driver",
            )

    @property
    def known_names(self) -> tuple[str, ...]:
        """The nodes that this part names by itself or by its table; the driver's only where it is named as a node."""
        return self.names or tuple(node for node in self.latency_map().nodes if node != self.driver)

    def for_simulation(self) -> LatencyMap:
        """How far the nodes are apart in the simulator, which has no cluster that could be asked or measured.

        Raises
        ------
        ConfigurationError
            The nodes, or their round trips, are those of a cluster.
        """
        if self.round_trips in (MEASURED, AS_SET):
            raise ConfigurationError(
                f"nodes.round_trips: {self.round_trips!r} is of a cluster that runs; to simulate it, give a table",
                field="nodes.round_trips",
            )
        if not self.known_names:
            raise ConfigurationError(
                "nodes: give the nodes' `names`, or a table of `round_trips`; only a run can ask a cluster for them",
                field="nodes",
            )
        return self.latency_map()

    def on(self, limits: Limits) -> Limits:
        """An operator's limits with these nodes to choose from."""
        return replace(limits, nodes=self.known_names, executors_per_node=self.executors)
