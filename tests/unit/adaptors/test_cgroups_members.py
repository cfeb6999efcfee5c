# SPDX-License-Identifier: Apache-2.0
"""Executors found in a process table, and brought into the group."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from penstock.adaptors.cgroups.group import NODE_RUN, CpuGroup
from penstock.adaptors.cgroups.hierarchy import Hierarchy, find_hierarchy
from penstock.adaptors.cgroups.members import (
    ExecutorFinder,
    HostExecutors,
    MembershipWatcher,
    executor_of,
    find_executors,
)
from penstock.adaptors.cgroups.owner import Owner
from penstock.clock import VirtualClock
from penstock.testing.fake_kernel import FakeKernel

BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def executor_command(executor_id: int, application_id: str = "app-1") -> str:
    """The command line of an executor, as the standalone worker starts it."""
    return (
        f"/usr/lib/jvm/bin/java -Xmx600M {BACKEND} --driver-url spark://x@127.0.0.1:1 "
        f"--executor-id {executor_id} --hostname 127.0.0.1 --cores 1 --app-id {application_id}"
    )


@pytest.fixture
def kernel(tmp_path: Path) -> FakeKernel:
    """A fake kernel."""
    return FakeKernel(tmp_path, "v1")


@pytest.fixture
def group(kernel: FakeKernel) -> CpuGroup:
    """A group on the fake kernel."""
    return CpuGroup.create(find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel), "run", "a")


def watcher_of(group: CpuGroup, kernel: FakeKernel, clock: VirtualClock | None = None) -> MembershipWatcher:
    """A watcher that is not started."""
    return MembershipWatcher(group, ExecutorFinder("app-1", str(kernel.proc)), clock=clock or VirtualClock(3.0))


def test_only_executors_of_the_application_are_found(kernel: FakeKernel) -> None:
    """Executors are told by class, application and executor id; other programs and applications are not taken."""
    kernel.spawn(100, command=executor_command(0))
    kernel.spawn(101, command=executor_command(1, "app-10"))
    kernel.spawn(102, command="java org.apache.spark.deploy.worker.Worker spark://127.0.0.1:7077")
    kernel.spawn(103, command=executor_command(7))
    assert find_executors("app-1", str(kernel.proc)) == {"0": 100, "7": 103}


def test_shell_that_starts_an_executor_is_none() -> None:
    """A shell's one argument may hold the whole command line of an executor."""
    assert executor_of(["bash", "-c", executor_command(0)]) is None
    assert executor_of([]) is None


def test_process_that_becomes_an_executor_is_found(kernel: FakeKernel) -> None:
    """A process that replaces its program after it was first seen is found at a later look."""
    finder = ExecutorFinder("app-1", str(kernel.proc))
    kernel.spawn(100, command="jspawnhelper")
    assert finder.find() == {}
    (kernel.proc / "100" / "cmdline").write_bytes(executor_command(4).replace(" ", "\0").encode() + b"\0")
    assert finder.find() == {"4": 100}


def test_long_known_processes_are_read_no_more(kernel: FakeKernel) -> None:
    """What was no executor for twenty looks is left alone; an executor stays found however long it lives."""
    finder = ExecutorFinder("app-1", str(kernel.proc))
    kernel.spawn(100, command="bash")
    kernel.spawn(101, command=executor_command(1))
    for _ in range(25):
        assert finder.find() == {"1": 101}
    (kernel.proc / "100" / "cmdline").write_bytes(executor_command(4).replace(" ", "\0").encode() + b"\0")
    assert finder.find() == {"1": 101}


def test_a_number_that_was_given_anew_while_nobody_looked_is_read(kernel: FakeKernel) -> None:
    """What was seen of processes is forgotten when it is old: their numbers may be those of executors by now."""
    moment = [100.0]
    executors = HostExecutors(str(kernel.proc), monotonic=lambda: moment[0])
    kernel.spawn(100, command="bash")
    for _ in range(25):
        assert executors.find() == {}
        moment[0] += 0.5
    moment[0] += 60.0
    kernel.end(100)
    kernel.spawn(100, command=executor_command(4))
    assert executors.find() == {"app-1": {"4": 100}}


def test_processes_that_vanish_while_reading_are_skipped(kernel: FakeKernel) -> None:
    """A folder in /proc whose files are gone by the time they are read is no fault."""
    (kernel.proc / "555").mkdir()
    kernel.spawn(100, command=executor_command(0))
    assert find_executors("app-1", str(kernel.proc)) == {"0": 100}


def test_watcher_joins_new_executors_and_forgets_ended_ones(kernel: FakeKernel, group: CpuGroup) -> None:
    """Each look brings in what is new, with its time, and forgets what has ended."""
    clock = VirtualClock(3.0)
    watcher = watcher_of(group, kernel, clock)
    kernel.spawn(100, command=executor_command(0))
    watcher.look()
    clock.advance(1.0)
    kernel.spawn(101, command=executor_command(1))
    watcher.look()
    assert {key: (joined.pid, joined.at) for key, joined in watcher.joined.items()} == {
        "0": (100, 3.0),
        "1": (101, 4.0),
    }
    assert group.pids() == [100, 101]
    kernel.end(100)
    watcher.look()
    assert list(watcher.joined) == ["1"]
    assert list(group.folders.origins) == [101]


