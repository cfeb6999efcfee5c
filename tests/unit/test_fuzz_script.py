# SPDX-License-Identifier: Apache-2.0
"""The script that gives readers inputs for hours: what it counts has come to them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_inputs_are_those_that_came_to_the_reader(tmp_path: Path) -> None:
    """With Atheris, where it is installed, and without: most bytes that are tried make one."""
    command = [sys.executable, str(ROOT / "scripts" / "fuzz.py"), "--only", "amqp_messages", "--seconds", "1"]
    done = subprocess.run([*command, "--folder", str(tmp_path)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads((tmp_path / "amqp_messages.json").read_text())
    assert counts["findings"] == {}
    assert 0.5 * counts["tried"] < counts["inputs"] <= counts["tried"]
