# SPDX-License-Identifier: Apache-2.0
"""The nodes that executors may be placed on, and how far they are apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import Field, model_validator

from penstock.latency_map import LatencyMap, read_latency_map
from penstock.records import Limits
from penstock.settings.fields import Part


class NodesSettings(Part):
    """Nodes to choose from; without this part the cluster chooses."""

    names: tuple[str, ...] = Field(default=(), description="the nodes; default: those of `round_trips`")
    round_trips: Path | None = Field(
        default=None,
        description="a CSV table with the columns `from`, `to` and `round_trip`, such as `edge-1,edge-2,120ms`; pairs "
        "may be missing. Default: nobody knows how far they are apart",
    )
    executors: int | None = Field(
        default=None, ge=1, description="most executors of an operator on one node; default: any number"
    )

    @model_validator(mode="after")
    def _some_nodes(self) -> NodesSettings:
        if not self.names and self.round_trips is None:
            raise ValueError("give the nodes' `names`, or a table of `round_trips`")
        repeated = sorted({name for name in self.names if self.names.count(name) > 1})
        if repeated or any(not name.strip() for name in self.names):
            raise ValueError(f"names: each node is named once; {', '.join(repeated) or 'an empty name'} is not")
        return self

    def latency_map(self) -> LatencyMap:
        """How far they are apart; ConfigurationError where the table cannot be read."""
        return LatencyMap(self.names) if self.round_trips is None else read_latency_map(self.round_trips, self.names)

    def on(self, limits: Limits) -> Limits:
        """An operator's limits with these nodes to choose from."""
        return replace(limits, nodes=self.latency_map().nodes, executors_per_node=self.executors)
