# SPDX-License-Identifier: Apache-2.0
"""Where in a tree of cgroup v2 groups are made, on a fake kernel that refuses as the real one does."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest

from penstock.adaptors.cgroups.counters import quota_above
from penstock.adaptors.cgroups.group import CpuGroup
from penstock.adaptors.cgroups.guard import Watch
from penstock.adaptors.cgroups.hierarchy import CgroupsUnavailableError, Hierarchy, find_hierarchy
from penstock.adaptors.cgroups.sweep import sweep_stale
from penstock.testing.fake_kernel import FakeKernel


@pytest.fixture
def kernel(tmp_path: Path) -> FakeKernel:
    """A fake kernel with v2 whose root hands cpu down, with this process in a session."""
    made = FakeKernel(tmp_path, "v2")
    made.write(str(made.root / "cgroup.subtree_control"), "+cpu")
    cgroup(made, "session", os.getpid())
    return made


def cgroup(kernel: FakeKernel, path: str, *pids: int) -> Path:
    """Make a cgroup that holds these processes, which may be new."""
    folder = kernel.root / path
    kernel.make(str(folder))
    for pid in pids:
        if not (kernel.proc / str(pid)).exists():
            kernel.spawn(pid)
        kernel.write(str(folder / "cgroup.procs"), str(pid))
    return folder


def find(kernel: FakeKernel) -> Hierarchy:
    """The hierarchy of the fake kernel."""
    return find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)


def make_group(kernel: FakeKernel) -> CpuGroup:
    """A group of this process."""
    return CpuGroup.create(find(kernel), "run", "a")


def is_ordinary(kernel: FakeKernel, folder: Path) -> bool:
    """Whether a cgroup is as one that nobody has touched."""
    return (
        kernel.read(str(folder / "cgroup.type")) == "domain\n"
        and not (folder / "cgroup.subtree_control").read_text().split()
        and not list(folder.glob("penstock"))
    )


def test_group_is_made_inside_the_own_cgroup(kernel: FakeKernel) -> None:
    """The group is a threaded one in the caller's own cgroup, which is an ordinary one again at the end."""
    group = make_group(kernel)
    assert group.folder.startswith(str(kernel.root / "session" / "penstock"))
    assert kernel.read(f"{group.folder}/cgroup.type") == "threaded\n"
    assert kernel.read(f"{kernel.root}/session/cgroup.type") == "domain threaded\n"
    group.release()
    assert is_ordinary(kernel, kernel.root / "session")


def test_process_of_another_cgroup_is_held_inside_that_one(kernel: FakeKernel) -> None:
    """An executor stays in its service's cgroup, and so under its limits; back there, the cgroup is as it was."""
    worker = cgroup(kernel, "worker", 100, 101)
    group = make_group(kernel)
    group.set_quota(0.5)
    assert group.add(100)
    assert kernel.where(100) == f"/worker/penstock/{Path(group.folder).name}"
    assert kernel.where(101) == "/worker"
    assert group.pids() == [100]
    assert group.quota() == 0.5
    group.release()
    assert [kernel.where(pid) for pid in (100, 101)] == ["/worker", "/worker"]
    assert is_ordinary(kernel, worker)


def test_cpu_is_handed_down_as_far_as_the_cgroup(kernel: FakeKernel) -> None:
    """Where nobody hands cpu down between the root and the executor's cgroup, the cgroups between are made to."""
    cgroup(kernel, "system")
    cgroup(kernel, "system/worker", 100)
    group = make_group(kernel)
    group.add(100)
    assert (kernel.root / "system" / "cgroup.subtree_control").read_text().split() == ["cpu"]
    assert kernel.where(100).startswith("/system/worker/penstock/")


