# SPDX-License-Identifier: Apache-2.0
"""Whether executors of another size are worth a restart.

A restart stops the operator for a while, so it is proposed only where no live change helps, and only where it repays
its pause within a horizon. With arrival rate l, present capacity c and capacity c' of the next size (records per
second), B records waiting, pause P and horizon H:

- The backlog grows: at the end of H, B + (l - c) H records wait as it is, and B + l P + (l - c') (H - P), at least
  none, after a restart. Those must be fewer.
- The objective is broken and the backlog does not grow: as it is, the part of the l H records (or of those until the
  backlog is gone) that is late now goes on being late; after a restart all those are late that arrive in the pause
  and until what waits then is worked off, l (P + (B + l P) / (c' - l)). Those must be fewer.

On the way back to a smaller size the pause makes records late without need. So it must fit into what the objective
allows to be late (5 % for a p95) of all that arrived while the operator was calm: the dearer the pause, the longer the
calm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import ConfigurationError
from penstock.records import LatencySummary, Limits, Objective, Observation
from penstock.units import format_count, format_seconds

_GROWS = 0.05
"""A backlog that grows by less than this part of the arrival rate does not grow."""
_KEPT = 0.8
"""What a batch gains of added cores: its fixed part does not become shorter."""
_MOST_UTILISATION = 0.6
"""A smaller size must be able to carry the load with so much of its CPU."""
_BEYOND = {"p50": 0.5, "p95": 0.05, "p99": 0.01}
"""What part of the records is beyond each percentile."""


@dataclass(frozen=True, slots=True)
class ResizeRequest:
    """All that is known when it is asked whether to restart."""

    observation: Observation
    limits: Limits
    objective: Objective
    cores: tuple[int, ...]
    """Cores of one executor in each size, rising."""
    size: int
    """Which of them it has."""
    top_seconds: float
    """How long it has had the top of its limits."""
    broken_seconds: float
    """How long the objective has been broken there."""
    calm_seconds: float
    """How long it has had the bottom of its limits, and all was well."""
    backlog_growth_rows_per_second: float | None
    pause_seconds: float
    """What a restart is expected to cost."""


@dataclass(frozen=True, slots=True)
class ResizeProposal:
    """Which size to have, and why; `size` as it is means no restart."""

    size: int
    reason: str
    evidence: Mapping[str, float | int | str | None]
    is_weighed: bool = True
    """Whether a restart was called for and weighed against its pause, whatever came of it."""


@dataclass(frozen=True, slots=True)
class ResizePolicy:
    """Proposes the next larger or smaller size where that repays its restart.

    Parameters
    ----------
    after_seconds
        How long the operator must have been short of capacity at the top of its limits.
    horizon_seconds
        Within what a restart must repay its pause.
    calm_seconds
        How long it must have been calm at the bottom of its limits before a smaller size, at least.
    """

    after_seconds: float = 60.0
    horizon_seconds: float = 600.0
    calm_seconds: float = 900.0

    def __post_init__(self) -> None:
        for name in ("after_seconds", "horizon_seconds", "calm_seconds"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ConfigurationError(
                    f'{name}: {getattr(self, name)!r} must be a positive time, such as "60s"', field=name
                )

    def propose(self, request: ResizeRequest) -> ResizeProposal:
        """One size up, one size down, or no restart."""
        rate = request.observation.arrival_rate_rows_per_second
        if rate is None or rate <= 0.0:
            return self._hold(request, "the arrival rate is not known, or nothing arrives")
        if request.top_seconds >= self.after_seconds and request.size + 1 < len(request.cores):
            up = self._up(request, rate)
            if up is not None:
                return up
        if request.calm_seconds >= self.calm_seconds and request.size > 0:
            return self._down(request)
        return self._hold(request, "no size is called for")

    def _up(self, request: ResizeRequest, rate: float) -> ResizeProposal | None:
        growth = request.backlog_growth_rows_per_second
        if growth is not None and growth > _GROWS * rate:
            return self._up_to_keep_up(request, rate, growth)
        if request.broken_seconds >= self.after_seconds:
            return self._up_for_the_objective(request, rate, growth or 0.0)
        return None

    def _up_to_keep_up(self, request: ResizeRequest, rate: float, growth: float) -> ResizeProposal:
        pause, horizon = request.pause_seconds, self.horizon_seconds
        waiting = request.observation.backlog_records or 0
        larger = max(0.0, rate - growth) * _gain(request.cores, request.size)
        as_is = waiting + growth * horizon
        after = max(0.0, waiting + rate * pause + (rate - larger) * (horizon - pause))
        why = (
            f"at the top of its limits for {format_seconds(request.top_seconds)} the backlog grows by "
            f"{format_count(growth)} records a second"
        )
        told = f"{format_count(after)} records would wait in {format_seconds(horizon)} instead of {format_count(as_is)}"
        return self._judged(request, why, told, as_is=as_is, after=after, growth=growth)

    def _up_for_the_objective(self, request: ResizeRequest, rate: float, growth: float) -> ResizeProposal:
        seen, pause, horizon = request.observation, request.pause_seconds, self.horizon_seconds
        waiting = seen.backlog_records or 0
        # A backlog that shrinks will be gone by itself; one that stands is what batches are made of.
        lasts = min(horizon, waiting / -growth) if growth < -_GROWS * rate else horizon
        as_is = _late_part(seen.latency, request.objective) * rate * lasts
        served = rate - min(growth, 0.0)
        capacity = served / seen.utilisation if seen.utilisation is not None and 0 < seen.utilisation < 1 else served
        spare = capacity * _gain(request.cores, request.size) - rate
        catching_up = (waiting + rate * pause) / spare if spare > 0 else math.inf
        after = rate * min(horizon, pause + catching_up)
        broken = format_seconds(request.broken_seconds)
        why = f"at the top of its limits the objective ({request.objective}) has been broken for {broken}"
        told = (
            f"{format_count(after)} records would be late within {format_seconds(horizon)} instead of "
            f"{format_count(as_is)}"
        )
        return self._judged(request, why, told, as_is=as_is, after=after, growth=growth)

    def _judged(
        self, request: ResizeRequest, why: str, told: str, *, as_is: float, after: float, growth: float
    ) -> ResizeProposal:
        evidence = {
            **_evidence(request),
            "backlog_growth_rows_per_second": growth,
            "records_behind_as_it_is": as_is,
            "records_behind_after_restart": after,
        }
        if after < as_is:
            return ResizeProposal(request.size + 1, f"{why}; with a restart {told}", evidence)
        return ResizeProposal(request.size, f"{why}, but a restart would not repay: {told}", evidence)

    def _down(self, request: ResizeRequest) -> ResizeProposal:
        seen = request.observation
        if seen.utilisation is None or seen.cluster.observed is None:
            return self._hold(request, "the use of CPU is not known")
        used = seen.utilisation * seen.cluster.observed.capacity * request.cores[request.size]
        there = request.limits.top.capacity * request.cores[request.size - 1]
        expected = used / there
        evidence = {**_evidence(request), "utilisation_expected": expected}
        if expected > _MOST_UTILISATION:
            why = f"the next smaller size would be used {expected:.0%}, more than {_MOST_UTILISATION:.0%}"
            return ResizeProposal(request.size, why, evidence)
        # Capacity of the smaller size: l / expected; what came in the pause is worked off with what l leaves of it.
        late = request.pause_seconds * (1.0 + expected / (1.0 - expected))
        allowed = _BEYOND.get(request.objective.statistic or "", 0.05) * request.calm_seconds
        calm = f"calm at the bottom of its limits for {format_seconds(request.calm_seconds)}"
        told = (
            f"a restart makes the records of {format_seconds(late)} late, and the objective allows those of "
            f"{format_seconds(allowed)} since then"
        )
        if late > allowed:
            return ResizeProposal(request.size, f"{calm}, but {told}", evidence)
        reason = f"{calm}; the next smaller size would be used {expected:.0%}; {told}"
        return ResizeProposal(request.size - 1, reason, evidence)

    @staticmethod
    def _hold(request: ResizeRequest, why: str) -> ResizeProposal:
        return ResizeProposal(request.size, why, _evidence(request), is_weighed=False)


def _evidence(request: ResizeRequest) -> dict[str, float | int | str | None]:
    seen = request.observation
    rate = seen.arrival_rate_rows_per_second
    return {
        "pause_expected_seconds": request.pause_seconds,
        "records_that_will_wait": None if rate is None else rate * request.pause_seconds,
        "arrival_rate_rows_per_second": rate,
        "backlog_records": seen.backlog_records,
        "utilisation": seen.utilisation,
    }


def _gain(cores: tuple[int, ...], size: int) -> float:
    return 1.0 + _KEPT * (cores[size + 1] / cores[size] - 1.0)


def _late_part(latency: LatencySummary | None, objective: Objective) -> float:
    """At least what part of the records is late, by the lowest percentile that is beyond the bound."""
    if latency is None or objective.seconds is None:
        return 0.0
    return max((part for name, part in _BEYOND.items() if latency.statistic(name) > objective.seconds), default=0.0)
