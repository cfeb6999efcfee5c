# SPDX-License-Identifier: Apache-2.0
"""The file of a comparison of auto-scalers on a real geo cluster: load, nodes, application, scalers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from penstock.arrivals.shape_text import parse_shape
from penstock.errors import ConfigurationError
from penstock.evaluation.elasticity import Step
from penstock.evaluation.experiment_file import Experiment
from penstock.evaluation.policy_text import parse_policy
from penstock.evaluation.scaler_experiment import NodesDrawn, PublishedRow
from penstock.latency_map import LatencyMap
from penstock.performance.throughput import BatchTimeModel, NodeDelay
from penstock.performance.throughput.curve_model import CurveModel
from penstock.ports import FloatArray
from penstock.records import Allocation, ThroughputSample
from penstock.settings import Part, Seconds
from penstock.settings.geo import HOME

OPERATOR = "rides"
_STEPS = 144
"""Of what is replayed."""
_COUNTED_RATE = 500.0
"""At which the shape is counted; its rates are in proportion."""
_TWO_DAYS = 288.0
"""Minutes of the paper's replay."""


class LiveApplication(Part):
    """What runs, and on what executors."""

    app: str
    options: dict[str, str] = Field(default_factory=dict)
    payload: str
    rows_per_batch: int = Field(ge=1, description="most records of a batch")
    tasks: int = Field(ge=1, description="of a batch")
    cores_per_node: float = Field(gt=0, description="CPU of each node, which has one executor")
    executor_memory: str = "512m"
    driver_memory: str = "700m"


class Measuring(Part):
    """A run before the others: so much arrives from the start that whatever its scaler has is at its maximum."""

    rate: float = Field(gt=0, description="arrivals a second, more than all executors do")
    duration: Seconds = Field(gt=0)
    scaler: str = Field(description="a policy that takes one executor more from time to time")


