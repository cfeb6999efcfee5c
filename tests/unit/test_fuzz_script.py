# SPDX-License-Identifier: Apache-2.0
"""The script that gives readers inputs for hours: what it counts has come to them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
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


def with_toy_reader(folder: Path, body: str) -> list[str]:
    """The command that gives inputs to a reader with this body alone."""
    script = (ROOT / "scripts" / "fuzz.py").read_text()
    reader = (
        "import os, signal, time\n"
        "from hypothesis import given, settings, strategies as st\n\n"
        f"@settings(max_examples=5, deadline=None)\n@given(st.integers())\ndef test_numbers(number):\n    {body}\n"
    )
    (folder / "toy_reader.py").write_text(reader)
    begin, end = script.index("MODULES = "), script.index("INSTRUMENTED")
    text = f'{script[:begin]}MODULES = ("toy_reader",)\nsys.path.insert(0, {str(folder)!r})\n{script[end:]}'
    (folder / "fuzz.py").write_text(text.replace("END_SECONDS = 20.0", "END_SECONDS = 0.5"))
    return [sys.executable, str(folder / "fuzz.py"), "--seconds", "1", "--folder", str(folder / "out")]


def test_a_finding_is_shown_with_its_input(tmp_path: Path) -> None:
    """Whoever sees the test fail can try the input again; the script ends by itself."""
    command = with_toy_reader(tmp_path, "assert number != 0, 'nought'")
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "AssertionError: nought" in done.stdout
    assert "the input: (0, {})" in done.stdout or "'number': 0" in done.stdout


def test_a_reader_that_dies_is_a_failure(tmp_path: Path) -> None:
    """What it counted before has no finding; its end is one."""
    command = with_toy_reader(tmp_path, "number and os.kill(os.getpid(), signal.SIGKILL)")
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stdout
    assert "numbers ended with -9" in done.stdout


def test_a_reader_that_hangs_is_ended(tmp_path: Path) -> None:
    """Also one in C, which no signal reaches. What was stopped has not passed."""
    there = tmp_path / "there"
    body = f"signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGTERM}}); open({str(there)!r}, 'w'); time.sleep(600)"
    with subprocess.Popen(with_toy_reader(tmp_path, body), stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60.0
        while not there.exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.terminate()
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "stopped" in output


def test_several_readers_are_chosen_by_parts_of_their_names(tmp_path: Path) -> None:
    """Those that a part is in are tried, once each. A part that is in no name is refused, with the names."""
    command = with_toy_reader(tmp_path, "pass")
    module = tmp_path / "toy_reader.py"
    given = "@settings(max_examples=5, deadline=None)\n@given(st.integers())\n"
    others = [f"\n\n{given}def test_{name}(number):\n    pass\n" for name in ("letters", "lists")]
    module.write_text(module.read_text() + "".join(others))
    command += ["--seconds", "0.1", "--only", "num", "--only", "letter", "--only", "bers"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["numbers", "letters"]
    refused = subprocess.run([*command, "--only", "nobody"], check=False, capture_output=True, text=True, timeout=120)
    assert refused.returncode == 2
    assert "'nobody'; there are numbers, letters, lists" in refused.stderr
