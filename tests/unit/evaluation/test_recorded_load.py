# SPDX-License-Identifier: Apache-2.0
"""The load of a recorded run: demand, arrivals, and how each was had."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.evaluation.recorded_load import recorded_load
from penstock.knowledge import MemoryStore
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.records import Allocation, ClusterState, Decision, Observation, Quality

ONE = Allocation(1, 1.0)
EVIDENCE = {"fixed_seconds": 0.3, "fixed_cpu_seconds": 0.1, "per_record_seconds": 0.004}


def store_of(*operators: dict[str, Any], arrivals: dict[str, Any] | None = None) -> MemoryStore:
    """A store with the settings of a run."""
    store = MemoryStore()
    store.set_fact("settings", json.dumps({"name": "logs", "arrivals": arrivals, "operators": list(operators)}))
    return store


def learn(store: MemoryStore, operator: str, evidence: dict[str, Any]) -> None:
    """A decision with what its policy had learnt."""
    store.add_decision(Decision(operator, 1.0, "mead", ONE, ONE, "because", evidence))


def look(store: MemoryStore, at: float, operator: str = "counter", **fields: Any) -> None:
    """One observation."""
    store.add_observation(Observation(operator, at, 10.0, Quality.GOOD, ClusterState(ONE, ONE, ONE), **fields))


def test_arrivals_that_the_run_replayed_are_exact() -> None:
    """A shape in the run's settings gives the instants themselves, at the run's speed."""
    shape = {"shape": "constant:rate=100,duration=20s", "options": {"speed": "2"}}
    store = store_of({"name": "counter", "trigger": 1.0}, arrivals=shape)
    learn(store, "counter", EVIDENCE)
    load = recorded_load(store, "run")
    assert load.are_exact
    assert load.arrivals_text == "as the run replayed them (constant:rate=100,duration=20s)"
    assert len(load.arrivals) == 2000
    assert np.allclose(np.diff(load.arrivals), 0.005)
    assert load.demand == BatchDemand(0.3, 0.004, fixed_cpu_seconds=0.1, trigger_seconds=1.0)
    assert load.is_trigger_known


def test_counts_are_spread_between_looks_and_restarts_are_left_out() -> None:
    """As many records lie between two looks as were counted; a count that falls back begins anew."""
    store = store_of({"name": "counter"})
    learn(store, "counter", EVIDENCE)
    for at, count in ((0.0, 0), (1.0, 600), (2.0, 700), (3.0, 50), (4.0, 150)):
        look(store, at, records_arrived=count)
    load = recorded_load(store, "run")
    assert not load.are_exact
    assert len(load.arrivals) == 800
    assert np.all(np.diff(load.arrivals) >= 0)
    # 600 in the first second, 100 in the second, none in the third, 100 in the fourth; counted from the first arrival
    assert np.histogram(load.arrivals, [0.0, 1.0, 2.0, 2.99, 4.1])[0] == pytest.approx([600, 100, 0, 100], abs=3)
    assert load.arrivals_text.startswith("counted from look to look")
    assert not load.is_trigger_known


def test_without_counts_the_rate_has_to_do() -> None:
    """Where only rates are known, as many records arrive as they come to, and the words say what is lost."""
    store = store_of({"name": "counter"})
    learn(store, "counter", EVIDENCE)
    for second in range(101):
        look(store, float(second), arrival_rate_rows_per_second=10.5)
    load = recorded_load(store, "run")
    assert len(load.arrivals) == 1050
    assert "by their rate over windows of 10" in load.arrivals_text


def test_a_trace_that_is_gone_is_said() -> None:
    """The counts stand in for a file that can no longer be read, and that is said."""
    store = store_of({"name": "counter"}, arrivals={"trace": "/no/where.txt"})
    learn(store, "counter", EVIDENCE)
    look(store, 0.0, records_arrived=0)
    look(store, 10.0, records_arrived=1000)
    assert "what the run replayed can no longer be read" in recorded_load(store, "run").arrivals_text


def test_a_declared_demand_is_taken_where_none_was_learnt() -> None:
    """The run's settings say what a record costs, also of records one by one."""
    declared = {"name": "counter", "service": {"distribution": "exponential", "mean": 0.002}}
    store = store_of(declared, arrivals={"shape": "constant:rate=100,duration=20s"})
    look(store, 1.0)
    load = recorded_load(store, "run")
    assert isinstance(load.demand, RecordDemand)
    assert load.demand_text == "2 ms a record, as its settings declare"


def test_batches_that_are_all_alike_show_no_demand() -> None:
    """Then there is none, and the reason says what would help."""
    store = store_of({"name": "counter"}, arrivals={"shape": "constant:rate=100,duration=20s"})
    for second in range(300):
        look(store, float(second), records_done=100 * second, last_batch_id=second, batch_seconds=0.7)
    load = recorded_load(store, "run")
    assert load.demand is None
    assert "its batches do not show it" in load.why_no_demand
    assert "let the rate vary" in load.why_no_demand


def test_a_run_with_too_little_is_refused() -> None:
    """No operator, several of them, and too few arrivals are each told with a way out."""
    with pytest.raises(ConfigurationError, match="no observations and no decisions yet"):
        recorded_load(MemoryStore(), "run")
    two = store_of({"name": "parser"}, {"name": "counter"})
    learn(two, "parser", EVIDENCE)
    learn(two, "counter", EVIDENCE)
    with pytest.raises(ConfigurationError, match=r"several operators \(parser, counter\); name one"):
        recorded_load(two, "run")
    with pytest.raises(ConfigurationError, match="has recorded 0 arrivals at counter; 512 are needed"):
        recorded_load(two, "run", "counter")
