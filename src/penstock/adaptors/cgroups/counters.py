# SPDX-License-Identifier: Apache-2.0
"""What the kernel's control files say of CPU: quotas and counters, the same for v1 and v2."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penstock.adaptors.cgroups.guard import GroupFolders, Kernel


class RisingCounter:
    """A cumulative counter that never falls, even when someone resets the kernel's. It counts what is above `start`."""

    def __init__(self, start: float = 0.0) -> None:
        self.total = 0.0
        self._last = start

    def at(self, raw: float) -> float:
        """Return the total at the kernel's present count."""
        self.total += raw - self._last if raw >= self._last else raw
        self._last = raw
        return self.total


def usage_of(part: GroupFolders) -> tuple[float, float]:
    """Return CPU seconds used and withheld, as the kernel counts them."""
    kernel, folder = part.kernel, part.folders[0]
    stat = dict(line.split()[:2] for line in kernel.read(f"{folder}/cpu.stat").splitlines())
    if part.version == 1:
        usage = kernel.read(f"{part.folders[-1]}/cpuacct.usage")
        return int(usage) / 1e9, int(stat["throttled_time"]) / 1e9
    return int(stat["usage_usec"]) / 1e6, int(stat["throttled_usec"]) / 1e6


def quota_of(folder: str, version: int, kernel: Kernel) -> float | None:
    """Return the cap of a folder in cores, or None for no cap."""
    if version == 1:
        quota = kernel.read(f"{folder}/cpu.cfs_quota_us").strip()
        period = kernel.read(f"{folder}/cpu.cfs_period_us").strip()
    else:
        quota, period = kernel.read(f"{folder}/cpu.max").split()
    return None if quota in ("-1", "max") else int(quota) / int(period)


def write_quota(folder: str, version: int, kernel: Kernel, quota_us: int | None, period_us: int) -> None:
    """Set the cap of a folder. None: no cap."""
    if version == 1:
        kernel.write(f"{folder}/cpu.cfs_quota_us", str(-1 if quota_us is None else quota_us))
    else:
        kernel.write(f"{folder}/cpu.max", f"{'max' if quota_us is None else quota_us} {period_us}")


def quota_above(folders: Iterable[str], top: str, version: int, kernel: Kernel) -> float | None:
    """Return what the cgroups around some folders leave them together, as far as this mount shows them. None: no cap.

    A cap around several of them counts once, caps around single ones add up.
    """
    allowed: dict[Path, float | None] = {Path(folder): None for folder in folders}
    while set(allowed) != {Path(top)}:
        deepest = max(allowed, key=lambda folder: len(folder.parts))
        above = deepest.parent
        together = _sum([allowed.pop(folder) for folder in list(allowed) if folder.parent == above])
        try:
            own = quota_of(str(above), version, kernel)
        except FileNotFoundError:
            own = None  # the root has no cap
        allowed[above] = min((cap for cap in (own, together) if cap is not None), default=None)
    return allowed[Path(top)]


def _sum(caps: list[float | None]) -> float | None:
    known = [cap for cap in caps if cap is not None]
    return sum(known) if len(known) == len(caps) else None
