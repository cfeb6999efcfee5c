# SPDX-License-Identifier: Apache-2.0
"""The pauses and the table of the actuation benchmark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from benchmarks.actuation.kernel import quota_cores
from benchmarks.actuation.pauses import longest_pause
from benchmarks.actuation.table import kept, table

ROOT = Path(__file__).parents[3]
START = datetime(2026, 1, 1, tzinfo=UTC)


def reports(*starts: float) -> list[dict[str, Any]]:
    """Batches of half a second that started at these seconds."""
    return [
        {"timestamp": (START + timedelta(seconds=s)).isoformat(), "durationMs": {"triggerExecution": 500}}
        for s in starts
    ]


def test_a_pause_is_what_is_longer_than_usual_before() -> None:
    """The slow first minute does not count as usual, nor does what came before the decision count as its pause."""
    slow = [float(second) for second in range(0, 60, 10)]
    steady = [float(second) for second in range(60, 100)]
    zero = START.timestamp()
    assert longest_pause(reports(*slow, *steady, 104.0, 105.0), zero + 100, zero + 105) == pytest.approx(4.0)
    assert longest_pause(reports(*slow, *steady, 100.0, 101.0), zero + 100, zero + 101) == pytest.approx(0.0)


def test_a_query_that_has_stood_still_until_now_pauses() -> None:
    """No batch has ended since: the pause is what has passed."""
    zero = START.timestamp()
    assert longest_pause(reports(0.0, 1.0, 2.0), zero + 10, zero + 20) == pytest.approx(16.5)


def test_too_few_batches_are_no_measurement() -> None:
    """Nobody knows what is usual."""
    with pytest.raises(ValueError, match="too few batches"):
        longest_pause(reports(0.0), 0.0, 1.0)


def test_processes_that_are_gone_have_no_quota() -> None:
    """They ended while they were looked at."""
    assert quota_cores([2**30]) is None


@pytest.mark.parametrize(
    ("page", "clusters"),
    [
        ("benchmarks/actuation/README.md", {"kubernetes", "standalone", "yarn"}),
        ("docs/how-to/run-on-kubernetes.md", {"kubernetes", "standalone"}),
    ],
)
def test_the_pages_say_what_was_kept(page: str, clusters: set[str]) -> None:
    """The rows of the kept results stand there."""
    found = [result for result in kept() if result["cluster"] in clusters]
    assert found
    assert table(found) in (ROOT / page).read_text(encoding="utf-8")
