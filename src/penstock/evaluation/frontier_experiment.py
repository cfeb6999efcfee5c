# SPDX-License-Identifier: Apache-2.0
"""The file of a frontier: many loads on one operator, under policies, grids of settings and every constant allocation.

Nothing in it is tuned to a policy. Loads are set by rules that look at no policy: as a part of what the middle
allocation can do, or as the highest at which the top allocation keeps the tightest bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from penstock.arrivals import CountSeries, MapArrivals, load_trace
from penstock.arrivals.shape_text import parse_shape
from penstock.errors import ConfigurationError
from penstock.evaluation.experiment_file import DATA, Experiment, data_folder
from penstock.evaluation.pipeline_file import parse_pipeline
from penstock.evaluation.policy_text import parse_policy
from penstock.evaluation.simulation import ANALYSIS_SECONDS
from penstock.markov import MAP
from penstock.ports import FloatArray
from penstock.records import Allocation
from penstock.settings import Part, Seconds
from penstock.simulator import Pipeline

OPERATOR = "job"
_GOLDEN = 0.6180339887498949
"""Its multiples, without whole parts, lie evenly in a trace however many there are."""


class Bursts(Part):
    """A Markov-modulated Poisson process of two states, calm and burst."""

    rate: float = Field(gt=0, description="mean arrivals a second")
    length: Seconds = Field(gt=0, description="mean length of a burst")
    share: float = Field(gt=0, lt=1, description="part of the time that lies in bursts")
    times: float = Field(gt=1, description="arrivals in a burst, in multiples of the mean rate")

    @property
    def process(self) -> MAP:
        """The process; calm is what is left for the mean to be right."""
        calm = (1.0 - self.share * self.times) / (1.0 - self.share)
        if calm < 0:
            raise ConfigurationError(f"bursts.times: at most {1 / self.share:g}, with this share", field="times")
        ends = 1.0 / self.length
        begins = ends * self.share / (1.0 - self.share)
        return MAP.mmpp([[-begins, begins], [ends, -ends]], [self.rate * calm, self.rate * self.times])


class FrontierArrivals(Part):
    """Where arrivals come from; each seed has others."""

    bursts: Bursts | None = None
    shape: str | None = Field(default=None, description="a shape, with {seed} where the seed stands")
    file: str | None = Field(default=None, description="under the folder of the traces; a seed takes another stretch")
    unit: str | None = Field(default=None, description="of the file's times")
    periods: int | None = Field(default=None, ge=2, description="of a file of counts: how many make up a stretch")
    rate: float | None = Field(default=None, gt=0, description="of a file of counts: mean arrivals a second")
    get: str = Field(default="", description="how the file is come by")

    @model_validator(mode="after")
    def _one(self) -> FrontierArrivals:
        if sum(given is not None for given in (self.bursts, self.shape, self.file)) != 1:
            raise ValueError("give one of `bursts`, `shape` and `file`")
        if (self.periods is None) != (self.rate is None):
            raise ValueError("counts need both `periods` and `rate`")
        return self

    def why_not(self) -> str | None:
        """Why there are none; None: they are there."""
        if self.file is None or (data_folder() / self.file).is_file():
            return None
        return f"{data_folder() / self.file} is not there. {self.get} Put it there, or set {DATA}"

    def times(self, seconds: float, seed: int) -> FloatArray:
        """When records arrive, counted from the first."""
        if self.bursts is not None:
            drawn = MapArrivals(self.bursts.process, seconds=seconds, seed=seed)
            times = drawn.times(0, drawn.total)
        elif self.shape is not None:
            shape = parse_shape(self.shape.format(seed=seed))
            times = shape.times(0, shape.total)
        else:
            times = self._stretch(seconds, seed)
        since_first: FloatArray = times - times[0]
        return since_first

    def _stretch(self, seconds: float, seed: int) -> FloatArray:
        assert self.file is not None
        trace = load_trace(data_folder() / self.file, unit=self.unit)
        part = (seed * _GOLDEN) % 1.0
        if isinstance(trace, CountSeries):
            if self.periods is None or self.rate is None:
                raise ConfigurationError(f"{self.file}: it has counts; give `periods` and `rate`", field="periods")
            first = int(part * (len(trace.counts) - self.periods))
            counts = trace.counts[first : first + self.periods]
            period = seconds / self.periods
            scaled = np.round(counts * (self.rate * seconds / counts.sum())).astype(np.int64)
            squeezed = CountSeries(scaled, period, seed=seed, name=self.file)
            return squeezed.times(0, squeezed.total)
        every = trace.times(0, trace.total)
        start = every[0] + part * max(0.0, float(every[-1] - every[0]) - seconds)
        inside: FloatArray = every[(every >= start) & (every < start + seconds)]
        return inside


class FrontierTrace(Part):
    """One workload."""

    name: str
    arrivals: FrontierArrivals
    seconds: Seconds = Field(gt=0, description="how long a run is")
    loads: tuple[float, ...] | None = Field(
        default=None, description="utilisation of the middle allocation at the mean rate; none: by `highest_load`"
    )
    demands: tuple[str, ...] = Field(min_length=1, description="names of `demands`")


class FrontierDemand(Part):
    """How records are worked on, and the bounds on the 95th percentile. The work of a record comes from the load."""

    phases: int | None = Field(default=None, ge=1, description="records one by one: of their Erlang service times")
    fixed: Seconds | None = Field(default=None, description="in micro-batches: the fixed work of a batch")
    trigger: Seconds | None = Field(default=None, description="in micro-batches: from start to start")
    is_learnt: bool = Field(default=False, description="whether policies have to learn it")
    bounds: tuple[Seconds, ...] = Field(min_length=1)
    policies: tuple[str, ...] | None = Field(default=None, description="only these of `policies`; default: all")
    seeds: int | None = Field(default=None, ge=1, description="only so many of the seeds; default: all")

    @model_validator(mode="after")
    def _one(self) -> FrontierDemand:
        if (self.phases is None) == (self.fixed is None):
            raise ValueError("give either `phases` or `fixed`")
        return self

    def operator(self, seconds: float) -> dict[str, Any]:
        """The operator's part of a settings file, for a mean work of a record."""
        learnt = {"demand": "learnt"} if self.is_learnt else {}
        if self.phases is not None:
            return {"service": {"distribution": "erlang", "phases": self.phases, "mean": seconds}, **learnt}
        batch: dict[str, Any] = {"micro_batch": {"fixed": self.fixed, "per_record": seconds}, **learnt}
        return batch if self.trigger is None else {**batch, "trigger": self.trigger}