def test_quota_is_divided_by_the_number_of_executors(kernel: FakeKernel) -> None:
    """With executors in several cgroups each has a part of the quota; when one empties, the others have all of it."""
    cgroup(kernel, "one", 100, 101)
    other = cgroup(kernel, "other", 200)
    group = make_group(kernel)
    group.set_quota(0.9)
    for pid in (100, 101, 200):
        group.add(pid)
    name = Path(group.folder).name
    assert kernel.read(f"{kernel.root}/one/penstock/{name}/cpu.max") == "60000 100000\n"
    assert kernel.read(f"{kernel.root}/other/penstock/{name}/cpu.max") == "30000 100000\n"
    assert group.quota() == pytest.approx(0.9)
    assert group.has_quota(0.9)
    kernel.end(200)
    group.drop_empty_parts()
    assert is_ordinary(kernel, other)
    assert kernel.read(f"{kernel.root}/one/penstock/{name}/cpu.max") == "90000 100000\n"
    group.release()
    assert sorted(kernel.root.rglob("penstock*")) == []


def test_counters_go_on_when_a_part_is_gone(kernel: FakeKernel) -> None:
    """CPU time used in the cgroup of an executor that has ended stays in the total."""
    cgroup(kernel, "worker", 100)
    group = make_group(kernel)
    group.add(100)
    stat = "usage_usec {0}\nthrottled_usec {0}\n"
    Path(group.parts[1].folders[0], "cpu.stat").write_text(stat.format(2_000_000))
    Path(group.folder, "cpu.stat").write_text(stat.format(1_000_000))
    assert (group.read().used_seconds, group.read().throttled_seconds) == (3.0, 3.0)
    kernel.end(100)
    group.drop_empty_parts()
    assert len(group.parts) == 1
    assert (group.read().used_seconds, group.read().throttled_seconds) == (3.0, 3.0)


def test_part_that_went_with_its_cgroup_hinders_nothing(kernel: FakeKernel) -> None:
    """When systemd stops a service it removes all groups in it: the quota of the other executors can still be set."""
    cgroup(kernel, "one", 100)
    cgroup(kernel, "two", 200)
    group = make_group(kernel)
    group.set_quota(1.0)
    for pid in (100, 200):
        group.add(pid)
    kernel.end(200)
    shutil.rmtree(kernel.root / "two")
    assert not group.has_quota(1.0)
    group.set_quota(1.0)
    assert group.has_quota(1.0)
    assert group.read().quota_cores == 1.0
    group.release()
    assert kernel.where(100) == "/one"


def test_cgroup_with_groups_that_hold_processes_is_left(kernel: FakeKernel, caplog: pytest.LogCaptureFixture) -> None:
    """The kernel allows no group inside such a cgroup: the process is held beside it, told, and put back."""
    cgroup(kernel, "service", 100)
    cgroup(kernel, "service/inner", 101)
    group = make_group(kernel)
    with caplog.at_level(logging.WARNING):
        assert group.add(100)
    assert f"processes of {kernel.root}/service leave it, and its limits" in caplog.text
    assert kernel.where(100).startswith("/penstock/")
    group.release()
    assert kernel.where(100) == "/service"
    assert sorted(kernel.root.rglob("penstock*")) == []


def test_groups_do_not_nest(kernel: FakeKernel) -> None:
    """A process that another group of ours holds is taken from there, not held inside it, and goes back to it."""
    cgroup(kernel, "worker", 100)
    node = make_group(kernel)
    node.add(100)
    operator = CpuGroup.create(find(kernel), "run", "b")
    operator.add(100)
    assert kernel.where(100) == f"/worker/penstock/{Path(operator.folder).name}"
    operator.release()
    assert kernel.where(100) == f"/worker/penstock/{Path(node.folder).name}"
    node.release()
    assert is_ordinary(kernel, kernel.root / "worker")


def test_container_whose_root_holds_processes_can_be_used(tmp_path: Path) -> None:
    """A container's root is no true root, and holds its processes: a threaded group is made in it all the same."""
    kernel = FakeKernel(tmp_path, "v2")
    (kernel.root / "cgroup.type").write_text("domain\n")
    group = make_group(kernel)
    assert group.folder.startswith(str(kernel.root / "penstock"))
    group.release()
    assert is_ordinary(kernel, kernel.root)


