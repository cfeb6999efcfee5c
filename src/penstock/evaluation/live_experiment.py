# SPDX-License-Identifier: Apache-2.0
"""Experiments on a real Spark: the Google cluster query under fixed sizes, and under scaling rules.

The pipeline stands in the file as for `penstock run`, without its arrivals: those are a trace file, played back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from penstock.apps.google_cluster.generated_trace import write_generated
from penstock.apps.google_cluster.playback import replayed
from penstock.arrivals.trace_files import open_bytes
from penstock.errors import ConfigurationError
from penstock.evaluation.experiment_file import DATA, Experiment, data_folder
from penstock.settings import Part, Seconds


class GeneratedTrace(Part):
    """A trace made for the run, in place of the public one."""

    machines: int = Field(ge=1)
    tasks: int = Field(ge=1)
    seconds: float = Field(gt=0)
    seed: int = 0


class TaskTrace(Part):
    """A trace of task events: a file of public data, or a generated one; and how it is played."""

    file: str | None = Field(default=None, description="under the folder of the traces")
    get: str = Field(default="", description="how the file is come by")
    generated: GeneratedTrace | None = None
    playback: str | float = Field(default="fast", description="`real-time`, a factor from 1 to 100, or `fast`")
    rows_per_batch: int = Field(ge=1, description="most rows that a batch takes")
    partitions: int = Field(default=2, ge=1, description="tasks that read a batch")

    @model_validator(mode="after")
    def _one_of_both(self) -> TaskTrace:
        if (self.file is None) == (self.generated is None):
            raise ValueError("give either `file` or `generated`")
        return self

    def path(self, folder: Path, data: Path | None = None) -> Path:
        """The file; one that is generated is written into `folder`."""
        if self.generated is not None:
            made = self.generated
            return write_generated(folder / "trace.csv.gz", made.machines, made.tasks, made.seconds, made.seed)
        assert self.file is not None
        path = (data or data_folder()) / self.file
        if not path.is_file():
            raise ConfigurationError(
                f"{path} is not there. {self.get} Put it there, or set {DATA} to the folder that has {self.file}",
                field=DATA,
            )
        return path.resolve()

    def rows(self, path: Path) -> int:
        """How many rows the file has."""
        with open_bytes(path) as file:
            return sum(1 for _ in file)

    def arrivals(self, path: Path) -> dict[str, Any]:
        """`arrivals` of a settings file."""
        return replayed(path, self.playback, rows_per_batch=self.rows_per_batch, partitions=self.partitions)


class LiveExperiment(Experiment):
    """What runs on Spark have."""

    trace: TaskTrace
    pipeline: dict[str, Any] = Field(description="a settings file without `arrivals`")
    scaled: str = Field(default="machines", description="the operator that is scaled")
    results_of: str = Field(default="cluster", description="the operator that writes the results, which are checked")

    @model_validator(mode="after")
    def _operators_are_known(self) -> LiveExperiment:
        names = [operator.get("name") for operator in self.pipeline.get("operators", ())]
        for field in ("scaled", "results_of"):
            if getattr(self, field) not in names:
                raise ValueError(f"{field}: no operator is called {getattr(self, field)}")
        return self

    def shares_of(self, operator: str) -> tuple[float, ...]:
        """The CPU shares that an operator may have."""
        for settings in self.pipeline["operators"]:
            if settings.get("name") == operator:
                return tuple(settings.get("cpu_shares") or (1.0,))
        return (1.0,)

    def settings(self, arrivals: dict[str, Any], **of_scaled: Any) -> dict[str, Any]:
        """The settings of a run: the pipeline with its arrivals, and these settings of the scaled operator."""
        operators = [
            {**operator, **of_scaled} if operator.get("name") == self.scaled else operator
            for operator in self.pipeline["operators"]
        ]
        return {**self.pipeline, "operators": operators, "arrivals": arrivals}


class PublishedSize(Part):
    """What the paper measured with so many instances: minutes for the whole trace, and tuples per second."""

    minutes: float
    median: float
    p75: float
    p90: float
    p95: float


class StaticExperiment(LiveExperiment):
    """The same trace with each of several sizes, as fast as it is taken."""

    kind: Literal["static-scaling"]
    executors: tuple[int, ...] = Field(min_length=1, description="the sizes, rising")
    warm_up_batches: int = Field(default=2, ge=1, description="first batches that are not counted")
    published: dict[int, PublishedSize] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _sizes_rise(self) -> StaticExperiment:
        if list(self.executors) != sorted({*self.executors}) or self.executors[0] < 1:
            raise ValueError("executors: give sizes of at least 1, each larger than the one before")
        return self


class DynamicExperiment(LiveExperiment):
    """One run in accelerated time, in which a policy scales."""

    kind: Literal["dynamic-scaling"]
    published: str = Field(description="what the paper saw, which gives a picture and no numbers")
    step: Seconds = Field(default=5.0, gt=0, description="between two lines of the printed table")
