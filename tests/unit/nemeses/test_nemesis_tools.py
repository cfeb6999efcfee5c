# SPDX-License-Identifier: Apache-2.0
"""The tools of the nemeses: processes that are held and chosen, a clock that a file sets, a disk that is filled."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.e2e.nemeses.controller_with_set_clock import VARIABLE, SetClock
from tests.e2e.nemeses.small_disk import filled, top_up
from tests.e2e.nemeses.targets import chosen, held, wait_for_end


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that can be harmed."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_a_process_is_held_for_the_length_of_a_block(sleeper: subprocess.Popen[bytes]) -> None:
    """Afterwards it goes on, or is gone because somebody has ended it meanwhile."""
    with held(sleeper.pid):
        assert is_stopped(sleeper.pid)
    assert not is_stopped(sleeper.pid)
    with held(sleeper.pid):
        sleeper.kill()
        sleeper.wait()
    wait_for_end(sleeper.pid)


def is_stopped(pid: int) -> bool:
    """Whether the kernel lets it run; that takes a moment to show."""
    deadline = time.monotonic() + 2.0
    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_the_draw_chooses_among_all() -> None:
    """Each has its part of the draws; without a candidate there is none."""
    this = psutil.Process(os.getpid())
    other = psutil.Process(os.getppid())
    assert [chosen([this, other], draw) for draw in (0.0, 0.49, 0.5, 0.999)] == [this, this, other, other]
    assert chosen([], 0.5) is None


def test_the_clock_is_set_by_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and while there is no file, or half a one, it is the machine's."""
    file = tmp_path / "clock"
    monkeypatch.setenv(VARIABLE, str(file))
    clock = SetClock()
    for text, seconds in ((None, 0.0), ("3600.0", 3600.0), ("-", 0.0), ("-3600.0", -3600.0), ("0.0", 0.0)):
        if text is not None:
            file.write_text(text)
        before = clock.monotonic()
        assert clock.now() - time.time() == pytest.approx(seconds, abs=60.0)
        assert clock.monotonic() >= before


def test_a_disk_is_filled_to_the_last_byte_and_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large pieces first, then ever smaller ones, until none fits."""
    size = (5 << 20) + 12_345
    taken = [0]

    def allocate(_file: int, at: int, length: int) -> None:
        if at + length > size:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken[0] = at + length

    class Status:
        @property
        def st_size(self) -> int:
            return taken[0]

    monkeypatch.setattr("os.posix_fallocate", allocate)
    monkeypatch.setattr("os.fstat", lambda _: Status())
    with filled(tmp_path) as ballast:
        assert top_up(ballast) == size
        assert ballast.exists()
    assert not ballast.exists()
