# SPDX-License-Identifier: Apache-2.0
"""The policy that follows a timetable."""

from __future__ import annotations

import pytest
from tests.unit.policies.contexts import a_context

from penstock.errors import ConfigurationError
from penstock.policies import make_policy
from penstock.policies.schedule import SchedulePolicy
from penstock.records import Allocation
from penstock.testing import a_request


def test_it_goes_round_its_steps() -> None:
    """Each step holds for its time, and after the last comes the first."""
    policy = SchedulePolicy("60s@2, 30s@1x0.4")
    assert [policy.at(at) for at in (0.0, 59.9, 60.0, 89.9, 90.0)] == [
        Allocation(2), Allocation(2), Allocation(1, 0.4), Allocation(1, 0.4), Allocation(2)
    ]  # fmt: skip


def test_it_says_what_the_timetable_says() -> None:
    """The decision goes to the step of its instant, with the reason."""
    decision = make_policy("schedule", a_context(), {"steps": "1m@1,1m@2"}).plan(
        a_request(at=90.0, current=Allocation(1))
    )
    assert decision.target == Allocation(2)
    assert "timetable of 2 min 0 s says 2 executors" in decision.reason


@pytest.mark.parametrize("steps", ["", "60s", "x@2", "60s@0", "0s@1", "60s@1x1.5", "60s@1x0", "60s@1,"])
def test_what_is_no_timetable_is_refused(steps: str) -> None:
    """The step that cannot be read is named, with how to write one."""
    with pytest.raises(ConfigurationError, match="steps"):
        SchedulePolicy(steps)
