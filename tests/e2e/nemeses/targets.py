# SPDX-License-Identifier: Apache-2.0
"""The processes of a run on a cluster and broker of the test's own, by the part that they play."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from penstock.adaptors.process.leftovers import marked_processes

_OPERATOR = "PENSTOCK_OPERATOR"


def executors_of(cluster_folder: Path) -> list[psutil.Process]:
    """The executors on a cluster, the oldest first."""
    return _with_words(["CoarseGrainedExecutorBackend"], str(cluster_folder))


def drivers_of(run_folder: Path) -> list[psutil.Process]:
    """Each operator's Python process and its JVM, the oldest first."""
    pids = [pid for pid, own in marked_processes(_OPERATOR).items() if own.startswith(f"{run_folder}/")]
    found = []
    for process in _living(pids):
        with contextlib.suppress(psutil.NoSuchProcess):
            line = " ".join(process.cmdline())
            if "penstock.running.operator_process" in line or "org.apache.spark.deploy.SparkSubmit" in line:
                found.append(process)
    return found


def name_of_driver(process: psutil.Process) -> str:
    """Which operator's it is, and whether the Python side or the JVM."""
    side = "JVM" if "SparkSubmit" in " ".join(process.cmdline()) else "Python"
    return f"{Path(process.environ()[_OPERATOR]).name} ({side})"


def warden_of(controller: int) -> list[psutil.Process]:
    """The warden of a controller."""
    try:
        children = psutil.Process(controller).children()
    except psutil.NoSuchProcess:
        return []
    return [child for child in children if any(word.endswith("warden.py") for word in child.cmdline())]


def chosen(candidates: Sequence[psutil.Process], draw: float) -> psutil.Process | None:
    """One of them; None: there is none."""
    return candidates[int(draw * len(candidates))] if candidates else None


@contextlib.contextmanager
def held(pid: int) -> Iterator[None]:
    """Stop a process for the length of the block, as a machine does that swaps or a hypervisor that moves it."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):  # somebody has ended it meanwhile, as they may
            os.kill(pid, signal.SIGCONT)


def wait_for_end(pid: int, seconds: float = 30.0) -> None:
    """Wait until a process is gone."""
    deadline = time.monotonic() + seconds
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"process {pid} does not end"
        time.sleep(0.05)


def _with_words(words: Sequence[str], belongs_to: str) -> list[psutil.Process]:
    pids = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        line, environment = process.info["cmdline"] or [], process.info["environ"] or {}
        is_it = all(any(word in part for part in line) for word in words)
        if is_it and any(belongs_to in part for part in (*line, *environment.values())):
            pids.append(process.pid)
    return _living(pids)


def _living(pids: Sequence[int]) -> list[psutil.Process]:
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append((process.create_time(), pid, process))
    return [process for _, _, process in sorted(found, key=lambda one: one[:2])]
