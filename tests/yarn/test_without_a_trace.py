# SPDX-License-Identifier: Apache-2.0
"""A YARN leaves nothing behind, whoever of it is killed: no process, no file, no network."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from penstock.adaptors.yarn_server.distribution import why_not_here
from penstock.adaptors.yarn_server.local_cluster import LocalYarn
from penstock.adaptors.yarn_server.site_files import YarnPlan

pytestmark = [
    pytest.mark.yarn,
    pytest.mark.skipif(why_not_here() is not None, reason=f"no YARN can be started here: {why_not_here()}"),
]

OWNER = Path(__file__).with_name("cluster_owner.py")
PATIENCE_SECONDS = 240.0


def processes_inside(namespace: int) -> dict[int, str]:
    """The processes of a network namespace, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "ns" / "net").stat().st_ino == namespace:
                    found[int(entry.name)] = " ".join(psutil.Process(int(entry.name)).cmdline())
            except (OSError, psutil.Error):
                continue
    return found


def temporary_files() -> set[Path]:
    """What is there of Hadoop's where all programs put their temporary files."""
    return set(Path(tempfile.gettempdir()).glob("hadoop*"))


def eventually(holds: Callable[[], bool]) -> bool:
    """Ask again until it holds; the bound only ends a failing test."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.kill
def test_kill_9_of_the_owner_leaves_nothing_of_cluster_and_application(tmp_path: Path) -> None:
    """Servers, the application's master, its executor, its driver, the folder and the network are gone soon after."""
    with subprocess.Popen([sys.executable, str(OWNER), str(tmp_path)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        try:
            told = json.loads(owner.stdout.readline())
            namespace = Path(f"/proc/{told['network']}/ns/net").stat().st_ino

            def has_all() -> bool:
                commands = " ".join(processes_inside(namespace).values())
                words = ("ResourceManager", "NodeManager", "ExecutorLauncher", "CoarseGrainedExecutorBackend")
                return all(word in commands for word in words)

            assert eventually(has_all), (processes_inside(namespace), (tmp_path / "driver.log").read_text()[-3000:])
        finally:
            owner.kill()
    assert eventually(lambda: not processes_inside(namespace)), processes_inside(namespace)
    assert eventually(lambda: not Path(told["folder"]).exists())
    assert eventually(lambda: not psutil.pid_exists(told["warden"])), "the warden is the last to go, and has not"


@pytest.mark.kill
def test_kill_9_of_the_keeper_leaves_nothing(tmp_path: Path) -> None:
    """`penstock yarn start` gives a cluster that ends with its keeper, however that ends."""
    before = temporary_files()
    cluster = LocalYarn(tmp_path / "cluster")
    status = cluster.start(YarnPlan(nodes=1))
    assert status.pid is not None
    assert status.nodes == {"127.0.0.2": "RUNNING"}
    namespace = Path(cluster.namespace).stat().st_ino
    assert len(processes_inside(namespace)) == 3
    os.kill(status.pid, signal.SIGKILL)
    assert eventually(lambda: not cluster.folder.exists())
    assert eventually(lambda: not processes_inside(namespace)), processes_inside(namespace)
    assert not cluster.status().is_running
    assert temporary_files() <= before


def test_the_commands_start_run_and_stop(tmp_path: Path) -> None:
    """A program inside sees the ResourceManager, one outside does not, and `stop` removes everything."""

    def penstock(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "penstock", "yarn", words[0], "--folder", str(tmp_path / "cluster"), *words[1:]]
        return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=400)

    ask = (
        "import json, os, urllib.request as u; print(os.environ.get('HADOOP_CONF_DIR')); "
        "info = json.load(u.urlopen('http://127.0.0.1:8088/ws/v1/cluster/info', timeout=20))['clusterInfo']; "
        "print(info['state']); print(info['startedOn'])"
    )
    try:
        started = penstock("start", "--nodes", "1")
        assert started.returncode == 0, started.stderr
        assert "127.0.0.2 RUNNING" in started.stdout
        inside = penstock("run", "--", sys.executable, "-c", ask)
        words = inside.stdout.splitlines()
        assert words[:2] == [str(tmp_path / "cluster/cluster/conf/client"), "STARTED"], inside.stderr
        namespace = Path(LocalYarn(tmp_path / "cluster").namespace).stat().st_ino
        # The other tests' cluster may be there, at the same address of another network.
        outside = subprocess.run([sys.executable, "-c", ask], check=False, capture_output=True, text=True)
        assert words[2] not in outside.stdout
        assert penstock("status").returncode == 0
    finally:
        stopped = penstock("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert not (tmp_path / "cluster").exists()
    assert not processes_inside(namespace)
    assert penstock("status").returncode == 1
