# SPDX-License-Identifier: Apache-2.0
"""cgroup v2 on the real kernel: processes that Penstock holds keep the limits of the cgroup that they are in.

`make test-cgroup-v2` runs these in a virtual machine where this machine's kernel has v1.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.integration.cgroups.busy_processes import (
    EXECUTOR_WORDS,
    HOLDER,
    SPIN,
    cgroups_of,
    first_line,
    penstock_folders,
    wait_until,
)

from penstock.adaptors.cgroups import CpuGroup, CpuShares, Hierarchy, sweep_stale
from penstock.adaptors.cgroups.places import ancestors
from penstock.records import Allocation

pytestmark = [pytest.mark.cgroups, pytest.mark.core]

Start = Callable[..., "subprocess.Popen[str]"]
LIMIT = 60 << 20  # bytes
NUMBERS = itertools.count()
GREEDY = "import time\ninput()\nkept = b'x' * (200 << 20)\nprint('has it', flush=True)\ntime.sleep(300)"
FIRST_THREAD_ENDS = """
import ctypes, threading
def spin():
    print(threading.get_native_id(), flush=True)
    while True: pass
threading.Thread(target=spin).start()
input()
ctypes.CDLL(None).syscall(60, 0)  # exit of this thread alone
"""


@pytest.fixture
def limited(hierarchy: Hierarchy) -> Iterator[Callable[[], Path]]:
    """Makes cgroups with a limit of memory that hold nothing yet; they and their processes end with the test."""
    if hierarchy.version != 2:
        pytest.skip("this machine has cgroup v1; `make test-cgroup-v2` has a kernel with v2")
    top = hierarchy.mounts[0].point
    for above in ancestors(hierarchy.homes[0], top):
        if os.access(above, os.W_OK) and "memory" in Path(above, "cgroup.subtree_control").read_text().split():
            break
    else:
        pytest.skip("no cgroup above that is ours hands memory down")
    made: list[Path] = []

    def make() -> Path:
        folder = Path(above, f"former-{os.getpid()}-{next(NUMBERS)}")
        folder.mkdir()
        made.append(folder)
        (folder / "memory.max").write_text(str(LIMIT))
        return folder

    yield make
    for folder in made:
        for group in (folder / "inner", folder):
            with contextlib.suppress(FileNotFoundError):
                (group / "cgroup.kill").write_text("1")
                wait_until(partial(is_empty, group), "all have ended")
                group.rmdir()


@pytest.fixture
def former(limited: Callable[[], Path]) -> Path:
    """One such cgroup."""
    return limited()


def is_empty(folder: Path) -> bool:
    """Whether no process is left in a cgroup or below."""
    return "populated 0" in (folder / "cgroup.events").read_text()


def put(process: subprocess.Popen[str], folder: Path) -> None:
    """Move a process into a cgroup."""
    (folder / "cgroup.procs").write_text(str(process.pid))


def is_in(process: subprocess.Popen[str], folder: Path, hierarchy: Hierarchy) -> bool:
    """Whether a process is in a cgroup or below."""
    return f":/{folder.relative_to(hierarchy.mounts[0].point)}" in cgroups_of(process.pid)


def is_ordinary(folder: Path) -> bool:
    """Whether a cgroup is as one that nobody has touched: no groups in it, and others could be made."""
    return (
        (folder / "cgroup.type").read_text() == "domain\n"
        and (folder / "cgroup.subtree_control").read_text().split() == []
        and not any(entry.is_dir() for entry in folder.iterdir())
    )


def test_held_process_is_throttled_and_its_memory_still_limited(
    hierarchy: Hierarchy, start: Start, former: Path
) -> None:
    """A process of a cgroup with a limit is held inside it: it is throttled, and killed when it takes too much."""
    spinner, greedy = start(SPIN), start(GREEDY)
    put(spinner, former)
    put(greedy, former)
    group = CpuGroup.create(hierarchy, "test", "limit")
    try:
        group.set_quota(0.05)
        assert group.add(spinner.pid)
        assert group.add(greedy.pid)
        assert is_in(spinner, former / "penstock", hierarchy)
        assert group.pids() == sorted([spinner.pid, greedy.pid])
        before = group.read()
        wait_until(
            lambda: (group.read().throttled_seconds or 0.0) > (before.throttled_seconds or 0.0) + 0.5, "throttling"
        )
        group.set_quota(None)
        assert greedy.stdin is not None
        print(file=greedy.stdin, flush=True)
        assert greedy.wait(timeout=120) == -signal.SIGKILL
        assert "oom_kill 1" in (former / "memory.events").read_text()
    finally:
        group.release()
    assert spinner.poll() is None
    assert is_in(spinner, former, hierarchy)
    assert is_ordinary(former)
    assert penstock_folders(hierarchy) == []


def test_executors_of_two_cgroups_share_the_quota_by_their_number(
    hierarchy: Hierarchy, start: Start, limited: Callable[[], Path]
) -> None:
    """Two executors in one cgroup get two thirds of the quota and one in another a third; each goes back to its own."""
    one, other = limited(), limited()
    executors = [start(SPIN) for _ in range(3)]
    for executor, folder in zip(executors, (one, one, other), strict=True):
        put(executor, folder)
    group = CpuGroup.create(hierarchy, "test", "apart")
    try:
        group.set_quota(0.3)
        for executor in executors:
            assert group.add(executor.pid)
        quotas = [(folder / "penstock" / Path(group.folder).name / "cpu.max").read_text() for folder in (one, other)]
        assert quotas == ["20000 100000\n", "10000 100000\n"]
        assert group.read().quota_cores == pytest.approx(0.3)
        assert group.read().processes == 3
        executors[2].kill()
        executors[2].wait()
        group.drop_empty_parts()
        assert group.read().quota_cores == pytest.approx(0.3)
        assert not (other / "penstock").exists()  # so that whoever made it can remove it
    finally:
        group.release()
    assert all(is_in(executor, one, hierarchy) for executor in executors[:2])
    assert is_ordinary(one)


def test_process_whose_first_thread_has_ended_is_given_back(hierarchy: Hierarchy, start: Start, former: Path) -> None:
    """The kernel does not list such a process by its number among the threads of a group; it is still found."""
    process = start(FIRST_THREAD_ENDS)
    thread = int(first_line(process))
    put(process, former)
    group = CpuGroup.create(hierarchy, "test", "headless")
    try:
        assert group.add(process.pid)
        assert process.stdin is not None
        print(file=process.stdin, flush=True)
        wait_until(lambda: ") Z " in Path(f"/proc/{process.pid}/stat").read_text(), "the first thread ends")
        assert group.pids() == [process.pid]
    finally:
        group.release()
    assert (former / "cgroup.threads").read_text() == f"{thread}\n"
    assert is_ordinary(former)
    process.kill()  # cgroup.kill would not find it
    process.wait(timeout=30)


def test_cgroup_with_ordinary_groups_in_it_is_left_and_taken_up_again(
    hierarchy: Hierarchy, start: Start, former: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the kernel allows no group inside, a process is held beside its cgroup, the log says so, and it returns."""
    (former / "inner").mkdir()
    inner, outer = start(SPIN), start(SPIN)
    put(inner, former / "inner")
    put(outer, former)
    group = CpuGroup.create(hierarchy, "test", "beside")
    try:
        with caplog.at_level(logging.WARNING):
            assert group.add(outer.pid)
        assert f"processes of {former} leave it, and its limits" in caplog.text
        assert not is_in(outer, former, hierarchy)
    finally:
        group.release()
    assert is_in(outer, former, hierarchy)
    assert penstock_folders(hierarchy) == []


