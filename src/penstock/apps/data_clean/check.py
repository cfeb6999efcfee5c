# SPDX-License-Identifier: Apache-2.0
"""The same rows without Spark."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.apps.web_logs import read_visits


def expected_rows(lines: Iterable[str], status: int = 200) -> list[tuple[int, str, str, str, str]]:
    """Return (index, time, visitor, site, path) of the visits with a status, in the order of index."""
    visits = enumerate(read_visits(lines))
    return [(index, *visit[:4]) for index, visit in visits if visit is not None and visit.status == str(status)]