def test_watcher_brings_back_an_executor_that_somebody_moved_away(kernel: FakeKernel, group: CpuGroup) -> None:
    """An executor found outside the group is brought in again."""
    watcher = watcher_of(group, kernel)
    kernel.spawn(100, command=executor_command(0))
    watcher.look()
    kernel.write(str(kernel.root / "cpu" / "cgroup.procs"), "100")
    watcher.look()
    assert group.pids() == [100]


@pytest.fixture(params=["v1", "v2"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> FakeKernel:
    """A kernel of either version that several Penstocks share, with an executor."""
    made = FakeKernel(tmp_path, request.param)
    made.spawn(100, command=executor_command(0))
    return made


def hierarchy_of(kernel: FakeKernel) -> Hierarchy:
    """Where groups can be made."""
    return find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel)


def another_penstock(
    kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch, pid: int = 900, namespace: int | None = None
) -> tuple[CpuGroup, MembershipWatcher]:
    """The group and the watcher of a process of its own. It lives, unless it is in another container, unseen."""
    own = Owner.this_process(str(kernel.proc))
    if namespace is None:
        kernel.spawn(pid, started=500)
    with monkeypatch.context() as patch:
        owner = Owner(pid, 500, own.namespace if namespace is None else namespace)
        patch.setattr(Owner, "this_process", lambda _: owner)
        group = CpuGroup.create(hierarchy_of(kernel), "run", "other")
    return group, watcher_of(group, kernel)


def test_who_came_first_keeps_its_executors_and_the_other_says_so(
    shared: FakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second Penstock takes none of them, nor those that come later, and names group and process of the first."""
    first, watcher = another_penstock(shared, monkeypatch)
    watcher.look()
    second = CpuGroup.create(hierarchy_of(shared), "run", "a")
    late = watcher_of(second, shared)
    shared.spawn(101, command=executor_command(1))
    for _ in range(3):
        late.look()
        watcher.look()
    assert (first.pids(), second.pids()) == ([100, 101], [])
    assert (watcher.fault, watcher.held_elsewhere) == (None, frozenset())
    assert not late.joined
    assert late.held_elsewhere == {"0", "1"}
    assert late.fault == (
        "executors 0, 1 are not held to a CPU share here: another Penstock (process 900) came first and holds this "
        f"application in {first.folder}; let one alone scale it"
    )


def test_when_the_first_lets_go_the_second_holds(shared: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The executors are put back as they were, and found at the next look."""
    first, watcher = another_penstock(shared, monkeypatch)
    watcher.look()
    second = CpuGroup.create(hierarchy_of(shared), "run", "a")
    late = watcher_of(second, shared)
    late.look()
    first.release()
    late.look()
    assert second.pids() == [100]
    assert (late.fault, late.held_elsewhere) == (None, frozenset())


def test_what_a_dead_penstock_left_is_taken(shared: FakeKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its group keeps nobody, though it was first."""
    first, watcher = another_penstock(shared, monkeypatch)
    watcher.look()
    shared.end(900)
    second = CpuGroup.create(hierarchy_of(shared), "run", "a")
    watcher_of(second, shared).look()
    assert (first.pids(), second.pids()) == ([], [100])


def test_a_group_of_another_container_is_robbed_once_to_see_whether_its_owner_lives(
    shared: FakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether that one lives cannot be seen. A dead one's executors would stay capped; a living one takes them back."""
    first, _ = another_penstock(shared, monkeypatch, namespace=77)
    first.add(100)
    second = CpuGroup.create(hierarchy_of(shared), "run", "a")
    late = watcher_of(second, shared)
    late.look()
    assert second.pids() == [100]
    first.add(100)
    for _ in range(3):
        late.look()
    assert (first.pids(), second.pids()) == ([100], [])
    assert late.fault is not None
    assert "another Penstock (process 900) came first" in late.fault


@pytest.mark.parametrize("is_alive", [True, False])
def test_the_owner_of_a_group_in_a_container_below_is_seen(
    shared: FakeKernel, monkeypatch: pytest.MonkeyPatch, *, is_alive: bool
) -> None:
    """The host sees the processes of its containers, by the numbers that they have inside: no need to rob anybody."""
    shared.spawn(5000, started=500)
    (shared.proc / "5000" / "ns").mkdir()
    (shared.proc / "5000" / "ns" / "pid").touch()
    inner = 7 if is_alive else 8
    (shared.proc / "5000" / "status").write_text(f"Name:\tpython\nNSpid:\t5000\t{inner}\n")
    namespace = (shared.proc / "5000" / "ns" / "pid").stat().st_ino
    first, _ = another_penstock(shared, monkeypatch, pid=7, namespace=namespace)
    first.add(100)
    second = CpuGroup.create(hierarchy_of(shared), "run", "a")
    watcher_of(second, shared).look()
    assert (first.pids(), second.pids()) == (([100], []) if is_alive else ([], [100]))


def test_a_query_that_is_attached_twice_is_held_by_one(shared: FakeKernel) -> None:
    """Groups of one process and one operator have folders of their own, and the first keeps the executors."""
    one, other = (CpuGroup.create(hierarchy_of(shared), "run", "a") for _ in range(2))
    assert one.folder != other.folder
    first, second = watcher_of(one, shared), watcher_of(other, shared)
    for _ in range(2):
        first.look()
        second.look()
    assert (one.pids(), other.pids()) == ([100], [])
    assert second.fault is not None
    assert one.folder in second.fault
    one.set_quota(0.5)
    other.set_quota(0.25)
    assert (one.quota(), other.quota()) == (0.5, 0.25)
    one.release()
    second.look()
    assert other.pids() == [100]


def test_executors_of_a_capped_node_are_taken(shared: FakeKernel) -> None:
    """A geo cluster's workers, and so their executors, begin in their node's group: nobody holds them to a share."""
    group = CpuGroup.create(hierarchy_of(shared), "run", "a")
    watcher = watcher_of(group, shared)
    for _ in range(2):  # a second cluster of the process has other folders
        node = CpuGroup.create(hierarchy_of(shared), NODE_RUN, "w1")
        node.add(100)
        watcher.look()
        assert (group.pids(), watcher.fault) == ([100], None)


def test_a_fault_that_goes_on_is_said_once_a_minute(
    kernel: FakeKernel, group: CpuGroup, caplog: pytest.LogCaptureFixture
) -> None:
    """At once, and then not at every look."""
    clock = VirtualClock(3.0)
    watcher = watcher_of(group, kernel, clock)
    kernel.spawn(100, command=executor_command(0))
    kernel.forbidden.add(f"{group.folder}/cgroup.procs")
    with caplog.at_level(logging.WARNING):
        for _ in range(122):
            watcher.look()
            clock.advance(0.5)
    assert len([record for record in caplog.records if "executor 0 is not held" in record.message]) == 2


def test_watcher_tells_a_fault_and_goes_on(kernel: FakeKernel, group: CpuGroup) -> None:
    """An executor that cannot be moved is named; the others are joined, and the fault goes when it is mended."""
    watcher = watcher_of(group, kernel)
    kernel.spawn(100, command=executor_command(0))
    kernel.forbidden.add(f"{group.folder}/cgroup.procs")
    watcher.look()
    assert watcher.fault is not None
    assert "executor 0 is not held" in watcher.fault
    kernel.forbidden.clear()
    watcher.look()
    assert watcher.fault is None
    assert list(watcher.joined) == ["0"]


def test_watcher_survives_an_unreadable_process_table(group: CpuGroup, tmp_path: Path) -> None:
    """Without a process table the watcher says so and keeps what it knew."""
    watcher = MembershipWatcher(group, ExecutorFinder("app-1", str(tmp_path / "absent")), clock=VirtualClock())
    watcher.look()
    assert watcher.fault is not None
    assert "cannot look for executors" in watcher.fault


class CountingClock(VirtualClock):
    """A virtual clock that says when enough waits have passed."""

    def __init__(self) -> None:
        super().__init__()
        self.enough = threading.Event()
        self.waits = 0

    def wait(self, seconds: float, until: threading.Event) -> bool:
        """Count the waits; from the third on, wait for the stop."""
        self.waits += 1
        if self.waits >= 3:
            self.enough.set()
            until.wait(30.0)
        return super().wait(seconds, until)


def test_thread_looks_again_and_again_until_stopped(kernel: FakeKernel, group: CpuGroup) -> None:
    """The thread repeats the look every half second and ends when it is told to, also twice."""
    clock = CountingClock()
    watcher = watcher_of(group, kernel, clock)
    watcher.start()
    assert clock.enough.wait(30.0)
    watcher.stop()
    watcher.stop()
    assert clock.now() == 1.0  # two waits of half a second passed before the third was held
    assert not [thread for thread in threading.enumerate() if thread.name == "penstock-cgroup-members"]


def test_a_look_that_fails_at_the_end_of_an_executor_is_a_fault_and_the_next_one_succeeds(
    group: CpuGroup, kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the limit of open files the watcher goes on, and says so."""
    kernel.spawn(100, command=executor_command(0))
    watcher = watcher_of(group, kernel)
    watcher.look()
    assert watcher.joined
    (kernel.proc / "100" / "cmdline").unlink()

    def fail() -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as limited:
        limited.setattr(group, "forget_dead", fail)
        watcher.look()
    assert watcher.fault is not None
    assert "Too many open files" in watcher.fault
    watcher.look()
    assert watcher.fault is None