def test_container_that_has_groups_too_is_told_how_to_move_its_processes(tmp_path: Path) -> None:
    """Where nothing above can be used either, the line says how to empty the container's root."""
    kernel = FakeKernel(tmp_path, "v2")
    (kernel.root / "cgroup.type").write_text("domain\n")
    cgroup(kernel, "inner", 100)
    with pytest.raises(
        CgroupsUnavailableError, match=r"holds processes, and so do groups in it; move them: "
    ) as caught:
        make_group(kernel)
    assert "\n" not in caught.value.reason
    assert sorted(kernel.root.rglob("penstock*")) == []


def test_cpu_that_cannot_be_handed_down_is_told(kernel: FakeKernel) -> None:
    """Where cpu ends above what may be changed, the reason is one line with the command that mends it."""
    cgroup(kernel, "system")
    cgroup(kernel, "system/job", os.getpid())
    kernel.forbidden |= {str(kernel.root), f"{kernel.root}/system", f"{kernel.root}/system/cgroup.subtree_control"}
    with pytest.raises(CgroupsUnavailableError, match=r"does not reach .*system/job.*Delegate=yes"):
        find(kernel)


def test_stale_group_leaves_its_processes_in_their_cgroup(kernel: FakeKernel) -> None:
    """What a dead run left inside a cgroup is removed; the processes stay in that cgroup, not in the sweeper's."""
    worker = cgroup(kernel, "worker", 100)
    group = make_group(kernel)
    group.add(100)
    stat = kernel.proc / str(os.getpid()) / "stat"
    stat.write_text(stat.read_text().replace(" 1000 ", " 2000 "))  # another process has the pid now
    assert len(sweep_stale(find(kernel))) == 2
    assert kernel.where(100) == "/worker"
    assert is_ordinary(kernel, worker)


def test_guard_learns_of_parts(kernel: FakeKernel) -> None:
    """A part that is made after the guard has started is told to it before a process is moved there."""
    cgroup(kernel, "worker", 100)
    group = make_group(kernel)
    watch = Watch(group.parts, os.getpid(), 1000, 60.0)
    told: list[tuple[str, str]] = []
    group.on_part = lambda part: told.append((part.folders[0], kernel.where(100)))
    group.add(100)
    assert told == [(f"{kernel.root}/worker/penstock/{Path(group.folder).name}", "/worker")]
    watch.take(b'{"folders": ["%s"], "fallbacks": [[]]}\n' % told[0][0].encode())
    assert [part.folders for part in watch.parts] == [part.folders for part in group.parts]


def test_caps_around_parts_add_up_and_caps_around_all_count_once(kernel: FakeKernel) -> None:
    """Two cgroups of 1 and 2 cores leave 3, unless what is around both leaves less."""
    cgroup(kernel, "slice")
    kernel.write(f"{kernel.root}/slice/cgroup.subtree_control", "+cpu")
    for name, quota in (("one", "100000"), ("two", "200000")):
        cgroup(kernel, f"slice/{name}")
        kernel.write(f"{kernel.root}/slice/{name}/cpu.max", quota)
    folders = [f"{kernel.root}/slice/{name}/x" for name in ("one", "two")]
    assert quota_above(folders, str(kernel.root), 2, kernel) == 3.0
    assert quota_above(folders[1:], str(kernel.root), 2, kernel) == 2.0
    kernel.write(f"{kernel.root}/slice/cpu.max", "250000")
    assert quota_above(folders, str(kernel.root), 2, kernel) == 2.5
    kernel.write(f"{kernel.root}/slice/one/cpu.max", "max")
    assert quota_above(folders, str(kernel.root), 2, kernel) == 2.5
