# SPDX-License-Identifier: Apache-2.0
"""A real YARN on this machine: a ResourceManager and some NodeManagers, in a network of their own.

`distribution` fetches Hadoop's jars, `site_files` writes what its servers read, `network` is the process that holds the
network namespace. `yarn_cluster` starts the servers and ends them with the process that owns it; `keeper` is such a
process for `penstock yarn`, and `local_cluster` starts, asks and stops it.
"""
