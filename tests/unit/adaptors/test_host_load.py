# SPDX-License-Identifier: Apache-2.0
"""The host's CPU counters, from a recorded /proc/stat and from this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.adaptors.host_load import HostCpu, tree_seconds
from penstock.errors import MetricSourceError

STAT = """cpu  1000 100 500 2000 300 10 20 40 0 0
cpu0 500 50 250 1000 150 5 10 20 0 0
cpu1 500 50 250 1000 150 5 10 20 0 0
intr 1 2 3
procs_running 7
procs_blocked 0
"""


def test_counters_are_seconds_of_all_cores(tmp_path: Path) -> None:
    """User, nice, system and interrupts are busy; waiting for a disk is idle; hundredths become seconds."""
    (tmp_path / "stat").write_text(STAT)
    found = HostCpu(proc=tmp_path).read()
    ticks = os.sysconf("SC_CLK_TCK")
    assert (found.cores, found.runnable) == (2, 7)
    assert found.busy_seconds == pytest.approx(1630 / ticks)
    assert found.idle_seconds == pytest.approx(2300 / ticks)
    assert found.steal_seconds == pytest.approx(40 / ticks)
    assert found.ours_seconds is None
    assert HostCpu(proc=tmp_path).runnable() == 7


def test_a_host_without_counters_is_an_error(tmp_path: Path) -> None:
    """A missing or unknown file is said, not read as zero."""
    with pytest.raises(MetricSourceError, match="cannot be read"):
        HostCpu(proc=tmp_path).read()
    (tmp_path / "stat").write_text("nothing\n")
    with pytest.raises(MetricSourceError, match="not as expected"):
        HostCpu(proc=tmp_path).read()


def test_the_work_of_children_is_ours_even_when_they_have_ended() -> None:
    """A child's CPU time counts for the tree, also once it is gone."""
    before = tree_seconds(os.getpid())
    subprocess.run([sys.executable, "-S", "-c", "sum(range(20_000_000))"], check=True)
    assert tree_seconds(os.getpid()) - before > 0.1


def test_a_process_that_is_gone_used_nothing() -> None:
    """There is no tree below it."""
    gone = subprocess.Popen([sys.executable, "-S", "-c", ""])
    gone.wait()
    assert tree_seconds(gone.pid) == 0.0
