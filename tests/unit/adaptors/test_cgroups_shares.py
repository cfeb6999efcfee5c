# SPDX-License-Identifier: Apache-2.0
"""CPU shares as the Spark adaptor uses them: the rule of the quota, and the life of group, guard and threads."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.adaptors.cgroups.group import CpuGroup
from penstock.adaptors.cgroups.hierarchy import find_hierarchy
from penstock.adaptors.cgroups.lease import Lease
from penstock.adaptors.cgroups.shares import CpuShares, quota_cores
from penstock.errors import ActuationError, ConfigurationError, MetricSourceError
from penstock.records import Allocation, ExecutorState
from penstock.testing.fake_kernel import FakeKernel

TOP = Allocation(4, 1.0)
EXECUTOR = "java org.apache.spark.executor.CoarseGrainedExecutorBackend --executor-id 0 --app-id app-1"


@pytest.fixture(params=["v1", "v2"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> FakeKernel:
    """A fake kernel."""
    return FakeKernel(tmp_path, request.param)


@pytest.fixture
def shares(kernel: FakeKernel) -> Iterator[CpuShares]:
    """CPU shares that are not started; their threads hold still during a test."""
    hierarchy = find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)
    made = CpuShares("a", "app-1", TOP, 2, hierarchy, look_every_seconds=60.0, lease_seconds=60.0)
    yield made
    made.release()


allocations = st.builds(Allocation, st.integers(1, 8), st.sampled_from([0.05, 0.2, 0.4, 0.55, 0.7, 0.85, 0.95, 1.0]))


@given(allocations, allocations, st.sampled_from([1, 2, 4]))
def test_quota_rises_with_capacity(one: Allocation, other: Allocation, cores: int) -> None:
    """Of two allocations the one with more capacity never has the smaller quota."""
    top = Allocation(8, 1.0)
    small, large = sorted([one, other], key=lambda allocation: allocation.capacity)
    low, high = (quota_cores(allocation, top, cores) for allocation in (small, large))
    infinite = float("inf")
    assert (infinite if low is None else low) <= (infinite if high is None else high)


def test_only_the_top_with_the_whole_share_is_uncapped() -> None:
    """Fewer executors with the whole share are capped at their cores; a top share below one is a cap too."""
    assert quota_cores(Allocation(4, 1.0), TOP, 2) is None
    assert quota_cores(Allocation(3, 1.0), TOP, 2) == 6.0
    assert quota_cores(Allocation(4, 0.5), TOP, 2) == 4.0
    assert quota_cores(Allocation(4, 0.5), Allocation(4, 0.5), 2) == 4.0


def test_apply_open_and_release(kernel: FakeKernel, shares: CpuShares) -> None:
    """Applied, the executors are held and capped; opened, held only; released, everything is as it was."""
    kernel.spawn(100, command=EXECUTOR)
    shares.apply(Allocation(1, 0.4))
    reading = shares.read()
    assert (reading.quota_cores, reading.processes) == (0.8, 1)
    assert list(shares.joined) == ["0"]
    assert shares.faults == ()
    shares.open()
    assert shares.read().quota_cores is None
    shares.apply(TOP)
    assert shares.read().quota_cores is None
    guard_pid = shares.guard_pid
    assert guard_pid is not None
    shares.release()
    shares.release()
    assert kernel.where(100) == "/"
    assert sorted(kernel.root.rglob("penstock*")) == []
    assert not Path(f"/proc/{guard_pid}").exists()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock-cgroup")]


def test_executors_of_other_hosts_are_told(kernel: FakeKernel, shares: CpuShares) -> None:
    """An executor that the driver has had for a while and that is no process of this host has no share: it is named."""
    kernel.spawn(100, command=EXECUTOR)
    shares.start()

    def executor(name: str, host: str, added_at: float | None, *, is_active: bool = True) -> ExecutorState:
        return ExecutorState(name, host, 2, is_active, 0, 0.0, added_at)

    here, young = executor("0", "here", 10.0), executor("1", "far", 95.0)
    ended = executor("2", "far", 10.0, is_active=False)
    assert shares.unheld([here, young, ended], 100.0) is None
    assert shares.unheld([here, executor("1", "far", 3700.0)], 100.0) is not None, "the clock was set back since"
    told = shares.unheld([here, young, executor("3", "far", 10.0), executor("4", "farther", None)], 100.0)
    assert told is not None
    assert told.startswith("executors 3, 4 (on far, farther) have no CPU share")


def test_executors_that_another_holds_are_told(kernel: FakeKernel, shares: CpuShares) -> None:
    """They are processes of this host, and yet have no share from here: policies have to plan without."""
    kernel.spawn(100, command=EXECUTOR)
    with CpuShares("other", "app-1", TOP, 2, shares._hierarchy, look_every_seconds=60.0, lease_seconds=60.0) as first:
        shares.start()
        assert list(first.joined) == ["0"]
        assert not shares.joined
        assert shares.held_elsewhere == {"0"}
        executors = [ExecutorState(name, "here", 2, True, 0, 0.0, 10.0) for name in ("0", "1")]
        assert shares.unheld(executors, 100.0) == (
            "executors 0 (on here) have no CPU share: another Penstock on the driver's host holds them; "
            "executors 1 (on here) have no CPU share: they are not among the processes of the driver's host"
        )
        (fault,) = shares.faults
        assert str(first.folder) in fault
        just_there = [ExecutorState("0", "here", 2, True, 0, 0.0, 99.0)]
        assert shares.unheld(just_there, 100.0) is not None, "it will not join: the counters lack it from the start"


def test_nothing_is_touched_before_the_start(kernel: FakeKernel, shares: CpuShares) -> None:
    """Made but not started, there is no group, no guard, and no reading."""
    assert sorted(kernel.root.rglob("penstock*")) == []
    assert (shares.folder, shares.guard_pid, shares.joined) == (None, None, {})
    with pytest.raises(MetricSourceError, match="not started"):
        shares.read()
    shares.open()
    assert shares.folder is None


def test_released_shares_cannot_be_applied(shares: CpuShares) -> None:
    """After the release a late decision does not make a new group."""
    with shares:
        assert shares.folder is not None
    with pytest.raises(ActuationError, match="were released"):
        shares.apply(TOP)
    with pytest.raises(MetricSourceError):
        shares.read()


def test_guard_that_cannot_start_leaves_nothing(
    kernel: FakeKernel, shares: CpuShares, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a guard nothing is capped, and the group that was made is removed again."""
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(ActuationError, match="guard process cannot be started"):
        shares.apply(Allocation(1, 0.4))
    assert sorted(kernel.root.rglob("penstock*")) == []


