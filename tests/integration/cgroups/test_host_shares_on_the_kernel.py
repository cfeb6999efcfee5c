# SPDX-License-Identifier: Apache-2.0
"""What `penstock agent` does on a host, on the real kernel: executors held by their number, opened and put back."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.cgroups.busy_processes import (
    SPIN,
    cgroups_of,
    is_held,
    open_text,
    penstock_folders,
    quota_in,
    wait_until,
)

from penstock.adaptors.cgroups import Hierarchy
from penstock.adaptors.cgroups.host_shares import HostShares
from penstock.records import ExecutorShare, HeldOnHost

pytestmark = [pytest.mark.cgroups, pytest.mark.core]

Executor = Callable[[str, int], "subprocess.Popen[str]"]
EACH = 0.04
"""Cores for each executor."""


@pytest.fixture
def executor(start: Callable[..., subprocess.Popen[str]]) -> Executor:
    """Starts busy processes with the command line of an executor."""

    def run(application: str, number: int) -> subprocess.Popen[str]:
        words = ["org.apache.spark.executor.CoarseGrainedExecutorBackend", "--executor-id", str(number), "--app-id"]
        started = start(SPIN, *words, application)
        # The command line is seen only once the program has started.
        wait_until(lambda: application in Path(f"/proc/{started.pid}/cmdline").read_text(), "the executor starts")
        return started

    return run


@pytest.fixture
def host(hierarchy: Hierarchy) -> Iterator[HostShares]:
    """A host that lifts caps after two seconds without a word."""
    made = HostShares(hierarchy, silence_seconds=2.0, run="test", look_every_seconds=0.1).start()
    yield made
    made.close()


def told(host: HostShares, *shares: ExecutorShare) -> dict[str, HeldOnHost]:
    """What comes of a word of the master, by application."""
    return {held.application_id: held for held in host.hold(shares)}


def cap(held: HeldOnHost) -> float | None:
    """The cap of an application here, in cores."""
    return None if held.cpu is None else held.cpu.quota_cores


def test_executors_are_held_by_how_many_are_here_and_put_back(
    hierarchy: Hierarchy, host: HostShares, executor: Executor, application: str
) -> None:
    """The cap follows their number, others are not touched, and what is named no more is as it was."""
    other = f"{application}-other"
    one, two, stranger = executor(application, 1), executor(application, 2), executor(other, 3)
    before = cgroups_of(one.pid)
    held = told(host, ExecutorShare(application, EACH), ExecutorShare("not-here", EACH))
    assert held == {application: held[application], "not-here": HeldOnHost("not-here")}
    assert (held[application].executors, held[application].faults) == (("1", "2"), ())
    assert cap(held[application]) == pytest.approx(2 * EACH)
    assert is_held(one.pid)
    assert is_held(two.pid)
    assert not is_held(stranger.pid)

    def is_throttled() -> bool:
        cpu = told(host, ExecutorShare(application, EACH))[application].cpu
        return cpu is not None and (cpu.throttled_seconds or 0.0) > 0.2

    wait_until(is_throttled, "throttling")
    two.kill()
    two.wait()
    wait_until(
        lambda: cap(told(host, ExecutorShare(application, EACH))[application]) == pytest.approx(EACH),
        "the cap of the one that is left",
    )
    assert told(host, ExecutorShare(other, None))[other].executors == ("3",)
    assert cgroups_of(one.pid) == before
    host.close()
    assert cgroups_of(stranger.pid) == before
    assert penstock_folders(hierarchy) == []


def test_silence_lifts_the_cap_and_the_next_word_sets_it_again(
    hierarchy: Hierarchy, host: HostShares, executor: Executor, application: str
) -> None:
    """The group stays meanwhile."""
    held = executor(application, 1)
    share = ExecutorShare(application, EACH)
    assert cap(told(host, share)[application]) == pytest.approx(EACH)
    folder = host._held[application].folder
    assert folder is not None
    wait_until(lambda: quota_in(hierarchy, folder) == open_text(hierarchy), "no cap after the silence")
    assert is_held(held.pid)
    assert cap(told(host, share)[application]) == pytest.approx(EACH)
    host.close()
    assert not is_held(held.pid)
    assert penstock_folders(hierarchy) == []
