# SPDX-License-Identifier: Apache-2.0
"""Triggers that look ahead."""

from __future__ import annotations

import math

from tests.unit.policies.rules.rule_cases import LIMITS, policy, scaling

from penstock.ports import Look
from penstock.records import Allocation, Decision, Observation, Quality, Telemetry
from penstock.rules.nodes import Comparison, Direction, MetricTrigger
from penstock.testing import a_request, an_observation

PERIOD, AHEAD = 120, 20


def rate(second: int) -> float:
    """A load that swings between 0 and 200 a second, and is above 150 for a third of the time."""
    return 100.0 - 100.0 * math.cos(2.0 * math.pi * second / PERIOD)


def decisions(seconds: int, ahead: float | None, for_seconds: float = 0.0, is_good: bool = True) -> list[Decision]:
    """A rule on the arrival rate, now or ahead, over a load that swings."""
    trigger = MetricTrigger("arrival_rate", Comparison.ABOVE, 150.0, for_seconds, None, ahead)
    made = policy(scaling("busy soon", Direction.OUT, 1, trigger))
    found, history = list[Decision](), list[Observation]()
    for second in range(seconds):
        quality = Quality.GOOD if is_good else Quality.INCOMPLETE
        seen = an_observation(at=1000.0 + second, arrival_rate_rows_per_second=rate(second), quality=quality)
        history.append(seen)
        made.watch(Look(Telemetry("operator", seen.at), seen))
        request = a_request(observation=seen, at=seen.at, current=Allocation(1), limits=LIMITS,
                            history=tuple(history[-30:]))  # fmt: skip
        found.append(made.plan(request))
    return found


def test_a_rule_that_looks_ahead_acts_before_the_load_is_there() -> None:
    """Once the load is known to swing, the rule ahead fires about its 20 s earlier than the rule on what is."""
    seconds = 10 * PERIOD
    now, ahead = decisions(seconds, None), decisions(seconds, float(AHEAD))
    last = range(seconds - PERIOD, seconds)
    first_now = next(second for second in last if now[second].is_change)
    first_ahead = next(second for second in last if ahead[second].is_change)
    assert AHEAD - 3 <= first_now - first_ahead <= AHEAD + 3
    assert "in 20 seconds above 150" in str(ahead[first_ahead].evidence["trigger"])


def test_a_forecast_has_to_last_too() -> None:
    """With a time of 10 s the forecasts of all the last 10 s have to be above the value."""
    seconds = 10 * PERIOD
    at_once, lasting = decisions(seconds, float(AHEAD)), decisions(seconds, float(AHEAD), 10.0)
    last = range(seconds - PERIOD, seconds)
    first = next(second for second in last if at_once[second].is_change)
    assert next(second for second in last if lasting[second].is_change) == first + 10


def test_nothing_is_forecast_from_data_that_are_not_good() -> None:
    """Without a single reading there is no forecast, and the rule does not hold."""
    assert not any(decision.is_change for decision in decisions(60, float(AHEAD), is_good=False))
