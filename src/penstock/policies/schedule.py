# SPDX-License-Identifier: Apache-2.0
"""The policy that follows a timetable: for load that is known beforehand, and to try what changes do."""

from __future__ import annotations

import math
import re

from penstock.errors import ConfigurationError
from penstock.policies.entry import PolicyEntry, options_of
from penstock.ports import Policy, PolicyContext
from penstock.records import Allocation, Decision, PlanRequest
from penstock.units import format_seconds, parse_seconds

_STEP = re.compile(r"\s*([^@]+)@(\d+)(?:x([\d.]+))?\s*")


class SchedulePolicy:
    """Goes through steps, each a time and an allocation, round and round.

    The rounds are counted from midnight UTC, 1 January 1970, so that the same instant has the same step after a
    restart too: steps of 24 hours in all begin at midnight UTC.

    Parameters
    ----------
    steps
        ``TIME@EXECUTORS`` or ``TIME@EXECUTORSxSHARE`` with commas between, such as ``8h@1,10h@4x0.7,6h@1``.
    every_seconds
        How often it wants to be asked.

    Examples
    --------
    >>> print(SchedulePolicy("60s@2,30s@1x0.4").at(65.0))
    1 executor x 40% CPU
    """

    name = "schedule"

    def __init__(self, steps: str, *, every_seconds: float = 10.0) -> None:
        self._steps = tuple(_read_step(text) for text in str(steps).split(","))
        self._period = math.fsum(seconds for seconds, _ in self._steps)
        if not (math.isfinite(every_seconds) and every_seconds > 0):
            raise ConfigurationError(
                f'every_seconds: {every_seconds!r} must be a positive time, such as "10s"', field="every_seconds"
            )
        self.every_seconds = every_seconds

    def at(self, instant: float) -> Allocation:
        """What the timetable says for an instant."""
        left = instant % self._period
        for seconds, allocation in self._steps:
            if left < seconds:
                return allocation
            left -= seconds
        return self._steps[-1][1]  # rounding alone leads here

    def plan(self, request: PlanRequest) -> Decision:
        """What the timetable says now."""
        target = self.at(request.at)
        reason = f"the timetable of {format_seconds(self._period)} says {target} now"
        return Decision(request.operator, request.at, self.name, request.current, target, reason)


def _read_step(text: str) -> tuple[float, Allocation]:
    found = _STEP.fullmatch(text)
    if found is None:
        raise ConfigurationError(
            f"steps: cannot read {text.strip()!r}; write TIME@EXECUTORS or TIME@EXECUTORSxSHARE, such as 8h@1,16h@4",
            field="steps",
        )
    seconds, allocation = parse_seconds(found[1].strip(), "steps"), Allocation(int(found[2]), float(found[3] or 1.0))
    if seconds <= 0 or allocation.executors < 1 or not 0.0 < allocation.cpu_share <= 1.0:
        raise ConfigurationError(
            f"steps: {text.strip()!r} needs a positive time, at least 1 executor and a share in (0, 1]", field="steps"
        )
    return seconds, allocation


def _build(
    context: PolicyContext,  # noqa: ARG001
    steps: str = "24h@1",
    every_seconds: str | float = 10.0,
) -> Policy:
    return SchedulePolicy(steps, every_seconds=parse_seconds(every_seconds, "every_seconds"))


ENTRY = PolicyEntry(
    name="schedule",
    summary="follows a timetable, for load that is known beforehand",
    build=_build,
    options=options_of(
        _build,
        {
            "steps": "`TIME@EXECUTORS` or `TIME@EXECUTORSxSHARE` with commas between, round and round",
            "every_seconds": "how often it wants to be asked",
        },
    ),
)
