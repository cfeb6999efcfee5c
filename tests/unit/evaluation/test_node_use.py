# SPDX-License-Identifier: Apache-2.0
"""Where executors stood, in reports."""

from __future__ import annotations

from tests.unit.evaluation.run_histories import a_history

from penstock.evaluation.node_use import node_seconds
from penstock.evaluation.report import cards
from penstock.evaluation.run_reading import read_history
from penstock.knowledge.memory import MemoryStore
from penstock.knowledge.run_facts import ROUND_TRIPS
from penstock.records import Allocation, ClusterState, Observation, Quality


def a_look(at: float, *nodes: str) -> Observation:
    """One executor on each of these nodes."""
    has = Allocation(len(nodes), nodes=tuple((node, 1) for node in nodes))
    return Observation("o", at, 15.0, Quality.GOOD, cluster=ClusterState(has, has, has))


def test_executor_seconds_are_counted_by_node() -> None:
    """What was seen lasts until the next look; the most used comes first."""
    assert node_seconds([a_look(0, "far"), a_look(10, "far", "near"), a_look(40, "near")]) == {"far": 40, "near": 30}


def test_a_clock_that_is_set_back_and_forward_again_takes_no_time() -> None:
    """An executor that is there for 50 s was there for 50 s, though the clock was an hour back meanwhile."""
    looks = [a_look(5000.0 + at, "far") for at in (0, 10, 20 - 3600, 30 - 3600, 40, 50)]
    assert node_seconds(looks) == {"far": 50}


def test_a_report_names_the_nodes_of_a_run_and_only_of_such() -> None:
    """With the executor-minutes on each."""
    (card,) = [c for c in cards(a_history(o=[a_look(0, "far"), a_look(60, "far")])) if c.title.startswith("Nodes")]
    assert "far 1.0" in card.note
    without = a_history(o=[Observation("o", at, 15.0, Quality.GOOD, ClusterState()) for at in (0.0, 1.0)])
    assert not [c for c in cards(without) if c.title.startswith("Nodes")]


def test_measured_round_trips_are_read_with_a_run() -> None:
    """A broken table is none."""
    store = MemoryStore()
    assert read_history(store).round_trips == ()
    store.set_fact(ROUND_TRIPS, '[["home", "far", 0.2]]')
    assert read_history(store).round_trips == (("home", "far", 0.2),)
    store.set_fact(ROUND_TRIPS, "broken")
    assert read_history(store).round_trips == ()
