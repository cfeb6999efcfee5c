# SPDX-License-Identifier: Apache-2.0
"""The pauses and the table of the actuation benchmark."""

from __future__ import annotations

import statistics
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from benchmarks.actuation.kernel import quota_cores
from benchmarks.actuation.pauses import longest_pause, quiet_pauses
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


def test_a_time_of_short_batches_has_a_pause_below_zero() -> None:
    """Cut off at zero, noise would be a pause on average."""
    zero = START.timestamp()
    quick = [20.0 + 0.8 * i for i in range(1, 6)]
    steady = [float(second) for second in range(21)]
    assert longest_pause(reports(*steady, *quick), zero + 21.5, zero + 24.0) == pytest.approx(-0.2)


def test_noise_is_held_against_noise_of_as_long_a_time() -> None:
    """The longest of many times between batches is longer than the usual one, though nothing was done to the query."""
    lot = Random(1)
    starts = [0.0]
    while starts[-1] < 4000.0:
        starts.append(starts[-1] + lot.uniform(0.5, 1.5))
    zero = START.timestamp()
    quiet = quiet_pauses(reports(*starts), [(zero + 100, zero + 2100), (zero + 3000, zero + 3003)], 4.0)
    assert len(quiet) == 500
    assert statistics.median(quiet) > 0.2
    other = quiet_pauses(reports(*starts), [(zero + 2100, zero + 3900)], 4.0)
    assert statistics.median(other) == pytest.approx(statistics.median(quiet), abs=0.1)
    assert statistics.median(quiet_pauses(reports(*starts), [(zero + 100, zero + 2100)], 40.0)) > statistics.median(
        quiet
    )


def test_the_table_says_how_often_nothing_was_as_long_a_pause() -> None:
    """The mean over all samples; a sample without a time to compare with says nothing, nor do results of before."""
    samples = [
        {"kind": "share lowered", "effect": 0.1, "done": 0.5, "pause": pause, "steps": {}, "quiet": quiet}
        for pause, quiet in ((0.2, [0.1, 0.2, 0.3, 0.0]), (5.0, [0.1, 0.2]), (1.0, []))
    ]
    result = {"cluster": "yarn", "samples": samples}
    (row,) = table([result]).splitlines()[2:]
    assert row.endswith("| 1.00 (0.20 to 5.00) s | 0.15 (0.00 to 0.30) s | 25% | 3 |")
    for sample in samples:
        del sample["quiet"]
    (row,) = table([result]).splitlines()[2:]
    assert row.endswith("| 1.00 (0.20 to 5.00) s |  |  | 3 |")


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
