# SPDX-License-Identifier: Apache-2.0
"""The threshold policy: one level up when the CPU is busy, one level down when it is idle.

References
----------
MEAD, Sec. VII: the reactive policy that MEAD is compared with, U_H = 0.7, U_L = 0.5, asked every 10 s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import cast

from penstock.errors import ConfigurationError, Mistakes
from penstock.plan.ladder import direction, step
from penstock.plan.placement import Choice, Placement
from penstock.policies.entry import PolicyEntry, options_of
from penstock.ports import Policy, PolicyContext
from penstock.records import Allocation, Decision, PlanRequest, Quality, Rejected
from penstock.units import number, parse_seconds, whole_number

_SMALLEST = 5e-324


@dataclass(frozen=True, slots=True)
class ThresholdPolicy:
    """Scales by one level of the ladder when utilisation leaves the band from `lower` to `upper`.

    Parameters
    ----------
    upper
        Utilisation above which one level is added (U_H).
    lower
        Utilisation below which one level is taken (U_L).
    every_seconds
        How often it wants to be asked (T_A).
    placement
        How nodes are chosen, where there are some to choose from.

    Notes
    -----
    The objective plays no part in the choice (that is the paper's point); it stands in the evidence so that a
    reader sees how the choice went.
    """

    upper: float = 0.7
    lower: float = 0.5
    every_seconds: float = 10.0
    placement: Placement = field(default_factory=Placement)

    def __post_init__(self) -> None:
        mistakes = Mistakes()
        for check in (self._check_upper, self._check_lower, self._check_period):
            mistakes.of(check)
        mistakes.raise_all("threshold")

    # Written as negations so that NaN, which compares false with everything, is refused too.

    def _check_upper(self) -> None:
        if not 0.0 < self.upper <= 1.0:
            raise ConfigurationError(
                f"upper: {self.upper!r} is outside (0, 1]; it is a fraction of the CPU allowed, such as 0.7",
                field="upper",
            )

    def _check_lower(self) -> None:
        highest = self.upper if 0.0 < self.upper <= 1.0 else 1.0  # an upper that is wrong is no measure for it
        if not 0.0 < self.lower < highest:
            raise ConfigurationError(
                f"lower: {self.lower!r} must be above 0 and below upper ({highest:g}), such as {highest * 0.7:.2g}",
                field="lower",
            )

    def _check_period(self) -> None:
        if not (math.isfinite(self.every_seconds) and self.every_seconds > 0):
            raise ConfigurationError(
                f'every_seconds: {self.every_seconds!r} must be a positive time, such as "10s"',
                field="every_seconds",
            )

    @property
    def name(self) -> str:
        """How the policy is called in settings and decisions."""
        return "threshold"

    def plan(self, request: PlanRequest) -> Decision:
        """One level up, one level down, or hold."""
        unusable = _why_not_usable(request)
        if unusable is not None:
            return self._decision(request, request.current, f"holding: {unusable}")
        utilisation = request.observation.utilisation
        assert utilisation is not None  # _why_not_usable has refused it
        up, down = self._neighbours(request)
        over, under = f"{utilisation:.4g} is above {self.upper:g}", f"{utilisation:.4g} is below {self.lower:g}"
        not_up = f"utilisation {utilisation:.4g} is not above {self.upper:g}"
        not_down = f"utilisation {utilisation:.4g} is not below {self.lower:g}"
        if utilisation > self.upper:
            if up is None:
                reason = f"utilisation {over}, but there is no level above within the limits"
                return self._decision(request, request.current, reason, (down, not_down))
            return self._decision(request, up, f"utilisation {over}: one level up", (down, not_down))
        if utilisation < self.lower:
            if down is None:
                reason = f"utilisation {under}, but there is no level below within the limits"
                return self._decision(request, request.current, reason, (up, not_up))
            return self._decision(request, down, f"utilisation {under}: one level down", (up, not_up))
        reason = f"utilisation {utilisation:.4g} is between {self.lower:g} and {self.upper:g}"
        return self._decision(request, request.current, reason, (up, not_up), (down, not_down))

    def _neighbours(self, request: PlanRequest) -> tuple[Allocation | None, Allocation | None]:
        up, down = (self._placed(request, step(request.limits, request.current, way)) for way in (1, -1))
        return (
            up if direction(request.current, up) > 0 else None,
            down if direction(request.current, down) < 0 else None,
        )

    def _placed(self, request: PlanRequest, rung: Allocation) -> Allocation:
        if not request.limits.nodes:
            return rung
        stands = replace(rung, executors=request.current.executors, nodes=request.current.nodes)
        return self.placement.resized(stands, rung.executors, request.limits, request.at)

    def _decision(
        self, request: PlanRequest, target: Allocation, reason: str, *rejected: tuple[Allocation | None, str]
    ) -> Decision:
        seen = request.observation
        statistic = request.objective.statistic or "p95"
        return Decision(
            operator=request.operator,
            at=request.at,
            policy=self.name,
            current=request.current,
            target=target,
            reason=reason,
            evidence={
                "utilisation": _shown(seen.utilisation),
                "upper": self.upper,
                "lower": self.lower,
                "arrival_rate_rows_per_second": _shown(seen.arrival_rate_rows_per_second),
                "backlog_records": _shown(seen.backlog_records),
                f"latency_{statistic}_seconds": _shown(
                    None if seen.latency is None else seen.latency.statistic(statistic)
                ),
                "objective_seconds": request.objective.seconds,
                "quality": seen.quality.value,
            },
            rejected=tuple(Rejected(allocation, why) for allocation, why in rejected if allocation is not None),
        )


def _why_not_usable(request: PlanRequest) -> str | None:
    seen = request.observation
    missing = f" (missing: {'; '.join(seen.missing)})" if seen.missing else ""
    if seen.quality is not Quality.GOOD:
        return f"the data are {seen.quality.value}{missing}"
    if seen.utilisation is None:
        return f"utilisation is not known{missing}"
    if not math.isfinite(seen.utilisation) or seen.utilisation < 0:
        return f"utilisation {seen.utilisation!r} cannot be true"
    return None


def _shown(value: float | None) -> float | str | None:
    """The value as evidence; JSON has no infinity or NaN, and a broken value must not be kept as an absent one."""
    return value if value is None or math.isfinite(value) else str(value)


def _build(  # noqa: PLR0917 - options are given by name
    context: PolicyContext,
    upper: float = 0.7,
    lower: float = 0.5,
    every_seconds: str | float = 10.0,
    nodes: str = "nearest",
    seed: int = 0,
) -> Policy:
    mistakes = Mistakes()
    high = mistakes.of(lambda: number("upper", upper))
    low = mistakes.of(lambda: number("lower", lower))
    period = mistakes.of(lambda: parse_seconds(every_seconds, "every_seconds"))
    number_of_seed = mistakes.of(lambda: whole_number("seed", seed, least=0))
    placement = mistakes.of(lambda: Placement(context.round_trips, cast("Choice", nodes), number_of_seed or 0))
    # What is no number stands aside with a value that is right, so that the others are looked at all the same.
    made = mistakes.of(
        lambda: ThresholdPolicy(
            1.0 if high is None else high,
            _SMALLEST if low is None else low,
            10.0 if period is None else period,
            placement or Placement(),
        )
    )
    mistakes.raise_all("policy threshold")
    assert made is not None  # what could not be made was raised
    return made


ENTRY = PolicyEntry(
    name="threshold",
    summary="one level up when the CPU is busy, one level down when it is idle",
    build=_build,
    options=options_of(
        _build,
        {
            "upper": "utilisation above which one level is added (U_H)",
            "lower": "utilisation below which one level is taken (U_L)",
            "every_seconds": "how often it wants to be asked (T_A)",
            "nodes": "how nodes are chosen: `nearest` to those in use, `best` of all sets, `random`; only where there "
            "are nodes to choose from",
            "seed": "of `nodes: random`",
        },
    ),
    default_for="keep up",
)
