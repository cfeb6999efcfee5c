# SPDX-License-Identifier: Apache-2.0
"""One CPU group on a fake kernel of each layout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.adaptors.cgroups.group import CpuGroup
from penstock.adaptors.cgroups.hierarchy import find_hierarchy
from penstock.clock import VirtualClock
from penstock.errors import ActuationError, ConfigurationError, MetricSourceError
from penstock.testing.fake_kernel import LAYOUTS, FakeKernel


@pytest.fixture(params=list(LAYOUTS))
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> FakeKernel:
    """A fake kernel."""
    return FakeKernel(tmp_path, request.param)


def make_group(kernel: FakeKernel) -> CpuGroup:
    """A group on the fake kernel, made at virtual time 5."""
    hierarchy = find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)
    return CpuGroup.create(hierarchy, "a run", "log/analysis", clock=VirtualClock(5.0))


def folders_left(kernel: FakeKernel) -> list[Path]:
    """What is left of our folders."""
    return sorted(kernel.root.rglob("penstock*"))


def set_counters(kernel: FakeKernel, group: CpuGroup, used_seconds: float, throttled_seconds: float) -> None:
    """Let the kernel's counters stand at these values."""
    cpu, last = Path(group.folders.folders[0]), Path(group.folders.folders[-1])
    if kernel.version == 1:
        (last / "cpuacct.usage").write_text(f"{round(used_seconds * 1e9)}\n")
        (cpu / "cpu.stat").write_text(
            f"nr_periods 9\nnr_throttled 3\nthrottled_time {round(throttled_seconds * 1e9)}\n"
        )
    else:
        (cpu / "cpu.stat").write_text(
            f"usage_usec {round(used_seconds * 1e6)}\nthrottled_usec {round(throttled_seconds * 1e6)}\n"
        )


def test_name_carries_run_operator_and_owner(kernel: FakeKernel) -> None:
    """A group's name says run, operator, and the pid and start time of its owner, in safe characters."""
    name = Path(make_group(kernel).folder).name
    assert name.startswith(f"a_run-log_analysis-{os.getpid()}-1000-")


def test_quota_is_written_as_the_kernel_wants_it(kernel: FakeKernel) -> None:
    """Half a core is 50 of 100 ms in either interface, and None is no cap."""
    group = make_group(kernel)
    group.set_quota(0.5)
    file = "cpu.cfs_quota_us" if kernel.version == 1 else "cpu.max"
    assert Path(group.folder, file).read_text() == ("50000\n" if kernel.version == 1 else "50000 100000\n")
    assert group.quota() == 0.5
    group.set_quota(None)
    assert Path(group.folder, file).read_text() == ("-1\n" if kernel.version == 1 else "max 100000\n")
    assert group.quota() is None