@pytest.fixture
def held_in_former(
    hierarchy: Hierarchy, start: Start, former: Path, application: str
) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str], int]]:
    """A holder, the busy executor in a cgroup of its own that it holds, and the guard's pid."""
    executor = start(SPIN, *EXECUTOR_WORDS, application)
    wait_until(lambda: application in Path(f"/proc/{executor.pid}/cmdline").read_text(), "the executor starts")
    put(executor, former)
    holder = start(HOLDER, application)
    told = json.loads(first_line(holder))
    assert is_in(executor, former / "penstock", hierarchy)
    yield holder, executor, told["guard"]
    holder.kill()
    holder.wait(timeout=30)
    wait_until(lambda: not Path(f"/proc/{told['guard']}").exists(), "the guard ends")
    sweep_stale(hierarchy)


@pytest.mark.kill
def test_guard_of_a_killed_holder_restores_the_former_cgroup(
    hierarchy: Hierarchy, former: Path, held_in_former: tuple[subprocess.Popen[str], subprocess.Popen[str], int]
) -> None:
    """When the holder is killed with -9, its guard opens the quota in every cgroup, gives back and removes."""
    holder, executor, _ = held_in_former
    holder.kill()
    wait_until(lambda: is_ordinary(former), "the guard puts the cgroup back as it was")
    assert is_in(executor, former, hierarchy)
    wait_until(lambda: penstock_folders(hierarchy) == [], "the groups are removed")


