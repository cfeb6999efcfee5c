# SPDX-License-Identifier: Apache-2.0
"""The file of a comparison of auto-scalers over nodes that are far apart: load, nodes, operator, scalers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from penstock.arrivals.shape_text import parse_shape
from penstock.errors import ConfigurationError
from penstock.evaluation.experiment_file import Experiment
from penstock.evaluation.policy_text import PolicyChoice, parse_policy
from penstock.latency_map import LatencyMap
from penstock.plan.guards import Cooldown
from penstock.ports import FloatArray, Guard
from penstock.records import Allocation, Limits
from penstock.settings import Part, Seconds
from penstock.simulator import MicroBatch, Operator, Pipeline

IDEAL = "ideal"
"""The row of the auto-scaler that knows the load and the truth, and changes at once."""
FIGURES = (
    "accuracy_over", "accuracy_under", "timeshare_over", "timeshare_under", "excess_time", "reconfigurations", "cost",
)  # fmt: skip
"""In the order of the paper's table."""
OF_SUPPLY = FIGURES[:4]
"""Those that depend on whether an operator that stands still is supplied."""
_OPERATOR = "rides"


class NodesDrawn(Part):
    """Nodes in a plane, drawn anew for each seed; round trips are in proportion to distances."""

    count: int = Field(ge=1, le=50)
    longest: Seconds = Field(gt=0, description="the round trip between the two that are farthest apart")


class TrueOperator(Part):
    """The operator as it is: what no scaler is given."""

    fixed: Seconds = Field(ge=0, description="fixed time of a batch")
    per_record: Seconds = Field(gt=0, description="work of a record on one executor")
    cap: int = Field(ge=1, description="most records of a batch")
    trigger: Seconds | None = Field(default=None, description="between starts of batches that do not overrun")
    round_trips: float = Field(ge=0, description="round trips that a batch waits for")
    parallel: float = Field(default=1.0, gt=0, le=1, description="n executors are n^parallel times as fast as one")
    fixed_scv: float = Field(default=0.0, ge=0)
    executors: tuple[int, int]
    standstill: Seconds = Field(default=0.0, description="how long each change stops it")


class PublishedRow(Part):
    """A row of the paper's table."""

    accuracy_over: float
    accuracy_under: float
    timeshare_over: float
    timeshare_under: float
    excess_time: float
    reconfigurations: int
    cost: float


