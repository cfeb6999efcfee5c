# SPDX-License-Identifier: Apache-2.0
"""CPU shares by Linux control groups, v1 and v2, that are given back whatever happens to Penstock.

`find_hierarchy` says where quotas can be set -> `CpuShares` makes a group (`group`), brings the executors in
(`members`), caps them, reads the counters, and puts everything back at `release`. A second process (`guard`, kept
alive by `lease`) opens the cap when the holder hangs and puts everything back when it dies. What is left when both
were killed is removed at the next start by `sweep_stale`.
"""

from penstock.adaptors.cgroups.group import CpuGroup
from penstock.adaptors.cgroups.hierarchy import CgroupsUnavailableError, Hierarchy, find_hierarchy
from penstock.adaptors.cgroups.members import MembershipWatcher, find_executors
from penstock.adaptors.cgroups.shares import CpuShares, quota_cores
from penstock.adaptors.cgroups.sweep import sweep_stale

__all__ = [
    "CgroupsUnavailableError",
    "CpuGroup",
    "CpuShares",
    "Hierarchy",
    "MembershipWatcher",
    "find_executors",
    "find_hierarchy",
    "quota_cores",
    "sweep_stale",
]
