# SPDX-License-Identifier: Apache-2.0
"""What sizes sustained in a day, by the batches of its looks."""

from __future__ import annotations

import pytest
from benchmarks.elastic_spark.day_throughput import DayBatch, day_batches, day_throughput

from penstock.records import Allocation, ClusterState, Observation, Quality

SIZES = [Allocation(n) for n in range(1, 5)]


def look(at: float, executors: int, batch: int, done: int) -> Observation:
    """What is seen at an instant."""
    cluster = ClusterState(observed=Allocation(executors))
    return Observation("log", at, 10.0, Quality.GOOD, cluster, records_done=done, last_batch_id=batch)


def test_batches_under_one_size_are_taken_from_end_to_end() -> None:
    """The looks begin in the midst of the first one, and during the fourth the size changed."""
    looks = [
        look(-3.0, 1, 6, 50), look(0.0, 1, 7, 100), look(5.0, 1, 7, 100), look(10.0, 1, 8, 300), look(12.0, 2, 8, 300),
        look(15.0, 2, 9, 500), look(20.0, 2, 9, 500), look(21.0, 2, 10, 800),
    ]  # fmt: skip
    assert day_batches(looks) == [DayBatch(Allocation(1), 200, 10.0), DayBatch(Allocation(2), 300, 6.0)]


def test_a_batch_without_records_says_nothing() -> None:
    """It ended, and nothing was done."""
    assert day_batches([look(-1.0, 1, 6, 100), look(0.0, 1, 7, 100), look(5.0, 1, 8, 100)]) == []


def test_sizes_without_a_batch_follow_from_the_others() -> None:
    """Two seconds, and 4 ms for a record on one executor, of which 1 ms is the driver's: of full batches of 1,000."""
    batches = [
        DayBatch(Allocation(n), rows, 2.0 + rows * (0.003 / n + 0.001)) for n in (1, 3) for rows in (200, 500, 1000)
    ]
    found = day_throughput(batches, 1000, SIZES)
    assert [round(found[size]) for size in SIZES] == [round(1000 / (2 + 3 / n + 1)) for n in range(1, 5)]


def test_a_day_of_one_size_is_refused() -> None:
    """Nothing could be said of the others."""
    with pytest.raises(SystemExit, match="fewer than two sizes"):
        day_throughput([DayBatch(Allocation(1), 100, 5.0)], 1000, SIZES)
