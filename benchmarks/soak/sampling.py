# SPDX-License-Identifier: Apache-2.0
"""What a run holds of a machine: memory, descriptors and threads of its processes by role, its disk, its cgroups."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import psutil

from penstock.adaptors.cgroups.guard import FOLDER, process_stat
from penstock.adaptors.cgroups.owner import Owner
from penstock.adaptors.process.leftovers import marked_processes

VARIABLE = "PENSTOCK_SOAK"
"""In the environment of a run that is looked at, and so of its processes: a mark that no other run has."""
ROLES: tuple[tuple[str, str], ...] = (
    ("warden", "process/warden.py"),
    ("cgroup guard", "cgroups/guard.py"),
    ("driver, Python", "penstock.running.operator_process"),
    ("driver, JVM", "org.apache.spark.deploy.SparkSubmit"),
    ("executor", "CoarseGrainedExecutorBackend"),
    ("Python worker", "pyspark.daemon"),
    ("Python worker", "pyspark.worker"),
    ("Spark worker", "org.apache.spark.deploy.worker.Worker"),
    ("Spark master", "org.apache.spark.deploy.master.Master"),
    ("broker", "kafka.Kafka"),
    ("producer", "penstock.running.producer"),
)
"""A role, and a word of the command line that shows it."""
JVMS = frozenset({"driver, JVM", "executor", "Spark worker", "Spark master", "broker"})
CONTROLLER, ANALYSIS = "controller", "analysis"
LIVE = "live_mib"
MEMORY, DESCRIPTORS, THREADS, PROCESSES = "pss_mib", "descriptors", "threads", "processes"
DISK, GROUPS = "disk_mib", "cgroups"
FIELDS = ("seconds", "subject", "quantity", "value")
_MIB = float(1 << 20)
_LIVE_EVERY_SECONDS = 110.0
"""Once in a cycle of scaling: a garbage collection in every JVM costs them some tenths of a second."""
_JCMD_SECONDS = 20.0
_TOTAL = re.compile(r"^Total +\d+ +(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value at one time. For a role, memory, heap, descriptors and threads are those of its largest process."""

    seconds: float
    subject: str
    quantity: str
    value: float


def role_of(command_line: list[str], *, is_controller: bool) -> str:
    """The part that a process plays in a run.

    Examples
    --------
    >>> role_of(["java", "-cp", "x", "kafka.Kafka", "server.properties"], is_controller=False)
    'broker'
    >>> role_of(["python", "-c", "from multiprocessing.spawn import spawn_main"], is_controller=False)
    'analysis'
    """
    if is_controller:
        return CONTROLLER
    line = " ".join(command_line)
    for role, word in ROLES:
        if word in line:
            return role
    return ANALYSIS if "multiprocessing" in line else "other"


class Looks:
    """Looks at everything that belongs to one run, and at nothing of the other runs on the machine.

    Its processes are the descendants of its controller and, because orphans are what is looked for, whatever has its
    mark. A control group is its own if one of these processes made it, also after that process has ended.

    Parameters
    ----------
    controller, mark
        The process of the run, and the value of `VARIABLE` with which it was started.
    run_folder
        Where the run keeps its files.
    cgroups
        Where control groups are mounted.
    """

    def __init__(self, controller: int, mark: str, run_folder: Path, cgroups: Path = Path("/sys/fs/cgroup")) -> None:
        self._controller = controller
        self._mark = mark
        self._run_folder = run_folder
        self._cgroups = cgroups
        self._seen: set[tuple[int, int]] = set()
        self._next_live = 0.0

    def look(self, seconds: float) -> Iterator[Sample]:
        """Look once."""
        by_role: dict[str, list[dict[str, float]]] = {}
        zombies, live = 0, dict[str, float]()
        with_live = seconds >= self._next_live
        if with_live:
            self._next_live = seconds + _LIVE_EVERY_SECONDS
        for process in self._processes():
            try:
                role = role_of(process.cmdline(), is_controller=process.pid == self._controller)
                found = {
                    MEMORY: proportional_bytes(process.pid) / _MIB,
                    DESCRIPTORS: float(process.num_fds()),
                    THREADS: float(process.num_threads()),
                }
            except psutil.ZombieProcess:
                zombies += 1
            except (psutil.NoSuchProcess, OSError):  # it ended while it was looked at
                continue
            else:
                by_role.setdefault(role, []).append(found)
                if with_live and role in JVMS and (held := live_bytes(process.pid)) is not None:
                    live[role] = max(live.get(role, 0.0), held / _MIB)
        for role, held_mib in live.items():
            yield Sample(seconds, role, LIVE, held_mib)
        for role, each in by_role.items():
            for quantity in (MEMORY, DESCRIPTORS, THREADS):
                yield Sample(seconds, role, quantity, max(one[quantity] for one in each))
            yield Sample(seconds, role, PROCESSES, float(len(each)))
        yield Sample(seconds, "zombie", PROCESSES, float(zombies))
        for subject, held in disk_of(self._run_folder).items():
            yield Sample(seconds, subject, DISK, held / _MIB)
        yield Sample(seconds, "run", GROUPS, float(self._count_groups()))

    def _count_groups(self) -> int:
        owners = (Owner.of_name(folder.name) for folder in self._cgroups.glob(f"**/{FOLDER}/*/"))
        return sum(owner is not None and (owner.pid, owner.started) in self._seen for owner in owners)

    def _processes(self) -> list[psutil.Process]:
        family = {process.pid: process for process in _family(self._controller)}
        for pid in marked_processes(VARIABLE, self._mark):
            if pid not in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    family[pid] = psutil.Process(pid)
        for pid in family:
            if (stat := process_stat("/proc", pid)) is not None:
                self._seen.add((pid, stat.started))
        return list(family.values())


