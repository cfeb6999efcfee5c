# SPDX-License-Identifier: Apache-2.0
"""The same counts without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from penstock.apps.web_logs import read_visits


def expected_counts(lines: Iterable[str]) -> Mapping[str, Mapping[str, int]]:
    """Count the visits of each site."""
    return {"site": Counter(visit.site for visit in read_visits(lines) if visit is not None)}
