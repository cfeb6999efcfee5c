# SPDX-License-Identifier: Apache-2.0
"""What MEAD foresees in a simulation: windows of arrivals, processes fitted to them, and the latencies they lead to.

Arrivals depend neither on the policy nor on the seed of the service times, so what was found once serves every run on
the same trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.errors import ConfigurationError
from penstock.evaluation.pipeline_policy import PipelineView
from penstock.loop.foresight import Window, checked_latency, renewal_processes, windows_of
from penstock.markov import MAP, PH
from penstock.markov.phase_type_fit import fit_mean_scv
from penstock.performance.demand import BatchDemand, Demand, RecordDemand
from penstock.performance.operator_latency import Model
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.ports import FloatArray, PathLatency, PathPrediction
from penstock.records import Allocation, Objective
from penstock.simulator import MicroBatch, Pipeline, Service
from penstock.simulator.service import PhaseType
from penstock.topology import ARRIVALS, Path
from penstock.workload import WorkloadEstimate, estimate_workload

_MOST_PHASES = 16
"""Of a service time; constant ones are modelled as Erlang of so many phases."""


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

    @property
    def settings(self) -> tuple[object, ...]:
        """What decides over its answers: analysts alike in these find the same."""
        return self.window, tuple(self.parts), self.best, self.max_states

    def windows(self, arrivals: FloatArray) -> list[Window]:
        """Each window with its best processes; NotReadyError where there are too few arrivals."""
        return windows_of(self._estimate(arrivals), arrivals)

    def renewals(self, arrivals: FloatArray) -> dict[str, MAP]:
        """A process of every window with its rate and variability, and no correlation."""
        iats = self._iats(arrivals)
        # While the buffer fills, windows longer than it are the whole of it.
        return renewal_processes(iats, [min(1.0, self.window * part / max(iats.size, 1)) for part in self.parts])

    def _estimate(self, arrivals: FloatArray) -> WorkloadEstimate:
        key = (len(arrivals), float(arrivals[-1]) if len(arrivals) else 0.0)
        if key not in self._known:
            self._last = self._known[key] = estimate_workload(
                self._iats(arrivals),
                shares=self.parts,
                best=self.best,
                max_states=self.max_states,
                warm=self._last,
            )
        return self._known[key]

    def _iats(self, arrivals: FloatArray) -> FloatArray:
        return np.diff(arrivals[-self.window - 1 :])


@dataclass(eq=False)
class RememberedLatency:
    """Predictions of a workload, each computed once; a `ports.PathLatency`."""

    latency: PathLatency
    _known: dict[tuple[Allocation, ...], tuple[PathPrediction, ...]] = field(default_factory=dict, repr=False)

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators, each after those it reads from."""
        return self.latency.operators

    @property
    def paths(self) -> tuple[Path, ...]:
        """The source-to-sink paths."""
        return self.latency.paths

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[PathPrediction, ...]:
        """Predict every path."""
        key = tuple(allocations[name] for name in self.operators)
        if key not in self._known:
            self._known[key] = self.latency.predict(allocations)
        return self._known[key]


@dataclass(eq=False)
class Foresight:
    """Predictions by number of arrivals, kept: neither seed nor policy changes them, so runs may share them.

    Good for one pipeline and one set of objectives; another's are not mixed with them, but not kept either.

    Parameters
    ----------
    analyst
        Where arrival processes come from.
    model
        ``map``, ``m/g/1`` or ``gi/g/1``.
    believed
        Of ``map``: fits are believed up to this many times what their window itself would have met, and no less than
        that; None: as they are, as published.
    """

    analyst: WorkloadAnalyst = field(default_factory=WorkloadAnalyst)
    model: Model = "map"
    believed: float | None = 2.0
    _known: dict[tuple[object, ...], RememberedLatency | None] = field(default_factory=dict, repr=False)
    _of: tuple[Pipeline, dict[Path, Objective]] | None = field(default=None, repr=False)

    def latency(self, view: PipelineView) -> RememberedLatency | None:
        """What the workload up to now leads to; None where nothing can be told of it yet."""
        of = (view.pipeline, dict(view.objectives))
        if self._of is None or self._of[0] is not of[0] or self._of[1] != of[1]:
            self._of, self._known = of, {}
        arrivals = view.arrivals
        key = (len(arrivals), float(arrivals[-1]) if len(arrivals) else 0.0)
        if key not in self._known:
            found = self._predict(PipelineModel(_operators(view.pipeline), dict(view.objectives)), arrivals)
            self._known[key] = None if found is None else RememberedLatency(found)
        return self._known[key]

    def _predict(self, model: PipelineModel, arrivals: FloatArray) -> PathLatency | None:
        if self.model != "map":
            workload = self.analyst.renewals(arrivals)
            return PipelineLatency(model, workload, model=self.model) if workload else None
        return checked_latency(model, self.analyst.windows(arrivals), believed=self.believed)


def _operators(pipeline: Pipeline) -> list[OperatorModel]:
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
        )
        for o in pipeline.operators
    ]


def _demand(server: Service | MicroBatch) -> Demand:
    if isinstance(server, MicroBatch):
        return BatchDemand(
            fixed_seconds=server.fixed + server.driver,
            per_record_seconds=server.per_record,
            fixed_scv=server.fixed_scv * (server.fixed / (server.fixed + server.driver)) ** 2,
            per_record_scv=server.per_record_scv,
            fixed_cpu_seconds=server.fixed,
            cap=server.cap,
            trigger_seconds=server.trigger,
        )
    return RecordDemand(_service(server))


def _service(server: Service) -> PH:
    if isinstance(server, PhaseType):
        return server.ph
    return fit_mean_scv(server.mean, server.scv, max_phases=_MOST_PHASES).distribution
