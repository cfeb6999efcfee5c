# SPDX-License-Identifier: Apache-2.0
"""The script that gives readers inputs for hours: what it counts has come to them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_inputs_are_those_that_came_to_the_reader(tmp_path: Path) -> None:
    """With Atheris, where it is installed, and without: most bytes that are tried make one."""
    command = [sys.executable, str(ROOT / "scripts" / "fuzz.py"), "--only", "amqp_messages", "--seconds", "1"]
    done = subprocess.run([*command, "--folder", str(tmp_path)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads((tmp_path / "amqp_messages.json").read_text())
    assert counts["findings"] == {}
    assert 0.5 * counts["tried"] < counts["inputs"] <= counts["tried"]


def try_toy(tmp_path: Path, body: str) -> subprocess.CompletedProcess[str]:
    """Let the script give a second of inputs to one reader, which does this with a number."""
    script = (ROOT / "scripts" / "fuzz.py").read_text()
    found = tmp_path / "fuzz.py"
    reader = (
        "import os\n\nfrom hypothesis import given, settings, strategies as st\n\n"
        "@settings(max_examples=5)\n@given(st.integers())\n"
        f"def test_numbers(number):\n    {body}\n"
    )
    (tmp_path / "toy_reader.py").write_text(reader)
    begin, end = script.index("MODULES = "), script.index("INSTRUMENTED")
    found.write_text(
        f'{script[:begin]}MODULES = ("toy_reader",)\nsys.path.insert(0, {str(tmp_path)!r})\n{script[end:]}'
    )
    command = [sys.executable, str(found), "--seconds", "1", "--folder", str(tmp_path / "out")]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def test_a_finding_is_shown_with_its_input(tmp_path: Path) -> None:
    """Whoever sees the test fail can try the input again; the script ends by itself."""
    done = try_toy(tmp_path, "assert number != 0, 'nought'")
    assert done.returncode == 1
    assert "AssertionError: nought" in done.stdout
    assert "the input: (0, {})" in done.stdout or "'number': 0" in done.stdout


@pytest.mark.parametrize("code", [1, 7])
def test_a_reader_that_dies_before_its_time_is_a_failure(tmp_path: Path, code: int) -> None:
    """Though it has written counts without a finding by then: what it had still to try was not tried."""
    counts = tmp_path / "out" / "numbers.json"
    done = try_toy(tmp_path, f"os.path.exists({str(counts)!r}) and os._exit({code})")
    assert json.loads(counts.read_text())["findings"] == {}
    assert done.returncode == 1, done.stdout
    assert f"numbers ended with {code}" in done.stdout
