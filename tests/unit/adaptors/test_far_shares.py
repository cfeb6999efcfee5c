# SPDX-License-Identifier: Apache-2.0
"""What a driver says its executors are to be held to, on whatever hosts they are."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.adaptors import cgroups
from penstock.adaptors.cgroups import CgroupsUnavailableError
from penstock.adaptors.cgroups.counted_shares import CountedShares
from penstock.adaptors.cgroups.hierarchy import find_hierarchy
from penstock.adaptors.cpu_shares import SharedApplication, hold_executors
from penstock.adaptors.far_shares import FarShares
from penstock.adaptors.process.identity import place
from penstock.errors import ActuationError
from penstock.records import Allocation, ExecutorShare, Limits
from penstock.testing.fake_kernel import FakeKernel


@pytest.mark.parametrize(
    ("top", "allocation", "cores"),
    [
        (Allocation(4, 1.0), Allocation(2, 0.5), 1.0),
        (Allocation(4, 1.0), Allocation(3, 1.0), 2.0),
        (Allocation(4, 1.0), Allocation(4, 1.0), None),
        (Allocation(4, 0.5), Allocation(4, 0.5), 1.0),
    ],
)
def test_each_executor_has_its_share_and_only_the_top_has_no_cap(
    top: Allocation, allocation: Allocation, cores: float | None
) -> None:
    """Executors have two cores; a top with less than the whole share is a cap too."""
    shares = FarShares("app", top, 2, None)
    shares.apply(allocation)
    assert shares.share == ExecutorShare("app", cores)
    assert shares.read() is None


@pytest.mark.parametrize(("top", "cores"), [(Allocation(4, 1.0), None), (Allocation(4, 0.5), 1.0)])
def test_while_executors_start_each_has_the_most_that_the_limits_allow(top: Allocation, cores: float | None) -> None:
    """And no more than that; opened, all have everything, and once released nobody is to hold them."""
    shares = FarShares("app", top, 2, None)
    shares.widen(Allocation(2, 0.25))
    assert shares.share == ExecutorShare("app", cores)
    shares.open()
    assert shares.share == ExecutorShare("app", None)
    shares.release()
    shares.release()
    assert shares.share is None
    with pytest.raises(ActuationError, match="released"):
        shares.apply(Allocation(1, 0.5))


def test_executors_of_the_drivers_own_host_are_held_by_it(tmp_path: Any) -> None:
    """Their share is set at once, and the agent of this host learns whose they are."""
    kernel = FakeKernel(tmp_path, "v1")
    name = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    kernel.spawn(100, command=f"java {name} --executor-id 3 --app-id app")
    hierarchy = find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)
    here = CountedShares("a", "app", hierarchy, look_every_seconds=60.0, lease_seconds=60.0)
    shares = FarShares("app", Allocation(4), 2, here)
    shares.apply(Allocation(2, 0.25))
    assert shares.share == ExecutorShare("app", 0.5, place(), ("3",))
    reading = shares.read()
    assert reading is not None
    assert (reading.quota_cores, reading.executors) == (0.5, 1)
    shares.release()
    assert kernel.where(100) == "/"


def test_executors_that_the_driver_may_not_move_are_left_to_the_agent_of_the_host(tmp_path: Path) -> None:
    """As those of another user: all of the host are, for two that hold would take them from each other."""
    kernel = FakeKernel(tmp_path, "v1")
    name = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    kernel.spawn(100, command=f"java {name} --executor-id 3 --app-id app")
    hierarchy = find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)
    here = CountedShares("a", "app", hierarchy, look_every_seconds=60.0, lease_seconds=60.0)
    shares = FarShares("app", Allocation(4), 2, here)
    shares.apply(Allocation(2, 0.25))
    assert shares.share == ExecutorShare("app", 0.5, place(), ("3",))
    assert here.folder is not None
    assert here._watcher is not None
    kernel.spawn(200, command=f"java {name} --executor-id 4 --app-id app")
    kernel.forbidden.add(f"{here.folder}/cgroup.procs")
    here._watcher.look()
    deadline = time.monotonic() + 60.0
    while shares.share != ExecutorShare("app", 0.5):  # only once the driver's own cap is gone
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert (kernel.where(100), list(kernel.root.rglob("penstock/*"))) == ("/", [])
    shares.apply(Allocation(2, 0.5))
    assert shares.share == ExecutorShare("app", 1.0)
    assert (shares.read(), shares.faults) == (None, ())
    shares.release()
    assert shares.share is None


def test_a_host_that_cannot_be_left_now_is_held_on_and_left_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the machine allows no further thread the driver's cap is not stuck: it follows until it is given up."""
    kernel = FakeKernel(tmp_path, "v1")
    name = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    kernel.spawn(100, command=f"java {name} --executor-id 3 --app-id app")
    hierarchy = find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)
    here = CountedShares("a", "app", hierarchy, look_every_seconds=60.0, lease_seconds=60.0)
    shares = FarShares("app", Allocation(4), 2, here)
    shares.apply(Allocation(2, 0.25))
    assert here.folder is not None
    assert here._watcher is not None
    kernel.spawn(200, command=f"java {name} --executor-id 4 --app-id app")
    kernel.forbidden.add(f"{here.folder}/cgroup.procs")
    here._watcher.look()
    with monkeypatch.context() as scarce:

        def refuse(_: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        scarce.setattr(threading.Thread, "start", refuse)
        assert shares.share == ExecutorShare("app", 0.5, place(), ("3",))
        shares.apply(Allocation(2, 0.5))
        reading = shares.read()
        assert reading is not None
        assert reading.quota_cores == 1.0
    deadline = time.monotonic() + 60.0
    while shares.share != ExecutorShare("app", 1.0):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    shares.release()


def test_executors_that_somebody_else_holds_are_left_to_the_agent_of_the_host(tmp_path: Path) -> None:
    """The agent may be in a container of its own, where it cannot know what the driver holds: the driver gives way."""
    kernel = FakeKernel(tmp_path, "v1")
    name = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    kernel.spawn(100, command=f"java {name} --executor-id 3 --app-id app")
    hierarchy = find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)
    agent, here = (
        CountedShares(one, "app", hierarchy, look_every_seconds=60.0, lease_seconds=60.0) for one in ("app", "a")
    )
    with agent:
        shares = FarShares("app", Allocation(4), 2, here)
        shares.apply(Allocation(2, 0.25))
        assert here.held_elsewhere == {"3"}
        deadline = time.monotonic() + 60.0
        while shares.share != ExecutorShare("app", 0.5):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert list(agent.joined) == ["3"]
        shares.release()


def test_a_driver_without_rights_leaves_its_host_to_the_agent_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a master shares are planned with all the same; a note says who has to hold executors here."""

    def refuse() -> Any:
        raise CgroupsUnavailableError("no rights here")

    monkeypatch.setattr(cgroups, "find_hierarchy", refuse)
    application = SharedApplication("app", "spark://h:7077", {}, 1)
    found = hold_executors(application, "counts", Limits(1, 2, (0.5, 1.0)), lambda: None, has_master=True)
    assert found.share == ExecutorShare("app", None)
    assert found.notes == (
        "executors of this host have a CPU share where `penstock agent` holds them, for here: no rights here",
    )
    alone = hold_executors(application, "counts", Limits(1, 2, (0.5, 1.0)), lambda: None)
    assert (alone.shares, alone.share) == (None, None)