def proportional_bytes(pid: int, proc: Path = Path("/proc")) -> int:
    """Memory of a process that belongs to no file; what it shares with others counts in proportion (PSS).

    What it maps from files, such as libraries, would count for less or more as other programs come and go.

    Raises
    ------
    OSError
        The process is gone, or another user's.
    """
    text = (proc / str(pid) / "smaps_rollup").read_text(encoding="ascii")
    parts = re.findall(r"^Pss_(?:Anon|Shmem): +(\d+) kB", text, re.MULTILINE)
    if not parts:
        raise ProcessLookupError(f"process {pid} has no memory any more")
    return sum(int(part) << 10 for part in parts)


def live_bytes(pid: int, jcmd: str | None = shutil.which("jcmd")) -> int | None:
    """What is on the heap of a JVM right after a garbage collection, for which it is asked; None: it does not say.

    What a heap takes of the machine's memory rises to its limit whatever lives on it.
    """
    if jcmd is None:
        return None
    try:
        done = subprocess.run(
            [jcmd, str(pid), "GC.class_histogram"], capture_output=True, text=True, timeout=_JCMD_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):  # it ended while it was asked
        return None
    return total_bytes(done.stdout)


def total_bytes(histogram: str) -> int | None:
    """What all objects in a histogram of `jcmd PID GC.class_histogram` take; None: it is none.

    Examples
    --------
    >>> total_bytes("   1:   2   48  java.lang.Object\\nTotal       2       48")
    48
    """
    found = _TOTAL.search(histogram)
    return None if found is None else int(found[1])


def disk_of(run_folder: Path) -> dict[str, int]:
    """What a run keeps on disk, in bytes, by kind. The files of a run come and go while they are counted."""
    kinds: dict[str, int] = {}
    # Unlike `Path.rglob`, `os.walk` goes on where a folder has been removed meanwhile.
    for folder, _, names in os.walk(run_folder):
        for path in (Path(folder) / name for name in names):
            with contextlib.suppress(OSError):
                if path.is_file() and not path.is_symlink():
                    kind = kind_of(path.relative_to(run_folder))
                    kinds[kind] = kinds.get(kind, 0) + path.stat().st_blocks * 512
    return kinds


def kind_of(path: Path) -> str:
    """What a file of a run folder is.

    Examples
    --------
    >>> [kind_of(Path(p)) for p in ("knowledge.sqlite-wal", "logs/a.log.1", "operators/a/checkpoint/offsets/7")]
    ['store', 'logs', 'checkpoints']
    """
    parts = path.parts
    if path.name.startswith("knowledge.sqlite"):
        return "store"
    if parts[:2] == ("kafka", "data"):
        return "topics"
    if "logs" in parts[:2] or parts[0] == "kafka":
        return "logs"
    if parts[:2] == ("cluster", "work"):
        return "executor folders"
    if "checkpoint" in parts:
        return "checkpoints"
    return "output" if "output" in parts else "other"


def _family(controller: int) -> list[psutil.Process]:
    try:
        head = psutil.Process(controller)
        return [head, *head.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


class SampleFile:
    """Writes samples as they come, one line each."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._writer = csv.writer(file)
        self._writer.writerow(FIELDS)

    def add(self, samples: list[Sample]) -> None:
        """Append samples, and see that they are on disk."""
        for sample in samples:
            value = f"{sample.value:.3f}".rstrip("0").rstrip(".")
            self._writer.writerow((f"{sample.seconds:.1f}", sample.subject, sample.quantity, value))
        self._file.flush()


def read_samples(path: Path) -> Mapping[tuple[str, str], tuple[list[float], list[float]]]:
    """Every series of a file, by subject and quantity: its times and values."""
    series: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            times, values = series.setdefault((row["subject"], row["quantity"]), ([], []))
            times.append(float(row["seconds"]))
            values.append(float(row["value"]))
    return series
