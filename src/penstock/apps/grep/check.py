# SPDX-License-Identifier: Apache-2.0
"""The same counts without Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from penstock.apps.grep.query import DEFAULT_PATTERN, LONGEST_LINE


def expected_counts(
    lines: Sequence[str], pattern: str = DEFAULT_PATTERN, longest_line: int = LONGEST_LINE
) -> Mapping[str, Mapping[str, int]]:
    """Count the lines, those in which `pattern` is found, which Python must read as Java does, and those cut."""
    found = re.compile(pattern, re.ASCII)
    counted = {
        "total": len(lines),
        "matched": sum(found.search(line[:longest_line]) is not None for line in lines),
        "cut": sum(len(line) > longest_line for line in lines),
    }
    return {kind: {"": number} for kind, number in counted.items() if number or kind == "total"}
