# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests: no example is timed, and how the files are spread over workers."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from xdist.scheduler import Scheduling

# No deadline for an example: a busy machine is no fault of the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# Where scripts/run_tests.py looks for tests with these markers.
REAL = {"spark", "cgroups", "e2e", "kafka", "rabbitmq"}
REAL_FOLDERS = ("tests/integration/", "tests/e2e/")

# These files look at all of Penstock's control groups on the machine, so only one of them may be under way.
SHARE_THE_KERNEL = (
    "tests/e2e/",
    "tests/integration/test_cgroups_real.py",
    "tests/integration/test_controller_death.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test where it would not be run, or not by itself: in another folder, or in a file not listed above."""
    for item in items:
        names = {mark.name for mark in item.iter_markers()}
        if names & REAL and not item.nodeid.startswith(REAL_FOLDERS):
            raise pytest.UsageError(f"{item.nodeid}: tests with {names} belong in one of {REAL_FOLDERS}")
        if names & {"cgroups", "e2e"} and not item.nodeid.startswith(SHARE_THE_KERNEL):
            raise pytest.UsageError(f"{item.nodeid}: add its file to SHARE_THE_KERNEL in {__file__}")


def scope_of(nodeid: str) -> str:
    """What goes to one worker as a whole: a file, the files that share the kernel, a folder that shares a broker."""
    file = PurePosixPath(nodeid.partition("::")[0])
    if nodeid.startswith(SHARE_THE_KERNEL):
        return "the kernel"
    return str(file.parent if file.parent.parent == PurePosixPath("tests/integration") else file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    """The scheduler of `--dist=loadfile`, with scopes of ours."""
    from xdist.scheduler import LoadFileScheduling

    class Spread(LoadFileScheduling):  # type: ignore[misc] # xdist ships no types
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    return Spread(config, log) if config.getvalue("dist") == "loadfile" else None
