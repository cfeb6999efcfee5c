# SPDX-License-Identifier: Apache-2.0
"""ND_max of Gesscale's model: the longest round trip between the nodes of an allocation, and to the driver's."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.latency_map import NodeDistances
from penstock.records import Allocation


@dataclass(frozen=True)
class NodeDelay:
    """Gives an allocation's longest round trip; 0 where it names no nodes. A model keeps it as its `delay_of`.

    Examples
    --------
    >>> from penstock.latency_map import LatencyMap
    >>> delay_of = NodeDelay(LatencyMap(("a", "b"), (("a", "b", 0.1),)))
    >>> delay_of(Allocation(2, nodes=(("a", 1), ("b", 1)))), delay_of(Allocation(2, nodes=(("a", 2),)))
    (0.1, 0.0)
    """

    round_trips: NodeDistances

    def __call__(self, allocation: Allocation) -> float:
        """In seconds."""
        return self.round_trips.largest(node for node, _ in allocation.nodes)
