# SPDX-License-Identifier: Apache-2.0
"""Pipelines of several operators: copies, selectivity, merging, and latency along each path."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.unit.simulator.by_hand import EventPipeline, first_come_first_served

from penstock.errors import ConfigurationError
from penstock.ports import FloatArray
from penstock.records import Allocation, Limits
from penstock.simulator import (
    Deterministic,
    LogNormal,
    MicroBatch,
    Operator,
    Pipeline,
    Service,
    Simulation,
    Stream,
    erlang,
    exponential,
)
from penstock.simulator.draws import IndexedDraws
from penstock.topology import topology_faults

FULL = [(0.0, 1.0)]


def _times(n: int, rate: float) -> FloatArray:
    return np.cumsum(np.random.default_rng(3).standard_exponential(n) / rate)


def _streams(*texts: str) -> tuple[Stream, ...]:
    return tuple(Stream(source, target) for source, target in (text.split(">") for text in texts))


def test_fan_out_carries_a_copy_along_each_path() -> None:
    """Both readers get every record when the first operator has done it; latency counts from the first arrival."""
    pipeline = Pipeline(
        tuple(
            Operator(name, exponential(mean)) for name, mean in (("parser", 0.5), ("counter", 0.2), ("matcher", 0.8))
        ),
        _streams("arrivals>parser", "parser>counter", "parser>matcher"),
    )
    times = _times(2000, 1.0)
    simulation = Simulation(pipeline, times, seed=6)
    simulation.finish()
    work = {o.name: IndexedDraws(exponential(o.server.mean).draw, 6, f"{o.name}/work").between(0, 2000).tolist()
            for o in pipeline.operators}  # fmt: skip
    parsed = first_come_first_served(times.tolist(), work["parser"], FULL)
    assert set(simulation.records) == {("parser", "counter"), ("parser", "matcher")}
    for last in ("counter", "matcher"):
        expected = np.array(first_come_first_served(parsed, work[last], FULL)) - times
        assert simulation.records["parser", last].latencies() == pytest.approx(expected, rel=1e-9)


def test_streams_that_meet_are_merged_by_time() -> None:
    """An operator below two others takes what they give in the order of time, and each path keeps its records."""
    pipeline = Pipeline(
        tuple(Operator(name, Deterministic(mean)) for name, mean in (("fast", 0.1), ("slow", 0.7), ("sink", 0.05))),
        _streams("arrivals>fast", "arrivals>slow", "fast>sink", "slow>sink"),
    )
    times = _times(500, 1.0)
    simulation = Simulation(pipeline, times)
    simulation.finish()
    fast = first_come_first_served(times.tolist(), [0.1] * 500, FULL)
    slow = first_come_first_served(times.tolist(), [0.7] * 500, FULL)
    merged = sorted([(t, 0, i) for i, t in enumerate(fast)] + [(t, 1, i) for i, t in enumerate(slow)])
    done = first_come_first_served([t for t, _, _ in merged], [0.05] * 1000, FULL)
    for way, name in enumerate(("fast", "slow")):
        expected = [end - times[i] for end, (_, w, i) in zip(done, merged, strict=True) if w == way]
        assert simulation.records[name, "sink"].latencies() == pytest.approx(np.array(expected), rel=1e-9)


@pytest.mark.parametrize("selectivity", [0.3, 1.7, 2.0])
def test_selectivity_is_met_on_average(selectivity: float) -> None:
    """As many records go on for each as the selectivity says, drawn by record number, not by the cut."""
    pipeline = Pipeline(
        (Operator("a", exponential(0.001), selectivity=selectivity), Operator("b", Deterministic(0.0001))),
        _streams("arrivals>a", "a>b"),
    )
    times = _times(20_000, 100.0)
    whole, cut = Simulation(pipeline, times, seed=2), Simulation(pipeline, times, seed=2)
    whole.finish()
    for at in np.linspace(0, times[-1], 77).tolist():
        cut.advance(at)
    cut.finish()
    out = len(whole.records["a", "b"].latencies())
    assert out / 20_000 == pytest.approx(selectivity, abs=5 * 0.5 / np.sqrt(20_000))
    assert np.array_equal(whole.records["a", "b"].ended_at(), cut.records["a", "b"].ended_at())


def test_a_stream_may_carry_a_part() -> None:
    """Streams whose parts add up to one split what an operator gives: each record goes one way."""
    pipeline = Pipeline(
        tuple(Operator(name, Deterministic(1e-4)) for name in ("a", "b", "c")),
        (Stream("arrivals", "a"), Stream("a", "b", 0.25), Stream("a", "c", 0.75)),
    )
    simulation = Simulation(pipeline, _times(20_000, 100.0), seed=1)
    simulation.finish()
    assert len(simulation.records["a", "b"].latencies()) / 20_000 == pytest.approx(0.25, abs=0.02)
    left, right = (simulation.records["a", last].arrived_at() for last in "bc")
    assert np.array_equal(np.sort(np.concatenate([left, right])), simulation.times)


def test_a_diamond_of_many_executors_and_batches_does_not_depend_on_the_cut() -> None:
    """Fork, micro-batches, several executors and a merge: cut differently, the same to the last bit."""
    pipeline = Pipeline(
        (
            Operator("a", exponential(0.004), selectivity=1.2, limits=Limits(3, 3)),
            Operator("b", MicroBatch(0.05, 0.001, trigger=0.1)),
            Operator("c", exponential(0.006)),
            Operator("d", exponential(0.002)),
        ),
        _streams("arrivals>a", "a>b", "a>c", "b>d", "c>d"),
    )
    times = _times(20_000, 100.0)
    whole, cut = Simulation(pipeline, times, seed=5), Simulation(pipeline, times, seed=5)
    whole.finish()
    for at in np.linspace(0, times[-1], 201).tolist():
        cut.advance(at)
    cut.finish()
    assert whole.is_done
    for path in (("a", "b", "d"), ("a", "c", "d")):
        assert np.array_equal(whole.records[path].ended_at(), cut.records[path].ended_at())
        assert np.array_equal(whole.records[path].arrived_at(), cut.records[path].arrived_at())


def test_every_record_comes_through_once() -> None:
    """More records than are taken in one step, many of them at the same instants: none is lost, none is doubled."""
    times = np.repeat(np.arange(500.0), 200)
    simulation = Simulation(Pipeline.of_one(Operator("a", exponential(0.004))), times, seed=1)
    simulation.finish()
    assert np.array_equal(simulation.records[("a",)].arrived_at(), times)
    assert (np.diff(simulation.records[("a",)].ended_at()) >= 0).all()


def test_it_is_its_own_clock() -> None:
    """Waiting on the simulation is simulating; it never runs backwards."""
    simulation = Simulation(Pipeline.of_one(Operator("a", Deterministic(1.0))), np.array([0.0, 5.0]))
    assert simulation.wait(2.0, threading.Event()) is False
    assert (simulation.now(), simulation.operators["a"].done) == (2.0, 1)
    with pytest.raises(ValueError, match="backwards"):
        simulation.advance(1.0)


@pytest.mark.parametrize("times", [[], [1.0, 0.5], [-1.0, 0.0], [0.0, float("nan"), 1.0], [0.0, float("inf")]])
def test_impossible_times_are_refused(times: list[float]) -> None:
    """Arrival times that are none, fall, or are not finite raise ConfigurationError."""
    with pytest.raises(ConfigurationError, match="times"):
        Simulation(Pipeline.of_one(Operator("a", Deterministic(1.0))), np.array(times))


@pytest.mark.parametrize(
    ("operators", "streams", "told"),
    [
        (["a", "b", "c"], [("arrivals", "a"), ("a", "b"), ("b", "c"), ("c", "a")], "cycle"),
        (["a"], [("arrivals", "a"), ("a", "a")], "a -> a is a cycle"),
        (["a", "b"], [("arrivals", "a")], "nothing reaches 'b'"),
        (["a", "a"], [("arrivals", "a")], "named twice"),
        (["a"], [("arrivals", "a"), ("a", "x")], "'x' is not one of arrivals, a"),
        (["a"], [("arrivals", "a"), ("arrivals", "a")], "there twice"),
        (["arrivals"], [], "choose another name"),
        (["a"], [("a", "arrivals"), ("arrivals", "a")], "nothing flows into the arrivals"),
        ([], [], "at least one"),
    ],
)
def test_what_is_no_pipeline_is_refused(operators: list[str], streams: list[tuple[str, str]], told: str) -> None:
    """A graph with a cycle, an unknown name or an operator that nothing reaches is told in words."""
    assert any(told in fault for fault in topology_faults(operators, streams))
    with pytest.raises(ConfigurationError, match=told):
        Pipeline(tuple(Operator(o, Deterministic(1.0)) for o in operators), tuple(Stream(*s) for s in streams))


def test_too_many_paths_are_refused() -> None:
    """Layers of forks and merges have more paths than can be accounted for; the error says how many are allowed."""
    names = [f"{side}{i}" for i in range(10) for side in "lr"]
    streams = [Stream("arrivals", "l0"), Stream("arrivals", "r0")]
    streams += [Stream(f"{s}{i}", f"{t}{i + 1}") for i in range(9) for s in "lr" for t in "lr"]
    with pytest.raises(ConfigurationError, match="1000"):
        _ = Pipeline(tuple(Operator(n, Deterministic(1.0)) for n in names), tuple(streams)).paths


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_queue_of_events_gives_the_same(seed: int) -> None:
    """Bursts through a graph with a merge, shares and executors that change all the time: every record ends alike."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.standard_exponential(4000) * rng.choice([0.002, 0.02], 4000))
    services: dict[str, Service] = {"a": erlang(2, 4e-3), "b": exponential(6e-3), "c": LogNormal(5e-3, 2.0)}
    limits = Limits(1, 3, (0.4, 0.7, 1.0))
    pipeline = Pipeline(
        tuple(Operator(name, service, limits=limits, start_up_seconds=0.6) for name, service in services.items()),
        _streams("arrivals>a", "a>b", "a>c", "b>c"),
    )
    simulation = Simulation(pipeline, times, seed=seed, start=dict.fromkeys(services, Allocation(1, 1.0)))
    changes: list[tuple[float, str, Allocation]] = []
    while simulation.now() < times[-1]:
        simulation.advance(simulation.now() + 0.5)
        for name in services:
            if rng.random() < 0.4:
                wanted = Allocation(int(rng.integers(1, 4)), float(rng.choice(limits.cpu_shares)))
                simulation.operators[name].ask(simulation.now(), wanted)
                changes.append((simulation.now(), name, wanted))
    simulation.finish()
    work = {n: IndexedDraws(s.draw, seed, f"{n}/work").between(0, 8000).tolist() for n, s in services.items()}
    events = EventPipeline({"a": ["b", "c"], "b": ["c"], "c": []}, work, start_up=0.6)
    events.run("a", times.tolist(), changes)
    for path, records in simulation.records.items():
        ended, arrived = np.array(events.done[path]).T
        assert records.ended_at() == pytest.approx(ended, rel=1e-11)
        assert np.array_equal(np.sort(records.arrived_at()), np.sort(arrived))
