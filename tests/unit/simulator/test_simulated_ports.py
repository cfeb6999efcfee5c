# SPDX-License-Identifier: Apache-2.0
"""A simulated operator behind the loop's ports: telemetry, arrival times and actuation."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.execute import Reconciler
from penstock.knowledge import MemoryStore
from penstock.loop import Cycle
from penstock.monitor import Monitor
from penstock.policies.threshold import ThresholdPolicy
from penstock.ports import FloatArray
from penstock.records import Action, Allocation, BatchProgress, Limits, Mode, Objective, OutcomeStatus, Quality
from penstock.simulator import (
    Deterministic,
    MicroBatch,
    Operator,
    OperatorPorts,
    Pipeline,
    Service,
    Simulation,
    exponential,
)
from penstock.testing import check_actuator

LIMITS = Limits(1, 3, (0.5, 1.0))


def _simulation(server: Service | MicroBatch, times: FloatArray, start_up: float = 0.0) -> Simulation:
    operator = Operator("a", server, limits=LIMITS, start_up_seconds=start_up)
    return Simulation(Pipeline.of_one(operator), times, seed=1, start={"a": Allocation(1, 1.0)})


def _evenly(n: int, gap: float) -> FloatArray:
    return np.arange(n, dtype=np.float64) * gap


def test_the_actuator_keeps_its_promises() -> None:
    """Requests are idempotent by their id, the newest wins, release puts all back; new executors come late."""
    running: dict[int, Simulation] = {}

    def make() -> object:
        simulation = _simulation(Deterministic(0.5), _evenly(100, 1.0), start_up=3.0)
        actuator = OperatorPorts(simulation, "a").actuator
        running[id(actuator)] = simulation
        return actuator

    def settle(actuator: object) -> None:
        running[id(actuator)].advance(running[id(actuator)].now() + 4.0)

    def observe(actuator: object) -> Allocation:
        return running[id(actuator)].operators["a"].allocation

    check_actuator(make, observe, settle, sizes=(Allocation(3, 0.5), Allocation(1, 1.0)))  # type: ignore[type-var]


def test_every_batch_is_reported_once_with_its_records() -> None:
    """Reports of a micro-batch query carry its batches in order, and arrival times by their offsets."""
    times = _evenly(50, 0.2)
    simulation = _simulation(MicroBatch(fixed=0.3, per_record=0.02), times)
    ports = OperatorPorts(simulation, "a")
    batches: list[BatchProgress] = []
    for at in (1.0, 2.0, 2.0, 30.0):
        simulation.advance(at)
        batches += ports.source.collect().batches
    assert [b.batch_id for b in batches] == list(range(len(batches)))
    assert sum(b.rows for b in batches) == 50
    arrived = [ports.arrival_times.of(b.sources[0]) for b in batches]
    assert np.concatenate([a for a in arrived if a is not None]).tolist() == times.tolist()
    latency = np.concatenate([b.ended_at - a for b, a in zip(batches, arrived, strict=True) if a is not None])
    assert latency == pytest.approx(simulation.records[("a",)].latencies(), rel=1e-12)
    assert ports.arrival_times.done_index(batches[-1].sources[0]) == 50


def test_the_monitor_sees_the_latency_of_records_taken_one_by_one() -> None:
    """Without batches the monitor still gets each record's own latency, not the age of a report."""
    times = _evenly(1000, 0.1)
    simulation = _simulation(Deterministic(0.02), times)
    ports = OperatorPorts(simulation, "a")
    monitor = Monitor("a", ports.arrival_times, window_seconds=20.0, warm_up_seconds=0.0)
    reconciler = Reconciler("a", ports.actuator, LIMITS)
    for at in (0.0, 20.0, 40.0):
        simulation.advance(at)
        telemetry = ports.source.collect()
        reconciler.sync(telemetry, at)
        seen = monitor.look(telemetry, at, reconciler.state).observation
    assert seen.quality is Quality.GOOD
    assert seen.latency is not None
    assert seen.latency.mean_seconds == pytest.approx(0.02, rel=1e-6)
    assert seen.arrival_rate_rows_per_second == pytest.approx(10.0, rel=0.01)
    assert seen.utilisation == pytest.approx(0.2, rel=0.01)
    assert seen.backlog_records is not None
    assert seen.backlog_records <= 1
    assert seen.cluster.observed == Allocation(1, 1.0)


