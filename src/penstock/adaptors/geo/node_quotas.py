# SPDX-License-Identifier: Apache-2.0
"""The CPU of each node: one control group for all its processes, lifted and removed whatever happens to Penstock."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.adaptors.cgroups import find_hierarchy, sweep_stale
from penstock.adaptors.cgroups.group import NODE_RUN, CpuGroup
from penstock.adaptors.cgroups.lease import Lease
from penstock.errors import ActuationError

_PERIOD_SECONDS = 0.02
"""A node is to be slow all the time. With the usual 0.1 s, a quarter of a core would be a whole one for 25 ms."""


class NodeQuotas:
    """Caps nodes at a number of cores each. `release` lifts the caps and removes the groups.

    Parameters
    ----------
    cores
        By node. Nodes that are missing are not capped.
    """

    def __init__(self, cores: Mapping[str, float]) -> None:
        self._cores = dict(cores)
        self._groups: dict[str, tuple[CpuGroup, Lease]] = {}

    def start(self) -> None:
        """Make a group for each node, without a cap yet, each with a guard that outlives a kill -9 of this process."""
        if not self._cores:
            return
        hierarchy = find_hierarchy()
        sweep_stale(hierarchy)
        try:
            for node in self._cores:
                group = CpuGroup.create(hierarchy, NODE_RUN, node, period_seconds=_PERIOD_SECONDS)
                lease = Lease(group)
                self._groups[node] = (group, lease)
                lease.start()
        except BaseException:
            self.release()
            raise

    def cap(self) -> None:
        """Set the caps."""
        for node, (_, lease) in self._groups.items():
            lease.set_quota(self._cores[node])

    def lift(self) -> None:
        """Let every node use what CPU there is, until `cap`."""
        for _, lease in self._groups.values():
            lease.set_quota(None)

    def hold(self, node: str, pid: int) -> None:
        """Put a process, and all that it will start, under its node's cap."""
        if node in self._groups:
            self._groups[node][0].add(pid)

    @property
    def folders(self) -> list[str]:
        """The folders of the groups, in every hierarchy."""
        return [folder for group, _ in self._groups.values() for folder in group.folders.folders]

    def used_seconds(self, node: str) -> float | None:
        """Return the CPU time that a node has used so far. None: it has no cap, so nothing counts."""
        return self._groups[node][0].read().used_seconds if node in self._groups else None

    def release(self) -> None:
        """Lift the caps and remove the groups. May be called twice.

        Raises
        ------
        ActuationError
            A group could not be removed; the others were.
        """
        groups, self._groups = list(self._groups.values()), {}
        faults = []
        for group, lease in groups:
            try:
                group.release()
            except ActuationError as fault:
                faults.append(str(fault))
            finally:
                lease.stop()  # its guard removes what it can
        if faults:
            raise ActuationError("; ".join(faults), target="cgroups")
