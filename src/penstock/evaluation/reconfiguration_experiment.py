# SPDX-License-Identifier: Apache-2.0
"""The file of an experiment on a change under way: how long an operator stands still while its size changes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from penstock.evaluation.experiment_file import Experiment
from penstock.settings import Part, Seconds


class ReconfiguredRun(Part):
    """A run in which something changes."""

    title: str = Field(description="what changes")
    pipeline: dict[str, Any] = Field(description="a settings file")


class ReconfigurationExperiment(Experiment):
    """Runs whose load rises beyond what they sustain, so that a policy makes them larger."""

    kind: Literal["reconfiguration"]
    operator: str = Field(description="the one that changes")
    runs: dict[str, ReconfiguredRun] = Field(min_length=1)
    before: Seconds = Field(default=60.0, gt=0, description="before the change: with what the standstill is compared")
    after: Seconds = Field(default=60.0, gt=0, description="after the change is in force: still counted")
    published: dict[str, float] = Field(default_factory=dict, description="seconds of standstill, by engine")

    @model_validator(mode="after")
    def _operator_is_known(self) -> ReconfigurationExperiment:
        for name, run in self.runs.items():
            names = [one.get("name") for one in run.pipeline.get("operators", ())]
            if self.operator not in names:
                raise ValueError(f"runs.{name}: no operator is called {self.operator}")
        return self
