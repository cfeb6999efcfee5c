# SPDX-License-Identifier: Apache-2.0
"""The points at which a controller can be made to die: all of them are listed, none of them acts by itself."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.crash_points import POINTS, VARIABLE, CrashPlan, crash_point, plan_crash
from penstock.errors import ConfigurationError
from penstock.knowledge.sqlite import SqliteStore

SOURCES = Path(penstock.__file__).parent


@pytest.fixture(autouse=True)
def no_plan_left() -> Iterator[None]:
    """Whatever a test plans ends with it."""
    yield
    plan_crash({})


def test_every_point_stands_once_in_the_code_and_in_the_list() -> None:
    """A point that is listed and nowhere reached, or reached and not listed, would make a test of nothing."""
    calls = re.compile(r'crash_point\("([^"]*)"\)')
    found = Counter(name for path in SOURCES.rglob("*.py") for name in calls.findall(path.read_text(encoding="utf-8")))
    assert found == Counter(POINTS.keys())


def test_nothing_happens_without_the_variable() -> None:
    """A run that nobody disturbs passes every point."""
    happened: list[str] = []
    plan_crash({}, lambda: happened.append("crash"))
    for name in POINTS:
        crash_point(name)
    assert not happened


def test_the_crash_comes_at_the_time_that_was_asked_for() -> None:
    """Points of other names do not count, and what comes after it does not crash again."""
    happened: list[str] = []
    plan_crash({VARIABLE: "acted:3"}, lambda: happened.append("crash"))
    for time in range(1, 6):
        crash_point("planned")
        crash_point("acted")
        happened.append(f"passed {time}")
    assert happened.index("crash") == 2
    assert happened.count("crash") == 1


def test_without_a_number_the_first_time_is_meant() -> None:
    """`PENSTOCK_CRASH_AT=acted` is `acted:1`."""
    assert CrashPlan("acted", lambda: None).left == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("actd:1", "'actd' is no crash point; known: settings-kept"),
        ("acted:0", "'0' is not the number"),
        ("acted:x", "'x' is not the number"),
    ],
)
def test_a_plan_that_cannot_be_read_is_refused(text: str, why: str) -> None:
    """A misspelt point would never be reached, and the test would seem to pass."""
    with pytest.raises(ConfigurationError, match=f"{VARIABLE}: {why}"):
        plan_crash({VARIABLE: text})


@pytest.mark.parametrize(
    ("point", "kept"), [("record-begun", None), ("record-written", None), ("record-committed", "yes")]
)
def test_a_process_dies_at_its_point_as_by_signal_9(tmp_path: Path, point: str, kept: str | None) -> None:
    """A store whose process dies before the commit has nothing of the record, after it all of it."""
    program = (
        "import os, sys\n"
        "from penstock.crash_points import plan_crash\n"
        "from penstock.knowledge.sqlite import SqliteStore\n"
        "store = SqliteStore(sys.argv[1])\n"
        "store.set_fact('first', 'yes')\n"
        "plan_crash()\n"
        "store.set_fact('second', 'yes')\n"
        "print('survived')\n"
    )
    path = tmp_path / "knowledge.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], env={"PYTHONPATH": str(SOURCES.parent), VARIABLE: point},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert "survived" not in done.stdout
    store = SqliteStore.open_readonly(path)
    assert (store.fact("first"), store.fact("second")) == ("yes", kept)
    store.close()
