# SPDX-License-Identifier: Apache-2.0
"""The only importers of outside systems: Spark, the kernel's cgroups, processes. Each speaks ports and records."""
