# SPDX-License-Identifier: Apache-2.0
"""The file of an experiment with scaling rules: streams of a known rate, operators of a known rate, and what is due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from pydantic import Field, field_validator

from penstock.arrivals.shape_text import parse_shape
from penstock.arrivals.shapes import Shape
from penstock.errors import ConfigurationError
from penstock.evaluation.experiment_file import Experiment
from penstock.ports import FloatArray
from penstock.records import Limits
from penstock.settings import Part, Seconds
from penstock.simulator import MicroBatch, Operator, Pipeline
from penstock.topology import ARRIVALS, Stream


class RatedOperator(Part):
    """An operator each of whose instances does so many records a second, out of one queue."""

    name: str
    rate: float = Field(gt=0, description="records per second of one instance")
    most: int = Field(default=5, ge=1, description="instances that it may have; the rules' limits are below")


class DueChange(Part):
    """A change that is worked out by hand: when it is due, and the size that it leads to."""

    at: Seconds
    operator: str
    executors: int


class RulesTest(Part):
    """One test: a stream, operators in a row, rules, and the changes that are due."""

    section: str
    title: str
    stream: str = Field(description="a shape without chance, such as `constant:rate=10,duration=3m`")
    operators: tuple[RatedOperator, ...] = Field(min_length=1)
    rules: str = Field(description="the file of the rules, beside the config")
    due: tuple[DueChange, ...] = ()
    by_hand: str = Field(description="how the changes were worked out")
    published: str = Field(description="what the paper reports")

    @field_validator("stream")
    @classmethod
    def _is_even(cls, text: str) -> str:
        if not isinstance(parse_shape(text), Shape):
            raise ValueError("give a shape without chance: constant, periodic or steps")
        return text

    @property
    def shape(self) -> Shape:
        """The stream's rate over time."""
        shape = parse_shape(self.stream)
        assert isinstance(shape, Shape)
        return shape

    @property
    def seconds(self) -> float:
        """How long the test lasts."""
        return self.shape.duration_seconds

    def times(self) -> FloatArray:
        """When records arrive: one at time zero, with which the clock starts, and each other in the middle of its turn.

        So no reading falls on an arrival, where rounding would decide which of them came first.
        """
        shape = self.shape
        times: FloatArray = np.concatenate([[0.0], shape.inverse(np.arange(shape.total, dtype=np.float64) + 0.5)])
        return times

    def pipeline(self) -> Pipeline:
        """The operators in a row. A batch of one record, done by all instances together, is one queue for them all."""
        names = [operator.name for operator in self.operators]
        return Pipeline(
            tuple(
                Operator(o.name, MicroBatch(0.0, 1.0 / o.rate, cap=1), limits=Limits(1, o.most)) for o in self.operators
            ),
            tuple(Stream(source, name) for source, name in zip([ARRIVALS, *names], names, strict=False)),
        )


class RulesExperiment(Experiment):
    """Rules on streams whose outcome is known beforehand."""

    kind: Literal["rules"]
    interval: Seconds = Field(default=1.0, gt=0, description="how often the loop looks")
    tests: tuple[RulesTest, ...] = Field(min_length=1)

    def narrowed(self, traces: Sequence[str] = (), seeds: int | None = None) -> Self:
        """Only the tests of these sections."""
        if seeds is not None:
            raise ConfigurationError(f"--seeds: nothing is drawn in {self.title!r}; leave it away", field="--seeds")
        if not traces:
            return self
        known = [test.section for test in self.tests]
        strange = [section for section in traces if section not in known]
        if strange:
            raise ConfigurationError(
                f"--trace: there is no test {', '.join(strange)}; there are {', '.join(known)}", field="--trace"
            )
        return self.model_copy(update={"tests": tuple(test for test in self.tests if test.section in traces)})
