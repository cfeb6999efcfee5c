# SPDX-License-Identifier: Apache-2.0
"""The MEAD policy on a simulated pipeline: windows of arrivals, fitted processes, predicted paths, planned shares.

The service demands are those the pipeline declares, as in the paper, which measured them beforehand. The queueing
model is a setting: ``map`` is MEAD, ``m/g/1`` and ``gi/g/1`` are what the paper compares it with (Sec. VII).

The paper's policy acts when it plans, every T_A. With a `Rescue` the backlog is watched in between, which the paper
does not do (docs/decisions/0005-rescue-between-plans.md); without one the policy is the published one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.evaluation.foresight import Foresight, WorkloadAnalyst
from penstock.evaluation.simulation import PipelineView
from penstock.plan.levels import Levels
from penstock.plan.mead import MeadPolicy
from penstock.plan.mead_options import Queues, mead_options
from penstock.plan.rescue import Rescue
from penstock.records import Allocation, Decision
from penstock.simulator import MicroBatch, Service

__all__ = ["SimulatedMead", "WorkloadAnalyst", "simulated_mead"]


@dataclass(eq=False)
class SimulatedMead:
    """MEAD, or its planning with a simpler queue, for `simulate`.

    Between plans it remembers the last one; a run that starts anew starts without. `again` gives a policy for another
    run on the same trace that need not compute the same predictions.

    Parameters
    ----------
    foresight
        Where arrival processes and predictions come from.
    planner
        Search and planning rules.
    rescue
        What watches the backlog between plans; None: nobody, as published.
    costs
        Of an executor at each of its CPU shares; None: the share.
    """

    foresight: Foresight = field(default_factory=Foresight)
    planner: MeadPolicy = field(default_factory=MeadPolicy)
    rescue: Rescue | None = field(default_factory=Rescue)
    costs: tuple[float, ...] | None = None
    _planned: dict[str, Allocation] = field(default_factory=dict, repr=False)
    _plan_due: float = field(default=0.0, repr=False)
    _looked_at: float = field(default=0.0, repr=False)

    @property
    def name(self) -> str:
        """How the policy is called in results."""
        return "mead" if self.foresight.model == "map" else self.foresight.model

    @property
    def every_seconds(self) -> float:
        """How often it wants to be asked: T_A, or as often as the backlog is looked at."""
        plans = self.planner.every_seconds
        return plans if self.rescue is None else min(plans, self.rescue.every_seconds)

    def again(self) -> SimulatedMead:
        """The same policy at its start, with what it has predicted so far."""
        return SimulatedMead(self.foresight, self.planner, self.rescue, self.costs)

    def plan_all(self, view: PipelineView) -> Mapping[str, Allocation | Decision]:
        """The shares of all operators: planned ones when a plan is due, else what the backlog calls for."""
        if view.at < self._looked_at:
            self._planned, self._plan_due = {}, 0.0
        self._looked_at = view.at
        decisions: dict[str, Decision] = {}
        if view.at >= self._plan_due:
            # On the grid of the first plan: a late look does not move those after it.
            period = self.planner.every_seconds
            self._plan_due += period * (1 + (view.at - self._plan_due) // period)
            decisions = self._plan(view)
        return decisions if self.rescue is None else self._rescued(view, decisions)

    def _plan(self, view: PipelineView) -> dict[str, Decision]:
        latency = self.foresight.latency(view)
        if latency is None:
            return {}
        levels = {name: Levels.within(limits, self.costs) for name, limits in view.limits.items()}
        current = {**view.current, **self._planned}
        plan = self.planner.plan_pipeline(view.at, latency, current, levels)
        self._planned = {decision.operator: decision.target for decision in plan.decisions}
        return {decision.operator: decision for decision in plan.decisions}

    def _rescued(self, view: PipelineView, decisions: dict[str, Decision]) -> dict[str, Decision]:
        """What was planned now or before, but the highest level for operators whose backlog calls for it."""
        assert self.rescue is not None
        planned = {**view.current, **self._planned}
        waiting = {
            o.name: view.backlog_records[o.name] * _work_seconds(o.server) / planned[o.name].capacity
            for o in view.pipeline.operators
        }
        bounds = {path: objective.seconds or math.inf for path, objective in view.objectives.items()}
        raised = self.rescue.operators(bounds, waiting)
        found: dict[str, Decision] = {}
        for name, current in view.current.items():
            if name in raised:
                top = view.limits[name].top
                found[name] = Decision(name, view.at, self.name, current, top, raised[name])
            elif name in decisions:
                found[name] = replace(decisions[name], current=current)
            elif current != planned[name]:
                found[name] = Decision(
                    name, view.at, self.name, current, planned[name], "no backlog any more: as planned"
                )
        return found


def simulated_mead(queues: Queues = "map", **plain: Any) -> SimulatedMead:
    """Give the policy from plain values, those of `mead_options`."""
    options = mead_options(queues, **plain)
    analyst = WorkloadAnalyst(options.window, options.parts, options.best, options.max_states)
    foresight = Foresight(analyst, options.queues, options.believed)
    return SimulatedMead(foresight, options.planner, options.rescue, options.costs)


def _work_seconds(server: Service | MicroBatch) -> float:
    """The mean work of a record, at full share."""
    return server.per_record if isinstance(server, MicroBatch) else server.mean
