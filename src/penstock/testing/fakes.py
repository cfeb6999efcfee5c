# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the outside world, and builders of records whose every field is sensible."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from penstock.clock import Clock, VirtualClock
from penstock.errors import ActuationError
from penstock.records import (
    Action,
    Allocation,
    ClusterState,
    Decision,
    LatencySummary,
    Limits,
    Objective,
    Observation,
    PlanRequest,
    Quality,
    Telemetry,
)


class FakeMetricSource:
    """A metric source that plays a script (a `ports.MetricSource`).

    Parameters
    ----------
    script
        What the next calls of `collect` give, in order; an exception is raised instead of given. After the last
        one, telemetry with nothing in it and a fault that says so.
    operator
        The operator named in telemetry after the script's end.
    clock
        Where the instants after the script's end come from.
    """

    def __init__(
        self,
        script: Iterable[Telemetry | Exception] = (),
        *,
        operator: str = "operator",
        clock: Clock | None = None,
    ) -> None:
        self._script = deque(script)
        self._operator = operator
        self._clock = clock or VirtualClock()
        self.calls = 0

    def push(self, *items: Telemetry | Exception) -> None:
        """Write more lines at the end of the script."""
        self._script.extend(items)

    def collect(self) -> Telemetry:
        """The next line of the script."""
        self.calls += 1
        if not self._script:
            return Telemetry(self._operator, self._clock.now(), faults=("the script is over",))
        item = self._script.popleft()
        if isinstance(item, Exception):
            raise item
        return item


class FakeActuator:
    """An actuator that records what it is asked for and gets there late (a `ports.Actuator`).

    Parameters
    ----------
    start
        The allocation before the first request, and again after `release`.
    clock
        Says when a request has taken effect.
    lateness_seconds
        How long a request takes.
    can_set_cpu_share
        Whether CPU shares can be set.
    """

    def __init__(
        self,
        start: Allocation | None = None,
        *,
        clock: Clock | None = None,
        lateness_seconds: float = 0.0,
        can_set_cpu_share: bool = True,
    ) -> None:
        self._start = start or Allocation(1)
        self._clock = clock or VirtualClock()
        self._lateness_seconds = lateness_seconds
        self._can_set_cpu_share = can_set_cpu_share
        self._settled = self._start
        self._pending: tuple[float, Allocation] | None = None
        self.requests: list[Action] = []
        """What was asked for, once per request id."""
        self.releases = 0
        self.fail_with: ActuationError | None = None
        """Set it to have every request fail, having done nothing."""

    @property
    def can_set_cpu_share(self) -> bool:
        """Whether CPU shares can be set here."""
        return self._can_set_cpu_share

    @property
    def observed(self) -> Allocation:
        """The allocation in force now."""
        if self._pending is not None and self._clock.now() >= self._pending[0]:
            self._settled, self._pending = self._pending[1], None
        return self._settled

    def request(self, action: Action) -> None:
        """Take note; the allocation is there after the lateness."""
        if self.fail_with is not None:
            raise self.fail_with
        if any(action.request_id == known.request_id for known in self.requests):
            return
        before = self.observed  # what is already due takes effect before the new request replaces the rest
        share = action.target.cpu_share if self._can_set_cpu_share else before.cpu_share
        self.requests.append(action)
        self._pending = (
            self._clock.now() + self._lateness_seconds,
            replace(action.target, cpu_share=share),
        )

    def release(self) -> None:
        """Go back to the start at once."""
        self.releases += 1
        self._settled, self._pending = self._start, None


def an_observation(**overrides: Any) -> Observation:
    """Give a good observation of a calm operator, with `overrides` instead of its fields.

    The numbers fit together: 1,000 rows/s for 30 s, 300 records (0.3 s of arrivals) on their way.
    """
    allocation = Allocation(1)
    calm = Observation(
        operator="operator",
        at=1000.0,
        window_seconds=30.0,
        quality=Quality.GOOD,
        cluster=ClusterState(allocation, allocation, allocation),
        arrival_rate_rows_per_second=1000.0,
        processed_rows_per_second=1000.0,
        backlog_records=300,
        utilisation=0.6,
        cpu_used_cores=0.6,
        cpu_throttled_fraction=0.0,
        batch_seconds=0.2,
        latency=LatencySummary(30_000, 0.3, 0.28, 0.5, 0.6, 0.7),
        records_arrived=100_300,
        records_done=100_000,
        last_batch_id=500,
    )
    return replace(calm, **overrides)


def a_request(**overrides: Any) -> PlanRequest:
    """Give a request about a calm operator on the lowest share but one, with `overrides` instead of its fields.

    Names of `Observation` that a request does not have (`utilisation=0.9`) go to its observation; `operator`,
    `at` and, unless a cluster is given, `current` are the same in both.
    """
    own = {"operator", "at", "observation", "current", "limits", "objective", "recent", "history"}
    seen = {name: value for name, value in overrides.items() if name not in own}
    if seen and "observation" in overrides:
        raise TypeError(f"give either observation or its fields, not both: {', '.join(sorted(seen))}")
    limits = overrides.get("limits", Limits(1, 2, (0.4, 0.55, 0.7, 0.85, 1.0)))
    current = overrides.get("current", Allocation(1, 0.55))
    fields: dict[str, Any] = {"cluster": ClusterState(current, current, current)}
    fields.update({name: overrides[name] for name in ("operator", "at") if name in overrides})
    observation = overrides.get("observation") or an_observation(**fields | seen)
    return PlanRequest(
        operator=overrides.get("operator", observation.operator),
        at=overrides.get("at", observation.at),
        observation=observation,
        current=current,
        limits=limits,
        objective=overrides.get("objective", Objective("p95", 2.0)),
        recent=tuple(overrides.get("recent", ())),
        history=tuple(overrides.get("history", ())),
    )


def a_decision(before: Allocation | None = None, after: Allocation | None = None, **overrides: Any) -> Decision:
    """Give the decision to go from `before` to `after` (by default a hold), with `overrides` for other fields."""
    current = before or Allocation(1)
    decision = Decision("operator", 1000.0, "a policy", current, after or current, "a test wants it so")
    return replace(decision, **overrides)
