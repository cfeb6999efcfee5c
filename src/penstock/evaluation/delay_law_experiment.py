# SPDX-License-Identifier: Apache-2.0
"""The file of an experiment on the law of delay: throughput of executors that are far apart, measured and predicted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from penstock.errors import ConfigurationError
from penstock.evaluation.experiment_file import Experiment
from penstock.records import Allocation
from penstock.settings import Part, Seconds
from penstock.settings.geo import HOME

OPERATOR = "measured"
_ALL_AT_ONCE = 10_000_000
"""Records a second: all are due within the first batch, so that every batch is full."""


def _pair(value: Any) -> Any:
    return {"executors": value[0], "round_trip": value[1]} if isinstance(value, list) and len(value) == 2 else value


class Configuration(Part):
    """So many executors, each on a node of its own, so far from the driver and from each other: ``[2, 100ms]``."""

    executors: int = Field(ge=1, le=100)
    round_trip: Seconds = Field(ge=0, description="ND_max of Eq. 1")

    @property
    def allocation(self) -> Allocation:
        """One executor on each node; the names of the nodes say how far they are apart."""
        far = f"{1000.0 * self.round_trip:g}ms"
        return Allocation(self.executors, nodes=tuple((f"{far}-{i + 1}", 1) for i in range(self.executors)))

    def __str__(self) -> str:
        return f"{self.executors} x {1000.0 * self.round_trip:g} ms"


Pair = Annotated[Configuration, BeforeValidator(_pair)]


class Variant(Part):
    """A query under one way of taking its batches."""

    name: str
    app: str = "penstock.apps.taxi_attractions:taxi_attractions"
    options: dict[str, str] = Field(default_factory=dict, description="of the application")
    payload: str = "taxi-ride"
    rows_per_batch: int = Field(ge=1, description="the cap: every batch has so many records")
    trigger: Seconds | None = None


class DelayLawExperiment(Experiment):
    """Throughput at several sizes and delays: some calibrate the laws, the others are predicted."""

    kind: Literal["delay-law"]
    machine: str = Field(description="where samples were measured")
    samples: str = Field(default="samples.csv", description="the file of the samples, beside the config")
    cores_per_node: float = Field(gt=0, description="CPU of each node")
    variants: tuple[Variant, ...] = Field(min_length=1)
    calibration: tuple[Pair, ...] = Field(min_length=1, description="configurations that the laws are fitted to")
    predicted: tuple[Pair, ...] = Field(min_length=1, description="configurations that they predict")
    repeats: int = Field(default=3, ge=1, description="measurements of each configuration")
    batches: int = Field(default=30, ge=2, description="that are counted in one measurement")
    warm_up_batches: int = Field(default=5, ge=1, description="first batches that are not counted")
    longest: Seconds = Field(default=1800.0, gt=0, description="that one measurement may take")
    executor_memory: str = "512m"
    driver_memory: str = "700m"
    bar_percent: float = Field(default=5.0, gt=0, description="the error that is allowed beyond the spread")
    published_error_percent: float = Field(default=2.0, description="of the paper's fully calibrated model, at most")

    @model_validator(mode="after")
    def _each_once(self) -> DelayLawExperiment:
        all_of_them = [str(one) for one in self.configurations]
        if len(set(all_of_them)) < len(all_of_them):
            raise ValueError("calibration and predicted: each configuration stands once")
        return self

    @property
    def configurations(self) -> tuple[Configuration, ...]:
        """All of them."""
        return (*self.calibration, *self.predicted)

    def narrowed(self, traces: Sequence[str] = (), seeds: int | None = None) -> Self:
        """Only the variants of these names, and so many measurements of each configuration."""
        names = [variant.name for variant in self.variants]
        strange = sorted(set(traces) - set(names))
        if strange:
            raise ConfigurationError(
                f"--trace: there is no variant {', '.join(strange)}; there are {', '.join(names)}", field="--trace"
            )
        kept = tuple(variant for variant in self.variants if not traces or variant.name in traces)
        return self.model_copy(update={"variants": kept, "repeats": self.repeats if seeds is None else seeds})

    def settings(self, variant: Variant, configuration: Configuration) -> dict[str, Any]:
        """The settings file of a measurement: a geo cluster with just these nodes, and full batches to the end."""
        nodes = [f"node-{i + 1}" for i in range(configuration.executors)]
        trips = {f"{a}:{b}": configuration.round_trip for a, b in combinations((HOME, *nodes), 2)}
        operator: dict[str, Any] = {
            "name": OPERATOR, "app": variant.app, "options": variant.options,
            "executors": [configuration.executors, configuration.executors], "cpu_shares": [1.0],
            "executor_memory": self.executor_memory, "driver_memory": self.driver_memory,
            # As many as any configuration has executors, so that a batch has the same tasks in all of them.
            "spark": {"spark.sql.shuffle.partitions": str(self.tasks)},
        }  # fmt: skip
        if variant.trigger is not None:
            operator["trigger"] = variant.trigger
        records = variant.rows_per_batch * (self.warm_up_batches + self.batches)
        return {
            "name": "delay-law",
            "cluster": {"geo": {"nodes": dict.fromkeys(nodes, self.cores_per_node), "round_trips": trips}},
            "arrivals": {
                "shape": f"constant:rate={_ALL_AT_ONCE},duration={records / _ALL_AT_ONCE:.9f}s",
                "options": {
                    "payload": variant.payload, "partitions": str(self.tasks),
                    "maxRowsPerBatch": str(variant.rows_per_batch), "seed": "1",
                },
            },
            "operators": [operator],
            "policy": {"name": "fixed"},
            "guards": "none",
            "interval": 0.5,
            "warm_up": 1.0,
            "drain": self.longest,
        }  # fmt: skip

    @property
    def tasks(self) -> int:
        """Tasks of a batch."""
        return max(one.executors for one in self.configurations)
