# SPDX-License-Identifier: Apache-2.0
"""The MEAD policy on a simulated pipeline: windows of arrivals, fitted processes, predicted paths, planned shares.

The service demands are those the pipeline declares, as in the paper, which measured them beforehand. The queueing
model is a setting: ``map`` is MEAD, ``m/g/1`` and ``gi/g/1`` are what the paper compares it with (Sec. VII).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.errors import ConfigurationError
from penstock.evaluation.simulation import PipelineView
from penstock.markov import MAP, PH
from penstock.markov.phase_type_fit import fit_mean_scv
from penstock.performance.demand import BatchDemand, Demand, RecordDemand
from penstock.performance.latency import Model
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.plan.levels import Levels
from penstock.plan.mead import MeadPolicy, Search
from penstock.ports import FloatArray
from penstock.records import Allocation, Decision
from penstock.simulator import MicroBatch, Pipeline, Service
from penstock.simulator.pipeline import ARRIVALS
from penstock.simulator.service import PhaseType
from penstock.units import parse_seconds
from penstock.workload import WorkloadEstimate, describe_iats, estimate_workload

_MOST_PHASES = 16
"""Of a service or inter-arrival time; constant ones are modelled as Erlang of so many phases."""


@dataclass(eq=False)
class WorkloadAnalyst:
    """Estimates the workload from the newest arrivals; one analyst may serve many runs on the same trace.

    What it has found for a number of arrivals it keeps: arrivals do not depend on the policy or on the seed of the
    service times, so runs on one trace ask the same questions.

    Parameters
    ----------
    window
        Inter-arrival times of the base window (N_E).
    parts
        The windows as parts of it.
    best
        How many processes for each window.
    """

    window: int = 50_000
    parts: Sequence[float] = (1.0, 0.5)
    best: int = 5
    max_states: int = 16
    _known: dict[tuple[int, float], WorkloadEstimate] = field(default_factory=dict, repr=False)
    _last: WorkloadEstimate | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ConfigurationError(f"window: {self.window} must be at least 1", field="window")

    def processes(self, arrivals: FloatArray) -> dict[str, MAP]:
        """The best processes of every window, each by a label; NotReadyError where there are too few arrivals."""
        estimate = self._estimate(arrivals)
        return {
            f"window {window.n}, fit {rank}": fitted.map
            for window in estimate.windows
            for rank, fitted in enumerate(window.fit.maps, start=1)
        }

    def renewals(self, arrivals: FloatArray) -> dict[str, MAP]:
        """A process of every window with its rate and variability, and no correlation."""
        found: dict[str, MAP] = {}
        for part in self.parts:
            window = self._iats(arrivals, part)
            if window.size >= 2 and window.sum() > 0:
                told = describe_iats(window, max_lag=1)
                intervals = fit_mean_scv(told.mean, told.scv, max_phases=_MOST_PHASES).distribution
                found[f"window {window.size}"] = MAP.renewal(intervals)
        return found

    def _estimate(self, arrivals: FloatArray) -> WorkloadEstimate:
        key = (len(arrivals), float(arrivals[-1]) if len(arrivals) else 0.0)
        if key not in self._known:
            self._last = self._known[key] = estimate_workload(
                self._iats(arrivals, 1.0),
                shares=self.parts,
                best=self.best,
                max_states=self.max_states,
                warm=self._last,
            )
        return self._known[key]

    def _iats(self, arrivals: FloatArray, part: float) -> FloatArray:
        newest = max(1, round(self.window * part))
        return np.diff(arrivals[-newest - 1 :])


@dataclass(eq=False)
class SimulatedMead:
    """MEAD, or its planning with a simpler queue, for `simulate`.

    Parameters
    ----------
    model
        ``map``, ``m/g/1`` or ``gi/g/1``.
    planner
        Search and planning rules.
    analyst
        Where the arrival processes come from.
    """

    model: Model = "map"
    planner: MeadPolicy = field(default_factory=MeadPolicy)
    analyst: WorkloadAnalyst = field(default_factory=WorkloadAnalyst)

    @property
    def name(self) -> str:
        """How the policy is called in results."""
        return "mead" if self.model == "map" else self.model

    @property
    def every_seconds(self) -> float:
        """How often it wants to be asked (T_A)."""
        return self.planner.every_seconds

    def plan_all(self, view: PipelineView) -> Mapping[str, Allocation | Decision]:
        """The shares of all operators."""
        arrivals = view.arrivals
        workload = self.analyst.processes(arrivals) if self.model == "map" else self.analyst.renewals(arrivals)
        if not workload:
            return {}
        model = PipelineModel(_operators(view.pipeline, view.current), dict(view.objectives))
        levels = {name: Levels(limits.cpu_shares) for name, limits in view.limits.items()}
        plan = self.planner.plan_pipeline(
            view.at, PipelineLatency(model, workload, model=self.model), view.current, levels
        )
        return {decision.operator: decision for decision in plan.decisions}


def simulated_mead(
    model: Model = "map",
    *,
    window: int = 50_000,
    sub_windows: int = 1,
    best: int = 5,
    max_states: int = 16,
    search: Search = "exact",
    delta: float = 0.05,
    most_levels_down: int | None = 1,
    every_seconds: str | float = 60.0,
) -> SimulatedMead:
    """Give the policy from plain values; each of the `sub_windows` is half as long as the one before."""
    if not 0 <= int(sub_windows) <= 8:
        raise ConfigurationError(f"sub_windows: {sub_windows} is not a number from 0 to 8", field="sub_windows")
    parts = [0.5**i for i in range(int(sub_windows) + 1)]
    planner = MeadPolicy(delta, search, most_levels_down, parse_seconds(every_seconds, "every_seconds"))
    return SimulatedMead(model, planner, WorkloadAnalyst(int(window), parts, int(best), int(max_states)))


def _operators(pipeline: Pipeline, current: Mapping[str, Allocation]) -> list[OperatorModel]:
    inputs = {o.name: tuple(s.source for s in pipeline.streams if s.target == o.name) for o in pipeline.operators}
    split = [str(stream) for stream in pipeline.streams if stream.selectivity != 1.0]
    if split:
        raise ConfigurationError(
            f"policy: mead has no model of a stream's own selectivity, which {', '.join(split)} has; give it to the "
            "operator above",
            field="policy",
        )
    return [
        OperatorModel(
            o.name,
            _demand(o.server),
            tuple(above for above in inputs[o.name] if above != ARRIVALS),
            o.selectivity,
            current[o.name].executors,
        )
        for o in pipeline.operators
    ]


def _demand(server: Service | MicroBatch) -> Demand:
    if isinstance(server, MicroBatch):
        return BatchDemand(
            fixed_seconds=server.fixed,
            per_record_seconds=server.per_record,
            fixed_scv=server.fixed_scv,
            per_record_scv=server.per_record_scv,
            fixed_cpu_seconds=server.fixed,  # the simulator does all work at the speed of the share
            cap=server.cap,
            trigger_seconds=server.trigger,
        )
    return RecordDemand(_service(server))


def _service(server: Service) -> PH:
    if isinstance(server, PhaseType):
        return server.ph
    return fit_mean_scv(server.mean, server.scv, max_phases=_MOST_PHASES).distribution
