# SPDX-License-Identifier: Apache-2.0
"""A run that a master decides for: a real loop and a real master on the loopback, with a toy for an operator."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.toy_query import ToyQuery
from tests.unit.service.test_master import Stage, until

from penstock._wiring import LoopSettings, make_cycle
from penstock.adaptors.agent.arrival_report import Reported
from penstock.adaptors.agent.master_address import MasterAddress
from penstock.arrivals import ReplayArrivals, parse_shape
from penstock.clock import SystemClock
from penstock.errors import ActuationRejectedError, ConfigurationError, MetricSourceError
from penstock.knowledge.memory import MemoryStore
from penstock.loop import Cycle, Runner
from penstock.monitor.path import PathMonitor
from penstock.ports import DoneRecords, SubscribingPolicy, WatchingPolicy
from penstock.records import Action, Allocation, ClusterState, LatencySummary, Limits, Mode
from penstock.running.handed_over import HandedOver, _NearSide, check_handed_over, settings_for_master
from penstock.running.policy_choice import with_policy
from penstock.service.attached_pipeline import read_attached
from penstock.settings import RunSettings, parse_settings

LIMITS = Limits(1, 4)
TWO = [
    {"name": "parser", "app": "penstock.apps.log_analysis:log_analysis", "executors": [1, 4]},
    {"name": "matcher", "app": "penstock.apps.log_analysis:log_analysis", "executors": [1, 4], "input": "parser"},
]


def run_settings(**changes: Any) -> RunSettings:
    """A pipeline of one operator that is looked at twice a second."""
    operator = {"name": "analysis", "app": "penstock.apps.log_analysis:log_analysis", "executors": [1, 4]}
    given = {
        "name": "words",
        "arrivals": {"shape": "constant:rate=5,duration=1s"},
        "operators": [{**operator, **changes.pop("operator", {})}],
        "policy": {"name": "threshold", "options": {"every_seconds": 0.5}},
        "guards": "none",
        "mode": "act",
        "interval": 0.5,
        "window": 1.0,
        "warm_up": 0.0,
    }
    return parse_settings({**given, **changes}, "a test")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A master that leads."""
    made = Stage(tmp_path)
    with made.master:
        until(lambda: made.master.leadership.is_leading, "the lead")
        yield made
        made.ends.close()


def loop_of(
    handed: HandedOver, query: ToyQuery, store: MemoryStore, limits: Limits = LIMITS, **more: Any
) -> dict[str, Cycle]:
    """The loop of an operator of the run, as it is without guards."""
    cycle = make_cycle(
        query.name,
        LoopSettings(limits, handed.own_settings.objective_of(query.name), Mode.ACT, None, 1.0, 0.0),
        policy=handed,
        source=query,
        actuator=query,
        store=store,
        **{"arrival_times": None, **more},
    )
    return {query.name: cycle}


def test_a_master_scales_the_operator_of_a_run(stage: Stage) -> None:
    """What it decides is carried out by the run's own loop, which says so; when it is lost the run keeps its size."""
    done: list[dict[str, Any]] = []
    query, store = ToyQuery("analysis", done.append), MemoryStore()
    handed = HandedOver(run_settings(), stage.address)
    assert isinstance(handed, WatchingPolicy)
    assert isinstance(handed, SubscribingPolicy)
    assert handed.own_settings.guards is None
    cycles = loop_of(handed, query, store)
    runner = Runner(list(cycles.values()), SystemClock(), interval_seconds=0.2)
    stage.ends.callback(handed.close)
    handed.begin(cycles)
    runner.start()
    stage.ends.callback(runner.abandon)
    until(lambda: len(done) >= 2, "two changes of size")
    (desk,) = stage.service.desks.values()
    assert (desk.facts.name, desk.facts.names) == ("words", ("analysis",))
    changes = [one for one in store.decisions("analysis", limit=1000) if one.is_change]
    assert changes[0].policy == "master"
    assert changes[0].reason.startswith(f"the master at 127.0.0.1:{stage.master.port.port} asked for ")
    asked = str(changes[0].evidence["decision_of_the_master"])
    history = stage.stores.open_readonly("words")
    assert asked in {one.decision_id for one in history.decisions("analysis", limit=1000)}
    history.close()
    stage.master.__exit__()
    until(lambda: handed.connected_to is None, "the loss of the master")
    size = query.executors

    def says_so() -> bool:
        newest = store.decisions("analysis", limit=1)[-1]
        return "not connected now" in newest.reason and not newest.is_change

    until(says_so, "a word about it")
    assert query.executors == size


def test_what_a_master_asks_for_stays_within_the_limits_of_the_run() -> None:
    """More is refused; CPU shares are opened to the largest of the limits, and executors stay."""
    near = _NearSide()
    near.limits = Limits(1, 4, (0.5, 1.0))
    assert near.can_set_cpu_share
    near.open_shares()
    assert near.asked is None
    near.request(Action("analysis", 0.0, Allocation(3, 0.5), "why"))
    for beyond in (Allocation(5, 1.0), Allocation(0, 1.0), Allocation(2, 0.7)):
        with pytest.raises(ActuationRejectedError, match="beyond the limits of the run"):
            near.request(Action("analysis", 0.0, beyond, None))
    near.open_shares()
    assert near.asked is not None
    assert near.asked.target == Allocation(3, 1.0)
    near.release()
    assert near.asked is None


