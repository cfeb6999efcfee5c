# SPDX-License-Identifier: Apache-2.0
"""CPU shares on the real kernel: busy processes are throttled, and everything is given back whoever is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.integration.cgroups.busy_processes import (
    CONTAINED,
    EXECUTOR_WORDS,
    FORK_AND_SPIN,
    SPIN,
    cgroups_of,
    first_line,
    is_held,
    open_text,
    penstock_folders,
    quota_in,
    wait_until,
)

from penstock.adaptors.cgroups import CpuGroup, CpuShares, Hierarchy, find_executors, sweep_stale
from penstock.adaptors.cgroups.guard import FOLDER
from penstock.records import Allocation

pytestmark = [pytest.mark.cgroups, pytest.mark.core]


def test_capped_process_is_throttled_and_released_to_where_it_was(
    hierarchy: Hierarchy, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """A busy process capped to 0.05 cores is throttled; released, it is back and the folders are gone."""
    spinner = start(SPIN)
    before = cgroups_of(spinner.pid)
    group = CpuGroup.create(hierarchy, "test", "throttle")
    try:
        group.set_quota(0.05)
        assert group.add(spinner.pid)
        assert cgroups_of(spinner.pid) != before
        first = group.read()
        assert first.quota_cores == 0.05
        assert first.used_seconds is not None
        wait_until(
            lambda: (group.read().throttled_seconds or 0.0) > (first.throttled_seconds or 0.0) + 0.5, "throttling"
        )
        last = group.read()
        assert last.used_seconds is not None
        # 0.05 cores, with room for one period's burst at each end; what is missing was withheld, not unused.
        assert last.used_seconds - first.used_seconds < 0.05 * (last.at - first.at) + 0.1
        assert last.used_seconds > first.used_seconds
    finally:
        group.release()
    assert cgroups_of(spinner.pid) == before
    assert spinner.poll() is None
    assert penstock_folders(hierarchy) == []


def test_children_forked_before_and_after_joining_are_held_and_given_back(
    hierarchy: Hierarchy, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """A child that was there already and one forked in the group are both held, and both come back."""
    early = start(FORK_AND_SPIN)
    early_child = int(first_line(early))
    before = cgroups_of(early_child)
    parent = start("input()\n" + FORK_AND_SPIN)
    group = CpuGroup.create(hierarchy, "test", "fork")
    try:
        group.set_quota(0.1)
        assert group.add(early.pid)
        assert group.add(parent.pid)
        assert parent.stdin is not None
        print(file=parent.stdin, flush=True)
        late_child = int(first_line(parent))
        assert set(group.pids()) == {early.pid, early_child, parent.pid, late_child}
        assert group.read().processes == 4
    finally:
        group.release()
    assert cgroups_of(early_child) == before
    assert cgroups_of(late_child) == before
    assert penstock_folders(hierarchy) == []


def test_executor_started_later_is_joined(
    hierarchy: Hierarchy, start: Callable[..., subprocess.Popen[str]], application: str
) -> None:
    """A process with an executor's command line is found and held without being told of."""
    with CpuShares("join", application, Allocation(4), 1, hierarchy, run="test") as shares:
        shares.apply(Allocation(1, 0.5))
        executor = start(SPIN, *EXECUTOR_WORDS, application)
        wait_until(lambda: list(shares.joined) == ["0"], "the executor joins")
        assert shares.joined["0"].pid == executor.pid
        assert shares.read().processes == 1
    assert not is_held(executor.pid)
    assert penstock_folders(hierarchy) == []


@pytest.mark.kill
def test_a_second_penstock_leaves_the_executors_to_the_first_and_takes_them_when_it_ends(
    hierarchy: Hierarchy, held: tuple[subprocess.Popen[str], int, str, int], application: str
) -> None:
    """It says whose group they are in; once the first is killed and its guard has put them back, it holds them."""
    holder, executor, folder, _ = held
    with CpuShares("late", application, Allocation(4), 1, hierarchy, run="test", look_every_seconds=0.1) as shares:
        shares.apply(Allocation(1, 0.5))
        assert not shares.joined
        assert shares.held_elsewhere == {"0"}
        assert shares.read().processes == 0
        (fault,) = shares.faults
        assert f"another Penstock (process {holder.pid}) came first and holds this application in {folder}" in fault
        assert quota_in(hierarchy, folder) == "20000"
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait(timeout=30)
        wait_until(lambda: list(shares.joined) == ["0"], "the second holds the executor")
        wait_until(lambda: not Path(folder).exists(), "the group of the first is removed")
        assert (shares.joined["0"].pid, shares.faults) == (executor, ())
        assert shares.read().quota_cores == 0.5
    assert not is_held(executor)
    assert penstock_folders(hierarchy) == []


