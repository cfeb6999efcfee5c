# SPDX-License-Identifier: Apache-2.0
"""What the keeper of a cluster makes and removes, on a made-up tree of control groups."""

from __future__ import annotations

from pathlib import Path

from penstock.adaptors.kubernetes_server.keeper import own_groups, remove_groups

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