def test_arrivals_are_counted_at_any_instant_of_the_history() -> None:
    """How many had arrived is exact within what is remembered, and not known before it."""
    times = _evenly(2000, 0.5)
    simulation = _simulation(Deterministic(0.1), times)
    arrivals = OperatorPorts(simulation, "a", history_seconds=100.0).arrival_times
    assert arrivals.arrived_by(0.0) == 0
    for look in range(10, 1001, 10):
        simulation.advance(float(look))
    for at in (1000.0, 950.25, 905.0):
        assert arrivals.arrived_by(at) == np.searchsorted(times, at, side="right")
    assert arrivals.arrived_by(100.0) is None


def test_ports_are_asked_for_before_the_first_record() -> None:
    """What came before nobody watched cannot be known later."""
    simulation = _simulation(Deterministic(0.1), _evenly(10, 0.5))
    simulation.advance(1.0)
    with pytest.raises(ValueError, match="before the first record"):
        OperatorPorts(simulation, "a")


def test_the_very_cycle_of_a_real_run_scales_it() -> None:
    """The threshold policy inside the loop's cycle takes an overloaded operator up, and an idle one down again."""
    busy = np.cumsum(np.full(6000, 0.05))
    idle = busy[-1] + np.cumsum(np.full(200, 2.0))
    simulation = _simulation(exponential(0.04), np.concatenate([busy, idle]), start_up=3.0)
    ports = OperatorPorts(simulation, "a")
    store = MemoryStore()
    cycle = Cycle(
        source=ports.source,
        monitor=Monitor("a", ports.arrival_times, window_seconds=10.0, warm_up_seconds=0.0),
        policy=ThresholdPolicy(),
        guards=(),
        reconciler=Reconciler("a", ports.actuator, LIMITS),
        store=store,
        limits=LIMITS,
        objective=Objective("p95", 1.0),
        mode=Mode.ACT,
    )
    seen = []
    while not simulation.is_done:
        report = cycle.run_once(simulation.now())
        seen.append(report.observation.cluster.observed)
        simulation.advance(simulation.now() + 10.0)
    # Utilisation 0.8 on one executor: two are asked for and come; then 0.4, between the two: a level below.
    assert max(s.capacity for s in seen if s is not None) > 1.0
    assert simulation.operators["a"].allocation == Allocation(1, 0.5)
    ended = {o.status for o in store.outcomes("a")}
    assert ended <= {OutcomeStatus.DONE, OutcomeStatus.SUPERSEDED}
    assert OutcomeStatus.DONE in ended


def test_new_executors_supersede_those_still_on_their_way() -> None:
    """A smaller request while executors are coming cancels them."""
    simulation = _simulation(Deterministic(0.1), _evenly(100, 1.0), start_up=5.0)
    actuator = OperatorPorts(simulation, "a").actuator
    actuator.request(Action("a", 0.0, Allocation(3, 1.0), None))
    simulation.advance(2.0)
    actuator.request(Action("a", 2.0, Allocation(1, 0.5), None))
    simulation.advance(20.0)
    assert simulation.operators["a"].allocation == Allocation(1, 0.5)


def test_executors_on_their_way_come_when_they_would_have() -> None:
    """Asking for more while some are coming adds to them; asking for fewer of them takes only those away."""
    simulation = _simulation(Deterministic(0.1), _evenly(100, 1.0), start_up=5.0)
    state = simulation.operators["a"]
    simulation.advance(1.0)
    state.ask(1.0, Allocation(2, 1.0))
    simulation.advance(3.0)
    state.ask(3.0, Allocation(3, 1.0))
    seen = []
    for at in (5.0, 6.0, 7.0, 8.0):
        simulation.advance(at)
        seen.append(state.allocation.executors)
    assert seen == [1, 2, 2, 3]
    # One executor to 6 s, two to 8 s, three to 10 s.
    assert state.used(10.0) == pytest.approx((6.0 + 4.0 + 6.0, 16.0))
    state.ask(8.0, Allocation(1, 1.0))
    state.ask(8.0, Allocation(3, 1.0))
    simulation.advance(9.0)
    state.ask(9.0, Allocation(2, 1.0))
    simulation.advance(20.0)
    assert state.allocation == Allocation(2, 1.0)
    assert state.used(13.0)[0] == pytest.approx(6.0 + 4.0 + 5.0)