@pytest.mark.kill
def test_sweep_restores_the_former_cgroup(
    hierarchy: Hierarchy, former: Path, held_in_former: tuple[subprocess.Popen[str], subprocess.Popen[str], int]
) -> None:
    """When holder and guard are both killed, the next start leaves the executor in the cgroup that it was in."""
    holder, executor, guard = held_in_former
    os.kill(holder.pid, signal.SIGSTOP)  # so that it cannot start another guard
    os.kill(guard, signal.SIGKILL)
    holder.kill()
    holder.wait(timeout=30)
    sweep_stale(hierarchy)
    assert is_in(executor, former, hierarchy)
    assert is_ordinary(former)
    assert penstock_folders(hierarchy) == []


def test_cgroup_of_an_executor_that_ended_can_be_removed_by_its_maker(
    hierarchy: Hierarchy, start: Start, former: Path, application: str
) -> None:
    """While the shares are still held, nothing of ours stays in the cgroup of an executor that is gone."""
    executor = start(SPIN, *EXECUTOR_WORDS, application)
    put(executor, former)
    with CpuShares("ends", application, Allocation(4), 1, hierarchy, run="test") as shares:
        shares.apply(Allocation(1, 0.5))
        wait_until(lambda: is_in(executor, former / "penstock", hierarchy), "the executor joins")
        executor.kill()
        executor.wait()
        wait_until(lambda: not (former / "penstock").exists(), "the part is removed")
        former.rmdir()
        assert shares.faults == ()


@pytest.fixture
def service(hierarchy: Hierarchy) -> Iterator[tuple[str, int, Path]]:
    """A busy service of systemd with a limit of memory: its name, its process and its cgroup."""
    if os.geteuid() != 0 or shutil.which("systemd-run") is None or not Path("/run/systemd/system").exists():
        pytest.skip("needs root and systemd")
    if hierarchy.version != 2:
        pytest.skip("this machine has cgroup v1; `make test-cgroup-v2` has a kernel with v2")
    name = f"penstock-test-{os.getpid()}.service"
    systemctl("run", f"--unit={name}", "-p", f"MemoryMax={LIMIT}", sys.executable, "-c", SPIN)
    pid = int(systemctl("show", "--value", "-p", "MainPID", name))
    folder = Path(hierarchy.mounts[0].point + systemctl("show", "--value", "-p", "ControlGroup", name).strip())
    yield name, pid, folder
    systemctl("stop", name, is_checked=False)


def systemctl(verb: str, *words: str, is_checked: bool = True) -> str:
    """Ask systemd for something."""
    command = ["systemd-run", "--quiet"] if verb == "run" else ["systemctl", verb]
    return subprocess.run([*command, *words], check=is_checked, capture_output=True, text=True, timeout=300).stdout


def test_systemd_reloads_and_stops_a_service_that_is_held(hierarchy: Hierarchy, service: tuple[str, int, Path]) -> None:
    """A service keeps its quota when systemd reloads, keeps limits that are set meanwhile, and can be stopped."""
    name, pid, folder = service
    group = CpuGroup.create(hierarchy, "test", "service")
    try:
        assert group.add(pid)
        group.set_quota(0.2)
        systemctl("daemon-reload")
        systemctl("set-property", "--runtime", name, f"MemoryMax={LIMIT // 2}")
        assert (folder / "memory.max").read_text().strip() == str(LIMIT // 2)
        assert group.quota() == 0.2
        assert pid in group.pids()
        systemctl("stop", name)
        assert not Path(f"/proc/{pid}").exists()
        group.drop_empty_parts()
        assert not folder.exists()
    finally:
        group.release()
    assert penstock_folders(hierarchy) == []


def test_user_whose_cgroup_is_not_handed_down_is_told_how_to_get_one(hierarchy: Hierarchy) -> None:
    """An ordinary user in a cgroup of root's gets one line with the command that gives him his own."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become a user")
    if hierarchy.version != 2:
        pytest.skip("this machine has cgroup v1; `make test-cgroup-v2` has a kernel with v2")
    program = "from penstock.adaptors.cgroups import find_hierarchy\nfind_hierarchy()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        user=pwd.getpwnam("nobody").pw_uid,
    )
    assert "CgroupsUnavailableError: cgroups: no permission to create groups in" in done.stderr
    assert "systemd-run --user --scope -p Delegate=yes" in done.stderr
