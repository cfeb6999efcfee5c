# SPDX-License-Identifier: Apache-2.0
"""The files of experiments on sustainable throughput: published weights, stated truths, and what is drawn from them.

The paper publishes weights, not measurements. So measurements are drawn: a curve with given weights is the truth, and
samples scatter around it by a stated noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, ValidationError, model_validator

from penstock.errors import ConfigurationError
from penstock.evaluation.experiment_file import Experiment
from penstock.performance.sample_sizes.subset_scores import throughput_terms, time_terms
from penstock.ports import FloatArray
from penstock.records import Allocation, ThroughputSample
from penstock.settings import Part, Seconds, read_settings

Sizes = Annotated[tuple[int, ...], Field(min_length=1)]
Model = Literal[1, 2]


class StatedCurve(Part):
    """A throughput over the number of machines, flat after its peak; one of the three forms."""

    model1: tuple[float, float, float, float] | None = Field(default=None, description="w0 to w3 of Eq. 4")
    model2: tuple[float, float, float] | None = Field(default=None, description="w0 to w2 of Eq. 5")
    power: tuple[float, float] | None = Field(default=None, description="a and b of a m^b")

    @model_validator(mode="after")
    def _one_form(self) -> StatedCurve:
        if sum(form is not None for form in (self.model1, self.model2, self.power)) != 1:
            raise ValueError("give one of `model1`, `model2` and `power`")
        return self

    def throughput(self, most: int) -> FloatArray:
        """Of 1, 2, 3, ... machines."""
        machines = np.arange(1.0, most + 1.0)
        if self.power is not None:
            rising: FloatArray = self.power[0] * machines ** self.power[1]
            return rising
        return published_throughput(self.model1 or self.model2 or (), most)


def published_throughput(weights: Sequence[float], most: int) -> FloatArray:
    """Model 1 (four weights) or model 2 (three) for 1, 2, 3, ... machines, flat after its peak (Sec. 4.3)."""
    machines = np.arange(1.0, most + 1.0)
    values = np.asarray(weights, dtype=np.float64)
    curve = 1.0 / (values @ time_terms(machines)) if len(values) == 4 else values @ throughput_terms(machines)
    flat: FloatArray = np.maximum.accumulate(curve)
    return flat


def draw_samples(
    truth: FloatArray, sizes: Sequence[int], repeats: int, noise: float, generator: np.random.Generator
) -> list[ThroughputSample]:
    """Measurements at these sizes: the truth times a factor of mean 1 that is normal on a logarithmic scale."""
    # exp(normal(-s^2/2, s)) has mean 1; for the noises here its standard deviation is s.
    factors = np.exp(noise * generator.standard_normal((len(sizes), repeats)) - 0.5 * noise**2)
    return [
        ThroughputSample(Allocation(size), float(truth[size - 1] * factor))
        for size, row in zip(sizes, factors, strict=True)
        for factor in row
    ]


class BenchmarkCurve(StatedCurve):
    """An application of phase 1."""

    name: str
    stands_for: str = ""


class PublishedSet(Part):
    """A row of Table 1."""

    largest: int = Field(description="M_train")
    sizes: Sizes
    rmse: float


class SubsetsExperiment(Experiment):
    """Which sizes to measure, found again on samples of stated curves."""

    kind: Literal["size-subsets"]
    sizes: Sizes = Field(description="at which all applications are sampled")
    numbers: Sizes = Field(default=(3, 4, 5), description="how many sizes a set has")
    repeats: int = Field(default=6, ge=1)
    noise: float = Field(ge=0.0, description="relative standard deviation of a sample")
    seeds: int = Field(default=20, ge=1)
    applications: tuple[BenchmarkCurve, ...] = Field(min_length=1)
    published: tuple[PublishedSet, ...] = Field(min_length=1)

    def narrowed(self, traces: Sequence[str] = (), seeds: int | None = None) -> Self:
        """So many seeds."""
        if traces:
            raise ConfigurationError(f"--trace: {self.title!r} has no traces to choose from", field="--trace")
        return self.model_copy(update={"seeds": seeds or self.seeds})


class Application(Part):
    """An application of the paper: what was published of it, and the truth that stands for its measurements."""

    name: str
    model1: tuple[float, float, float, float]
    model2: tuple[float, float, float]
    selected: Model
    noise: float = Field(ge=0.0, description="relative standard deviation of a sample")
    peak: float = Field(gt=0.0, description="the highest rate of the simulated workload, in Mbytes/s")
    validation: tuple[int, ...] = Field(default=(), description="sizes at which the paper validated")
    deviation: dict[int, float] = Field(
        default_factory=dict,
        description="the truth in parts of the selected model's curve, by machines; on a line over log m in between",
    )

    def weights(self, model: Model) -> tuple[float, ...]:
        """The published weights of a model."""
        return self.model1 if model == 1 else self.model2

    def truth(self, most: int) -> FloatArray:
        """What 1, 2, 3, ... machines really sustain here."""
        curve = published_throughput(self.weights(self.selected), most)
        if not self.deviation:
            return curve
        places = sorted(self.deviation)
        machines = np.log(np.arange(1.0, most + 1.0))
        factors = np.interp(machines, np.log(places), [self.deviation[place] for place in places])
        bent: FloatArray = curve * factors
        return bent


class ApplicationsFile(Part):
    """What the experiments of phase 2 share."""

    sizes: Sizes = Field(description="S_train: at which an application is measured")
    repeats: int = Field(default=6, ge=1, description="K: measurements of a size")
    most: int = Field(default=128, ge=2, description="the largest number of machines")
    discrepancy: float = Field(default=0.10, gt=0.0, description="tau of Algorithm 1")
    applications: tuple[Application, ...] = Field(min_length=1)


class PlanningExperiment(Experiment):
    """What all experiments of phase 2 have."""

    applications: str = Field(description="the file of the applications, as of the config's folder")
    seeds: int = Field(default=20, ge=1, description="how many times measurements are drawn")

    def narrowed(self, traces: Sequence[str] = (), seeds: int | None = None) -> Self:
        """So many seeds."""
        if traces:
            raise ConfigurationError(f"--trace: {self.title!r} has no traces to choose from", field="--trace")
        return self.model_copy(update={"seeds": seeds or self.seeds})

    def load_applications(self, folder: Path) -> ApplicationsFile:
        """Read the file of the applications; ConfigurationError with every mistake."""
        path = folder / self.applications
        try:
            return ApplicationsFile.model_validate(read_settings(path))
        except ValidationError as fault:
            faults = [f"{'.'.join(str(part) for part in e['loc'])}: {e['msg']}" for e in fault.errors()]
            raise ConfigurationError.of_all(str(path), faults) from fault


class ThroughputExperiment(PlanningExperiment):
    """Models trained on measurements of stated truths: their weights, curves or errors beside the published."""

    kind: Literal["throughput-models"]
    show: Literal["weights", "curves", "errors"]
    published: dict[str, float] = Field(default_factory=dict, description="figures of the text, by name")


class RateWindow(Part):
    """A stretch of a recorded load, of which each period is played as an hour."""

    name: str
    says: str = Field(description="how it was chosen")
    start: str = Field(description="the first period, as a date")
    period: Seconds
    periods: int = Field(default=500, ge=2)


class PublishedPolicy(Part):
    """Figures of Table 3 for one policy, an entry for each application in order."""

    cost_per_hour: tuple[float, ...]
    violation_percent: tuple[float, ...]
    over_provisioning_percent: tuple[int, ...] | None = None


class ScheduleExperiment(PlanningExperiment):
    """Elastic scheduling by trained models on a recorded load."""

    kind: Literal["elastic-schedule"]
    trace: str = Field(description="a table of periods and counts, under the folder of the traces")
    get: str = Field(default="", description="how the trace is come by")
    windows: tuple[RateWindow, ...] = Field(min_length=1)
    coverage: float = Field(gt=0.0, lt=1.0, description="of the interval whose lower end is planned with")
    delay: Seconds = 60.0
    cost_per_hour: float = 0.10
    first_seed: int = Field(default=0, ge=0, description="of the draws; others than those that policies were chosen on")
    excepted: tuple[str, ...] = Field(default=(), description="applications that the paper excepts from its claim")
    published: dict[str, PublishedPolicy]

    def narrowed(self, traces: Sequence[str] = (), seeds: int | None = None) -> Self:
        """Only these windows, and so many seeds."""
        known = [window.name for window in self.windows]
        strange = sorted(set(traces) - set(known))
        if strange:
            message = f"--trace: there is no {', '.join(strange)} in it; it has {', '.join(known)}"
            raise ConfigurationError(message, field="--trace")
        kept = tuple(window for window in self.windows if not traces or window.name in traces)
        return self.model_copy(update={"windows": kept, "seeds": seeds or self.seeds})
