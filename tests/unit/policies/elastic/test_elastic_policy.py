# SPDX-License-Identifier: Apache-2.0
"""The elastic policy: what it says, and when it holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.unit.policies.contexts import a_context
from tests.unit.policies.elastic.elastic_worlds import a_look

from penstock.errors import ConfigurationError
from penstock.performance.demand import BatchDemand
from penstock.policies import make_policy
from penstock.policies.elastic.policy import ElasticPolicy
from penstock.ports import OperatorSite, Policy, WatchingPolicy
from penstock.records import Allocation, ClusterState, Limits, Objective, Quality
from penstock.testing import a_request

LIMITS = Limits(1, 8)


def policy(demand: object | None = None, site: dict[str, Any] | None = None, **options: Any) -> Policy:
    """The policy for one operator with eight executors at most."""
    context = a_context(Objective(), site=OperatorSite(LIMITS, demand=demand, **(site or {})))
    return make_policy("elastic", context, options)


DECLARED = BatchDemand(0.5, 0.004)
"""On one executor 237.5 a second in batches of 10 s."""


def ask(made: Policy, executors: int, **seen: Any) -> Any:
    """A decision for an operator that has so many executors."""
    return made.plan(a_request(limits=LIMITS, current=Allocation(executors), objective=Objective(), **seen))


def test_a_decision_tells_its_story() -> None:
    """Reason, rejected sizes and evidence have the numbers that it rests on."""
    decision = ask(
        policy(DECLARED, patience=0.0, batch="10s"),
        1,
        arrival_rate_rows_per_second=1000.0,
        backlog_records=12_300,
        batch_seconds=0.2,
    )
    # 300 of the backlog are two batches' worth or so; 1,000 + 11,900 / 60 at 237.5 each takes six.
    assert decision.target == Allocation(6)
    assert decision.reason == (
        "6 executors x 100% CPU sustain 1,425 records/s (1,425 to 1,425), for arrivals of 1,000/s and 11.9k waiting to "
        "be gone in 60 s"
    )
    assert [rejected.allocation.executors for rejected in decision.rejected] == [1, 4, 5]
    assert decision.evidence["needed_records_per_second"] == pytest.approx(1000.0 + 11_900 / 60.0)
    assert decision.evidence["known_by"] == "its declared demand"
    assert decision.workload is not None
    assert decision.workload.arrivals_per_second == pytest.approx(1000.0)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ({"quality": Quality.STALE, "missing": ("batches: none",)}, "the data are stale .missing: batches: none"),
        ({"arrival_rate_rows_per_second": None, "backlog_records": None}, "the arrival rate is not known"),
        ({"backlog_records": None, "batch_seconds": None}, "the backlog is not known"),
    ],
)
def test_missing_data_hold(seen: dict[str, Any], words: str) -> None:
    """Without good data, a rate or a backlog nothing is changed, and the reason says why."""
    decision = ask(policy(DECLARED), 1, **seen)
    assert not decision.is_change
    assert re.search(words, decision.reason)


def test_nothing_measured_holds() -> None:
    """At the start nothing is known, and nothing is tried."""
    decision = ask(policy(), 4)
    assert not decision.is_change
    assert "no throughput was measured yet" in decision.reason


def test_the_first_batches_are_enough_to_begin() -> None:
    """After one window of CPU and records a cold start gives up what is sure not to be needed, at most half."""
    made = policy()
    assert isinstance(made, WatchingPolicy)
    for second in range(17):
        made.watch(a_look(float(second), Allocation(8), utilisation=0.1, processed_rows_per_second=200.0))
    decision = ask(made, 8, arrival_rate_rows_per_second=200.0, backlog_records=0)
    assert decision.target == Allocation(4)
    assert decision.evidence["known_by"] == "the CPU that records use"


def test_given_samples_are_a_warm_start(tmp_path: Path) -> None:
    """With measured sizes in a file it sizes at its first plan."""
    file = tmp_path / "samples.csv"
    file.write_text("executors,throughput\n1,200\n1,210\n4,800\n4,790\n")
    decision = ask(policy(samples=str(file)), 8, arrival_rate_rows_per_second=500.0, backlog_records=0)
    assert decision.target.executors in (2, 3)


def test_an_unknown_backlog_shows_in_the_batches() -> None:
    """A source that does not say when records arrive: a batch takes all that wait, so that is what waits."""
    made = policy(DECLARED)
    assert isinstance(made, WatchingPolicy)
    made.watch(a_look(1000.0, Allocation(1), (30_000, 120.0)))
    decision = ask(made, 1, arrival_rate_rows_per_second=300.0, backlog_records=None, batch_seconds=10.0)
    assert decision.evidence["backlog_records"] == 33_000
    assert decision.target.executors > 2


def test_a_capped_query_with_an_unknown_backlog_holds() -> None:
    """Behind a cap any number may wait."""
    made = policy(DECLARED, {"cap": 500})
    assert isinstance(made, WatchingPolicy)
    made.watch(a_look(1000.0, Allocation(1), (500, 2.0)))
    assert "backlog is not known" in ask(made, 1, backlog_records=None).reason


def test_a_real_time_query_whose_cpu_is_used_up_gets_more() -> None:
    """Its backlog is not known; all of its CPU in use says that there is one."""
    made = policy(site={"is_real_time": True})
    assert isinstance(made, WatchingPolicy)
    for second in range(17):
        made.watch(a_look(float(second), Allocation(2), utilisation=0.9, arrival_rate_rows_per_second=200.0))
    more = ask(made, 2, arrival_rate_rows_per_second=220.0, backlog_records=None, utilisation=0.99)
    assert more.target.executors > 2
    calm = ask(made, 2, arrival_rate_rows_per_second=150.0, backlog_records=None, utilisation=0.6)
    assert calm.target.executors <= 2
    at_checkpoint = ask(made, 2, arrival_rate_rows_per_second=150.0, backlog_records=9000, utilisation=0.6)
    assert at_checkpoint.target.executors <= 2, "what waited up to a minute ago may be done long since"


def test_less_waits_for_a_batch_under_the_last_change() -> None:
    """A batch that began before a change does not show what it does; the first that began after it does."""
    made = policy(DECLARED)
    assert isinstance(made, WatchingPolicy)
    work = {"arrival_rate_rows_per_second": 100.0, "backlog_records": 50, "batch_seconds": 2.0}
    made.watch(a_look(1000.0, Allocation(8)))
    assert "no batch has run" in ask(made, 8, **work).reason
    made.watch(a_look(1010.0, Allocation(8), (1000, 4.0)))
    assert ask(made, 8, **work).target.executors < 8
    made.watch(a_look(1020.0, Allocation(4)))
    made.watch(a_look(1030.0, Allocation(4), (1000, 12.0)))  # since 1018, and four executors since 1020
    held = ask(made, 4, **work)
    assert not held.is_change
    assert "no batch has run with it from start to end yet" in held.reason
    made.watch(a_look(1040.0, Allocation(4), (1000, 9.0)))
    assert ask(made, 4, **work).target.executors < 4


def test_an_idle_query_gives_back_what_it_has_without_a_batch() -> None:
    """Nothing waits, so no batch will come that shows anything: less is taken; where that is not known, none."""
    made = policy(DECLARED)
    assert ask(made, 8, arrival_rate_rows_per_second=0.0, backlog_records=0).target.executors < 8
    assert isinstance(made, WatchingPolicy)
    made.watch(a_look(1000.0, Allocation(8), (30, 1.0)))  # began before the first look
    held = ask(made, 8, arrival_rate_rows_per_second=20.0, backlog_records=None, batch_seconds=1.0)
    assert "no batch has run" in held.reason
    idle = ask(made, 8, arrival_rate_rows_per_second=0.0, backlog_records=None, batch_seconds=1.0)
    assert idle.target.executors < 8


def test_a_real_time_query_is_not_asked_for_batches() -> None:
    """Its batches are as long as they are set to be: CPU per record is what shows that less will do."""
    made = policy(site={"is_real_time": True})
    assert isinstance(made, WatchingPolicy)
    for second in range(17):
        made.watch(a_look(float(second), Allocation(8), utilisation=0.1, arrival_rate_rows_per_second=200.0))
    decision = ask(made, 8, arrival_rate_rows_per_second=200.0, backlog_records=None, utilisation=0.1)
    assert decision.target.executors < 8


def test_an_operator_that_was_not_introduced_is_left_alone() -> None:
    """It holds for what it knows nothing about."""
    assert "not introduced" in policy(DECLARED).plan(a_request(operator="another")).reason


def test_a_demand_that_is_none_is_refused() -> None:
    """A declared demand of another kind is an error that names it."""
    with pytest.raises(ConfigurationError, match="neither a RecordDemand nor a BatchDemand"):
        policy("cheap")


def test_it_learns_from_samples_that_cost_nothing() -> None:
    """Batches while it catches up change what it counts on, and the decision says by what."""
    made = policy()
    assert isinstance(made, ElasticPolicy)
    at = 1000.0
    made.watch(a_look(at, Allocation(2)))
    for rows in [2000, 3000, 2500, 3500] * 12:
        seconds = 0.5 + 0.002 * rows
        at += seconds
        made.watch(a_look(at, Allocation(2), (rows, seconds)))
    has = Allocation(2)
    decision = ask(
        made, 2, at=at, arrival_rate_rows_per_second=460.0, backlog_records=0, cluster=ClusterState(has, has, has)
    )
    assert decision.evidence["known_by"] == "12 measurements of it"
    # (1 - 0.5 / 24) / 0.002
    assert decision.evidence["sustained_records_per_second"] == pytest.approx(489.6, rel=0.01)
