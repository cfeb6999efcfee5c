# SPDX-License-Identifier: Apache-2.0
"""What grep counts, without Spark."""

from __future__ import annotations

from penstock.apps.grep.check import expected_counts


def test_the_end_of_a_long_line_is_not_searched() -> None:
    """A pattern that takes time with a line's length gets a bounded line; lines that were cut are counted."""
    lines = ["needle", "x" * 20 + "needle", "x"]
    assert expected_counts(lines, "needle", 20) == {"total": {"": 3}, "matched": {"": 1}, "cut": {"": 1}}
