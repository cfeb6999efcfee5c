# SPDX-License-Identifier: Apache-2.0
"""The file of an experiment on measured throughput: kept samples of applications, and how predictions are judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import Field

from penstock.errors import ConfigurationError
from penstock.evaluation.experiment_file import Experiment
from penstock.evaluation.throughput_experiment import Sizes
from penstock.evaluation.throughput_samples import load_samples
from penstock.records import ThroughputSample


class MeasuredExperiment(Experiment):
    """Throughputs that were measured: predicted at sizes that no model was trained on."""

    kind: Literal["measured-throughput"]
    samples: str = Field(description="the folder of the samples, a CSV file for each application, as of the config's")
    measure: str = Field(description="the command that measures them again")
    machine: str = Field(description="where they were measured")
    numbers: Sizes = Field(default=(3,), description="how many sizes a model is trained on")
    largest: int | None = Field(default=None, ge=1, description="the largest of them; default: any")
    coverage: float = Field(default=0.9, gt=0.0, lt=1.0, description="of intervals")
    published: dict[str, float] = Field(default_factory=dict, description="figures of the text, by name")

    def narrowed(self, traces: Sequence[str] = (), seeds: int | None = None) -> Self:
        """Nothing can be left out: samples are neither drawn nor replayed."""
        for option, is_given in (("--trace", bool(traces)), ("--seeds", seeds is not None)):
            if is_given:
                raise ConfigurationError(f"{option}: {self.title!r} has kept samples; leave it out", field=option)
        return self

    def load(self, folder: Path) -> dict[str, list[ThroughputSample]]:
        """The samples of each application, by the name of its file.

        Raises
        ------
        ConfigurationError
            There are none, or some cannot be read.
        """
        place = folder / self.samples
        files = sorted(place.glob("*.csv"))
        if len(files) < 2:
            raise ConfigurationError(
                f"samples: {place} has samples of {len(files)} applications, and the sizes of one are chosen by the "
                f"others; measure them: {self.measure}",
                field="samples",
            )
        found = {}
        for file in files:
            of_file = load_samples(file)
            if len(of_file) > 1:
                raise ConfigurationError(
                    f"samples: {file} has samples of {', '.join(of_file)}; give each a file of its own", field="samples"
                )
            found[file.stem] = next(iter(of_file.values()))
        return found
