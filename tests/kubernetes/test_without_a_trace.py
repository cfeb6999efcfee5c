# SPDX-License-Identifier: Apache-2.0
"""A cluster leaves nothing behind, whoever of it is killed: no process, mount, network, control group or file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.adaptors.kubernetes_server.keeper import GROUP_PREFIX, READY_FILE
from penstock.adaptors.kubernetes_server.local_cluster import LocalCluster, sweep_groups
from penstock.adaptors.process.identity import ProcessIdentity

pytestmark = pytest.mark.kubernetes

OWNER = Path(__file__).with_name("cluster_owner.py")


def groups_of(keeper: int) -> list[Path]:
    """The control groups of a keeper."""
    return list(Path("/sys/fs/cgroup").glob(f"**/{GROUP_PREFIX}{keeper}_*"))


def processes_inside(namespace: int) -> list[int]:
    """The processes of a network namespace."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "ns" / "net").stat().st_ino == namespace:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.fixture
def owner(cluster: LocalCluster, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], LocalCluster]]:
    """A process with a cluster of its own; the one of the other tests has seen to it that it can be built."""
    folder = tmp_path / "cluster"
    process = subprocess.Popen([sys.executable, str(OWNER), str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process, LocalCluster(folder)
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.kill
@pytest.mark.parametrize("victim", ["owner", "keeper", "node"])
def test_nothing_is_left_after_a_kill(owner: tuple[subprocess.Popen[str], LocalCluster], victim: str) -> None:
    """Kill -9 of the owner, of the keeper or of the node's first process ends all, and removes all."""
    process, cluster = owner
    mounts = Path("/proc/self/mounts").read_text()
    keeper = cluster.status().pid
    assert keeper is not None
    node = json.loads((cluster.folder / READY_FILE).read_text())["pid"]
    namespace = Path(cluster.namespace).stat().st_ino
    assert groups_of(keeper)
    assert len(processes_inside(namespace)) > 5
    os.kill({"owner": process.pid, "keeper": keeper, "node": node}[victim], signal.SIGKILL)
    cluster.wait_until_gone()
    assert groups_of(keeper) == []
    assert processes_inside(namespace) == []
    assert Path("/proc/self/mounts").read_text() == mounts
    assert not cluster.folder.exists()


@pytest.mark.kill
def test_what_even_the_cleaner_could_not_remove_is_swept(
    owner: tuple[subprocess.Popen[str], LocalCluster],
) -> None:
    """Keeper and cleaner killed at once leave groups and folder; the next start removes them."""
    process, cluster = owner
    keeper = cluster.status().pid
    assert keeper is not None
    children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    cleaner = next(
        int(pid) for pid in children if Path(f"/proc/{pid}/ns/pid").stat() == Path("/proc/self/ns/pid").stat()
    )
    identity = ProcessIdentity.of(keeper)
    assert identity is not None
    process.kill()
    for pid in (cleaner, keeper):
        os.kill(pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 60.0
    while not identity.has_ended:  # a kill takes effect a moment later
        assert time.monotonic() < deadline
        time.sleep(0.01)
    left = groups_of(keeper)
    assert left
    assert set(sweep_groups()) >= set(left)
    assert groups_of(keeper) == []
