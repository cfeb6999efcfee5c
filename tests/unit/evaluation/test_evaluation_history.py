# SPDX-License-Identifier: Apache-2.0
"""A run's history out of its store: figures that hold, and nothing made up."""

from __future__ import annotations

import json

import pytest

from penstock.errors import ConfigurationError
from penstock.evaluation import read_history
from penstock.knowledge import MemoryStore
from penstock.records import LatencySummary, StageTime
from penstock.testing import a_decision, an_observation
from penstock.testing.synthetic_run import START, fill_store


def _latency(seconds: float) -> LatencySummary:
    return LatencySummary(1, seconds, seconds, seconds, seconds, seconds)


def test_operators_stand_in_the_pipelines_order() -> None:
    """The settings give the order; an operator that was set up but never seen is left out."""
    store = MemoryStore()
    fill_store(store, "matcher", "parser", seconds=3)
    store.set_fact("settings", '{"operators": [{"name": "parser"}, {"name": "idle"}, {"name": "matcher"}]}')
    assert read_history(store).operators == ["parser", "matcher"]


def test_time_above_the_objective_counts_only_known_latency() -> None:
    """Of 4 s with a known latency 1 s was above: a quarter; 10 s without a measurement count for neither."""
    store = MemoryStore()
    store.set_fact("settings", '{"objective": {"p95": 2.0}}')
    latencies = [(0, 1.0), (1, 1.0), (2, 3.0), (12, None), (13, 2.0), (14, 1.0)]
    for at, seconds in latencies:
        latency = None if seconds is None else _latency(seconds)
        store.add_observation(an_observation(operator="op", at=float(at), latency=latency, backlog_records=None))
    assert read_history(store).time_above_objective("op") == pytest.approx(0.25)


@pytest.mark.parametrize(("trigger", "above"), [(None, 10.0 / 14.0), ("realtime", 0.0)])
def test_time_in_which_records_wait_for_longer_than_the_bound_is_above_it(trigger: str | None, above: float) -> None:
    """A stalled query does nothing that could be late; one in real-time mode does not show what it has read."""
    store = MemoryStore()
    operators = [{"name": "op", "trigger": trigger}]
    store.set_fact("settings", json.dumps({"objective": {"p95": 2.0}, "operators": operators}))
    for at, seconds in [(0, 1.0), (1, 1.0), (2, 1.0), (12, None), (13, 1.0), (14, 1.0)]:
        waiting = 0 if seconds else 300
        latency = None if seconds is None else _latency(seconds)
        store.add_observation(an_observation(operator="op", at=float(at), latency=latency, backlog_records=waiting))
    assert read_history(store).time_above_objective("op") == pytest.approx(above)


def test_without_an_objective_no_time_is_above_it() -> None:
    """Where no bound was set, nothing can be said."""
    store = MemoryStore()
    fill_store(store, "op", seconds=10)
    store.set_fact("settings", "{}")
    assert read_history(store).time_above_objective("op") is None


def test_stage_times_are_averaged_per_stage() -> None:
    """Mean, p95 by nearest rank and longest: of 1 to 20 ms the p95 is the 19th."""
    store = MemoryStore()
    store.add_stage_times([StageTime(0.0, "plan", n / 1000) for n in range(1, 21)])
    (stage,) = read_history(store).stages
    assert (stage.stage, stage.cycles) == ("plan", 20)
    assert stage.mean_seconds == pytest.approx(0.0105)
    assert stage.p95_seconds == pytest.approx(0.019)
    assert stage.max_seconds == pytest.approx(0.020)


def test_missing_notes_are_gathered() -> None:
    """The same note of many cycles is one line with its count and its first and last time."""
    store = MemoryStore()
    fill_store(store, "op")
    (note,) = read_history(store).missing_notes
    assert note.cycles == 12
    assert (note.first_at - START, note.last_at - START) == (150.0, 161.0)


def test_notes_that_count_down_are_one() -> None:
    """Notes that differ in a number alone are gathered; notes that differ in words are not."""
    store = MemoryStore()
    for at, text in enumerate(["warming up: 9 s left", "warming up: 8 s left", "stale: no look for 12 s"]):
        store.add_observation(an_observation(operator="op", at=float(at), missing=(text,)))
    notes = [(note.text, note.cycles) for note in read_history(store).missing_notes]
    assert notes == [("warming up: \u2026 s left", 2), ("stale: no look for 12 s", 1)]


def test_a_run_without_summary_is_added_up_so_far() -> None:
    """Executor time so far comes from the observations; the latency of the whole run stays unknown."""
    store = MemoryStore()
    fill_store(store, "op", seconds=30)
    history = read_history(store)
    assert not history.is_ended
    # One executor at 40 % is observed from second 4 on: 26 s up to second 29.
    assert history.summary["executor_seconds"] == pytest.approx(26.0)
    assert history.summary["cpu_share_mean"] == pytest.approx(0.4)
    assert history.summary["static_capacity_seconds"] == pytest.approx(52.0)
    assert history.summary["latency"] is None


def test_an_empty_store_is_an_empty_history() -> None:
    """A run that has not looked yet has no operators, no figures and no error."""
    history = read_history(MemoryStore())
    assert history.operators == []
    assert history.started_at is None
    assert history.summary["records_done"] is None


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_broken_facts_are_named(text: str) -> None:
    """Facts that are no JSON object are reported by their name."""
    store = MemoryStore()
    store.set_fact("settings", text)
    with pytest.raises(ConfigurationError, match="settings"):
        read_history(store)


def test_thresholds_come_from_the_newest_evidence() -> None:
    """A policy without thresholds gives none."""
    store = MemoryStore()
    store.add_decision(a_decision(operator="op", evidence={"upper": 0.7, "lower": 0.5}))
    assert read_history(store).thresholds("op") == (0.5, 0.7)
    store.add_decision(a_decision(operator="op", evidence={}))
    assert read_history(store).thresholds("op") == (None, None)


def test_only_the_newest_run_of_a_store_is_read() -> None:
    """A start in the settings leaves out what came before, the summary of an ended run too."""
    store = MemoryStore()
    for at in (1.0, 5.0):
        store.add_observation(an_observation(operator="op", at=at))
        store.add_decision(a_decision(operator="op", at=at))
        store.add_stage_times([StageTime(at, "plan", 0.1)])
    store.set_fact("summary", '{"name": "before", "started_at": 1.0}')
    store.set_fact("settings", '{"name": "now", "started_at": 5.0}')
    history = read_history(store)
    assert history.name == "now"
    assert [o.at for o in history.observations["op"]] == [5.0]
    assert [d.at for d in history.decisions] == [5.0]
    assert history.stages[0].cycles == 1
    assert not history.is_ended