class FrontierExperiment(Experiment):
    """Latency against CPU, for policies, grids of settings and constants."""

    kind: Literal["frontier"]
    seeds: int = Field(default=3, ge=1, description="how many seeds of arrivals and service times")
    interval: Seconds = Field(gt=0, description="how often the loop looks")
    analysis: Seconds = Field(default=ANALYSIS_SECONDS, ge=0, description="how long a plan takes")
    executors: tuple[int, int]
    cpu_shares: tuple[float, ...] = Field(min_length=1)
    start_up: Seconds = Field(default=0.0, ge=0, description="of an executor")
    middle: tuple[int, float] = Field(description="executors and CPU share of the allocation that loads refer to")
    highest_load: tuple[float, ...] = Field(
        min_length=1, description="of traces without loads: the first at which the top keeps the tightest bound"
    )
    kept_share: float = Field(default=0.99, gt=0, le=1, description="part of the time that counts as kept for that")
    demands: dict[str, FrontierDemand] = Field(min_length=1)
    main: str = Field(description="the row that is judged")
    policies: dict[str, str] = Field(min_length=1, description="by the name of their row")
    grid: dict[str, str] = Field(description="settings of a policy that knows no bound, by the name of their row")
    traces: tuple[FrontierTrace, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_are_known(self) -> FrontierExperiment:
        faults = []
        if self.main not in self.policies:
            faults.append(f"main: no row is called {self.main}")
        for trace in self.traces:
            faults += [f"{trace.name}: no demand is called {d}" for d in trace.demands if d not in self.demands]
        for name, demand in self.demands.items():
            faults += [f"{name}: no row is called {p}" for p in demand.policies or () if p not in self.policies]
        for row, text in {**self.policies, **self.grid}.items():
            try:
                parse_policy(text)
            except ConfigurationError as fault:
                faults.append(f"{row}: {fault}")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def narrowed(self, traces: Sequence[str] = (), seeds: int | None = None) -> Self:
        """Only these traces, and so many seeds."""
        has = [trace.name for trace in self.traces]
        strange = sorted(set(traces) - set(has))
        if strange:
            message = f"--trace: there is no {', '.join(strange)} in it; it has {', '.join(has)}"
            raise ConfigurationError(message, field="--trace")
        kept = tuple(trace for trace in self.traces if not traces or trace.name in traces)
        return self.model_copy(update={"traces": kept, "seeds": seeds or self.seeds})

    @property
    def constants(self) -> tuple[Allocation, ...]:
        """Every allocation within the limits."""
        counts = range(self.executors[0], self.executors[1] + 1)
        return tuple(Allocation(count, share) for count in counts for share in self.cpu_shares)

    def pipeline(self, demand: FrontierDemand, load: float, rate: float) -> Pipeline:
        """One operator, on which the middle allocation has this utilisation at this rate."""
        work = load * self.middle[0] * self.middle[1] / rate
        operator = {
            "name": OPERATOR, "executors": list(self.executors), "cpu_shares": list(self.cpu_shares),
            "start_up": self.start_up, **demand.operator(work),
        }  # fmt: skip
        return parse_pipeline({"name": OPERATOR, "operators": [operator], "guards": "none"}).pipeline
