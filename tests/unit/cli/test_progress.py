# SPDX-License-Identifier: Apache-2.0
"""Signs of life on a terminal, silence elsewhere, and one thread for linear algebra."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

_SHOW = """
from penstock.cli.progress import busy, progress_bar
with progress_bar("predicting") as progress:
    if progress is not None:
        progress(0.5)
with busy("fitting"):
    pass
print("{}")
"""
_THREADS = """
import os
{first}
from penstock.cli.progress import calculate_in_one_thread
calculate_in_one_thread()
print(os.environ.get("OPENBLAS_NUM_THREADS"))
"""


def run(
    code: str, stderr: int = subprocess.PIPE, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run code in a fresh interpreter."""
    known = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment = {**known, "TERM": "xterm", **(variables or {})}
    return subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=stderr, env=environment, check=True
    )


def test_bars_show_on_a_terminal_and_on_stderr_alone() -> None:
    """What is done is shown by name on stderr, and stdout stays clean."""
    ours, theirs = pty.openpty()
    done = run(_SHOW, stderr=theirs)
    os.close(theirs)
    shown = os.read(ours, 65536)
    os.close(ours)
    assert done.stdout == b"{}\n"
    assert b"predicting" in shown
    assert b"fitting" in shown


def test_nothing_shows_where_there_is_no_terminal() -> None:
    """In a pipe neither bar writes anything."""
    done = run(_SHOW)
    assert (done.stdout, done.stderr) == (b"{}\n", b"")


@pytest.mark.parametrize(
    ("first", "variables", "expected"),
    [("", {}, b"1"), ("", {"OPENBLAS_NUM_THREADS": "3"}, b"3"), ("import numpy", {}, b"None")],
    ids=["usual", "the user's", "too late"],
)
def test_linear_algebra_has_one_thread_unless_said_otherwise(
    first: str, variables: dict[str, str], expected: bytes
) -> None:
    """One thread before numpy is loaded; the user's own number is kept, and afterwards nothing is changed."""
    assert run(_THREADS.format(first=first), variables=variables).stdout.strip() == expected


@pytest.mark.parametrize("command", ["what_if", "simulate", "fit"])
def test_commands_load_no_numbers_before_they_say_so(command: str) -> None:
    """The modules of the commands leave numpy alone, so that what they say about threads still counts."""
    code = f"import sys, penstock.cli.{command}; print('numpy' in sys.modules)"
    assert run(code).stdout.strip() == b"False"