def test_guard_that_does_not_come_up_leaves_nothing(
    kernel: FakeKernel, shares: CpuShares, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guard that ends before it is ready counts as none."""
    monkeypatch.setattr("sys.executable", shutil.which("false"))
    with pytest.raises(ActuationError, match="did not start"):
        shares.apply(Allocation(1, 0.4))
    assert sorted(kernel.root.rglob("penstock*")) == []


def test_cores_per_executor_must_be_positive(kernel: FakeKernel) -> None:
    """An executor without cores is a mistake that is named."""
    hierarchy = find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)
    with pytest.raises(ConfigurationError, match="cores_per_executor"):
        CpuShares("a", "app-1", TOP, 0, hierarchy)


@pytest.fixture
def lease(kernel: FakeKernel) -> Iterator[Lease]:
    """A lease whose thread holds still during a test."""
    hierarchy = find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)
    group = CpuGroup.create(hierarchy, "run", "a")
    made = Lease(group, lease_seconds=60.0)
    made.start()
    yield made
    group.release()
    made.stop()


def quota_of(lease: Lease) -> float | None:
    """The quota that the kernel holds."""
    return lease._group.quota()


def test_beat_sets_an_opened_quota_again(lease: Lease) -> None:
    """A holder that comes back after the guard has opened the quota sets it again at its next beat."""
    lease.set_quota(0.5)
    lease._group.folders.open()
    lease.beat()
    assert quota_of(lease) == 0.5
    assert lease.reapplied == 1
    lease.beat()
    assert lease.reapplied == 1


def test_lost_guard_is_replaced(lease: Lease, kernel: FakeKernel) -> None:
    """A guard that was killed is started anew at the next beat, and the quota stays."""
    kernel.spawn(100)
    lease._group.add(100)
    lease.set_quota(0.5)
    first = lease.guard_pid
    assert first is not None
    assert lease._guard is not None
    os.kill(first, 9)
    lease._guard.wait(timeout=30)
    lease.beat()
    assert lease.guard_pid not in (None, first)
    assert lease.fault is None
    assert quota_of(lease) == 0.5


def test_guard_that_cannot_be_replaced_opens_the_quota(lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a guard the cap is lifted and nothing can be capped, until one can be started again."""
    lease.set_quota(0.5)
    assert lease._guard is not None
    lease._guard.kill()
    lease._guard.wait(timeout=30)
    with monkeypatch.context() as patch:
        patch.setattr("sys.executable", "/nowhere/python")
        lease.beat()
        assert quota_of(lease) is None
        assert lease.fault is not None
        with pytest.raises(ActuationError, match="nothing is capped meanwhile"):
            lease.set_quota(0.25)
        lease.set_quota(None)
    lease.set_quota(0.25)
    assert lease.fault is None
    assert quota_of(lease) == 0.25
