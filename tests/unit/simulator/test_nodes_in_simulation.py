# SPDX-License-Identifier: Apache-2.0
"""Nodes, delays and standstill in the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.latency_map import LatencyMap
from penstock.records import Action, Allocation, Limits
from penstock.simulator import MicroBatch, Operator, OperatorPorts, Pipeline, Simulation, exponential

APART = LatencyMap.of([("a", "b", 0.5), ("a", "c", 0.1), ("b", "c", 0.4)])
LIMITS = Limits(1, 3, nodes=("a", "b", "c"), executors_per_node=1)


def on(*nodes: str) -> Allocation:
    """One executor on each of these nodes."""
    return Allocation(len(nodes), nodes=tuple((node, 1) for node in nodes))


def a_simulation(start: Allocation, batch: MicroBatch | None = None, standstill: float = 0.0) -> Simulation:
    """200 records that are all there at the start."""
    work = batch or MicroBatch(1.0, 0.1, cap=20, round_trips=2.0)
    operator = Operator("rides", work, limits=LIMITS, standstill_seconds=standstill, start_up_seconds=3.0)
    return Simulation(Pipeline.of_one(operator, APART), np.zeros(200), start={"rides": start})


def test_a_batch_waits_for_round_trips_between_its_nodes() -> None:
    """1 s fixed, 20 records of 0.1 s over two executors, twice 0.5 s: 3 s a batch, ten batches."""
    simulation = a_simulation(on("a", "b"))
    simulation.finish()
    assert simulation.records["rides",].ended_at()[-1] == pytest.approx(30.0)


def test_one_node_waits_for_nothing() -> None:
    """1 s and 2 s of records."""
    simulation = a_simulation(on("a"))
    simulation.finish()
    assert simulation.records["rides",].ended_at()[-1] == pytest.approx(30.0)


def test_executors_that_help_each_other_less_do_less() -> None:
    """Three executors at an exponent of one half are as fast as 1.73."""
    batch = MicroBatch(0.0, 0.1, cap=20, parallel=0.5)
    simulation = a_simulation(on("a", "b", "c"), batch)
    simulation.finish()
    assert simulation.records["rides",].ended_at()[-1] == pytest.approx(20.0 / 3.0**0.5)


def test_the_truth_that_experiments_use_is_what_batches_do() -> None:
    """`sustained` says of full batches what the simulation does."""
    batch = MicroBatch(1.0, 0.1, cap=20, round_trips=2.0)
    assert batch.sustained(2, 0.5) == pytest.approx(200.0 / 30.0)
    assert replace(batch, trigger=2.0).sustained(2, 0.5) == batch.sustained(2, 0.5)
    assert replace(batch, trigger=5.0).sustained(2, 0.5) == pytest.approx(4.0)  # a full batch every five seconds


def test_a_move_is_there_when_its_new_executor_is() -> None:
    """A new executor takes three seconds; the report shows where executors stand."""
    simulation = a_simulation(on("a"))
    ports = OperatorPorts(simulation, "rides")
    ports.actuator.request(Action("rides", 0.0, on("a", "c"), None))
    assert simulation.operators["rides"].allocation == on("a")
    simulation.advance(4.0)
    assert simulation.operators["rides"].allocation == on("a", "c")
    assert [executor.host for executor in ports.source.collect().executors or ()] == ["a", "c"]


def test_a_change_stops_an_operator_that_stands_still_for_it() -> None:
    """The running batch ends; the next one starts 120 s after the change, with the new executors."""
    simulation = a_simulation(on("a"), standstill=120.0)
    ports = OperatorPorts(simulation, "rides")
    simulation.advance(1.0)
    ports.actuator.request(Action("rides", 1.0, on("a", "c"), None))
    simulation.finish()
    starts = [batch.started_at for batch in ports.source.collect().batches]
    assert starts[:3] == pytest.approx([0.0, 121.0, 121.0 + 1.0 + 1.0 + 0.2])


def test_giving_an_executor_up_is_done_at_once() -> None:
    """Without a standstill nothing is waited for."""
    simulation = a_simulation(on("a", "b"))
    OperatorPorts(simulation, "rides").actuator.request(Action("rides", 0.0, on("a"), None))
    assert simulation.operators["rides"].allocation == on("a")


def test_an_allocation_without_nodes_takes_the_first_ones() -> None:
    """Where a cluster chooses, it chooses something."""
    assert a_simulation(Allocation(2)).operators["rides"].allocation == on("a", "b")


def test_time_in_tasks_counts_waiting_as_work() -> None:
    """As on a Spark without cgroups: of a batch of 3 s, 1 s is the driver's, 2 s are in tasks."""
    operator = Operator("rides", MicroBatch(1.0, 0.1, cap=20, round_trips=2.0), limits=LIMITS, cpu_is_read=False)
    simulation = Simulation(Pipeline.of_one(operator, APART), np.zeros(200), start={"rides": on("a", "b")})
    ports = OperatorPorts(simulation, "rides")
    simulation.advance(30.0)
    seen = ports.source.collect()
    assert seen.cpu is None
    assert [executor.task_seconds for executor in seen.executors or ()] == pytest.approx([20.0, 20.0])


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Operator("o", MicroBatch(1.0, 0.1), limits=Limits(1, 4, nodes=("a",), executors_per_node=1)), "fit"),
        (lambda: Operator("o", exponential(0.1), standstill_seconds=1.0), "standstill_seconds"),
        (lambda: Operator("o", MicroBatch(1.0, 0.1), standstill_seconds=-1.0), "standstill_seconds"),
        (lambda: MicroBatch(1.0, 0.1, round_trips=-1.0), "round_trips"),
        (lambda: MicroBatch(1.0, 0.1, parallel=1.5), "parallel"),
        (lambda: Limits(1, 2, executors_per_node=0), "executors_per_node"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(make: object, field: str) -> None:
    """The message names the field."""
    assert callable(make)
    with pytest.raises(ConfigurationError, match=field):
        make()