def test_group_counts_as_a_process_on_every_core(kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default a group counts as one process, however many executors it holds; so does the folder around all groups.

    v2 has no weight above 10,000.
    """
    for cores, shares, weight in ((2, "2048", "200"), (256, "262144", "10000")):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        folder = Path(make_group(kernel).folder)
        name, expected = ("cpu.shares", shares) if kernel.version == 1 else ("cpu.weight", weight)
        assert [(of / name).read_text() for of in (folder, folder.parent)] == [f"{expected}\n"] * 2


def test_refused_weight_leaves_nothing_behind(kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that refuses is reported, and no folder stays."""
    write = FakeKernel.write

    def refuse(self: FakeKernel, path: str, text: str) -> None:
        if path.endswith(("cpu.shares", "cpu.weight")):
            raise PermissionError(1, "not allowed", path)
        write(self, path, text)

    monkeypatch.setattr(FakeKernel, "write", refuse)
    with pytest.raises(ActuationError, match=r"the weight of .* cannot be set \(not allowed\)"):
        make_group(kernel)
    assert folders_left(kernel) == []


def test_quota_below_the_kernels_minimum_is_raised_to_it(kernel: FakeKernel) -> None:
    """Less than a millisecond per period would be refused, so a millisecond is set."""
    group = make_group(kernel)
    group.set_quota(0.001)
    assert group.quota() == 0.01


@pytest.mark.parametrize("cores", [0.0, -1.0, float("nan"), float("inf")])
def test_quota_that_is_no_number_of_cores_is_refused(tmp_path: Path, cores: float) -> None:
    """Zero, negative and unbounded quotas are the caller's mistakes."""
    with pytest.raises(ConfigurationError, match="cores"):
        make_group(FakeKernel(tmp_path, "v2")).set_quota(cores)


def test_quota_above_the_parents_is_left_to_the_parent(tmp_path: Path) -> None:
    """v1 refuses a child's quota above its parent's; the parent caps it anyway, and the reading says so."""
    kernel = FakeKernel(tmp_path, "v1")
    group = make_group(kernel)
    kernel.write(str(kernel.root / "cpu" / "cpu.cfs_quota_us"), "150000")
    group.set_quota(4.0)
    assert group.quota() is None
    assert group.read().quota_cores is None
    assert group.read().parents_quota_cores == 1.5
    group.set_quota(1.0)
    assert group.read().quota_cores == 1.0


def test_refused_quota_is_an_actuation_error(kernel: FakeKernel) -> None:
    """When the kernel refuses, the error names the quota and the folder."""
    group = make_group(kernel)
    kernel.forbidden.add(f"{group.folder}/{'cpu.cfs_quota_us' if kernel.version == 1 else 'cpu.max'}")
    with pytest.raises(ActuationError, match=r"quota of 0\.5 cores could not be set on .*Permission denied"):
        group.set_quota(0.5)


def test_add_brings_existing_children_and_release_puts_all_back(kernel: FakeKernel) -> None:
    """A process comes with the children it has; at release each goes back to the cgroup it came from."""
    for mount in kernel.mounts:
        kernel.make(str(kernel.root / mount / "worker"))
    kernel.spawn(100)
    for mount in kernel.mounts:
        kernel.write(str(kernel.root / mount / "worker" / "cgroup.procs"), "100")
    kernel.spawn(101, parent=100)
    kernel.spawn(200)
    group = make_group(kernel)
    assert group.add(100)
    assert group.add(200)
    assert group.pids() == [100, 101, 200]
    for mount in kernel.mounts:
        held = [pid for part in group.parts for pid in part.pids_in(part.folders[kernel.mounts.index(mount)])]
        assert sorted(held) == [100, 101, 200]
    group.release()
    assert [kernel.where(pid) for pid in (100, 101, 200)] == ["/worker", "/worker", "/"]
    assert folders_left(kernel) == []


def test_child_forked_in_the_group_goes_where_its_parent_came_from(kernel: FakeKernel) -> None:
    """A process that joined by fork has no origin of its own: its nearest known ancestor's is taken."""
    for mount in kernel.mounts:
        kernel.make(str(kernel.root / mount / "worker"))
    kernel.spawn(100)
    for mount in kernel.mounts:
        kernel.write(str(kernel.root / mount / "worker" / "cgroup.procs"), "100")
    group = make_group(kernel)
    group.add(100)
    kernel.spawn(101, parent=100)
    kernel.spawn(102, parent=101)
    assert group.pids() == [100, 101, 102]
    group.release()
    assert kernel.where(102) == "/worker"


@pytest.mark.parametrize("layout", ["v1", "v1-together"])
def test_process_whose_origin_is_gone_goes_to_the_own_cgroup(tmp_path: Path, layout: str) -> None:
    """When the cgroup a process came from was removed, it goes to the holder's own rather than staying.

    In v2 the group is inside that cgroup, which cannot be removed before.
    """
    kernel = FakeKernel(tmp_path, layout)
    for mount in kernel.mounts:
        kernel.make(str(kernel.root / mount / "worker"))
    kernel.spawn(100)
    for mount in kernel.mounts:
        kernel.write(str(kernel.root / mount / "worker" / "cgroup.procs"), "100")
    group = make_group(kernel)
    group.add(100)
    for mount in kernel.mounts:
        kernel.remove(str(kernel.root / mount / "worker"))
    group.release()
    assert kernel.where(100) == "/"
    assert folders_left(kernel) == []


def test_dead_processes_are_skipped(kernel: FakeKernel) -> None:
    """A pid that is gone is not added, and one that died in the group does not hinder the release."""
    group = make_group(kernel)
    assert not group.add(4242)
    kernel.spawn(100)
    group.add(100)
    kernel.end(100)
    group.forget_dead()
    assert group.folders.origins == {}
    group.release()
    assert folders_left(kernel) == []


def test_release_twice_is_release_once(kernel: FakeKernel) -> None:
    """A second release changes nothing, also when another group of that name was made meanwhile."""
    group = make_group(kernel)
    group.release()
    other = make_group(kernel)
    group.release()
    assert Path(other.folder).exists()
    assert not group.add(os.getpid())


def test_release_that_cannot_move_a_process_still_opens_the_quota(
    kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cap is lifted first; what cannot be moved is named, and the release can be tried again."""
    monkeypatch.setattr("penstock.adaptors.cgroups.group._RELEASE_SECONDS", 0.0)
    kernel.spawn(100)
    group = make_group(kernel)
    group.add(100)
    group.set_quota(0.2)
    closed = {str(kernel.root / mount / "cgroup.procs") for mount in kernel.mounts}
    kernel.forbidden |= closed
    with pytest.raises(ActuationError, match=r"processes \[100\] cannot be moved"):
        group.release()
    assert group.quota() is None
    kernel.forbidden -= closed
    group.release()
    assert folders_left(kernel) == []


def test_two_groups_share_the_folder_around_them(kernel: FakeKernel) -> None:
    """The folder around the groups goes with the last of them."""
    hierarchy = find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)
    first, second = (CpuGroup.create(hierarchy, "run", operator) for operator in ("a", "b"))
    first.release()
    assert Path(second.folder).exists()
    second.release()
    assert folders_left(kernel) == []


def test_origin_is_told_before_the_move(kernel: FakeKernel) -> None:
    """Whoever guards the group knows where a process came from before it is moved."""
    kernel.spawn(100)
    group = make_group(kernel)
    told: list[tuple[int, str, list[str]]] = []
    group.on_origin = lambda pid, origin: told.append((pid, kernel.where(pid), origin))
    group.add(100)
    assert told == [(100, "/", [str(kernel.root / mount) for mount in kernel.mounts])]


def test_move_that_is_refused_is_an_actuation_error(kernel: FakeKernel) -> None:
    """A process that may not be moved gives an error that says what to do."""
    kernel.spawn(100)
    group = make_group(kernel)
    kernel.forbidden.add(f"{group.folder}/cgroup.procs")
    with pytest.raises(ActuationError, match=r"process 100 could not be moved .* as root"):
        group.add(100)


def test_reading_has_seconds_of_both_interfaces(kernel: FakeKernel) -> None:
    """Nanoseconds (v1) and microseconds (v2) both become seconds; the cap and the size are in the reading."""
    kernel.spawn(100)
    group = make_group(kernel)
    group.add(100)
    group.set_quota(0.4)
    set_counters(kernel, group, 12.5, 3.25)
    reading = group.read()
    assert (reading.used_seconds, reading.throttled_seconds) == (12.5, 3.25)
    assert (reading.quota_cores, reading.processes, reading.at) == (0.4, 1, 5.0)


def test_counters_never_fall(kernel: FakeKernel) -> None:
    """When the kernel's counter is reset, the total goes on from where it was."""
    group = make_group(kernel)
    totals = []
    for used in (2.0, 5.0, 1.0, 1.5):
        set_counters(kernel, group, used, 0.0)
        totals.append(group.read().used_seconds)
    assert totals == [2.0, 5.0, 6.0, 6.5]


def test_counters_that_cannot_be_read_are_not_zero(kernel: FakeKernel) -> None:
    """A broken or missing counter file is an error, never a zero."""
    group = make_group(kernel)
    Path(group.folder, "cpu.stat").write_text("nothing 1\n")
    with pytest.raises(MetricSourceError, match="cannot be read"):
        group.read()
    group.release()
    with pytest.raises(MetricSourceError, match="cannot be read"):
        group.read()


def test_period_outside_the_kernels_range_is_refused(tmp_path: Path) -> None:
    """The kernel takes periods from a millisecond to a second."""
    kernel = FakeKernel(tmp_path, "v2")
    hierarchy = find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)
    with pytest.raises(ConfigurationError, match="period_seconds"):
        CpuGroup.create(hierarchy, "run", "a", period_seconds=2.0)
    assert folders_left(kernel) == []
