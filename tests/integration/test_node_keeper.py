# SPDX-License-Identifier: Apache-2.0
"""Namespaces and control groups of a small node, with `sleep` in place of Kubernetes: made, and gone after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.adaptors.geo.namespaces import command_inside
from penstock.adaptors.kubernetes_server import keeper as keeper_program
from penstock.adaptors.kubernetes_server.keeper import GROUP_PREFIX, HOLD_FOLDER, PLAN_FILE, READY_FILE, own_groups
from penstock.adaptors.kubernetes_server.local_cluster import sweep_groups
from penstock.adaptors.process.identity import ProcessIdentity, is_zombie, place

pytestmark = [
    pytest.mark.namespaces,
    pytest.mark.cgroups,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root; run it as root"),
]


@dataclass
class Kept:
    """A node whose owner is a process of the test's."""

    folder: Path
    owner: subprocess.Popen[bytes]
    keeper: subprocess.Popen[bytes]
    identity: ProcessIdentity

    @property
    def node(self) -> int:
        """The node's first process."""
        return int(json.loads((self.folder / READY_FILE).read_text())["pid"])

    @property
    def cleaner(self) -> int:
        """The process that removes everything at the end: the keeper's child that is not the node."""
        children = Path(f"/proc/{self.keeper.pid}/task/{self.keeper.pid}/children").read_text().split()
        return next(int(pid) for pid in children if int(pid) != self.node)

    def groups(self) -> list[Path]:
        """Its control groups."""
        name = f"{GROUP_PREFIX}{str(self.identity).replace(':', '_')}"
        return [group for group in own_groups(name).values() if group.exists()]

    def members(self) -> list[int]:
        """The processes in its control groups."""
        return [int(pid) for group in self.groups() for pid in (group / "cgroup.procs").read_text().split()]


def until(is_so: Callable[[], object]) -> None:
    """Wait; the bound only ends a failing test."""
    deadline = time.monotonic() + 60.0
    while not is_so():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    """A node with a server that sleeps, and one that is done at once."""
    folder = tmp_path / "node"
    folder.mkdir()
    owner = subprocess.Popen(["sleep", "600"])
    plan = {
        "place": place(),
        "owner": owner.pid,
        "address": "10.88.77.1",
        "service_address": "10.96.0.1",
        "programs": "/usr/bin",
        "hierarchies": list(own_groups("")),
        "sysctls": {"kernel/panic": 10},
        "servers": {
            "sleeper": {"argv": ["sleep", "600"], "once": False},
            "looker": {"argv": ["cat", "/proc/sys/kernel/panic", "/proc/self/cgroup"], "once": True},
        },
    }
    (folder / PLAN_FILE).write_text(json.dumps(plan))
    argv = [sys.executable, "-I", "-S", str(Path(keeper_program.__file__)), str(folder)]
    keeper = subprocess.Popen(argv, start_new_session=True)
    identity = ProcessIdentity.of(keeper.pid)
    assert identity is not None
    until((folder / "log" / "sleeper.log").exists)
    yield Kept(folder, owner, keeper, identity)
    for process in (owner, keeper):
        process.kill()
        process.wait()
    sweep_groups()


def test_the_node_sees_a_machine_of_its_own(kept: Kept) -> None:
    """Its network has no way out, its control group looks like the root, and a setting of the kernel is its own."""
    done = subprocess.run(
        command_inside(f"/proc/{kept.node}/ns/net", ["cat", "/proc/net/route"]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "k8s0" in done.stdout
    assert "\t00000000\t" not in [line.split()[1] for line in done.stdout.splitlines()[1:]]
    until(lambda: ":/\n" in (kept.folder / "log" / "looker.log").read_text())
    looked = (kept.folder / "log" / "looker.log").read_text().splitlines()
    assert looked[0] == "10"
    assert {line.rpartition(":")[2] for line in looked[1:]} == {"/"}


def test_a_server_that_ends_is_started_again_unless_it_is_held(kept: Kept) -> None:
    """A killed server comes back; while its name is in the folder of those that are held, it does not."""

    def sleepers() -> list[int]:
        return [pid for pid in set(kept.members()) if b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    until(sleepers)
    (first,) = sleepers()
    (kept.folder / HOLD_FOLDER / "sleeper").touch()
    os.kill(first, signal.SIGKILL)
    until(lambda: not sleepers())
    (kept.folder / HOLD_FOLDER / "sleeper").unlink()
    until(sleepers)
    assert sleepers() != [first]


@pytest.mark.kill
@pytest.mark.parametrize("victim", ["owner", "keeper", "node"])
def test_nothing_is_left_after_a_kill(kept: Kept, victim: str) -> None:
    """Kill -9 of the owner, of the keeper or of the node's first process ends all, and removes all."""
    mounts, inside = Path("/proc/self/mounts").read_text(), kept.members()
    assert inside
    os.kill({"owner": kept.owner.pid, "keeper": kept.keeper.pid, "node": kept.node}[victim], signal.SIGKILL)
    until(lambda: not kept.folder.exists())
    assert kept.groups() == []
    # One whose parent was killed waits for another to ask how it ended.
    assert not [pid for pid in inside if Path(f"/proc/{pid}").exists() and not is_zombie(pid)]
    assert Path("/proc/self/mounts").read_text() == mounts


@pytest.mark.kill
def test_what_even_the_cleaner_could_not_remove_is_swept(kept: Kept) -> None:
    """Keeper and cleaner killed at once leave groups; the next start finds and removes them."""
    for pid in (kept.cleaner, kept.keeper.pid):
        os.kill(pid, signal.SIGKILL)
    kept.keeper.wait()
    left = kept.groups()
    assert left
    assert set(sweep_groups()) >= set(left)
    assert kept.groups() == []
