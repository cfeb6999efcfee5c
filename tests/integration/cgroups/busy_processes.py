# SPDX-License-Identifier: Apache-2.0
"""Programs that use CPU, and what the kernel says of their cgroups."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from penstock.adaptors.cgroups import Hierarchy
from penstock.adaptors.cgroups.guard import FOLDER

SPIN = "while True: pass"
FORK_AND_SPIN = "import os\nchild = os.fork()\nif child: print(child, flush=True)\nwhile True: pass"
# The last arguments make a busy process look like an executor of a Spark application.
EXECUTOR_WORDS = ["org.apache.spark.executor.CoarseGrainedExecutorBackend", "--executor-id", "0", "--app-id"]
HOLDER = """
import json, sys, time
from penstock.adaptors.cgroups import CpuShares, find_hierarchy
from penstock.records import Allocation

shares = CpuShares("held", sys.argv[1], Allocation(4), 1, find_hierarchy(), run="test", lease_seconds=2.0)
shares.apply(Allocation(1, 0.2))
print(json.dumps({"folder": shares.folder, "guard": shares.guard_pid, "joined": list(shares.joined)}), flush=True)
time.sleep(300)
"""

CONTAINED = f"""
import subprocess, sys
executor = subprocess.Popen([sys.executable, "-c", {SPIN!r}, *{EXECUTOR_WORDS!r}, sys.argv[1]])
{HOLDER}"""
"""A holder with an executor of its own, for a PID namespace."""


def wait_until(claim: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Poll until a claim holds."""
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain: {what}"
        time.sleep(0.05)


def first_line(process: subprocess.Popen[str]) -> str:
    """The first line a program prints."""
    assert process.stdout is not None
    return process.stdout.readline()


def cgroups_of(pid: int) -> str:
    """All cgroups of a process, as the kernel tells them."""
    return Path(f"/proc/{pid}/cgroup").read_text()


def is_held(pid: int) -> bool:
    """Whether a process is in a group of ours."""
    return f"/{FOLDER}/" in cgroups_of(pid)


def penstock_folders(hierarchy: Hierarchy) -> list[str]:
    """Groups of ours that exist, in each hierarchy."""
    return [str(path) for mount in hierarchy.mounts for path in Path(mount.point).rglob(f"{FOLDER}/test-*")]


def quota_in(hierarchy: Hierarchy, folder: str) -> str:
    """The text of the quota file."""
    return Path(folder, "cpu.cfs_quota_us" if hierarchy.version == 1 else "cpu.max").read_text().split()[0]


def open_text(hierarchy: Hierarchy) -> str:
    """How the kernel writes that there is no quota."""
    return "-1" if hierarchy.version == 1 else "max"
