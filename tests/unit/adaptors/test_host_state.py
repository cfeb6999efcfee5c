# SPDX-License-Identifier: Apache-2.0
"""Whether a host is too busy, from recorded files of the kernel."""

from pathlib import Path

import pytest

from penstock.adaptors.host_state import HostState, HostWatch


def kernel(proc: Path, *, load: str, pressure: str, steal: int, idle: int) -> Path:
    """Write the files that are read: two cores, so much steal and idle time."""
    (proc / "stat").write_text(
        f"cpu  1000 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\nprocs_running 3\n"
    )
    (proc / "loadavg").write_text(f"{load} 9.23 20.20 5/90 17578\n")
    (proc / "pressure").mkdir(exist_ok=True)
    (proc / "pressure" / "cpu").write_text(f"some avg10=55.23 avg60={pressure} avg300=90.52 total=15395786438\n")
    return proc


def test_a_busy_host_is_described(tmp_path: Path) -> None:
    """Load beyond two for each core, pressure for most of a minute and steal are each said; a calm host says none."""
    watch = HostWatch(kernel(tmp_path, load="0.40", pressure="3.00", steal=0, idle=1000))
    assert watch.state().busy_text is None
    kernel(tmp_path, load="30.35", pressure="70.17", steal=100, idle=1900)
    state = watch.state()
    assert (state.cores, state.load_average) == (2, 30.35)
    assert state.pressure == pytest.approx(0.7017)
    assert state.steal == pytest.approx(0.1)
    assert state.busy_text == (
        "a load average of 30.4 on 2 cores; some task waited for the CPU 70% of the last minute; "
        "10% of the CPU went to other guests of the machine (steal)"
    )


def test_a_kernel_that_shows_nothing_is_not_called_calm(tmp_path: Path) -> None:
    """What cannot be read is None, not zero."""
    state = HostWatch(tmp_path).state()
    assert state == HostState(None, None, None, None)
    assert state.busy_text is None
    assert state.text == "the kernel does not show its load"
