# SPDX-License-Identifier: Apache-2.0
"""What Gesscale knows about one operator: its samples, its model, its nodes and the pressure at its input."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from penstock.errors import NotReadyError
from penstock.performance.throughput import (
    BatchTimeModel,
    FetchTimeModel,
    LearntModel,
    NodeDelay,
    PowerLawModel,
    ProportionalModel,
)
from penstock.plan.placement import Placement
from penstock.policies.gesscale.lost_nodes import LostNodes
from penstock.policies.gesscale.saturated import SaturatedSamples
from penstock.ports import Look, OperatorSite, PolicyContext
from penstock.records import Allocation, Observation, PlanRequest, ThroughputPrediction

MODELS = ("power-law", "batch-time", "fetch-time", "proportional")
"""The laws that can be calibrated, by the name of the option."""

Evidence = dict[str, float | int | str | None]


def best_measured(site: OperatorSite) -> str:
    """The law that predicted best what had not calibrated it, of queries such as this one.

    In real-time mode none was good: `batch-time` was off by up to 39 % beyond the spread, `fetch-time` by up to 17 %,
    `power-law` by up to 7 % (experiments/gesscale-law, experiments/gesscale-law-real-time).
    """
    return "power-law" if site.is_real_time else "batch-time"


def model_for(name: str, context: PolicyContext, site: OperatorSite) -> LearntModel:
    """The law of this name for one operator, not calibrated."""
    delay_of = None if context.round_trips is None else NodeDelay(context.round_trips)
    if name == "proportional":
        return ProportionalModel()
    # An executor of another size has other slots, and its share of the tasks cannot be counted in those of one.
    tasks = None if site.limits.sizes else site.tasks
    if name == "fetch-time":
        return FetchTimeModel(delay_of, tasks=tasks)
    if name == "batch-time":
        longest = max(10.0, site.trigger_seconds or 0.0)
        return BatchTimeModel(delay_of, cap=site.cap, batch_seconds=longest, tasks=tasks, slots=site.slots)
    return PowerLawModel(delay_of)


class OperatorThroughput:
    """Takes every look at one operator.

    Parameters
    ----------
    model
        Its law, not calibrated.
    site
        How it was introduced.
    placement
        How its nodes are chosen.
    high_pressure
        Pressure above which its input is under pressure.
    pooled_seconds
        Time of batches that makes one sample.
    """

    def __init__(
        self,
        model: LearntModel,
        site: OperatorSite,
        placement: Placement,
        high_pressure: float,
        pooled_seconds: float,
    ) -> None:
        self.samples = SaturatedSamples(site, high_pressure, model.delay_for, pooled_seconds)
        self._most = inf
        if site.cap is not None and site.trigger_seconds and not site.is_real_time:
            self._most = site.cap / site.trigger_seconds  # a full batch a trigger: executors make it no sooner due
        self.is_real_time = site.is_real_time
        # The tasks of a real-time query keep running: an executor more than there are tasks has none, which a law that
        # does not know their number would not say.
        self.most_with_tasks = site.tasks if site.is_real_time else None
        self.lost = LostNodes()
        self.newest: Observation | None = None
        self._blank = self._model = model
        self._placement = placement
        self._fitted_with = 0

    def watch(self, look: Look) -> tuple[str, ...]:
        """Learn from one look; gives what the user should know."""
        self.newest = look.observation
        self.samples.watch(look)
        lost = self.lost.watch(look.observation.at, look.observation.cluster)
        return tuple(
            f"{look.operator}: node {node} does not give the executor that was asked for; other nodes are used"
            if holds == 0
            else f"{look.operator}: node {node} gives no more than {holds} of the executors that were asked for; other "
            "nodes are used for more"
            for node, holds in lost.items()
        )

    @property
    def model(self) -> LearntModel:
        """The law, calibrated with all samples there are.

        Raises
        ------
        NotReadyError
            The operator was never seen at its maximum.
        """
        if not self.samples.taken:
            raise NotReadyError("its throughput is not known: it was never seen at its maximum")
        if self._fitted_with != self.samples.taken:
            self._model = self._blank.fit(self.samples.samples)
            self._fitted_with = self.samples.taken
        return self._model

    def predicted(self, allocation: Allocation, coverage: float = 0.9) -> ThroughputPrediction:
        """What an allocation sustains; NotReadyError where nothing is known."""
        found = self.model.predict(allocation, coverage)
        middle, low, high = (min(rate, self._most) for rate in (found.records_per_second, found.low, found.high))
        return ThroughputPrediction(middle, low, high, coverage)

    def is_sure_of(self, allocation: Allocation) -> bool:
        """Whether samples speak of such an allocation; else what it does has to be tried."""
        return self.model.is_sure_of(allocation)

    def placed(self, request: PlanRequest, executors: int) -> Allocation:
        """So many executors, on nodes as this policy chooses them."""
        share = next(
            (level for level in request.limits.cpu_shares if level >= request.current.cpu_share - 1e-9),
            request.limits.cpu_shares[-1],
        )
        current = replace(request.current, cpu_share=share)
        return self._placement.resized(current, executors, request.limits, request.at, self.lost.room)

    def evidence(self, request: PlanRequest) -> Evidence:
        """What a reader of a decision wants to see of the model."""
        seen = request.observation
        found: Evidence = {
            "back_pressure": seen.back_pressure,
            "busy": seen.busy_fraction,
            "throughput_rows_per_second": seen.processed_rows_per_second,
            "arrival_rate_rows_per_second": seen.arrival_rate_rows_per_second,
            "backlog_records": seen.backlog_records,
            "samples": len(self.samples.samples),
        }
        if self.samples.taken:
            model = self.model
            found["calibration"] = str(getattr(model, "calibration_state", ""))
            found |= {name: float(value) for name, value in model.parameters.items()}
        if lost := [node for node, holds in self.lost.room.items() if holds == 0]:
            found["lost_nodes"] = ", ".join(lost)
        if full := [f"{node} ({holds})" for node, holds in self.lost.room.items() if holds > 0]:
            found["full_nodes"] = ", ".join(full)
        return found
