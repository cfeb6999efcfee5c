# SPDX-License-Identifier: Apache-2.0
"""Round trips between the nodes of a geo cluster, measured on the nodes."""

from __future__ import annotations

from penstock.adaptors.geo.cluster import GeoCluster
from penstock.adaptors.round_trips import RoundTrips, connect_seconds
from penstock.errors import ClusterError


def geo_round_trips(cluster: GeoCluster) -> RoundTrips:
    """Return the table of a running geo cluster; `refresh` or `start` fills it. A node whose worker died drops out."""

    def measure(sender: str, receiver: str) -> float | None:
        try:
            address = cluster.listening().get(receiver)
            if address is None:
                return None
            with cluster.network.entered(sender):
                return connect_seconds(address)
        except (ClusterError, OSError):  # the cluster is going away
            return None

    return RoundTrips(measure, lambda: cluster.network.nodes)
