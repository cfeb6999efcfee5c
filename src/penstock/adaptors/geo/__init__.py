# SPDX-License-Identifier: Apache-2.0
"""A geo-distributed cluster on one machine: nodes in network namespaces, with a chosen delay between each two.

`network` is the network and its nodes, `relay` the process that carries packets between them, `cluster` a Spark
cluster with a worker on each node, `round_trips` measures what the delays are.
"""
