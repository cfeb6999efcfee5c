# SPDX-License-Identifier: Apache-2.0
"""Patterns that would hold a task for hours are found before anything starts, and others are let through."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.apps import pattern_trial
from penstock.apps.grep import check_options as check_grep
from penstock.apps.log_analysis import check_options
from penstock.apps.log_analysis.patterns import DEFAULT_PATTERNS, Pattern, in_python
from penstock.apps.pattern_trial import BusyText, busy_texts, read_limit, slow_patterns
from penstock.errors import ConfigurationError

EXPLODING = {
    "nested": r"(a+)+$",
    "nested class": r"^(?:[\w-]+\s?)+!$",
    "branches that overlap": r"^(?:a|a)*$",
    "nested behind a beginning": r"id=(?:\d+,?)*;",
    "cubic": r".*.*.*=",
    "nested in a look ahead": r"x(?=(?:\w*)*!)",
}
HARMLESS = {
    "word": r"\b[A-Z]\w*(?:Exception|Error)\b",
    "parts with separators": r"(?:\w+\.)+\w+",
    "one repetition": r"a+$",
    "kept": r"(?:a++)+$",
    "empty": r"",
    "dots": r".*error.*",
}


def test_patterns_that_take_for_ever_are_found_and_others_are_not() -> None:
    """Each comes with a text that keeps it busy; one that is found does not hide those after it."""
    found = slow_patterns({**EXPLODING, **HARMLESS}, 2000, 0.3)
    assert set(found) == set(EXPLODING)
    assert "a" in found["nested"].repeated
    assert found["nested behind a beginning"].before == "id="


def test_the_built_in_patterns_are_in_time() -> None:
    """At ten times the length that is searched by default: a line of 20 KB takes no seconds."""
    assert slow_patterns({pattern.name: in_python(pattern) for pattern in DEFAULT_PATTERNS}, 20_000, 2.0) == {}


def test_every_repetition_gets_its_text() -> None:
    """What it repeats, alone and behind what comes before it; ends on which it fails, and none."""
    assert BusyText("k=", "0", "\x00") in busy_texts(r"k=\d+(?:,\w+)*")
    assert BusyText("k=0", ",0", "") in busy_texts(r"k=\d+(?:,\w+)*")
    assert {text.repeated for text in busy_texts(r"(?:ab|cd|[^a-z])*")} == {"ab", "cd", "0"}
    assert busy_texts(r"[a-f]{3}x?") == [], "a few repetitions are no danger"
    assert {text.repeated for text in busy_texts(r"\s+[^\W\d]+(?i:Q)+")} >= {" ", "a"}


@pytest.mark.parametrize("pattern", [*DEFAULT_PATTERNS, Pattern("mine", r"(?:\p{Lu}\w*)+\h\Qa+b\E(?<name>x)*")])
def test_texts_can_be_made_of_any_pattern(pattern: Pattern) -> None:
    """Also of what only Java has."""
    for text in busy_texts(in_python(pattern)):
        assert text.repeated
        re.compile(in_python(pattern)).search(text.before + text.repeated + text.end)


@pytest.mark.parametrize(("text", "seconds"), [("1s", 1.0), ("0", 0.0), ("0s", 0.0), ("500ms", 0.5), ("2", 2.0)])
def test_the_limit_is_a_time(text: str, seconds: float) -> None:
    """Zero leaves the trial out."""
    assert read_limit("pattern_seconds", text) == seconds


@pytest.mark.parametrize("text", ["2m", "-1s", "soon", ""])
def test_a_limit_that_is_none_is_refused(text: str) -> None:
    """The error names the option."""
    with pytest.raises(ConfigurationError, match="pattern_seconds"):
        read_limit("pattern_seconds", text)


def test_a_file_with_a_slow_pattern_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """The error names the pattern, the text and what to do; a limit of 0 leaves it to the user."""
    path = tmp_path / "patterns.txt"
    path.write_text("fine: \\bERROR\\b\nslow: (a+)+$\n", encoding="utf-8")
    options = {"output": "out", "patterns": str(path)}
    with pytest.raises(ConfigurationError, match="patterns: 'slow' takes more than 1 s on 2,000 characters"):
        check_options("matcher", options)
    for operator in ("matcher", "log_analysis", "match_lines"):
        with pytest.raises(ConfigurationError, match="patterns: 'slow' takes more than") as fault:
            check_options(operator, {**options, "pattern_seconds": "100ms"})
        assert "'fine'" not in str(fault.value)
        assert "pattern_seconds=0" in str(fault.value)
        check_options(operator, {**options, "pattern_seconds": "0"})
    with pytest.raises(ConfigurationError, match="pattern_seconds"):
        check_options("matcher", {**options, "pattern_seconds": "1h"})


def test_a_slow_pattern_of_grep_is_refused() -> None:
    """The same for its one pattern; the built-in one is not tried."""
    with pytest.raises(ConfigurationError, match=r"pattern: 'pattern' takes more than 0\.2 s"):
        check_grep("grep", {"output": "out", "pattern": "(a+)+$", "pattern_seconds": "200ms"})
    check_grep("grep", {"output": "out", "pattern": "needle"})
    check_grep("grep", {"output": "out"})


def test_the_time_of_other_work_on_the_machine_does_not_count() -> None:
    """The limit is on the CPU: a process that waits is not ended by it."""
    program = pattern_trial._PROGRAM.replace("pattern.search(text)", "__import__('time').sleep(0.3)")
    job = {"length": 10, "seconds": 0.1, "patterns": [["a", [["", "a", ""]]]]}
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], input=json.dumps(job), text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
