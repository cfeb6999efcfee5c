# SPDX-License-Identifier: Apache-2.0
"""What the keeper of a cluster makes, bounds and removes, on a made-up tree of control groups."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.adaptors.kubernetes_server import keeper
from penstock.adaptors.kubernetes_server.keeper import count_for_more, own_groups, remove_groups

V1 = "9:name=systemd:/\n4:memory:/jobs/one\n2:cpu,cpuacct:/\n0::/\n"


def test_groups_lie_below_the_keepers_own(tmp_path: Path) -> None:
    """With version 1 each controller has one, where the keeper itself is; an empty hierarchy of version 2 has none."""
    assert own_groups("node", V1, tmp_path) == {
        "systemd": tmp_path / "systemd" / "node",
        "memory": tmp_path / "memory" / "jobs" / "one" / "node",
        "cpu,cpuacct": tmp_path / "cpu,cpuacct" / "node",
    }


def test_version_2_has_one_group(tmp_path: Path) -> None:
    """The unified hierarchy is at the root."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory")
    assert own_groups("node", "0::/user.slice\n", tmp_path) == {"": tmp_path / "user.slice" / "node"}


def test_groups_are_removed_from_the_innermost(tmp_path: Path) -> None:
    """A group with groups below it goes after them; what is not there is no fault."""
    (tmp_path / "node" / "pods" / "pod1").mkdir(parents=True)
    assert remove_groups([tmp_path / "node", tmp_path / "absent"]) == []
    assert list(tmp_path.iterdir()) == []


def test_a_group_that_stays_is_named(tmp_path: Path) -> None:
    """What cannot be removed in time is returned, not raised."""
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "file").write_text("a folder with a file cannot be removed")
    assert remove_groups([tmp_path / "node"], within_seconds=0.0) == [tmp_path / "node"]


def test_a_node_counts_for_more_than_one_process(tmp_path: Path) -> None:
    """Beside other work, a group counts as one process by default: all pods together would get next to nothing."""
    (tmp_path / "cpu.shares").write_text("1024")
    count_for_more([tmp_path], cores=2)
    assert (tmp_path / "cpu.shares").read_text() == "8192"
    (tmp_path / "cpu.shares").unlink()
    (tmp_path / "cpu.weight").write_text("100")
    count_for_more([tmp_path], cores=2)
    assert (tmp_path / "cpu.weight").read_text() == "800"
    count_for_more([tmp_path], cores=64)
    assert (tmp_path / "cpu.weight").read_text() == "10000"
    assert not (tmp_path / "cpu.shares").exists()


ROTATE = """
import runpy, sys
from pathlib import Path
runpy.run_path(sys.argv[1])["log_rotation"]()([Path(sys.argv[2])])
"""


def test_logs_of_servers_have_a_bound(tmp_path: Path) -> None:
    """The keeper runs without the package on its path, and rotates as the package does."""
    log = tmp_path / "kubelet.log"
    with log.open("wb") as file:
        file.truncate(21 << 20)
    subprocess.run([sys.executable, "-I", "-S", "-c", ROTATE, keeper.__file__, str(tmp_path)], check=True)
    assert log.stat().st_size == 0
    assert (tmp_path / "kubelet.log.1").stat().st_size == 21 << 20