def test_a_master_scales_all_operators_of_a_run_together(stage: Stage) -> None:
    """One loop in the master has both, with the latency along the path; the run carries out what each agent hears."""
    done: dict[str, list[dict[str, Any]]] = {"parser": [], "matcher": []}
    handed, store, path = HandedOver(run_settings(operators=TWO), stage.address), MemoryStore(), KnownPath()
    cycles: dict[str, Cycle] = {}
    for name, written in done.items():
        cycles |= loop_of(handed, ToyQuery(name, written.append), store, path=PathMonitor(measured=path))
    runner = Runner(list(cycles.values()), SystemClock(), interval_seconds=0.2)
    stage.ends.callback(handed.close)
    handed.begin(cycles, {"parser": 3})
    runner.start()
    stage.ends.callback(runner.abandon)
    until(lambda: all(len(written) >= 2 for written in done.values()), "two changes of both")
    (desk,) = stage.service.desks.values()
    assert desk.facts.names == ("parser", "matcher")
    assert list(desk.facts.paths) == [("parser", "matcher")]
    assert handed.connected_to == f"127.0.0.1:{stage.master.port.port}"

    def followed() -> float | None:
        seen = desk.seen("matcher")
        return None if seen is None or seen.path_latency is None else seen.path_latency.mean_seconds

    until(lambda: followed() is not None, "the latency along the path")
    assert followed() == pytest.approx(KnownPath.SECONDS, abs=0.002)
    for name in done:
        changes = [one for one in store.decisions(name, limit=1000) if one.is_change]
        history = stage.stores.open_readonly("words")
        known = {one.decision_id for one in history.decisions(name, limit=1000)}
        history.close()
        assert str(changes[0].evidence["decision_of_the_master"]) in known
    attached = stage.master.port.connections[0].attached
    assert {name: one.tasks for name, one in attached.operators.items()} == {"parser": 3, "matcher": None}


class KnownPath:
    """Records that took as long as they did, a few in every look (a `ports.RecordLatencies`)."""

    SECONDS = 0.75

    def since_last(self) -> DoneRecords | None:
        """Three records that are done now."""
        seconds = np.full(3, self.SECONDS)
        return DoneRecords(time.time() - seconds, seconds)

    def window(self, now: float) -> LatencySummary | None:
        """Nobody in the run asks."""
        return None

    def whole(self) -> LatencySummary | None:
        """Nobody in the run asks."""
        return None


def test_a_master_is_told_of_an_operator_that_the_run_does_not_see() -> None:
    """Before its first look and when looks fail: nothing old is passed on as if it were new."""
    near = _NearSide("parser", unseen_seconds=0.05)
    with pytest.raises(MetricSourceError, match="has not looked at parser yet"):
        near.collect()
    query = ToyQuery("parser", lambda _: None)
    handed = HandedOver(run_settings(operators=TWO), MasterAddress((("127.0.0.1", 1),), b"a token of some length"))
    (cycle,) = loop_of(handed, query, MemoryStore()).values()
    near.saw(cycle.monitor.look(query.collect(), time.time(), ClusterState()))
    assert len(near.collect().batches) == 1
    time.sleep(0.1)
    with pytest.raises(MetricSourceError, match="has not seen parser for"):
        near.collect()


def test_a_master_takes_the_settings_of_a_run() -> None:
    """With names, sizes, policy and guards; rules go as text."""
    rules = 'rule "more":\n  scale-out analysis by 1 never above 4\n  when busy above 50% for 1 second\n'
    settings = run_settings(policy={"name": "rules", "rules": rules}, guards={"cooldown_up": "7s"})
    handed = HandedOver(settings, MasterAddress((("127.0.0.1", 1),), b"a token of some length"))
    times = ReplayArrivals(parse_shape("constant:rate=5,duration=1s"))
    query, limits = ToyQuery("analysis", lambda _: None), Limits(1, 4, (0.5, 1.0))
    cycles = loop_of(handed, query, MemoryStore(), limits, arrival_times=times)
    attached = read_attached(json.dumps(settings_for_master(with_policy(settings), cycles, {})), "words")
    assert (attached.name, attached.operator) == ("words", "analysis")
    assert attached.settings.guards is not None
    assert attached.settings.guards.cooldown_up == 7.0
    assert attached.limits == {"analysis": limits}
    assert attached.choice.name == "rules"
    assert attached.operators["analysis"].arrivals is Reported.AS_THEY_COME


def test_a_master_takes_the_bounds_of_single_paths() -> None:
    """Objectives stand as in the settings, and who reads from whom."""
    fan = [*TWO, {**TWO[1], "name": "counter"}]
    bounds = [{"path": "parser -> counter", "objective": {"p95": "9s"}}]
    settings = with_policy(run_settings(operators=fan, objective={"p95": "4s"}, objectives=bounds))
    handed = HandedOver(settings, MasterAddress((("127.0.0.1", 1),), b"a token of some length"))
    cycles: dict[str, Cycle] = {}
    for operator in settings.operators:
        cycles |= loop_of(handed, ToyQuery(operator.name, lambda _: None), MemoryStore())
    attached = read_attached(json.dumps(settings_for_master(settings, cycles, {})), "words/counter")
    assert attached.operator == "counter"
    assert attached.settings.path_objectives() == settings.path_objectives()
    assert attached.settings.topology == settings.topology


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"operator": {"sizes": [{"cores": 1}, {"cores": 2}]}}, "sizes"),
        ({"operators": [TWO[0], {**TWO[1], "sizes": [{"cores": 1}, {"cores": 2}]}]}, "sizes"),
    ],
)
def test_runs_that_a_master_cannot_decide_for_are_refused(changes: dict[str, Any], word: str) -> None:
    """With what to do about it, before anything starts."""
    with pytest.raises(ConfigurationError, match=word):
        check_handed_over(run_settings(**changes))
