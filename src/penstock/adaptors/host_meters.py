# SPDX-License-Identifier: Apache-2.0
"""Metrics of a whole host: its CPU, its memory, and the control groups of Penstock on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil

from penstock.adaptors.agent.meters import Meters
from penstock.adaptors.host_load import HostCpu
from penstock.measuring.disturbance import HostReading

_GROUPS = "penstock"
"""The folder that holds the control groups, wherever it lies in the kernel's tree."""


def host_meters() -> Meters:
    """What the agent of a host can give."""
    meters = Meters()
    meters.add_known(["host_busy", "host_steal", "host_runnable"], HostUse(HostCpu().read).read)
    meters.add_known(
        ["host_memory_available"], lambda: {"host_memory_available": float(psutil.virtual_memory().available)}
    )
    meters.add_known(["groups_cpu_used", "groups_throttled"], GroupUse(Path("/sys/fs/cgroup")).read)
    return meters


class HostUse:
    """The host's CPU from one reading to the next."""

    def __init__(self, read: Callable[[], HostReading]) -> None:
        self._read = read
        self._before: HostReading | None = None

    def read(self) -> dict[str, float | None]:
        """Parts of the CPU since the last reading; None at the first."""
        before, now = self._before, self._read()
        self._before = now
        found: dict[str, float | None] = {"host_busy": None, "host_steal": None, "host_runnable": float(now.runnable)}
        if before is None:
            return found
        busy, idle = now.busy_seconds - before.busy_seconds, now.idle_seconds - before.idle_seconds
        steal = now.steal_seconds - before.steal_seconds
        total = busy + idle + steal
        return found if total <= 0 else {**found, "host_busy": busy / total, "host_steal": steal / total}


class GroupUse:
    """CPU of all control groups of Penstock from one reading to the next.

    Parameters
    ----------
    root
        Where the kernel's groups are mounted.
    """

    def __init__(self, root: Path, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root, self._monotonic = root, monotonic
        self._before: tuple[float, dict[str, tuple[float, float]]] | None = None

    def read(self) -> dict[str, float | None]:
        """Cores used, and the part of the time in which caps held the groups back; None: there are no groups."""
        at, now = self._monotonic(), self._counters()
        before, self._before = self._before, (at, now)
        if before is None or not now or at <= before[0]:
            return {"groups_cpu_used": None, "groups_throttled": None}
        seconds = at - before[0]
        both = [(now[name], before[1][name]) for name in now if name in before[1]]
        both = [(new, old) for new, old in both if new[0] >= old[0]]  # others were made anew
        if not both:
            return {"groups_cpu_used": None, "groups_throttled": None}
        used = sum(new[0] - old[0] for new, old in both)
        throttled = sum(new[1] - old[1] for new, old in both)
        return {
            "groups_cpu_used": used / seconds,
            "groups_throttled": min(1.0, throttled / (seconds * max(1, len(both)))),
        }

    def _counters(self) -> dict[str, tuple[float, float]]:
        """CPU seconds used and withheld, of each group."""
        found = {}
        # With v1 it may be counted in another tree, at another place there; names of groups are unique on a host.
        counted = {file.parent.name: file for file in self._root.glob(f"**/{_GROUPS}/*/cpuacct.usage")}
        # v1 has a tree for each controller, v2 one for all; a run's folder lies in the group of who started it.
        for folder in {*self._root.glob(f"**/{_GROUPS}/*/cpu.stat")}:
            try:
                stat = dict(line.split()[:2] for line in folder.read_text(encoding="ascii").splitlines())
                if "usage_usec" in stat:
                    use = (int(stat["usage_usec"]) / 1e6, int(stat.get("throttled_usec", 0)) / 1e6)
                else:
                    usage = int(counted[folder.parent.name].read_text(encoding="ascii")) / 1e9
                    use = (usage, int(stat["throttled_time"]) / 1e9)
            except (OSError, KeyError, ValueError):
                continue  # the group has just ended, or this tree counts nothing
            found[str(folder.parent.resolve())] = use  # not by name: parts of one group have the same
        return found
