# SPDX-License-Identifier: Apache-2.0
"""The pipelines of the fault tests are valid, and every crash point is in one of them: seen without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.e2e.crash_scenarios import CHAINS, SCENARIOS, Scenario
from tests.e2e.nemeses import numbered_run

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


def test_the_pipeline_of_the_nemeses_can_be_run() -> None:
    """Three operators on topics, under MEAD, on a cluster and broker that outlive the controller."""
    around = cast("Any", SimpleNamespace(cluster=CLUSTER, network=SimpleNamespace(port=9092)))
    settings = with_policy(parse_settings(numbered_run.settings(around, 60_000, 120, 240)))
    check_run(settings, has_own_policy=False)
    assert arriving(settings) == 60_000
    assert settings.policy is not None
    assert settings.policy.name == "mead"


def arriving(settings: Any) -> int:
    """How many records the arrivals of a run have."""
    from penstock.adaptors.replay.options import replay_arrivals

    return replay_arrivals(settings.arrivals.replay_options()).arrivals.total
