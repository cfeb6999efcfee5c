# SPDX-License-Identifier: Apache-2.0
"""Checks what this machine has and lacks for Penstock, with the command that fixes each lack (`penstock doctor`)."""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from penstock.adaptors.host_state import HostState, HostWatch
from penstock.adaptors.loopback import reserve_port
from penstock.adaptors.process.leftovers import find_leftovers
from penstock.adaptors.spark import java as java_search
from penstock.adaptors.spark.installation import INSTALL_COMMAND
from penstock.errors import ConfigurationError

_GIB = 1 << 30
NEEDED_MEMORY_BYTES = 2 * _GIB
"""Master, worker, one driver and one executor at their smallest heaps."""
NEEDED_DISK_BYTES = 1 * _GIB
WANTED_CORES = 2
_WATCHED_SECONDS = 0.2
OLDEST_PYTHON = (3, 11)


EXTRAS = {
    "report": (("matplotlib", "jinja2"), "no pictures and reports"),
    "service": (("fastapi", "uvicorn", "prometheus-client"), "no `penstock serve`, no page of a run"),
    "kafka": (("confluent-kafka",), "no topics between operators, no arrival times from Kafka"),
    "rabbitmq": (("pika", "pyarrow"), "no queues as sources"),
    "postgresql": (("psycopg",), "no stores in PostgreSQL"),
    "kubernetes": (("kubernetes",), "no CPU shares on Kubernetes"),
}
"""By extra of the package: what it brings, and what cannot be done without it."""


class Severity(StrEnum):
    """What a lack means: nothing runs, or a feature is missing."""

    NEEDED = "needed"
    OPTIONAL = "optional"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `mend` is the command that fixes it, empty if nothing is wrong."""

    name: str
    ok: bool
    detail: str
    mend: str = ""
    severity: Severity = Severity.NEEDED


def root_note(user: int | None = None) -> str | None:
    """Return a line for somebody who runs Penstock as root; None for everybody else. `user`: default this one."""
    if (os.geteuid() if user is None else user) != 0:
        return None
    return (
        "This runs as root: the functions of the pipeline, in drivers and executors, may do anything on this machine."
    )


def check_machine(temporary: Path | None = None) -> list[Check]:
    """Run all checks. Nothing is started or changed. `temporary` is searched for folders of dead runs."""
    folder = temporary or Path(tempfile.gettempdir())
    return [
        check_python(),
        check_java(),
        check_package("pyspark", oldest="3.5", below="4.4"),
        check_package("pandas", oldest="2.2", below="3"),
        check_package("pyarrow", oldest="18"),
        check_memory(),
        check_cores(),
        check_load(),
        check_cpu_shares(),
        check_loopback_ports(),
        check_disk(folder),
        check_leftovers(folder),
        *(check_extra(extra, packages, lost) for extra, (packages, lost) in EXTRAS.items()),
    ]


def check_load(state: HostState | None = None) -> Check:
    """Check that the host has CPU to spare: on a busy one, batches are slow for reasons that nothing here can mend."""
    if state is None:
        watch = HostWatch()
        time.sleep(_WATCHED_SECONDS)
        state = watch.state()
    busy = state.busy_text
    if busy is None:
        return Check("load", True, state.text)
    return Check(
        "load",
        False,
        f"the machine is busy: {busy}; latencies will be longer than they need be",
        "end what else runs, or measure later",
        Severity.OPTIONAL,
    )


def check_python(version: tuple[int, int, int] = sys.version_info[:3]) -> Check:
    """Check that Python is new enough."""
    shown = ".".join(map(str, version))
    if version[:2] >= OLDEST_PYTHON:
        return Check("python", True, f"Python {shown}")
    return Check("python", False, f"Python {shown} is older than 3.11", "sudo apt-get install python3.11-venv")


def check_java(environment: Mapping[str, str] = os.environ, installed: Path = Path("/usr/lib/jvm")) -> Check:
    """Check for a Java that runs Spark."""
    try:
        java = java_search.find_java(environment, installed)
    except ConfigurationError as fault:
        mend = java_search.INSTALL_COMMAND
        if fault.field == "JAVA_HOME":  # it would hide an installed one
            mend = f"unset JAVA_HOME; {mend}"
        return Check("java", False, str(fault), mend)
    return Check("java", True, f"Java {java.version} with {java_search.NEEDED_MODULE} in {java.home}")


def check_package(
    name: str,
    *,
    oldest: str,
    below: str | None = None,
    version_of: Callable[[str], str] = importlib.metadata.version,
) -> Check:
    """Check for a Python package in a supported version, without importing it, which would take seconds."""
    try:
        version = version_of(name)
    except importlib.metadata.PackageNotFoundError:
        return Check(name, False, f"{name} is not installed", INSTALL_COMMAND)
    wanted = f"{name}>={oldest}" if below is None else f"{name}>={oldest},<{below}"
    if _numbers(version) < _numbers(oldest) or (below is not None and _numbers(version) >= _numbers(below)):
        return Check(name, False, f"{name} {version} is installed, {wanted} is needed", f"pip install '{wanted}'")
    return Check(name, True, f"{name} {version}")


def check_extra(
    extra: str,
    packages: Sequence[str],
    lost: str,
    *,
    version_of: Callable[[str], str] = importlib.metadata.version,
) -> Check:
    """Check for the packages of an extra, which only some features need."""
    missing, found = [], []
    for name in packages:
        try:
            found.append(f"{name} {version_of(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if not missing:
        return Check(extra, True, ", ".join(found), severity=Severity.OPTIONAL)
    are = "is" if len(missing) == 1 else "are"
    return Check(
        extra,
        False,
        f"{', '.join(missing)} {are} not installed: {lost}",
        f"pip install 'penstock[{extra}]'",
        Severity.OPTIONAL,
    )


def _numbers(version: str) -> tuple[int, ...]:
    parts = []
    for part in version.split("."):
        if not part.isdigit():  # 4.3.0.dev1 counts as 4.3.0
            break
        parts.append(int(part))
    return tuple(parts)


def check_memory(available_bytes: int | None = None, cgroup: Path = Path("/sys/fs/cgroup")) -> Check:
    """Check that enough memory is free, in the machine and under this container's limit."""
    free = psutil.virtual_memory().available if available_bytes is None else available_bytes
    room = _cgroup_memory_room(cgroup)
    if room is not None:
        free = min(free, room)
    detail = f"{free / _GIB:.1f} GiB of memory free"
    if free >= NEEDED_MEMORY_BYTES:
        return Check("memory", True, detail)
    detail += f"; at least {NEEDED_MEMORY_BYTES // _GIB} GiB are needed"
    return Check("memory", False, detail, "ps aux --sort=-rss | head   # then end what is not needed")


