# SPDX-License-Identifier: Apache-2.0
"""The measurement of a real-time query: its settings, its records, and a topic that runs out."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ClusterError
from penstock.measuring.real_time_turns import RealTimeJob, RealTimeTurn, WindowRules
from penstock.records import BatchProgress, SourceProgress
from penstock.running.placed_application import gradually, one_on_each
from penstock.running.real_time_measurement import check_left, settings_of, values_of

JOB = RealTimeJob(
    {"app": "penstock.apps.taxi_attractions:taxi_attractions"}, "taxi-ride", 100, 4, 0.1,
    (RealTimeTurn(3, 0.1, 1000),), WindowRules(10.0), {}, 1.0, 2.0,
)  # fmt: skip


def test_one_executor_alone_has_a_slot_for_every_task() -> None:
    """Else a partition would stand still, without a word; each node has at most one executor."""
    cluster, operator = settings_of(JOB)
    assert cluster.geo is not None
    assert cluster.geo.slots == operator.executor_cores == JOB.tasks
    assert operator.is_real_time
    assert operator.checkpoint_seconds == 10.0
    limits = one_on_each(operator, JOB.nodes)
    assert (limits.min_executors, limits.max_executors) == (1, 3)
    assert (limits.nodes, limits.executors_per_node) == (JOB.nodes, 1)


def test_the_topic_is_filled_with_as_many_records_as_asked_for() -> None:
    """Generated ones, which come again when there are no more."""
    values = list(values_of("taxi-ride", 60_010))
    assert len(values) == 60_010
    assert values[60_000] == values[0]
    assert values[0].split(b",")[1] == b"START"


def a_batch(ends: Any) -> BatchProgress:
    """One that ended at these offsets."""
    return BatchProgress("measured", "q", "r", 1, 0.0, 1.0, 9, {}, (SourceProgress("kafka", None, ends, None, 9),))


def test_a_partition_that_has_run_out_ends_the_measurement() -> None:
    """Its task would be idle, and be counted as if it worked."""
    held = {("waiting", 0): 25, ("waiting", 1): 25}
    check_left([a_batch('{"waiting": {"0": 24, "1": 3}}'), a_batch(None)], held)
    with pytest.raises(ClusterError, match=r"run out; give more than 50"):
        check_left([a_batch('{"waiting": {"0": 24, "1": 25}}')], held)


def test_round_trips_grow_step_by_step() -> None:
    """By less than TCP takes for a loss; they may fall at once."""
    assert gradually(0.0, 0.2) == [0.08, 0.16, 0.2]
    assert gradually(0.1, 0.2) == [0.18, 0.2]
    assert gradually(0.2, 0.05) == [0.05]
    assert gradually(0.0, 0.0) == [0.0]
