# SPDX-License-Identifier: Apache-2.0
"""Where CPU quotas can be set, told from trees as kernels show them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.adaptors.cgroups.hierarchy import CgroupsUnavailableError, Hierarchy, find_hierarchy
from penstock.adaptors.cgroups.mounts import Mount
from penstock.testing.fake_kernel import FakeKernel


def find(kernel: FakeKernel) -> Hierarchy:
    """The hierarchy of the fake kernel."""
    return find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)


def put_self_in(kernel: FakeKernel, *folders: str) -> None:
    """Make cgroups and put this process into the last."""
    for folder in folders:
        kernel.make(str(kernel.root / folder))
    kernel.write(str(kernel.root / folders[-1] / "cgroup.procs"), str(os.getpid()))


def test_v1_with_counting_apart_has_two_mounts(tmp_path: Path) -> None:
    """Where cpu and cpuacct are mounted apart, a group lives in both, the one with the quota first."""
    kernel = FakeKernel(tmp_path, "v1")
    hierarchy = find(kernel)
    assert hierarchy.version == 1
    assert [mount.point for mount in hierarchy.mounts] == [str(kernel.root / "cpu"), str(kernel.root / "cpuacct")]
    assert hierarchy.group("x").folders == [f"{kernel.root}/{name}/penstock/x" for name in ("cpu", "cpuacct")]


def test_v1_mounted_together_has_one_mount(tmp_path: Path) -> None:
    """The mount "cpu,cpuacct", with links for each controller as distributions make them, is one hierarchy."""
    kernel = FakeKernel(tmp_path, "v1-together")
    (kernel.root / "cpu").symlink_to("cpu,cpuacct")
    (kernel.root / "cpuacct").symlink_to("cpu,cpuacct")
    assert find(kernel).bases == (str(kernel.root / "cpu,cpuacct"),)


def test_v1_group_goes_into_the_own_cgroup(tmp_path: Path) -> None:
    """In v1 the group is made in the caller's own cgroup, so that caps put on that one still hold."""
    kernel = FakeKernel(tmp_path, "v1")
    put_self_in(kernel, "cpu/session")
    assert find(kernel).bases == (str(kernel.root / "cpu/session"), str(kernel.root / "cpuacct"))


def test_hybrid_machine_uses_v1(tmp_path: Path) -> None:
    """A v2 hierarchy beside v1 that lacks the cpu controller is passed over."""
    kernel = FakeKernel(tmp_path, "v1")
    (kernel.root / "unified").mkdir()
    (kernel.root / "unified" / "cgroup.controllers").write_text("\n")
    assert find(kernel).version == 1


def test_v2_without_the_cpu_controller_says_so(tmp_path: Path) -> None:
    """A v2 hierarchy without the cpu controller is named as what is missing."""
    kernel = FakeKernel(tmp_path, "v2")
    (kernel.root / "cgroup.controllers").write_text("memory pids\n")
    with pytest.raises(CgroupsUnavailableError, match="cpu controller is not enabled"):
        find(kernel)


@pytest.mark.parametrize("layout", ["v1", "v1-together", "v2"])
def test_no_rights_is_one_line_with_the_command(tmp_path: Path, layout: str) -> None:
    """Without rights the reason is one line that names the folder and the command that mends it."""
    kernel = FakeKernel(tmp_path, layout)
    point = str(kernel.root / kernel.mounts[0])
    kernel.forbidden.add(point)
    with pytest.raises(CgroupsUnavailableError, match=r"no permission to create groups in .*sudo -E") as caught:
        find(kernel)
    assert point in caught.value.reason
    assert "\n" not in caught.value.reason


def test_rights_lost_between_looking_and_making_are_told(tmp_path: Path) -> None:
    """A folder that cannot be created after all gives the same kind of error as missing rights."""
    kernel = FakeKernel(tmp_path, "v1")
    hierarchy = find(kernel)
    kernel.forbidden.add(hierarchy.bases[0])
    with pytest.raises(CgroupsUnavailableError, match="cannot be created"):
        hierarchy.make(hierarchy.group("x"))


def test_nothing_mounted_gives_the_mount_command(tmp_path: Path) -> None:
    """A machine without any cpu hierarchy gets the command that mounts one."""
    with pytest.raises(CgroupsUnavailableError, match="sudo mount -t cgroup -o cpu,cpuacct"):
        find_hierarchy(str(tmp_path / "absent"))


def test_counting_that_is_not_mounted_gives_the_mount_command(tmp_path: Path) -> None:
    """A v1 machine with cpu but without cpuacct gets the command that mounts it."""
    kernel = FakeKernel(tmp_path, "v1")
    (kernel.root / "cpuacct").rename(tmp_path / "away")
    with pytest.raises(CgroupsUnavailableError, match="mount -t cgroup -o cpuacct"):
        find(kernel)


def test_kernel_without_quotas_is_told(tmp_path: Path) -> None:
    """A v1 cpu hierarchy without quota files names the kernel option that is missing."""
    kernel = FakeKernel(tmp_path, "v1")
    (kernel.root / "cpu" / "cpu.cfs_quota_us").unlink()
    with pytest.raises(CgroupsUnavailableError, match="CONFIG_CFS_BANDWIDTH"):
        find(kernel)


def test_container_sees_its_part_of_the_tree(tmp_path: Path) -> None:
    """A path in /proc is told relative to the cgroup that stands at the mount point; one outside is unknown."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text("4:cpu,cpuacct:/docker/abc/job\n0::/\n")
    (tmp_path / "8").mkdir()
    (tmp_path / "8" / "cgroup").write_text("4:cpu,cpuacct:/other\n")
    mount = Mount(frozenset({"cpu", "cpuacct"}), "/mnt/cpu", "/docker/abc")
    assert mount.folder_of(str(tmp_path), 7) == "/mnt/cpu/job"
    assert mount.folder_of(str(tmp_path), 8) is None
    assert mount.folder_of(str(tmp_path), 9) is None
