# SPDX-License-Identifier: Apache-2.0
"""The same counts without Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from penstock.apps.grep.query import DEFAULT_PATTERN


def expected_counts(lines: Sequence[str], pattern: str = DEFAULT_PATTERN) -> Mapping[str, Mapping[str, int]]:
    """Count the lines, and those in which `pattern` is found, which Python must read as Java does."""
    found = re.compile(pattern, re.ASCII)
    matched = sum(found.search(line) is not None for line in lines)
    return {"total": {"": len(lines)}} | ({"matched": {"": matched}} if matched else {})
