# SPDX-License-Identifier: Apache-2.0
"""How long a query stood still, by the ends of its batches."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

_BEFORE_SECONDS = 30.0
"""What is usual is taken from this time before: a query is slower in its first minutes."""


def end_of(report: Mapping[str, Any]) -> float:
    """Return when a batch ended."""
    began = datetime.fromisoformat(report["timestamp"]).timestamp()
    return began + float(report["durationMs"]["triggerExecution"]) / 1e3


def longest_pause(progress: Iterable[Mapping[str, Any]], begun: float, ended: float) -> float:
    """Return by how much the longest time between two ends of batches exceeds the usual one before, in seconds.

    Of several times one is the longest, so that this is above 0 also where nothing was done to the query, and the more
    so the longer one looks: it is to be held against `quiet_pauses` of as many seconds. Below 0: all were short.

    Parameters
    ----------
    progress
        The query's reports, oldest first.
    begun, ended
        The time in question: it counts what lies at least in part between these instants.

    Examples
    --------
    >>> reports = [{"timestamp": f"2026-01-01T00:00:{s:02d}Z", "durationMs": {"triggerExecution": 500}}
    ...            for s in (0, 1, 2, 3, 7, 8)]
    >>> start = datetime.fromisoformat("2026-01-01T00:00:00Z").timestamp()
    >>> longest_pause(reports, start + 4, start + 5)
    3.0
    """
    ends = [end_of(report) for report in progress]
    gaps = [(one, other, other - one) for one, other in pairwise(ends)]
    if not gaps:
        raise ValueError("the query has ended too few batches to see a pause")
    before = [gap for _, other, gap in gaps if begun - _BEFORE_SECONDS <= other < begun]
    usual = statistics.median(before or [gap for _, _, gap in gaps])
    inside = [gap for one, other, gap in gaps if other >= begun and one <= ended]
    return max(inside, default=ended - ends[-1]) - usual


def quiet_pauses(
    progress: Iterable[Mapping[str, Any]], quiet: Iterable[tuple[float, float]], seconds: float
) -> list[float]:
    """Return the longest pause of each stretch of so many seconds in which nothing was changed; none where none fits.

    Parameters
    ----------
    progress
        The query's reports, oldest first.
    quiet
        Beginnings and ends of the times without a change.
    seconds
        How long the time is that they are to be compared with.
    """
    reports = list(progress)
    return [
        longest_pause(reports, begun + i * seconds, begun + (i + 1) * seconds)
        for begun, ended in quiet
        for i in range(int((ended - begun) / seconds + 1e-9))
    ]
