# SPDX-License-Identifier: Apache-2.0
"""The options of `match_lines`, looked through without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.apps.log_analysis import check_match_options
from penstock.errors import ConfigurationError


def test_good_options_pass(tmp_path: Path) -> None:
    """All known options at once are fine, and so are none."""
    patterns = tmp_path / "patterns.txt"
    patterns.write_text("late: too late\n", encoding="utf-8")
    check_match_options({})
    check_match_options({"format": "hdfs", "patterns": str(patterns), "pattern_count": "3", "output": "unused"})


def test_every_mistake_is_told(tmp_path: Path) -> None:
    """An unknown option, an unknown format and a missing file are told in one error."""
    with pytest.raises(ConfigurationError) as refused:
        check_match_options({"colour": "red", "format": "morse", "patterns": str(tmp_path / "none.txt")})
    assert len(refused.value.faults) == 3
    text = str(refused.value)
    known = "format, patterns, pattern_count, longest_message, pattern_seconds, output"
    assert f"colour: unknown option; known: {known}" in text
    assert "unknown line format 'morse'" in text
    assert "none.txt" in text
