# SPDX-License-Identifier: Apache-2.0
"""The file of an experiment on the law of delay: throughput of executors that are far apart, measured and predicted."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import product
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from penstock.errors import ConfigurationError
from penstock.evaluation.experiment_file import Experiment
from penstock.measuring.placed_turns import CountRules, PlacedJob, PlacedTurn, as_ordered
from penstock.measuring.real_time_turns import RealTimeJob
from penstock.performance.throughput import BatchTimeModel, PowerLawModel
from penstock.performance.throughput.curve_model import CurveModel
from penstock.records import Allocation
from penstock.settings import Part, Seconds

Key: TypeAlias = tuple[str, int, float, int]
"""Of a measurement: its variant, executors, round trip in seconds and number."""
DelayOf: TypeAlias = Callable[[Allocation], float]
"""Gives ND_max of an allocation, in seconds."""
_PLENTY = "constant:rate=1000000,duration=600s"
"""More records than any measurement takes: all are due from the start, so every batch is full."""


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


class NamedVariant(Part):
    """A query that is measured at all configurations."""

    name: str
    app: str = "penstock.apps.taxi_attractions:taxi_attractions"
    options: dict[str, str] = Field(default_factory=dict, description="of the application")
    payload: str = "taxi-ride"
    predicted: tuple[Pair, ...] | None = Field(default=None, description="in place of the experiment's")
    repeats: int | None = Field(default=None, ge=1, description="at most so many measurements of each configuration")
    one_application: bool = Field(
        default=False, description="all its measurements are of one application; of one that ended early none counts"
    )

    @property
    def application(self) -> str:
        """What makes it another application than that of another variant."""
        return json.dumps([self.app, self.options, self.payload], sort_keys=True)


class Variant(NamedVariant):
    """A query under one way of taking its batches."""

    rows_per_batch: int | None = Field(default=None, ge=1, description="the cap: every batch has so many records")
    batch: Seconds | None = Field(default=None, gt=0, description="without a cap: every batch takes so long")
    warm_up_rows: int | None = Field(default=None, ge=1, description="in place of the experiment's")

    @model_validator(mode="after")
    def _one_bound(self) -> Variant:
        if (self.rows_per_batch is None) == (self.batch is None):
            raise ValueError(f"{self.name}: give either `rows_per_batch` or `batch`")
        return self


class PlacedExperiment(Experiment):
    """Throughput at several sizes and delays: some calibrate the laws, the others are predicted."""

    machine: str = Field(description="where samples were measured")
    samples: str = Field(default="samples.csv", description="the file of the samples, beside the config")
    cores_per_node: float = Field(gt=0, description="CPU of each node")
    variants: tuple[NamedVariant, ...] = Field(min_length=1)
    calibration: tuple[Pair, ...] = Field(min_length=1, description="configurations that the laws are fitted to")
    predicted: tuple[Pair, ...] = Field(min_length=1, description="configurations that they predict")
    tasks: int = Field(default=4, ge=1, description="of a batch, as a topic has partitions")
    repeats: int = Field(default=3, ge=1, description="measurements of each configuration")
    warm_up: Seconds = Field(default=40.0, gt=0, description="at least, of a new application, on nodes without a cap")
    warm_up_most: Seconds = Field(default=75.0, gt=0, description="at most")
    executor_memory: str = "512m"
    driver_memory: str = "700m"
    bar_percent: float = Field(default=5.0, gt=0, description="the error that is allowed beyond the spread")
    published_error_percent: float = Field(default=2.0, description="of the paper's fully calibrated model, at most")

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        for variant in self.variants:
            all_of_them = [str(one) for one in self.configurations(variant)]
            if len(set(all_of_them)) < len(all_of_them):
                raise ValueError("calibration and predicted: each configuration stands once")
        return self

    def configurations(self, variant: NamedVariant) -> tuple[Configuration, ...]:
        """All at which a variant is measured."""
        return (*self.calibration, *(self.predicted if variant.predicted is None else variant.predicted))

    def keys(self, variant: NamedVariant) -> list[Key]:
        """All measurements of a variant."""
        most = self.repeats if variant.repeats is None else min(self.repeats, variant.repeats)
        return [
            (variant.name, one.executors, round(one.round_trip, 6), repeat)
            for repeat in range(1, most + 1)
            for one in self.configurations(variant)
        ]

    def begun(self, known: Collection[Key]) -> set[str]:
        """Variants that are to be of one application, and of which some measurements are known and some are not."""
        names = {key[0] for key in known}
        return {
            one.name
            for one in self.variants
            if one.one_application and one.name in names and not set(self.keys(one)) <= set(known)
        }

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

    def laws(self, variant: NamedVariant, delay_of: DelayOf) -> tuple[CurveModel, ...]:
        """The laws that are judged by a variant, the published one first, not fitted."""
        raise NotImplementedError

    def jobs(self, known: Collection[Key]) -> Iterator[tuple[list[Key], PlacedJob | RealTimeJob]]:
        """What has to be measured besides what is known: each a job for one cluster, and what its turns are of."""
        raise NotImplementedError


class DelayLawExperiment(PlacedExperiment):
    """The law of delay for queries in micro-batches."""

    kind: Literal["delay-law"]
    variants: tuple[Variant, ...] = Field(min_length=1)
    repeats_each: int = Field(default=1, ge=1, description="of these, how many are taken of one application")
    uncounted_batches: int = Field(default=3, ge=1, description="first batches at a configuration")
    least_batches: int = Field(default=10, ge=2, description="that are counted at least")
    least: Seconds = Field(default=10.0, gt=0, description="that is counted at least")
    warm_up_rows: int = Field(default=40_000, ge=1, description="records of a batch meanwhile")
    spark: dict[str, str] = Field(default_factory=dict, description="configuration of the measured applications")

    @model_validator(mode="after")
    def _one_application_takes_all(self) -> Self:
        for variant in self.variants:
            if variant.one_application and self.repeats_each < min(self.repeats, variant.repeats or self.repeats):
                raise ValueError(f"{variant.name}: `one_application` needs `repeats_each` of at least its `repeats`")
        return self

    def laws(self, variant: NamedVariant, delay_of: DelayOf) -> tuple[CurveModel, ...]:
        """The published law, and that of micro-batches."""
        assert isinstance(variant, Variant)
        return PowerLawModel(delay_of), self._batch_law(variant, delay_of)

    def _batch_law(self, variant: Variant, delay_of: DelayOf) -> BatchTimeModel:
        if variant.batch is not None:
            return BatchTimeModel(delay_of, batch_seconds=variant.batch, tasks=self.tasks)
        return BatchTimeModel(delay_of, cap=variant.rows_per_batch, tasks=self.tasks)

    def jobs(self, known: Collection[Key]) -> Iterator[tuple[list[Key], PlacedJob]]:
        """What has to be measured besides what is known: each a job for one application, and what its turns are of.

        Variants of the same application share one: the most records of a batch can be changed while it runs.
        """
        by_application: dict[str, list[Variant]] = {}
        for variant in self.variants:
            by_application.setdefault(variant.application, []).append(variant)
        for first in range(1, self.repeats + 1, self.repeats_each):
            repeats = range(first, min(first + self.repeats_each, self.repeats + 1))
            for variants in by_application.values():
                wanted: dict[PlacedTurn, list[Key]] = {}
                for repeat, variant in product(repeats, variants):
                    if variant.repeats is not None and repeat > variant.repeats:
                        continue
                    for one in self.configurations(variant):
                        key = (variant.name, one.executors, round(one.round_trip, 6), repeat)
                        if key not in known:
                            cap = variant.rows_per_batch or self._warm_up_rows([variant])
                            turn = PlacedTurn(one.executors, one.round_trip, cap, variant.batch)
                            wanted.setdefault(turn, []).append(key)
                turns = as_ordered([turn for turn, keys in wanted.items() for _ in keys])
                if turns:
                    keys = [wanted[turn].pop(0) for turn in turns]
                    yield keys, self._job([one for one in variants if one.name in {key[0] for key in keys}], turns)

    def _warm_up_rows(self, variants: Sequence[Variant]) -> int:
        """Of one application, which warms up for the largest batches that any of them has."""
        return max(variant.warm_up_rows or self.warm_up_rows for variant in variants)

    def _job(self, variants: Sequence[Variant], turns: Sequence[PlacedTurn]) -> PlacedJob:
        variant = variants[0]
        return PlacedJob(
            {
                "app": variant.app, "options": variant.options, "executor_memory": self.executor_memory,
                "driver_memory": self.driver_memory, "spark": self.spark,
            },
            {"shape": _PLENTY, "payload": variant.payload, "seed": "1"},
            self.tasks,
            self.cores_per_node,
            tuple(turns),
            CountRules(self.uncounted_batches, self.least_batches, self.least),
            self.warm_up,
            self.warm_up_most,
            self._warm_up_rows(variants),
        )  # fmt: skip
