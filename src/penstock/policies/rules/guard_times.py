# SPDX-License-Identifier: Apache-2.0
"""Guard times: how long a rule still waits after the operator was last scaled in some direction, whoever decided it."""

from __future__ import annotations

from penstock.records import Decision, PlanRequest
from penstock.rules.nodes import Direction, Rule
from penstock.units import format_seconds

_WAS_SCALED = {
    Direction.OUT: "scaled out",
    Direction.IN: "scaled in",
    Direction.UP: "scaled up",
    Direction.DOWN: "scaled down",
}


def why_waiting(rule: Rule, request: PlanRequest) -> str | None:
    """Why the rule may change nothing now; None: no guard time runs."""
    for guard in rule.guards:
        last = next((change for change in reversed(request.recent) if is_change(change, guard.after)), None)
        if last is None:
            continue
        # A clock may be set back: a change from the far future must not hold the rule until that time comes.
        age = abs(request.at - last.at)
        if age < guard.seconds:
            return (
                f"{_WAS_SCALED[guard.after]} {format_seconds(age)} ago, and its guard time is "
                f"{format_seconds(guard.seconds)}"
            )
    return None


def is_change(change: Decision, direction: Direction) -> bool:
    """Whether a change went in a direction: out and in by executors, up and down by the CPU share."""
    step: float
    if direction.is_horizontal:
        step = change.target.executors - change.current.executors
    else:
        step = change.target.cpu_share - change.current.cpu_share
    return step > 0 if direction.is_growth else step < 0
