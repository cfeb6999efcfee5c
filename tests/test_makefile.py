# SPDX-License-Identifier: Apache-2.0
"""What `make` would do: each command installs what it needs and no more, and the list of targets is complete."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def said_by_make(*arguments: str) -> str:
    """What make prints; with `-n` those are the commands it would run."""
    # Without what a make around these tests passes on.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", *arguments], cwd=ROOT, env=alone, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


@pytest.mark.parametrize(
    ("target", "steps"),
    [
        ("demo", ["run"]),
        ("check", ["run", "dev"]),
        ("test-unit", ["run", "dev"]),
        ("test", ["run", "dev", "brokers"]),
        ("test-real", ["run", "dev", "brokers"]),
        ("test-versions", ["run", "dev", "brokers"]),
        ("test-cgroup-v2", ["run", "dev"]),
        ("site", ["run", "dev"]),
    ],
)
def test_a_command_sets_up_what_it_needs_and_no_more(target: str, steps: list[str]) -> None:
    """In a bare clone the steps before the command's own work are these, in this order."""
    commands = said_by_make("--dry-run", "--always-make", target)
    assert re.findall(r"scripts/setup\.sh (\w+)", commands) == steps


def test_the_list_names_every_target() -> None:
    """`make help` has a line for each target that is no file."""
    declared = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert declared is not None
    listed = re.findall(r"^  make ([a-z0-9-]+) +\S", said_by_make("help"), re.MULTILINE)
    assert sorted(listed) == sorted(declared[1].split())
