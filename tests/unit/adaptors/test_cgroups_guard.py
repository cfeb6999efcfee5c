# SPDX-License-Identifier: Apache-2.0
"""The guard's watch over a pipe, in this process, on a fake kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path

import pytest

from penstock.adaptors.cgroups import guard
from penstock.adaptors.cgroups.group import CpuGroup
from penstock.adaptors.cgroups.guard import Watch
from penstock.adaptors.cgroups.hierarchy import find_hierarchy
from penstock.testing.fake_kernel import FakeKernel


@pytest.fixture
def kernel(tmp_path: Path) -> FakeKernel:
    """A fake kernel."""
    return FakeKernel(tmp_path, "v1")


@pytest.fixture
def group(kernel: FakeKernel) -> CpuGroup:
    """A group on the fake kernel."""
    made = CpuGroup.create(find_hierarchy(str(kernel.root), proc=str(kernel.proc), kernel=kernel), "run", "a")
    made.set_quota(0.5)
    return made


@pytest.fixture
def pipe() -> Iterator[tuple[int, BufferedIOBase]]:
    """The two ends of a pipe; a test may close the second."""
    reader, writer = os.pipe()
    ends = [os.fdopen(reader, "rb"), os.fdopen(writer, "wb")]
    yield ends[0].fileno(), ends[1]
    for end in ends:
        end.close()  # a second close of a file object is allowed


def watch_of(group: CpuGroup, lease_seconds: float = 60.0) -> Watch:
    """A watch over a group whose holder is this process."""
    return Watch(group.parts, os.getpid(), 1000, lease_seconds)


def test_origins_arrive_in_pieces(group: CpuGroup) -> None:
    """Lines may be cut anywhere by the pipe; beats and origins are told apart."""
    watch = watch_of(group)
    text = b"\n" + json.dumps({"pid": 7, "origin": ["/a", "/b"]}).encode() + b"\n\n"
    for index in range(len(text)):
        watch.take(text[index : index + 1])
    assert group.folders.origins == {7: ["/a", "/b"]}


def test_end_of_the_pipe_ends_the_watch_and_keeps_the_quota_until_the_restore(
    group: CpuGroup, pipe: tuple[int, BufferedIOBase]
) -> None:
    """At the end of the pipe the watch returns at once; restoring then opens, gives back and removes."""
    reader, writer = pipe
    writer.write(b"\n\n")
    writer.close()
    watch_of(group).until_end(reader)
    assert group.quota() == 0.5
    assert group.folders.restore(0.0)
    assert not Path(group.folder).exists()


def test_silence_opens_the_quota_and_nothing_else(
    group: CpuGroup, kernel: FakeKernel, pipe: tuple[int, BufferedIOBase], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the lease runs out the cap is lifted; the processes and the folder stay."""
    kernel.spawn(100)
    group.add(100)
    watch = watch_of(group, lease_seconds=0.0)
    # The holder is seen alive at the first look, when the lease runs out, and dead at the second.
    looks = iter([True, False])
    monkeypatch.setattr(guard, "is_alive", lambda *_: next(looks))
    monkeypatch.setattr(guard, "TICK_SECONDS", 0.0)
    watch.until_end(pipe[0])
    assert watch.is_expired
    assert group.quota() is None
    assert group.pids() == [100]


def test_beat_renews_an_expired_lease(group: CpuGroup) -> None:
    """A line after the lease ran out makes it run anew."""
    watch = watch_of(group)
    watch.is_expired = True
    watch.take(b"\n")
    assert not watch.is_expired


def test_dead_holder_ends_the_watch_though_the_pipe_is_open(
    group: CpuGroup, pipe: tuple[int, BufferedIOBase], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that the holder had forked may keep the pipe open; the holder's death is seen nevertheless."""
    monkeypatch.setattr(guard, "TICK_SECONDS", 0.0)
    watch = Watch(group.parts, os.getpid(), 999, 60.0)  # another start time: another process
    watch.until_end(pipe[0])
    assert not watch.is_expired


def test_zombie_is_not_alive(kernel: FakeKernel) -> None:
    """A killed process that nobody has waited for counts as dead; so does another with its pid."""
    kernel.spawn(50, started=77)
    assert guard.is_alive(str(kernel.proc), 50, 77)
    assert not guard.is_alive(str(kernel.proc), 50, 78)
    stat = kernel.proc / "50" / "stat"
    stat.write_text(stat.read_text().replace(") S ", ") Z "))
    assert not guard.is_alive(str(kernel.proc), 50, 77)


def test_pid_zero_is_never_moved(group: CpuGroup) -> None:
    """Processes of other pid namespaces are listed as 0, which would mean the mover itself."""
    Path(group.folder, "cgroup.procs").write_text("0\n0\n")
    assert group.pids() == []


def test_opening_what_is_gone_is_no_fault(group: CpuGroup) -> None:
    """A group removed by somebody else has no cap left to lift."""
    group.release()
    group.folders.open()
    assert group.folders.restore(0.0)


def test_guard_imports_the_standard_library_alone() -> None:
    """The guard's file runs without site-packages and loads none of the heavy modules."""
    code = (
        f"import sys; exec(open({guard.__file__!r}).read(), {{'__name__': 'guard'}}); "
        "heavy = {'penstock', 'numpy', 'pydantic', 'dataclasses', 'typing', 'subprocess', 'logging', 'pathlib'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_origins_of_ended_processes_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors come and go for weeks: beyond a number, those that are gone are forgotten, and no other."""
    monkeypatch.setattr(guard, "ORIGINS_KEPT", 10)
    origins = guard.Origins("/proc")
    origins.note(os.getpid(), ["here"])
    for number in range(1000):
        origins.note(10_000_000 + number, ["there"])
        assert len(origins) <= 10
    assert origins[os.getpid()] == ["here"]
    assert origins[10_000_999] == ["there"]
