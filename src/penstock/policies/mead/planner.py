# SPDX-License-Identifier: Apache-2.0
"""The cheapest CPU shares of a whole pipeline whose predicted latencies keep their bounds.

The Auto-Scaling Manager of MEAD (Sec. V-B, Fig. 5): a search for levels, then the planning rule that scaling down goes
one level at most, then one decision per operator. A pure function: the predictions come in as a `PathLatency`.

References
----------
Russo Russo, Cardellini, Casale, Lo Presti, "MEAD: Model-Based Vertical Auto-Scaling for Data Stream Processing", 2021.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from penstock.errors import ConfigurationError
from penstock.plan.exact_search import exact_search
from penstock.plan.levels import AllocationSpace, Levels, Vector
from penstock.policies.mead.search import MOST_STEPWISE, Found, figure_5, refined
from penstock.ports import PathLatency
from penstock.records import Allocation, Decision, Prediction, Rejected

Search = Literal["auto", "published", "refined", "exact"]
MOST_FOR_EXACT = 8
"""Most operators, and most levels of each, that the exact search is meant for; one operator may have any number."""


@dataclass(frozen=True, eq=False, slots=True)
class PipelinePlan:
    """What every operator of a pipeline should have, and why.

    Attributes
    ----------
    decisions
        One for each operator, in the pipeline's order.
    is_met
        Whether every path keeps its bound under the levels decided upon, as predicted.
    is_possible
        Whether any levels would.
    predictions
        Of every path, under the levels decided upon.
    cost
        Of the levels decided upon.
    wanted_cost
        Of the levels that the search chose, before scaling down was limited.
    evaluations
        How many allocations were predicted.
    steps
        What the search did.
    """

    decisions: tuple[Decision, ...]
    is_met: bool
    is_possible: bool
    predictions: tuple[Prediction, ...]
    cost: float
    wanted_cost: float
    evaluations: int
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MeadPlanner:
    """Plans a pipeline's CPU shares.

    Parameters
    ----------
    delta
        Least improvement, as a part of the bound, for which an operator is scaled up. The paper gives no value.
    search
        ``"auto"`` is the exact search for up to 8 operators with 8 levels, within `most_evaluations`, and the refined
        one for more; ``"published"`` is Fig. 5 as it stands; ``"refined"`` goes on where Fig. 5 gives up, and gives
        back what is not needed; ``"exact"`` gives the cheapest levels, proven, however long it takes.
    most_levels_down
        How many levels an operator may lose at once; None: any number. Scaling up is never held back.
    every_seconds
        Time from one plan to the next (T_A).
    name
        The policy's name in decisions.
    most_evaluations
        Most allocations that ``"auto"`` has predicted by the exact search; then it takes the cheapest found so far.
    """

    delta: float = 0.05
    search: Search = "auto"
    most_levels_down: int | None = 1
    every_seconds: float = 60.0
    name: str = "mead"
    most_evaluations: int = 2000

    def __post_init__(self) -> None:
        if not 0.0 <= self.delta < math.inf:
            raise ConfigurationError(f"delta: {self.delta!r} must be at least 0, such as 0.05", field="delta")
        if self.search not in get_args(Search):
            raise ConfigurationError(
                f"search: {self.search!r} is unknown; use one of {', '.join(get_args(Search))}", field="search"
            )
        if isinstance(self.most_evaluations, bool) or self.most_evaluations < 1:
            raise ConfigurationError(
                f"most_evaluations: {self.most_evaluations!r} must be at least 1, such as 2000",
                field="most_evaluations",
            )
        if self.most_levels_down is not None and self.most_levels_down < 1:
            raise ConfigurationError(
                f"most_levels_down: {self.most_levels_down} must be at least 1, or None for any number",
                field="most_levels_down",
            )
        if not (math.isfinite(self.every_seconds) and self.every_seconds > 0):
            raise ConfigurationError(
                f'every_seconds: {self.every_seconds!r} must be a positive time, such as "60s"', field="every_seconds"
            )

    def plan_pipeline(
        self,
        at: float,
        latency: PathLatency,
        current: Mapping[str, Allocation],
        levels: Mapping[str, Levels] | None = None,
    ) -> PipelinePlan:
        """Decide for all operators together.

        Parameters
        ----------
        at
            The present instant.
        latency
            Predicts every path's latency, in the worst case over all models of the workload.
        current
            What each operator has. One that is not a level counts as the next level above it in capacity.
        levels
            What each operator may have; default: 0.40, 0.55, 0.70, 0.85, 1.0 for all, at that cost.

        Raises
        ------
        ConfigurationError
            An operator has no current allocation or no levels, or there are too many for the exact search.
        """
        missing = [name for name in latency.operators if name not in current]
        if missing:
            raise ConfigurationError(f"current: no allocation given for {', '.join(missing)}", field="current")
        space = AllocationSpace(latency, levels if levels is not None else dict.fromkeys(latency.operators, Levels()))
        found = self._search(space)
        while space.widen(found.x):
            # The cheapest under some models is the cheapest under all if it keeps the bounds under all.
            if not (found.is_met and space.is_met(found.x)):
                found = self._search(space, found.x)
        floor = tuple(
            0 if self.most_levels_down is None else level - self.most_levels_down
            for level in (space.levels[name].at_least(current[name]) for name in space.operators)
        )
        x = tuple(max(wanted, least) for wanted, least in zip(found.x, floor, strict=True))
        is_possible = found.is_met or space.is_met(space.top)
        explained = _ExplainedPlan(self, space, found, x, is_possible)
        return PipelinePlan(
            decisions=tuple(explained.decision(at, i, current[name]) for i, name in enumerate(space.operators)),
            is_met=space.is_met(x),
            is_possible=is_possible,
            predictions=space.predict(x),
            cost=space.cost(x),
            wanted_cost=space.cost(found.x),
            evaluations=space.evaluations,
            steps=found.steps,
        )

    def _search(self, space: AllocationSpace, near: Vector | None = None) -> Found:
        """Search for levels; `near` was found under fewer models of the workload."""
        if self.search == "published":
            return figure_5(space, self.delta)
        is_large = len(space.operators) > MOST_FOR_EXACT or max(space.top) >= MOST_FOR_EXACT
        is_large = is_large and len(space.operators) > 1
        size = f"{len(space.operators)} operators with up to {max(space.top) + 1} levels"
        if self.search == "exact" and is_large:
            raise ConfigurationError(
                f"search: the exact search is for up to {MOST_FOR_EXACT} operators with {MOST_FOR_EXACT} levels, not "
                f"{size}; use auto or refined",
                field="search",
            )
        good = refined(space, self.delta, near)
        if self.search == "refined":
            return good
        if is_large:
            return replace(good, steps=(*good.steps, f"refined search: {size} are too many for the exact one"))
        if not good.is_met:
            return replace(good, steps=(*good.steps, "refined search: there is no optimum where a bound is broken"))
        return self._exact(space, good)

    def _exact(self, space: AllocationSpace, good: Found) -> Found:
        most = self.most_evaluations if self.search == "auto" else None
        answer = exact_search(space, known=good.x, most_evaluations=most)
        assert answer.x is not None  # `good` keeps the bounds
        saved = space.cost(good.x) - answer.cost
        if answer.is_proven:
            proof = "nothing cheaper keeps the bounds"
        elif answer.breach:
            proof = (
                f"a path was predicted {answer.breach:.2%} slower with more CPU, so a cheaper one cannot be excluded"
            )
        else:
            proof = (
                f"stopped after {answer.evaluations} predictions (most_evaluations); "
                f"the cheapest costs {answer.lower_bound:.4g} at least, this {answer.cost:.4g}"
            )
        found = "exact" if answer.is_proven else "exact, unproven"
        return Found(answer.x, True, (*good.steps, f"exact search: {saved:.4g} cheaper; {proof}"), found)


_NAMES = {
    "published": "published search",
    "refined": "refined search",
    "exact": "exact search",
    "exact, unproven": "exact search, not proven",
}


class _ExplainedPlan:
    """Decisions in words: reason, evidence and what was rejected."""

    def __init__(self, policy: MeadPlanner, space: AllocationSpace, found: Found, x: Vector, is_possible: bool) -> None:
        self.policy, self.space, self.found, self.x, self.is_possible = policy, space, found, x, is_possible
        self.binding = space.binding(x)

    def decision(self, at: float, i: int, current: Allocation) -> Decision:
        """What is decided for one operator."""
        name = self.space.operators[i]
        levels = self.space.levels[name]
        return Decision(
            operator=name,
            at=at,
            policy=self.policy.name,
            current=current,
            target=levels.allocations[self.x[i]],
            reason=self._reason(i, name),
            evidence=self._evidence(name),
            rejected=self._rejected(i, name),
            prediction=self.binding,
        )

    def _reason(self, i: int, name: str) -> str:
        space, binding = self.space, self.binding
        shown = str(binding)
        if not self.is_possible:
            unsure = "" if binding.confidence is None else f" with {binding.confidence:.0%} confidence"
            return f"no allocation keeps every bound{unsure}: the best there is, {shown}"
        if not binding.is_met:
            return f"the search stopped below delta with a bound broken: {shown}"
        levels = space.levels[name]
        if self.x[i] > self.found.x[i]:
            wanted = f"{levels.allocations[self.found.x[i]]} would do"
            return f"{wanted}, but one decision takes {self.policy.most_levels_down} level(s) away at most; {shown}"
        return f"the cheapest allocation found that keeps every bound ({_NAMES[self.found.search]}): {shown}"

    def _evidence(self, name: str) -> dict[str, float | int | str | None]:
        binding = self.binding
        evidence: dict[str, float | int | str | None] = {
            "binding_path": " > ".join(binding.path),
            "binding_seconds": _shown(binding.seconds),
            "binding_low_seconds": None if binding.low_seconds is None else _shown(binding.low_seconds),
            "binding_high_seconds": None if binding.high_seconds is None else _shown(binding.high_seconds),
            "confidence": binding.confidence,
            "objective_seconds": binding.bound_seconds,
            "worst_model": binding.worst,
            "cost": self.space.cost(self.x),
            "search": self.found.search,
            "allocations_predicted": self.space.evaluations,
            "is_possible": "yes" if self.is_possible else "no",
        }
        # Of the paths through this operator, the one nearest to its bound says how the operator fares.
        through = [path for path in self.space.predict(self.x) if name in path.path]
        for path in through:
            evidence[f"path_seconds[{' > '.join(path.path)}]"] = _shown(path.seconds)
        if through:
            nearest = max(through, key=lambda path: path.counted_seconds / path.bound_seconds)
            evidence["operator_seconds"] = _shown(nearest.operator_seconds[name])
            evidence["operator_utilisation"] = _shown(nearest.utilisation[name])
        return evidence

    def _rejected(self, i: int, name: str) -> tuple[Rejected, ...]:
        space, levels, rejected = self.space, self.space.levels[name], []
        for level in (self.x[i] - 1, self.x[i] + 1):
            if not 0 <= level <= levels.top:
                continue
            other = (*self.x[:i], level, *self.x[i + 1 :])
            if len(space.operators) > MOST_STEPWISE and space.known(other) is None:
                continue  # a reason for each of many operators is not worth a prediction each
            binding = space.binding(other)
            shown = str(binding)
            if level > self.x[i]:
                why = f"costs {space.cost(other) - space.cost(self.x):.3g} more, for {shown}"
            elif self.x[i] > self.found.x[i]:
                why = f"more than {self.policy.most_levels_down} level(s) down at once"
            elif binding.is_met:
                limited = self.x != self.found.x
                why = (
                    "only while others still have more than they need" if limited else "this search gives nothing back"
                )
                why = f"would keep the bounds ({shown}), but {why}"
            elif self.is_possible and self.binding.is_met:
                why = f"would break the bound: {shown}"
            else:
                why = f"slower still: {shown}"
            rejected.append(Rejected(levels.allocations[level], why))
        return tuple(rejected)


def _shown(value: float) -> float | str:
    """The value as evidence; JSON has no infinity."""
    return value if math.isfinite(value) else str(value)
