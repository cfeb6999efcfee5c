# SPDX-License-Identifier: Apache-2.0
"""The pipelines of the fault tests are valid, and every crash point is in one of them: seen without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.e2e.crash_scenarios import CHAINS, SCENARIOS, Scenario
from tests.e2e.nemeses import numbered_run
from tests.e2e.nemeses.test_nemeses import what_is_sent

from penstock.crash_points import POINTS, CrashPlan
from penstock.running.checks import check_run
from penstock.running.policy_choice import with_policy
from penstock.settings import parse_settings

CLUSTER = cast(
    "Any", SimpleNamespace(master_url="spark://127.0.0.1:7077", authentication={"spark.authenticate": "true"})
)
BROKER = cast("Any", SimpleNamespace(bootstrap_servers="127.0.0.1:9092"))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_pipeline_of_a_crash_can_be_run(scenario: Scenario) -> None:
    """Its settings pass all checks before a start, and as many records arrive as are looked for."""
    broker = BROKER if scenario.needs_broker else None
    settings = with_policy(parse_settings(scenario.settings(CLUSTER, broker, scenario.records)))
    check_run(settings, has_own_policy=False)
    assert settings.cluster.master != "embedded", "operators must outlive their controller"
    assert arriving(settings) == scenario.records


def test_every_crash_point_is_in_a_chain() -> None:
    """And every crash is one that a controller can plan."""
    plans = [CrashPlan(crash, lambda: None) for _, chain in CHAINS.values() for crash in chain]
    assert {plan.point for plan in plans} == POINTS.keys()


@pytest.mark.parametrize(
    ("records", "faults", "must_change"), [(60_000, 7, False), (60_000, 15, True), (200_000, 30, True)]
)
def test_the_pipeline_of_the_nemeses_can_be_run(records: int, faults: int, must_change: bool) -> None:
    """Three operators on topics, under MEAD, on a cluster and broker that outlive the controller, and its load."""
    around = cast("Any", SimpleNamespace(cluster=CLUSTER, network=SimpleNamespace(port=9092)))
    sending = what_is_sent(records, faults + 2, 20.0, 2, must_change=must_change)
    settings = with_policy(parse_settings(numbered_run.settings(around, sending)))
    check_run(settings, has_own_policy=False)
    assert records <= arriving(settings) == sending.records <= 1.02 * records
    assert settings.policy is not None
    assert settings.policy.name == numbered_run.POLICY
    assert tuple(operator.name for operator in settings.operators) == numbered_run.OPERATORS


def test_mead_has_to_change_where_the_load_rises_and_falls() -> None:
    """A rush is more than the least of the first operator can do and less than what it begins with, a calm much less;
    and batches may be so large that what comes in one trigger interval never waits for another."""
    sending = what_is_sent(200_000, 32, 20.0, 2, must_change=True)
    cores = [rate * sending.milliseconds / 1000.0 for _, rate in sending.steps]
    least, first = 0.5, 1.0
    assert cores[0] == min(cores) < 0.5 * least
    assert least < max(cores) < first
    assert max(rate for _, rate in sending.steps) * numbered_run.TRIGGER_SECONDS < sending.most_in_batch


def arriving(settings: Any) -> int:
    """How many records the arrivals of a run have."""
    from penstock.adaptors.replay.options import replay_arrivals

    return replay_arrivals(settings.arrivals.replay_options()).arrivals.total