class ScalersExperiment(Experiment):
    """Auto-scalers on one load, over seeds of load, service times and delays."""

    kind: Literal["auto-scalers"]
    seeds: int = Field(default=20, ge=1)
    first_seed: int = Field(default=0, ge=0)
    rate: float = Field(gt=0, description="mean arrivals a second")
    duration: Seconds = Field(gt=0)
    step: Seconds = Field(default=60.0, gt=0, description="what the demand is taken over")
    interval: Seconds = Field(gt=0, description="how often the loop looks")
    window: Seconds = Field(gt=0, description="what rates and utilisation are taken over")
    nodes: NodesDrawn
    operator: TrueOperator
    scalers: dict[str, str] = Field(min_length=1, description="policies by the name of their row")
    baseline: str = Field(description="the row that the others are held against")
    published: dict[str, PublishedRow] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _rows_are_known(self) -> ScalersExperiment:
        if self.baseline not in self.scalers:
            raise ValueError(f"baseline: no scaler is called {self.baseline}")
        wrong = sorted(set(self.published) - set(self.scalers))
        if wrong:
            raise ValueError(f"published: no scaler is called {', '.join(wrong)}")
        if self.operator.executors[1] > self.nodes.count:
            raise ValueError(f"operator.executors: {self.operator.executors[1]} do not fit on {self.nodes.count} nodes")
        return self

    def narrowed(self, traces: Sequence[str] = (), seeds: int | None = None) -> Self:
        """Only so many seeds."""
        if traces:
            raise ConfigurationError("--trace: the load is generated; there is no trace to choose", field="--trace")
        return self if seeds is None else self.model_copy(update={"seeds": seeds})

    @property
    def guards(self) -> tuple[Guard, ...]:
        """No scaler decides on measurements of a change: a window must have passed since it was over.

        A scaler as the paper's does nothing while it carries a change out. Without this, those that follow utilisation
        would take a standstill for idle executors.
        """
        settled = self.operator.standstill + self.window
        return (Cooldown(settled, settled),)

    def arrivals(self, seed: int) -> FloatArray:
        """When records arrive, for one seed: another day of the same shape."""
        shape = parse_shape(
            f"sampled:taxi-days:rate={self.rate},duration={self.duration},variant={seed + 1},seed={seed + 1}"
        )
        return shape.times(0, shape.total)

    def round_trips(self, seed: int) -> LatencyMap:
        """How far the nodes are apart, for one seed."""
        names = [f"node-{number + 1}" for number in range(self.nodes.count)]
        places = np.random.default_rng([seed, 8]).random((self.nodes.count, 2))
        apart = {
            pair: float(np.hypot(*(places[pair[0]] - places[pair[1]]))) for pair in combinations(range(len(names)), 2)
        }
        longest = max(apart.values(), default=1.0)
        return LatencyMap.of(
            [(names[a], names[b], self.nodes.longest * far / longest) for (a, b), far in apart.items()], names
        )

    @property
    def server(self) -> MicroBatch:
        """The operator's work."""
        o = self.operator
        return MicroBatch(
            o.fixed, o.per_record, o.cap, o.trigger, o.fixed_scv, round_trips=o.round_trips, parallel=o.parallel
        )

    def pipeline(self, seed: int) -> Pipeline:
        """The operator on the nodes of a seed; scalers read its CPU, as those of the paper."""
        round_trips = self.round_trips(seed)
        limits = Limits(*self.operator.executors, nodes=round_trips.nodes, executors_per_node=1)
        return Pipeline.of_one(
            Operator(
                _OPERATOR, self.server, limits=limits, demand_is_known=False,
                standstill_seconds=self.operator.standstill,
            ),
            round_trips,
        )  # fmt: skip

    def start(self, seed: int) -> dict[str, Allocation]:
        """The fewest executors, on the first nodes: nobody has chosen yet."""
        least = self.operator.executors[0]
        return {_OPERATOR: Allocation(least, nodes=tuple((node, 1) for node in self.round_trips(seed).nodes[:least]))}

    def choice(self, scaler: str, seed: int) -> PolicyChoice:
        """The policy of a row; what it draws, it draws anew for each seed."""
        found = parse_policy(self.scalers[scaler])
        if found is None:
            raise ConfigurationError(f"scalers.{scaler}: static scales nothing; leave it out", field="scalers")
        if found.options.get("nodes") == "random":
            return PolicyChoice(found.name, {**found.options, "seed": seed})
        return found

    def sustained(self, seed: int) -> list[float]:
        """What 1, 2, ... executors truly sustain on the nodes that suit them best."""
        apart, most = self.round_trips(seed), self.operator.executors[1]
        return [
            self.server.sustained(count, min(apart.largest(nodes) for nodes in combinations(apart.nodes, count)))
            for count in range(1, most + 1)
        ]

    def demand(self, seed: int, times: FloatArray) -> list[tuple[float, float]]:
        """The ideal auto-scaler: the fewest executors that keep up, step by step, with hindsight."""
        edges = np.arange(0.0, self.duration + 0.5 * self.step, self.step)
        rates = np.histogram(times, edges)[0] / self.step
        sustained, least, most = self.sustained(seed), *self.operator.executors
        enough = [next((n for n, does in enumerate(sustained, 1) if does >= rate), most) for rate in rates]
        return [(float(at), float(max(least, n))) for at, n in zip(edges[:-1], enough, strict=True)]


def operator_name() -> str:
    """How the operator is called in a comparison."""
    return _OPERATOR
