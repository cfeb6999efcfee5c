# SPDX-License-Identifier: Apache-2.0
"""Settings of an embedded cluster whose workers are in networks of their own, with delays between them."""

from __future__ import annotations

from pydantic import Field, field_validator

from penstock.settings.fields import Part, Seconds

HOME = "home"
"""The node of master and drivers."""


class GeoSettings(Part):
    """Nodes of the embedded cluster: a worker on each, in a network namespace of its own. Needs root."""

    nodes: dict[str, float | None] = Field(
        min_length=1,
        description="by name, the cores of CPU that a node's processes get together, such as `{near: 0.5, far: 0.5}`; "
        "null: no cap. Master and drivers are on `home`",
    )
    round_trips: dict[str, Seconds] = Field(
        default_factory=dict, description="between two nodes, such as `{home:far: 200ms, near:far: 180ms}`; else none"
    )
    slots: int = Field(default=1, ge=1, le=64, description="cores for executors that each node's worker offers")

    @field_validator("nodes")
    @classmethod
    def _home_is_taken(cls, nodes: dict[str, float | None]) -> dict[str, float | None]:
        if HOME in nodes:
            raise ValueError(f"{HOME} is the node of master and drivers; give workers' nodes other names")
        for node, cores in nodes.items():
            if cores is not None and not cores > 0:
                raise ValueError(f"{node} has {cores:g} cores; give more than 0, or null for no cap")
        return nodes

    @field_validator("round_trips")
    @classmethod
    def _between_two(cls, trips: dict[str, float]) -> dict[str, float]:
        for pair in trips:
            one, colon, other = pair.partition(":")
            if not (colon and one and other and one != other):
                raise ValueError(f"{pair!r} does not name two nodes; write it like home:far")
        return trips

    @property
    def pairs(self) -> dict[tuple[str, str], float]:
        """The round trips in seconds, by their two nodes."""
        return {(one, other): seconds for pair, seconds in self.round_trips.items()
                for one, _, other in [pair.partition(":")]}  # fmt: skip
