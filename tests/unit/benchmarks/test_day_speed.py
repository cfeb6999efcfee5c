# SPDX-License-Identifier: Apache-2.0
"""How fast the machine was in a day, by the batches of its looks."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.elastic_spark.day_speed import DayBatch, day_batches, day_speed

from penstock.records import Allocation, ClusterState, Observation, Quality


def look(at: float, executors: int, batch: int, done: int) -> Observation:
    """What is seen at an instant."""
    cluster = ClusterState(observed=Allocation(executors))
    return Observation("log", at, 10.0, Quality.GOOD, cluster, records_done=done, last_batch_id=batch)


def test_batches_under_one_size_are_taken_from_end_to_end() -> None:
    """The looks begin in the midst of one, during another the size changed, and the next has new executors."""
    looks = [
        look(-3.0, 1, 6, 50), look(0.0, 1, 7, 100), look(5.0, 1, 7, 100), look(10.0, 1, 8, 300), look(12.0, 2, 8, 300),
        look(15.0, 2, 9, 500), look(20.0, 2, 9, 500), look(21.0, 2, 10, 800), look(25.0, 2, 11, 1000),
        look(26.0, 1, 11, 1000), look(29.0, 1, 12, 1100), look(33.0, 1, 13, 1200),
    ]  # fmt: skip
    assert day_batches(looks) == [
        DayBatch(Allocation(1), 200, 10.0, 5.0),
        DayBatch(Allocation(2), 200, 4.0, 23.0),
        DayBatch(Allocation(1), 100, 4.0, 31.0),
    ]


def test_a_batch_without_records_says_nothing() -> None:
    """It ended, and nothing was done."""
    assert day_batches([look(-1.0, 1, 6, 100), look(0.0, 1, 7, 100), look(5.0, 1, 8, 100)]) == []


def test_the_speed_is_found_whatever_the_batches_had() -> None:
    """Two seconds of every batch are fixed, sizes and rows are mixed; halfway the machine becomes a third slower."""
    sustained = {Allocation(n): 1000 / (2.0 + 6.0 / n) for n in (1, 2, 3)}
    sizes, rows = [1, 2, 3, 2] * 10, [200, 1000, 500, 800, 300] * 8
    batches = [
        DayBatch(Allocation(n), count, (2.0 + 0.006 * count / n) / (1.2 if place < 20 else 0.8), float(place))
        for place, (n, count) in enumerate(zip(sizes, rows, strict=True))
    ]
    found = day_speed(batches, sustained, 1000)
    assert found.fixed_seconds == pytest.approx(2.0, abs=0.1)
    assert found(np.array([5.0, 35.0])) == pytest.approx([1.2, 0.8], rel=0.03)


def test_a_day_of_few_batches_is_refused() -> None:
    """Nothing could be said of its speed."""
    with pytest.raises(SystemExit, match="1 batches ran under one size"):
        day_speed([DayBatch(Allocation(1), 100, 5.0, 0.0)], {Allocation(1): 20.0}, 1000)
