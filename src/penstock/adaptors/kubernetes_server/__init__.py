# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes of one node on this machine, in namespaces of its own: `penstock kubernetes start`.

`distribution` builds the servers and fetches the container runtime, once, into the cache folder. `node_plan` writes
what a node is started with (`certificates`, `images`). `keeper` is the process that holds the node, and `local_cluster`
its near side.
"""
