# SPDX-License-Identifier: Apache-2.0
"""What a run holds of a machine: memory, descriptors and threads of its processes by role, its disk, its cgroups."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import psutil

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
CONTROLLER, ANALYSIS = "controller", "analysis"
MEMORY, DESCRIPTORS, THREADS, PROCESSES = "pss_mib", "descriptors", "threads", "processes"
DISK, GROUPS = "disk_mib", "cgroups"
FIELDS = ("seconds", "subject", "quantity", "value")
_MIB = float(1 << 20)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value at one time. For a role, memory, descriptors and threads are those of its largest process."""

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


def samples_of(controller: int, run_folder: Path, seconds: float) -> Iterator[Sample]:
    """Look once at everything that belongs to a run."""
    by_role: dict[str, list[dict[str, float]]] = {}
    for process in _family(controller):
        with contextlib.suppress(psutil.NoSuchProcess, OSError):  # it ended while it was looked at
            role = role_of(process.cmdline(), is_controller=process.pid == controller)
            by_role.setdefault(role, []).append(
                {
                    MEMORY: proportional_bytes(process.pid) / _MIB,
                    DESCRIPTORS: float(process.num_fds()),
                    THREADS: float(process.num_threads()),
                }
            )
    for role, found in by_role.items():
        for quantity in (MEMORY, DESCRIPTORS, THREADS):
            yield Sample(seconds, role, quantity, max(one[quantity] for one in found))
        yield Sample(seconds, role, PROCESSES, float(len(found)))
    for subject, held in disk_of(run_folder).items():
        yield Sample(seconds, subject, DISK, held / _MIB)
    yield Sample(seconds, "machine", GROUPS, float(sum(1 for _ in Path("/sys/fs/cgroup").glob("*/penstock/*/"))))


def proportional_bytes(pid: int, proc: Path = Path("/proc")) -> int:
    """Memory of a process; what it shares counts in proportion (PSS).

    Raises
    ------
    OSError
        The process is gone, or another user's.
    """
    for line in (proc / str(pid) / "smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    raise ProcessLookupError(f"process {pid} has no memory any more")


def disk_of(run_folder: Path) -> dict[str, int]:
    """What a run keeps on disk, in bytes, by kind. The files of a run come and go while they are counted."""
    kinds: dict[str, int] = {}
    for path in run_folder.rglob("*"):
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
