# SPDX-License-Identifier: Apache-2.0
"""The executors of an application as this machine's kernel has them, the same way on all clusters."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

_GONE = (FileNotFoundError, ProcessLookupError)
_ROOTS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/cpu,cpuacct"))


def executor_pids(application: str) -> dict[str, int]:
    """The executors' processes, by executor; also those in the pods and containers of a cluster on this machine."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(*_GONE, PermissionError):
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").rstrip("\0").split("\0")
            # A shell that starts an executor has the same words, but all in one argument.
            if any(word.endswith("ExecutorBackend") and " " not in word for word in words):
                options = dict(pairwise(words))
                if options.get("--app-id") == application:
                    found[options["--executor-id"]] = int(entry.name)
    return found


def quota_cores(pids: Iterable[int]) -> float | None:
    """The CPU that the groups of these processes may use together, in cores; None: at least one is not limited."""
    found: dict[Path, float | None] = {}
    for pid in pids:
        with suppress(*_GONE):  # it ended this moment
            group = _group_of(pid)
            found[group] = _quota(group)
    limits = [quota for quota in found.values() if quota is not None]
    return sum(limits) if found and len(limits) == len(found) else None


def _group_of(pid: int) -> Path:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            root = next(root for root in _ROOTS if root.exists())
            return root / path.lstrip("/")
    path = Path(f"/proc/{pid}/cgroup").read_text().strip().rpartition(":")[2]
    return Path("/sys/fs/cgroup") / path.lstrip("/")


def _quota(group: Path) -> float | None:
    if (group / "cpu.max").exists():
        quota, period = (group / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    quota, period = ((group / f"cpu.cfs_{word}_us").read_text() for word in ("quota", "period"))
    return None if int(quota) < 0 else int(quota) / int(period)
