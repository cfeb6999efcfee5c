# SPDX-License-Identifier: Apache-2.0
"""What new executors cost, as the benchmark of the elastic policy measures it."""

from __future__ import annotations

import pytest
from benchmarks.elastic_spark.sizes import InTurn, Rates, Start

from penstock.ports import Look
from penstock.records import Allocation, BatchProgress, ClusterState, Observation, Quality, Telemetry

SUSTAINED = {1: 1000.0, 3: 3000.0}


def test_executors_that_work_at_once_cost_nothing() -> None:
    """15,000 of 78,000 records were done before; the rest is done as fast as three do it."""
    assert Start(1, 3, alone_seconds=15.0, rows=78_000, seconds=21.0).lost_seconds(SUSTAINED) == 0.0


def test_what_was_not_done_is_spread_over_the_new_ones() -> None:
    """Ten seconds of three executors were lost because of two new ones: fifteen for each."""
    assert Start(1, 3, alone_seconds=15.0, rows=78_000, seconds=31.0).lost_seconds(SUSTAINED) == pytest.approx(15.0)


def test_every_size_has_its_turn_and_then_the_way_up_is_watched() -> None:
    """Full batches of a size are its throughput; after a step up, the batch that ran and the next one are counted."""
    rates: dict[int, Rates] = {}
    starts: list[Start] = []
    sizes, ups = [Allocation(3), Allocation(1)], [Allocation(3)]
    turns = InTurn(
        sizes, ups, rows=100, least_seconds=5.0,
        on_done=lambda size, found: rates.update({size.executors: found}), on_start=starts.append,
    )  # fmt: skip
    for n in range(12):  # a batch of 100 records every 5 s, the first size until it is warm
        turns.watch(look(5.0 * n, 3, batch(5.0 * n - 5.0, 5.0 * n)))
    assert list(rates) == [3]
    for n in range(12, 17):
        turns.watch(look(5.0 * n, 1, batch(5.0 * n - 5.0, 5.0 * n)))
    assert {size: set(found) for size, found in rates.items()} == {3: {20.0}, 1: {20.0}}
    turns.watch(look(83.0, 3))  # three executors again, 3 s into a batch
    turns.watch(look(86.0, 3, batch(80.0, 86.0)))
    turns.watch(look(90.0, 3, batch(86.0, 90.0)))
    assert starts == [Start(1, 3, alone_seconds=3.0, rows=200, seconds=7.0)]


def batch(began: float, ended: float) -> BatchProgress:
    """A full one."""
    return BatchProgress("log", "query", "run", int(ended), began, ended, 100, {}, ())


def look(at: float, executors: int, *batches: BatchProgress) -> Look:
    """What is seen at an instant."""
    cluster = ClusterState(observed=Allocation(executors))
    return Look(Telemetry("log", at, batches), Observation("log", at, 10.0, Quality.GOOD, cluster))
