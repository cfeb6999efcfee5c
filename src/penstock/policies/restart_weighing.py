# SPDX-License-Identifier: Apache-2.0
"""Whether executors of another size are worth the pause of a restart.

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
_ROUNDING = 1e-6
"""Numbers closer than this, relatively, differ by rounding alone, which is no ground for a restart."""
_BEYOND = {"p50": 0.5, "p95": 0.05, "p99": 0.01}
"""What part of the records is beyond each percentile."""


@dataclass(frozen=True, slots=True)
class RestartCase:
    """Everything that speaks for or against giving an operator executors of another size."""

    observation: Observation
    limits: Limits
    objective: Objective
    worths: tuple[float, ...]
    """What an executor of each size is worth, in executors of the operator's own size, rising."""
    size: int
    """The number of the size that it has."""
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
class RestartVerdict:
    """Which size to have, and why; the same size as before means no restart."""

    size: int
    reason: str
    evidence: Mapping[str, float | int | str | None]
    is_weighed: bool = True
    """Whether a restart was called for and weighed against its pause, whatever came of it."""


@dataclass(frozen=True, slots=True)
class RestartWeighing:
    """Chooses the next larger or smaller size where that repays the pause of its restart.

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

    def verdict(self, case: RestartCase) -> RestartVerdict:
        """One size up, one size down, or no restart."""
        rate = case.observation.arrival_rate_rows_per_second
        if rate is None or rate <= 0.0:
            return self._hold(case, "the arrival rate is not known, or nothing arrives")
        if case.top_seconds >= self.after_seconds and case.size + 1 < len(case.worths):
            up = self._up(case, rate)
            if up is not None:
                return up
        if case.calm_seconds >= self.calm_seconds and case.size > 0:
            return self._down(case)
        return self._hold(case, "no size is called for")

    def _up(self, case: RestartCase, rate: float) -> RestartVerdict | None:
        growth = case.backlog_growth_rows_per_second
        if growth is not None and growth > _GROWS * rate:
            return self._up_to_keep_up(case, rate, growth)
        if case.broken_seconds >= self.after_seconds:
            return self._up_for_the_objective(case, rate, growth or 0.0)
        return None

    def _up_to_keep_up(self, case: RestartCase, rate: float, growth: float) -> RestartVerdict:
        pause, horizon = case.pause_seconds, self.horizon_seconds
        waiting = case.observation.backlog_records or 0
        larger = max(0.0, rate - growth) * _gain(case.worths, case.size)
        as_is = waiting + growth * horizon
        after = max(0.0, waiting + rate * pause + (rate - larger) * (horizon - pause))
        why = (
            f"at the top of its limits for {format_seconds(case.top_seconds)} the backlog grows by "
            f"{format_count(growth)} records a second"
        )
        comparison = (
            f"{format_count(after)} records would wait in {format_seconds(horizon)} instead of {format_count(as_is)}"
        )
        return self._judged(case, why, comparison, as_is=as_is, after=after, growth=growth)

    def _up_for_the_objective(self, case: RestartCase, rate: float, growth: float) -> RestartVerdict:
        seen, pause, horizon = case.observation, case.pause_seconds, self.horizon_seconds
        waiting = seen.backlog_records or 0
        # A backlog that shrinks will be gone by itself; one that stands is what batches are made of.
        lasts = min(horizon, waiting / -growth) if growth < -_GROWS * rate else horizon
        as_is = _late_part(seen.latency, case.objective) * rate * lasts
        served = rate - min(growth, 0.0)
        capacity = served / seen.utilisation if seen.utilisation is not None and 0 < seen.utilisation < 1 else served
        spare = capacity * _gain(case.worths, case.size) - rate
        catching_up = (waiting + rate * pause) / spare if spare > 0 else math.inf
        after = rate * min(horizon, pause + catching_up)
        broken = format_seconds(case.broken_seconds)
        why = f"at the top of its limits the objective ({case.objective}) has been broken for {broken}"
        comparison = (
            f"{format_count(after)} records would be late within {format_seconds(horizon)} instead of "
            f"{format_count(as_is)}"
        )
        return self._judged(case, why, comparison, as_is=as_is, after=after, growth=growth)

    def _judged(
        self, case: RestartCase, why: str, comparison: str, *, as_is: float, after: float, growth: float
    ) -> RestartVerdict:
        evidence = {
            **_evidence(case),
            "backlog_growth_rows_per_second": growth,
            "records_behind_as_it_is": as_is,
            "records_behind_after_restart": after,
        }
        if after < as_is * (1.0 - _ROUNDING):
            return RestartVerdict(case.size + 1, f"{why}; with a restart {comparison}", evidence)
        return RestartVerdict(case.size, f"{why}, but a restart would not repay: {comparison}", evidence)

    def _down(self, case: RestartCase) -> RestartVerdict:
        seen = case.observation
        if seen.utilisation is None or seen.cluster.observed is None:
            return self._hold(case, "the use of CPU is not known")
        used = seen.utilisation * seen.cluster.observed.capacity
        there = case.limits.top.capacity * case.worths[case.size - 1]
        expected = used / there
        evidence = {**_evidence(case), "utilisation_expected": expected}
        if expected > _MOST_UTILISATION:
            why = f"the next smaller size would be used {expected:.0%}, more than {_MOST_UTILISATION:.0%}"
            return RestartVerdict(case.size, why, evidence)
        # Capacity of the smaller size: l / expected; what came in the pause is worked off with what l leaves of it.
        late = case.pause_seconds * (1.0 + expected / (1.0 - expected))
        allowed = _BEYOND.get(case.objective.statistic or "", 0.05) * case.calm_seconds
        calm = f"calm at the bottom of its limits for {format_seconds(case.calm_seconds)}"
        comparison = (
            f"a restart makes the records of {format_seconds(late)} late, and the objective allows those of "
            f"{format_seconds(allowed)} since then"
        )
        if late > allowed:
            return RestartVerdict(case.size, f"{calm}, but {comparison}", evidence)
        reason = f"{calm}; the next smaller size would be used {expected:.0%}; {comparison}"
        return RestartVerdict(case.size - 1, reason, evidence)

    @staticmethod
    def _hold(case: RestartCase, why: str) -> RestartVerdict:
        return RestartVerdict(case.size, why, _evidence(case), is_weighed=False)


def _evidence(case: RestartCase) -> dict[str, float | int | str | None]:
    seen = case.observation
    rate = seen.arrival_rate_rows_per_second
    return {
        "pause_expected_seconds": case.pause_seconds,
        "records_that_will_wait": None if rate is None else rate * case.pause_seconds,
        "arrival_rate_rows_per_second": rate,
        "backlog_records": seen.backlog_records,
        "utilisation": seen.utilisation,
    }


def _gain(worths: tuple[float, ...], size: int) -> float:
    return 1.0 + _KEPT * (worths[size + 1] / worths[size] - 1.0)


def _late_part(latency: LatencySummary | None, objective: Objective) -> float:
    """At least what part of the records is late, by the lowest percentile that is beyond the bound."""
    if latency is None or objective.seconds is None:
        return 0.0
    return max((part for name, part in _BEYOND.items() if latency.statistic(name) > objective.seconds), default=0.0)
