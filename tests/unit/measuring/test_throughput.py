# SPDX-License-Identifier: Apache-2.0
"""Rates from the ends of batches."""

from __future__ import annotations

import pytest

from penstock.measuring.throughput import BatchEnd, speed_up, throughput_of


def test_the_mean_weighs_batches_by_their_time() -> None:
    """All records over all the time: a long slow batch counts for its length, the median does not see it."""
    ends = [BatchEnd(0.0, 0), BatchEnd(1.0, 100), BatchEnd(2.0, 200), BatchEnd(10.0, 300)]
    found = throughput_of(ends)
    assert found is not None
    assert (found.batches, found.mean, found.median) == (3, 30.0, 100.0)
    assert found.to_json()["p95"] == pytest.approx(100.0)


def test_one_end_gives_no_rate() -> None:
    """The beginning of the first batch is not known, so it takes two ends."""
    assert throughput_of([BatchEnd(1.0, 100)]) is None
    assert throughput_of([]) is None


def test_efficiency_is_against_the_smallest_size() -> None:
    """From 2 to 8 executors with three times the throughput is three quarters of the ideal."""
    assert speed_up(300.0, 8, 100.0, 2) == (3.0, 0.75)
