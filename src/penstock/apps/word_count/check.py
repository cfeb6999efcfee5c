# SPDX-License-Identifier: Apache-2.0
"""The same counts without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping


def expected_counts(lines: Iterable[str]) -> Mapping[str, Mapping[str, int]]:
    """Count the words of lines, as the query's result should have them: kind -> key -> count."""
    return {"word": Counter(word for line in lines for word in line.split())}
