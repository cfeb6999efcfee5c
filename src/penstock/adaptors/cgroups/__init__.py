# SPDX-License-Identifier: Apache-2.0
"""CPU shares by Linux control groups, v1 and v2, that are given back whatever happens to Penstock.

`find_hierarchy` finds where quotas can be set. `CpuShares` creates a group (`group`; in v2 with a part in the cgroup of
each executor, `places`), moves the executors in (`members`), caps them, reads the counters, and puts everything back at
`release`. A second process (`guard`, kept alive by `lease`) lifts the cap if the holder hangs and puts everything back
if it dies. If both are killed, `sweep_stale` removes what is left at the next start.
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
