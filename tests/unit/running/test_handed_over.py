# SPDX-License-Identifier: Apache-2.0
"""A run that a master decides for: a real loop and a real master on the loopback, with a toy for an operator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.toy_query import ToyQuery
from tests.unit.service.test_master import Stage, until

from penstock._wiring import LoopSettings, make_cycle
from penstock.adaptors.agent.arrival_report import Reported
from penstock.clock import SystemClock
from penstock.errors import ActuationRejectedError, ConfigurationError
from penstock.knowledge.memory import MemoryStore
from penstock.loop import Cycle, Runner
from penstock.ports import SubscribingPolicy, WatchingPolicy
from penstock.records import Action, Allocation, Limits, Mode
from penstock.running.handed_over import HandedOver, _NearSide, check_handed_over, settings_for_master
from penstock.running.policy_choice import with_policy
from penstock.service.attached_pipeline import read_attached
from penstock.settings import RunSettings, parse_settings


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


def loop_of(handed: HandedOver, query: ToyQuery, store: MemoryStore) -> Cycle:
    """The loop of the run, as it is without guards."""
    limits = Limits(1, 4)
    return make_cycle(
        "analysis",
        LoopSettings(limits, handed.own_settings.objective_of("analysis"), Mode.ACT, None, 1.0, 0.0),
        policy=handed,
        source=query,
        actuator=query,
        arrival_times=None,
        store=store,
    )


def test_a_master_scales_the_operator_of_a_run(stage: Stage) -> None:
    """What it decides is carried out by the run's own loop, which says so; when it is lost the run keeps its size."""
    done: list[dict[str, Any]] = []
    query, store = ToyQuery("analysis", done.append), MemoryStore()
    handed = HandedOver(run_settings(), stage.address)
    assert isinstance(handed, WatchingPolicy)
    assert isinstance(handed, SubscribingPolicy)
    assert handed.own_settings.guards is None
    cycle = loop_of(handed, query, store)
    runner = Runner([cycle], SystemClock(), interval_seconds=0.2)
    stage.ends.callback(handed.close)
    handed.begin(cycle)
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


def test_a_master_takes_the_settings_of_a_run() -> None:
    """With names, sizes, policy and guards; rules go as text."""
    rules = 'rule "more":\n  scale-out analysis by 1 never above 4\n  when busy above 50% for 1 second\n'
    settings = run_settings(policy={"name": "rules", "rules": rules}, guards={"cooldown_up": "7s"})
    given = settings_for_master(with_policy(settings), Limits(1, 4, (0.5, 1.0)), Reported.AS_THEY_COME)
    attached = read_attached(json.dumps(given), "words")
    assert (attached.name, attached.operator) == ("words", "analysis")
    assert attached.settings.guards is not None
    assert attached.settings.guards.cooldown_up == 7.0
    assert attached.limits(can_set_cpu_share=True) == Limits(1, 4, (0.5, 1.0))
    assert attached.choice.name == "rules"
    assert attached.arrivals is Reported.AS_THEY_COME


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        (
            {
                "operators": [
                    {"name": "a", "app": "penstock.apps.log_analysis:log_analysis"},
                    {"name": "b", "app": "penstock.apps.log_analysis:log_analysis", "input": "a"},
                ]
            },
            "one operator",
        ),
        ({"operator": {"sizes": [{"cores": 1}, {"cores": 2}]}}, "sizes"),
    ],
)
def test_runs_that_a_master_cannot_decide_for_are_refused(changes: dict[str, Any], word: str) -> None:
    """With what to do about it, before anything starts."""
    with pytest.raises(ConfigurationError, match=word):
        check_handed_over(run_settings(**changes))
