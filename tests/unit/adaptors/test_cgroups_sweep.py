# SPDX-License-Identifier: Apache-2.0
"""Groups of dead runs are found and removed; those of live ones stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.adaptors.cgroups.group import CpuGroup
from penstock.adaptors.cgroups.hierarchy import Hierarchy, find_hierarchy
from penstock.adaptors.cgroups.owner import Owner
from penstock.adaptors.cgroups.sweep import sweep_stale
from penstock.testing.fake_kernel import LAYOUTS, FakeKernel


@pytest.fixture(params=list(LAYOUTS))
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> FakeKernel:
    """A fake kernel."""
    return FakeKernel(tmp_path, request.param)


@pytest.fixture
def hierarchy(kernel: FakeKernel) -> Hierarchy:
    """The hierarchy of the fake kernel."""
    return find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)


def leave_group(hierarchy: Hierarchy, owner: Owner) -> CpuGroup:
    """A capped group that an owner made."""
    group = CpuGroup(hierarchy, hierarchy.group(owner.group_name("run", "a")), owner)
    hierarchy.make(group.folders)
    group.set_quota(0.1)
    return group


def test_group_of_a_dead_owner_is_removed_and_its_processes_moved_up(kernel: FakeKernel, hierarchy: Hierarchy) -> None:
    """A dead run's group is opened, its processes go to the cgroup above, its folders go."""
    stale = leave_group(hierarchy, Owner(4242, 1, 0))
    kernel.spawn(100)
    stale.add(100)
    assert sweep_stale(hierarchy) == tuple(stale.folders.folders)
    assert kernel.where(100) == "/"
    assert sorted(kernel.root.rglob("penstock*")) == []


def test_groups_of_live_owners_stay(kernel: FakeKernel, hierarchy: Hierarchy) -> None:
    """A live owner's group, this process's own and one of another pid namespace are not touched."""
    kernel.spawn(60, started=7)
    others = [
        leave_group(hierarchy, Owner(60, 7, 0)),
        leave_group(hierarchy, Owner.this_process(str(kernel.proc))),
        leave_group(hierarchy, Owner(4242, 1, 99)),
    ]
    assert sweep_stale(hierarchy) == ()
    assert [group.quota() for group in others] == [0.1, 0.1, 0.1]


def test_reused_pid_is_no_live_owner(kernel: FakeKernel, hierarchy: Hierarchy) -> None:
    """The pid of a dead owner may belong to another process now: its start time differs."""
    stale = leave_group(hierarchy, Owner(60, 7, 0))
    kernel.spawn(60, started=8)
    assert stale.folder in sweep_stale(hierarchy)


def test_folders_that_are_not_ours_stay(kernel: FakeKernel, hierarchy: Hierarchy) -> None:
    """Other names in the penstock folder, and our kind of name elsewhere, are left alone."""
    point = kernel.root / kernel.mounts[0]
    for name in ("penstock", "penstock/by-hand", "run-a-4242-1-0"):
        kernel.make(str(point / name))
    assert sweep_stale(hierarchy) == ()
    assert (point / "penstock" / "by-hand").exists()
    assert (point / "run-a-4242-1-0").exists()


def test_stale_group_in_another_cgroup_is_found(tmp_path: Path) -> None:
    """A dead run that lived in another session's cgroup is found from this one."""
    kernel = FakeKernel(tmp_path, "v1-together")
    session = str(kernel.root / "cpu,cpuacct" / "session")
    for folder in (session, f"{session}/penstock", f"{session}/penstock/run-a-4242-1-0"):
        kernel.make(folder)
    hierarchy = find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)
    assert sweep_stale(hierarchy) == (f"{session}/penstock/run-a-4242-1-0",)
    assert not Path(session, "penstock").exists()


def test_stale_group_that_cannot_be_emptied_is_told_and_left(
    kernel: FakeKernel, hierarchy: Hierarchy, caplog: pytest.LogCaptureFixture
) -> None:
    """What cannot be removed is opened, named in the log and not counted as removed."""
    stale = leave_group(hierarchy, Owner(4242, 1, 0))
    kernel.spawn(100)
    stale.add(100)
    kernel.forbidden |= {str(kernel.root / mount / "cgroup.procs") for mount in kernel.mounts}
    assert sweep_stale(hierarchy) == ()
    assert "still holds processes [100]" in caplog.text
    assert stale.quota() is None


def test_owner_is_read_back_from_the_name() -> None:
    """What a name carries can be read back, whatever characters run and operator have."""
    owner = Owner(12, 345, 6)
    for run, operator in (("demo", "a"), ("x-1-2", "y/..\n"), ("", "é" * 300)):
        name = owner.group_name(run, operator)
        assert Owner.of_name(name) == owner
        assert "/" not in name
        assert len(name) < 255
    assert Owner.of_name("something-else") is None
    assert Owner.this_process().pid == os.getpid()
