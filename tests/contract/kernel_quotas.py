# SPDX-License-Identifier: Apache-2.0
"""What the kernel allows processes, read past Penstock."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


def capacity_of(pids: Iterable[int]) -> float | None:
    """Return the CPU that the groups of these processes may take together, in cores; None: one has no limit."""
    groups: dict[Path, float | None] = {}
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended this moment
            group = group_of(pid)
            groups[group] = quota_of(group)
    quotas = list(groups.values())
    return None if None in quotas or not quotas else sum(quota for quota in quotas if quota is not None)


def group_of(pid: int) -> Path:
    """The folder of the group that holds a process's CPU, in either version of cgroups."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    for _, controllers, path in lines:
        if "cpu" in controllers.split(","):
            return _ROOT / "cpu" / path.lstrip("/")
    (unified,) = [path for _, controllers, path in lines if not controllers]
    return _ROOT / unified.lstrip("/")


def quota_of(group: Path) -> float | None:
    """The CPU that a group may take, in cores; None: no limit."""
    if (group / "cpu.max").exists():
        quota_text, period_text = (group / "cpu.max").read_text().split()
        return None if quota_text == "max" else int(quota_text) / int(period_text)
    quota, period = (int((group / f"cpu.cfs_{word}_us").read_text()) for word in ("quota", "period"))
    return None if quota < 0 else quota / period