def is_removed(group: Path) -> bool:
    """Remove a group, unless it holds something still."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


@pytest.mark.kill
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a PID namespace")
def test_a_holder_in_a_container_is_seen_from_the_host(hierarchy: Hierarchy, application: str) -> None:
    """Its executors are left to it from the first look on, though its numbers of processes are others than here."""
    inside = [
        "unshare",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        sys.executable,
        "-c",
        CONTAINED,
        application,
    ]
    folder = None
    with subprocess.Popen(inside, stdout=subprocess.PIPE, text=True) as container:
        try:
            folder = json.loads(first_line(container))["folder"]
            wait_until(lambda: "0" in find_executors(application), "the executor starts")
            executor = find_executors(application)["0"]
            wait_until(lambda: is_held(executor), "it is held in the container")
            with CpuShares("late", application, Allocation(4), 1, hierarchy, run="test") as shares:
                shares.apply(Allocation(1, 0.5))
                assert not shares.joined
                (fault,) = shares.faults
                assert f"came first and holds this application in {folder}" in fault
            assert f"/{FOLDER}/{Path(folder).name}" in cgroups_of(executor)
        finally:
            container.kill()
    # All processes of the container are gone, and with them who would have removed the group.
    for mount in hierarchy.mounts:
        for left in Path(mount.point).rglob(f"{FOLDER}/{Path(folder).name}"):
            wait_until(partial(is_removed, left), "the group is empty")
            is_removed(left.parent)


@pytest.mark.kill
def test_killed_holder_is_cleaned_up_by_its_guard(
    hierarchy: Hierarchy, held: tuple[subprocess.Popen[str], int, str, int]
) -> None:
    """When the holder is killed with -9, its guard opens the quota, gives back and removes."""
    holder, executor, folder, guard = held
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(guard, number)  # neither Ctrl-C nor a service manager takes the guard away
    os.kill(holder.pid, signal.SIGKILL)
    wait_until(lambda: not Path(folder).exists(), "the group is removed")
    wait_until(lambda: not Path(f"/proc/{guard}").exists(), "the guard ends")
    assert not is_held(executor)
    assert penstock_folders(hierarchy) == []


@pytest.mark.kill
def test_group_of_killed_holder_and_guard_is_swept(
    hierarchy: Hierarchy, held: tuple[subprocess.Popen[str], int, str, int]
) -> None:
    """When holder and guard are both killed the group stays, until the next start sweeps it; not before."""
    holder, executor, folder, guard = held
    os.kill(holder.pid, signal.SIGSTOP)  # so that it cannot start another guard
    os.kill(guard, signal.SIGKILL)
    assert sweep_stale(hierarchy) == ()  # stopped is not dead
    assert Path(folder).exists()
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait(timeout=30)
    assert folder in sweep_stale(hierarchy)
    assert not is_held(executor)
    assert penstock_folders(hierarchy) == []


@pytest.mark.kill
def test_hung_holder_loses_its_lease_and_takes_it_up_again(
    hierarchy: Hierarchy, held: tuple[subprocess.Popen[str], int, str, int]
) -> None:
    """A stopped holder's quota is opened while the group stays; continued, it sets the quota again."""
    holder, executor, folder, _ = held
    os.kill(holder.pid, signal.SIGSTOP)
    wait_until(lambda: quota_in(hierarchy, folder) == open_text(hierarchy), "the quota is opened")
    assert is_held(executor)
    os.kill(holder.pid, signal.SIGCONT)
    wait_until(lambda: quota_in(hierarchy, folder) == "20000", "the quota is set again")


@pytest.mark.kill
def test_killed_guard_is_replaced(hierarchy: Hierarchy, held: tuple[subprocess.Popen[str], int, str, int]) -> None:
    """A holder whose guard was killed starts another, which cleans up when the holder dies too."""
    holder, executor, folder, guard = held
    os.kill(guard, signal.SIGKILL)

    def guards() -> list[int]:
        children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").parents[1].glob("*/children")
        return [int(pid) for file in children for pid in file.read_text().split() if int(pid) != guard]

    wait_until(lambda: bool(guards()), "another guard is started")
    assert quota_in(hierarchy, folder) == "20000"
    # The new guard may still be coming up: it must do its work nevertheless.
    os.kill(holder.pid, signal.SIGKILL)
    wait_until(lambda: not Path(folder).exists(), "the group is removed")
    assert not is_held(executor)


def test_guard_is_small_and_alone(hierarchy: Hierarchy, held: tuple[subprocess.Popen[str], int, str, int]) -> None:
    """The guard holds three descriptors, lives in a session of its own and takes little memory."""
    holder, _, _, guard = held
    assert sorted(os.listdir(f"/proc/{guard}/fd")) == ["0", "1", "2"]  # noqa: PTH208 - as the kernel lists them
    assert os.getsid(guard) == guard != os.getsid(holder.pid)
    resident = next(line for line in Path(f"/proc/{guard}/status").read_text().splitlines() if "VmRSS" in line)
    assert int(resident.split()[1]) < 20_000  # kilobytes
