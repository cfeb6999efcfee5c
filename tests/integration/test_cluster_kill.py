# SPDX-License-Identifier: Apache-2.0
"""Kill -9 of the process that owns an embedded cluster, alone and with its warden, while an application runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.adaptors.process.leftovers import end_marked, find_leftovers, marked_processes

pytestmark = [pytest.mark.spark, pytest.mark.kill]

OWNER = """
import json, os, sys, time
from pathlib import Path
from penstock.adaptors.process.children import Warden
from penstock.adaptors.spark.cluster import EmbeddedCluster

warden = Warden(grace_seconds=3.0)
folder = warden.temporary_folder(Path(sys.argv[1]))
cluster = EmbeddedCluster(warden, folder, cores_per_worker=2, memory_per_worker="2g").start()
warden.start("driver", [sys.executable, sys.argv[2], cluster.master_url], log=Path(sys.argv[1]) / "driver.log",
             env={**os.environ, **cluster.spark_environment()})
print(json.dumps({"warden": warden.pid, "mark": warden.mark, "folder": str(folder)}), flush=True)
time.sleep(600)
"""
APPLICATION = """
import sys, time
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master(sys.argv[1]).appName("endless").config("spark.executor.cores", "1")
         .config("spark.executor.memory", "512m").config("spark.cores.max", "2").getOrCreate())
spark.sparkContext.parallelize(range(2), 2).map(lambda n: time.sleep(600)).count()
"""


def eventually(holds: Callable[[], bool], seconds: float) -> bool:
    """Ask again until it holds; the bound only ends a failing test."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def commands_of(mark: str) -> dict[int, str]:
    """The living processes of one warden with their command lines."""
    found = {}
    for pid, carried in marked_processes().items():
        if carried == mark:
            try:
                found[pid] = " ".join(psutil.Process(pid).cmdline())
            except psutil.NoSuchProcess:
                continue
    return found


@contextmanager
def busy_cluster(folder: Path) -> Iterator[tuple[int, dict[str, Any], dict[int, str]]]:
    """An owner in a process of its own, what it has told, and the processes of its cluster and application at work."""
    script = folder / "application.py"
    script.write_text(APPLICATION)
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder), str(script)], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        told: dict[str, Any] = {}
        try:
            told |= json.loads(owner.stdout.readline())

            def is_busy() -> bool:
                commands = list(commands_of(told["mark"]).values())
                executors = [c for c in commands if "CoarseGrainedExecutorBackend" in c]
                daemons = [c for c in commands if "pyspark.daemon" in c]
                # one daemon for each executor, and the worker it forked
                return len(executors) >= 2 and len(daemons) >= 2 * len(executors)

            assert eventually(is_busy, 300), "\n".join(commands_of(told["mark"]).values())
            seen = commands_of(told["mark"])
            for part in ("master.Master", "worker.Worker", "application.py", "SparkSubmit"):
                assert any(part in command for command in seen.values()), f"{part} not in {seen}"
            yield owner.pid, told, seen
        finally:
            owner.kill()
            if told:  # what a test has found to be left does not outlive it
                eventually(lambda: not psutil.pid_exists(told["warden"]), 60)
                end_marked(told["mark"])


def test_kill_9_of_the_owner_leaves_nothing_of_cluster_and_application(tmp_path: Path) -> None:
    """Master, worker, driver, its JVM, executors, Python workers and the folder are all gone soon after."""
    with busy_cluster(tmp_path) as (owner, told, seen):
        mark, warden = told["mark"], told["warden"]
        os.kill(owner, signal.SIGKILL)
        killed_at = time.monotonic()
        assert eventually(lambda: not commands_of(mark) and not psutil.pid_exists(warden), 60), commands_of(mark)
        print(f"all gone after {time.monotonic() - killed_at:.1f} s")
        assert not any(psutil.pid_exists(pid) for pid in seen)
        assert not Path(told["folder"]).exists()


def test_kill_9_of_owner_and_warden_together_leaves_the_folder_alone(tmp_path: Path) -> None:
    """Nobody is left to end anything: master, worker and driver die by the kernel's hand, all others because these are
    gone. The folder stays until the next start."""
    with busy_cluster(tmp_path) as (owner, told, seen):
        os.kill(told["warden"], signal.SIGSTOP)  # so that it cannot act between the two kills
        os.kill(owner, signal.SIGKILL)
        os.kill(told["warden"], signal.SIGKILL)
        killed_at = time.monotonic()
        assert eventually(lambda: not commands_of(told["mark"]), 180), commands_of(told["mark"])
        print(f"all gone after {time.monotonic() - killed_at:.1f} s")
        assert eventually(lambda: not any(psutil.pid_exists(pid) for pid in (*seen, told["warden"])), 60)
        assert find_leftovers(tmp_path).folders == (Path(told["folder"]),)
