# SPDX-License-Identifier: Apache-2.0
"""This machine's cgroups, busy processes that end with a test, and one that holds them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.cgroups.busy_processes import (
    EXECUTOR_WORDS,
    HOLDER,
    SPIN,
    first_line,
    is_held,
    quota_in,
    wait_until,
)

from penstock.adaptors.cgroups import CgroupsUnavailableError, Hierarchy, find_hierarchy, sweep_stale


@pytest.fixture
def hierarchy() -> Hierarchy:
    """This machine's hierarchy; skips where there is none."""
    try:
        return find_hierarchy()
    except CgroupsUnavailableError as fault:
        pytest.skip(fault.reason)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts Python programs that end with the test, each in a process group of its own."""
    started: list[subprocess.Popen[str]] = []

    def run(program: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)


@pytest.fixture
def application() -> str:
    """An application id that no other test has."""
    return f"app-test-{os.getpid()}-{time.monotonic_ns()}"


@pytest.fixture
def held(
    hierarchy: Hierarchy, start: Callable[..., subprocess.Popen[str]], application: str
) -> Iterator[tuple[subprocess.Popen[str], int, str, int]]:
    """A holder process that caps a busy executor; whatever a test leaves behind is swept at the end."""
    executor = start(SPIN, *EXECUTOR_WORDS, application)
    # The command line is seen only once the program has started.
    wait_until(lambda: application in Path(f"/proc/{executor.pid}/cmdline").read_text(), "the executor starts")
    holder = start(HOLDER, application)
    told = json.loads(first_line(holder))
    assert told["joined"] == ["0"]
    assert is_held(executor.pid)
    assert quota_in(hierarchy, told["folder"]) == "20000"
    yield holder, executor.pid, told["folder"], told["guard"]
    holder.kill()
    holder.wait(timeout=30)
    wait_until(lambda: not Path(f"/proc/{told['guard']}").exists(), "the guard ends")
    sweep_stale(hierarchy)