class LiveScalersExperiment(Experiment):
    """Auto-scalers on one load on Spark, one after the other on a cluster of the same nodes."""

    kind: Literal["auto-scalers-live"]
    machine: str = Field(description="where it ran")
    kept: str = Field(default="runs.jsonl", description="the file of the runs, beside the config")
    application: LiveApplication
    repeats: int = Field(default=1, ge=1, description="runs of each scaler")
    seed: int = Field(default=0, ge=0, description="of the nodes' places and of the load")
    measuring: Measuring
    peak: float = Field(gt=0, description="the busiest step, as part of what the most executors sustain as measured")
    minutes: tuple[float, float] = Field(default=(0.0, _TWO_DAYS), description="those of the paper's replay")
    duration: Seconds = Field(gt=0, description="these in so much time")
    lead: Seconds = Field(default=0.0, ge=0, description="before them: the application starts, and as much arrives")
    step: Seconds = Field(default=10.0, gt=0, description="what the demand is taken over")
    nodes: NodesDrawn
    executors: tuple[int, int]
    pipeline: dict[str, Any] = Field(description="a settings file without cluster, arrivals, operators and policy")
    operator: dict[str, Any] = Field(default_factory=dict, description="more of the operator's settings")
    scalers: dict[str, str] = Field(min_length=1, description="policies by the name of their row")
    published: dict[str, PublishedRow] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _rows_are_known(self) -> LiveScalersExperiment:
        wrong = sorted(set(self.published) - set(self.scalers))
        if wrong:
            raise ValueError(f"published: no scaler is called {', '.join(wrong)}")
        if self.executors[1] > self.nodes.count:
            raise ValueError(f"executors: {self.executors[1]} do not fit on {self.nodes.count} nodes")
        if not 0.0 <= self.minutes[0] < self.minutes[1] <= _TWO_DAYS:
            raise ValueError(f"minutes: {list(self.minutes)} is no part of the replay's 0 to {_TWO_DAYS:.0f}")
        return self

    def narrowed(self, traces: Sequence[str] = (), seeds: int | None = None) -> Self:
        """Only the scalers of these names, and so many runs of each."""
        strange = sorted(set(traces) - set(self.scalers))
        if strange:
            raise ConfigurationError(
                f"--trace: there is no scaler {', '.join(strange)}; there are {', '.join(self.scalers)}",
                field="--trace",
            )
        kept = {name: policy for name, policy in self.scalers.items() if not traces or name in traces}
        return self.model_copy(update={"scalers": kept, "repeats": self.repeats if seeds is None else seeds})

    def shape(self, law: CurveModel) -> str:
        """All that arrives: as much as at the beginning, then what is replayed in short steps."""
        step = self.duration / _STEPS
        rates = self.rates(step, law)
        lead = [f"{self.lead:g}s@{rates[0]:.0f}"] if self.lead else []
        return f"steps:{','.join((*lead, *(f'{step:g}s@{rate:.0f}' for rate in rates)))}"

    def rates(self, step: float, law: CurveModel) -> FloatArray:
        """The mean rate of each so many seconds of what is replayed."""
        begin, end = self.minutes
        pace = self.duration / (end - begin)
        shape = f"taxi-days:rate={_COUNTED_RATE},duration={_TWO_DAYS * pace},variant={self.seed}"
        days = parse_shape(shape)
        times = days.times(0, days.total) - begin * pace

        def counted(seconds: float) -> FloatArray:
            edges = np.arange(0.0, self.duration + 0.5 * seconds, seconds)
            return np.asarray(np.histogram(times, edges)[0] / seconds, dtype=np.float64)

        busiest = self.peak * self.sustained(law, self.executors[1])
        return np.asarray(counted(step) * (busiest / counted(self.step).max()), dtype=np.float64)

    def round_trips(self) -> LatencyMap:
        """How far the nodes are apart, and from the driver in their midst: all in a plane."""
        names = (HOME, *(f"node-{number + 1}" for number in range(self.nodes.count)))
        places = np.random.default_rng([self.seed, 8]).random((len(names), 2))
        apart = {
            pair: float(np.hypot(*(places[pair[0]] - places[pair[1]]))) for pair in combinations(range(len(names)), 2)
        }
        longest = max(apart.values())
        return LatencyMap.of(
            [(names[a], names[b], round(self.nodes.longest * far / longest, 3)) for (a, b), far in apart.items()],
            names,
            HOME,
        )

    def settings(self, scaler: str, law: CurveModel) -> dict[str, Any]:
        """The settings file of a run: the application under one scaler."""
        return self._settings(f"scalers.{scaler}", self.scalers[scaler], self.shape(law))

    def measuring_settings(self) -> dict[str, Any]:
        """The settings file of the run that shows what each number of executors does at its maximum."""
        shape = f"steps:{self.measuring.duration:g}s@{self.measuring.rate:.0f}"
        # Much waits when it ends, and nobody needs it.
        return self._settings("measuring.scaler", self.measuring.scaler, shape) | {"drain": "1s"}

    def _settings(self, field: str, scaler: str, shape: str) -> dict[str, Any]:
        policy = parse_policy(scaler)
        if policy is None:
            raise ConfigurationError(f"{field}: static scales nothing; leave it out", field=field)
        runs, apart = self.application, self.round_trips()
        nodes = [node for node in apart.nodes if node != HOME]
        return {
            **self.pipeline,
            "name": "auto-scalers",
            "cluster": {
                "geo": {
                    "nodes": dict.fromkeys(nodes, runs.cores_per_node),
                    "round_trips": {f"{a}:{b}": apart.between(a, b) for a, b in combinations((HOME, *nodes), 2)},
                }
            },
            "arrivals": {
                "shape": shape,
                "options": {
                    "payload": runs.payload, "partitions": str(runs.tasks),
                    "maxRowsPerBatch": str(runs.rows_per_batch), "seed": str(self.seed),
                },
            },
            "operators": [
                {
                    "name": OPERATOR, "app": runs.app, "options": runs.options,
                    "executors": list(self.executors), "first_executors": self.executors[0], "cpu_shares": [1.0],
                    "executor_memory": runs.executor_memory, "driver_memory": runs.driver_memory,
                    **self.operator,
                }
            ],
            "policy": {"name": policy.name, "options": dict(policy.options)},
        }  # fmt: skip

    def demand(self, law: CurveModel) -> list[Step]:
        """The ideal auto-scaler: the fewest executors that keep up, on the best nodes, with hindsight."""
        rates = self.rates(self.step, law)
        does = [(n, self.sustained(law, n)) for n in range(self.executors[0], self.executors[1] + 1)]
        enough = [next((n for n, most in does if most >= rate), self.executors[1]) for rate in rates]
        return [(number * self.step, float(n)) for number, n in enumerate(enough)]

    def law(self, samples: Sequence[ThroughputSample]) -> CurveModel:
        """The law of micro-batches, fitted to what was measured at the maximum."""
        runs = self.application
        return BatchTimeModel(NodeDelay(self.round_trips()), cap=runs.rows_per_batch, tasks=runs.tasks).fit(samples)

    def sustained(self, law: CurveModel, executors: int) -> float:
        """What so many executors sustain on the nodes that suit them best, as the law says."""
        nodes = [node for node in self.round_trips().nodes if node != HOME]
        return max(
            law.predict(Allocation(executors, nodes=tuple((node, 1) for node in chosen))).records_per_second
            for chosen in combinations(nodes, executors)
        )
