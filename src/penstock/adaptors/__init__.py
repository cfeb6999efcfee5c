# SPDX-License-Identifier: Apache-2.0
"""The only modules that touch outside systems: Spark, brokers, the kernel's cgroups, processes.

Each implements ports and exchanges records."""
