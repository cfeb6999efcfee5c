# SPDX-License-Identifier: Apache-2.0
"""Policies that decide for a whole pipeline at once, and their place in the cycles of single operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from penstock.errors import NotReadyError
from penstock.ports import FloatArray
from penstock.records import Allocation, Decision, Limits, Objective, Observation, PlanRequest
from penstock.simulator import Pipeline
from penstock.topology import Path


@dataclass(frozen=True, eq=False, slots=True)
class PipelineView:
    """All that a policy for a whole pipeline may know.

    Attributes
    ----------
    at
        The present instant, in seconds since the first arrival.
    arrivals
        When records arrived at the source up to now, rising: its differences are the inter-arrival times.
    pipeline
        Operators with their service demands, and streams.
    objectives
        Of every path.
    current, limits
        What each operator has and may have.
    observations
        The last of each operator; that of the one being decided upon is from now.
    backlog_records
        How many records wait or are served at each operator now.
    """

    at: float
    arrivals: FloatArray
    pipeline: Pipeline
    objectives: Mapping[Path, Objective]
    current: Mapping[str, Allocation]
    limits: Mapping[str, Limits]
    observations: Mapping[str, Observation]
    backlog_records: Mapping[str, int]


@runtime_checkable
class PipelinePolicy(Protocol):
    """Decides for all operators together. The same view gives the same answer."""

    @property
    def name(self) -> str:
        """How the policy is called in results."""
        ...

    @property
    def every_seconds(self) -> float:
        """How often it wants to be asked."""
        ...

    def plan_all(self, view: PipelineView) -> Mapping[str, Allocation | Decision]:
        """What each operator should have, or a whole decision with its reason; who is left out keeps what it has.

        NotReadyError, where there is too little data yet, makes all keep what they have.
        """
        ...


@dataclass(slots=True)
class AskedTogether:
    """A pipeline's policy, asked once for each instant, whichever operator comes first."""

    policy: PipelinePolicy
    view: Callable[[float], PipelineView]
    _at: float | None = None
    _plan: Mapping[str, Allocation | Decision] = field(default_factory=dict)

    def plan(self, at: float) -> Mapping[str, Allocation | Decision]:
        """The plan for an instant; nothing where the policy has too little data yet: the loop holds."""
        if self._at != at:
            self._at = at
            try:
                self._plan = self.policy.plan_all(self.view(at))
            except NotReadyError:
                self._plan = {}
        return self._plan


@dataclass(frozen=True, slots=True)
class OneOfAll:
    """One operator's part of what a pipeline's policy decides, as the policy of that operator's cycle."""

    together: AskedTogether
    operator: str

    @property
    def name(self) -> str:
        """The pipeline policy's."""
        return self.together.policy.name

    @property
    def every_seconds(self) -> float:
        """The pipeline policy's."""
        return self.together.policy.every_seconds

    def plan(self, request: PlanRequest) -> Decision:
        """What was decided for the operator; what it has where nothing was."""
        wanted = self.together.plan(request.at).get(self.operator, request.current)
        if isinstance(wanted, Decision):
            return wanted
        reason = "planned together with the pipeline's other operators"
        return Decision(request.operator, request.at, self.name, request.current, wanted, reason)