def _cgroup_memory_room(root: Path) -> int | None:
    """Return how much memory the container's limit leaves, or None without a limit."""
    for limit_file, used_file in (
        (root / "memory.max", root / "memory.current"),
        (root / "memory" / "memory.limit_in_bytes", root / "memory" / "memory.usage_in_bytes"),
    ):
        try:
            limit, used = limit_file.read_text().strip(), used_file.read_text().strip()
        except OSError:  # the other cgroup version, or none
            continue
        if limit.isdigit() and used.isdigit():
            return max(0, int(limit) - int(used))
    return None


def check_cores(cores: int | None = None) -> Check:
    """Check for a core for the pipeline beside the one that the driver and the controller use."""
    usable = len(os.sched_getaffinity(0)) if cores is None else cores
    if usable >= WANTED_CORES:
        return Check("cores", True, f"{usable} cores", severity=Severity.OPTIONAL)
    return Check(
        "cores", False, f"{usable} core: driver and executors will wait for each other",
        "nproc   # give the machine or container at least 2", Severity.OPTIONAL,
    )  # fmt: skip


def check_cpu_shares(root: Path = Path("/sys/fs/cgroup")) -> Check:
    """Check that the kernel's CPU controller is writable, in cgroup version 1 or 2. Nothing is created."""
    version_1 = root / "cpu"
    if (version_1 / "cpu.cfs_quota_us").exists() or (version_1 / "cgroup.procs").exists():
        version, folder = 1, version_1
    elif "cpu" in _controllers(root):
        version, folder = 2, root
    else:
        return Check(
            "cpu shares", False, f"no CPU controller in {root}: only executors are scaled",
            f"sudo mkdir -p {version_1} && sudo mount -t cgroup -o cpu cgroup {version_1}", Severity.OPTIONAL,
        )  # fmt: skip
    if os.access(folder, os.W_OK):
        return Check("cpu shares", True, f"cgroup version {version} in {folder}", severity=Severity.OPTIONAL)
    return Check(
        "cpu shares", False, f"no right to write to {folder}: only executors are scaled",
        "sudo penstock run ...   # as root, CPU shares are scaled too", Severity.OPTIONAL,
    )  # fmt: skip


def _controllers(root: Path) -> list[str]:
    try:
        return (root / "cgroup.controllers").read_text().split()
    except OSError:  # not a version 2 tree
        return []


def check_loopback_ports(host: str = "127.0.0.1") -> Check:
    """Check that ports on the loopback are available."""
    try:
        with reserve_port(host, 0, "loopback") as reserved:
            port = reserved.getsockname()[1]
    except ConfigurationError as fault:
        return Check("loopback", False, str(fault), "sudo ip link set lo up")
    return Check("loopback", True, f"free ports on {host}, such as {port}")


def check_disk(folder: Path, free_bytes: int | None = None) -> Check:
    """Check that the temporary folder has room for logs, shuffles and checkpoints."""
    free = shutil.disk_usage(folder).free if free_bytes is None else free_bytes
    detail = f"{free / _GIB:.1f} GiB free in {folder}"
    if free >= NEEDED_DISK_BYTES and os.access(folder, os.W_OK):
        return Check("disk", True, detail)
    return Check(
        "disk", False, f"{detail}; at least 1 GiB of writable space is needed", "export TMPDIR=/a/larger/folder"
    )


def check_leftovers(folder: Path) -> Check:
    """Check for processes and folders of dead runs."""
    found = find_leftovers(folder)
    if not found:
        return Check("leftovers", True, "none of dead runs", severity=Severity.OPTIONAL)
    commands = []
    if found.processes:
        commands.append("kill -9 " + shlex.join(map(str, found.processes)))
    if found.folders:
        commands.append("rm -rf " + shlex.join(map(str, found.folders)))
    detail = f"{len(found.processes)} processes and {len(found.folders)} folders of dead runs"
    return Check("leftovers", False, detail, " && ".join(commands), Severity.OPTIONAL)
