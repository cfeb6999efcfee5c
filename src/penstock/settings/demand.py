# SPDX-License-Identifier: Apache-2.0
"""Declared demand: the work of a record, or of a micro-batch, on one executor at full CPU share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from penstock.errors import ModelError
from penstock.settings.fields import Part, Seconds
from penstock.settings.plain import plain_operators
from penstock.settings.real_time import is_realtime

LEARNT, DECLARED = "learnt", "declared"

_NEEDED: dict[str, tuple[str, ...]] = {
    "exponential": ("mean",),
    "erlang": ("mean", "phases"),
    "hyper2": ("mean", "scv"),
    "deterministic": ("mean",),
    "lognormal": ("mean", "scv"),
    "ph": ("alpha", "T"),
    "samples": (),
}
_TAKEN: dict[str, tuple[str, ...]] = {"ph": ("mean",), "samples": ("mean", "values", "file", "unit")}


class ServiceSettings(Part):
    """The work of a record, taken one by one: a distribution with what it needs, or measured samples."""

    distribution: Annotated[
        Literal["exponential", "erlang", "hyper2", "deterministic", "lognormal", "ph", "samples"],
        BeforeValidator(lambda value: "exponential" if value == "exp" else value),
    ] = Field(
        description="its family: `exponential`, `deterministic`, `erlang`, `hyper2`, `lognormal`, `ph`, or `samples` "
        "as they were measured"
    )
    mean: Seconds | None = Field(
        default=None, gt=0, description="mean work, such as `2ms`; of `ph` and `samples`: scales them to this mean"
    )
    phases: int | None = Field(default=None, ge=1, description="of `erlang`")
    scv: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="squared coefficient of variation, of `hyper2`, `lognormal`",
    )
    alpha: list[float] | None = Field(default=None, description="of `ph`: probabilities of the first phase")
    T: list[list[float]] | None = Field(default=None, description="of `ph`: the subgenerator, per second")
    values: list[Seconds] | None = Field(default=None, min_length=1, description="of `samples`: measured times")
    file: Path | None = Field(default=None, description="of `samples`: a file of them, beside the settings file")
    unit: Literal["s", "ms", "us", "ns"] = Field(default="s", description="of the numbers in `file`")

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> ServiceSettings:
        needed = _NEEDED[self.distribution]
        allowed = {"distribution", *needed, *_TAKEN.get(self.distribution, ())}
        given = {name for name in self.model_fields_set if getattr(self, name) != type(self).model_fields[name].default}
        missing = [field for field in needed if getattr(self, field) is None]
        extra = sorted(given - allowed)
        if missing:
            raise ValueError(f"{self.distribution} needs {' and '.join(missing)}")
        if extra:
            raise ValueError(f"{self.distribution} does not take {', '.join(extra)}")
        if self.distribution == "samples":
            if (self.values is None) == (self.file is None):
                raise ValueError("samples needs either values or file")
            if self.values is not None and not any(self.values):
                raise ValueError("samples: all are zero; an operator without work needs none")
        if self.distribution == "hyper2" and self.scv is not None and self.scv <= 1.0:
            raise ValueError(f"scv: {self.scv!r} must be above 1 for hyper2; use exponential for 1 and erlang below")
        if self.distribution == "ph":
            from penstock.markov import PH

            try:
                PH(self.alpha or [], self.T or [])
            except ModelError as fault:
                raise ValueError(f"ph: {fault}") from fault
        return self


class MicroBatchSettings(Part):
    """The work of a micro-batch: a fixed part, and one for each record. Its interval is the operator's `trigger`."""

    fixed: Seconds = Field(ge=0, description="mean fixed work of a batch")
    per_record: Seconds = Field(ge=0, description="mean work of each record; executors divide it among them")
    cap: int | None = Field(
        default=None,
        ge=1,
        description="most records of a batch; default: `maxOffsetsPerTrigger` of `input_options`, else all that wait",
    )
    fixed_scv: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, description="squared coefficient of variation of the fixed part"
    )
    per_record_scv: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, description="squared coefficient of variation of a record's"
    )
    driver: Seconds = Field(
        default=0.0, ge=0, description="time of a batch that no CPU share makes longer: the driver's"
    )
    round_trips: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="round trips between its nodes that a batch waits for, one after the other; see `nodes`",
    )
    parallel: float = Field(
        default=1.0, gt=0, le=1, description="n executors do the work of records n^parallel times as fast as one"
    )

    @model_validator(mode="after")
    def _is_work(self) -> MicroBatchSettings:
        if self.fixed == 0.0 and self.per_record == 0.0:
            raise ValueError("per_record: a batch must be some work; fixed is zero too")
        return self


def demand_faults(data: object) -> list[str]:
    """What does not fit together in the demand of operators, each with its path in the file and what to do."""
    return [f"operators.{i}.{fault}" for i, operator in plain_operators(data) for fault in _of_operator(operator)]


def _of_operator(operator: Mapping[str, Any]) -> list[str]:
    faults: list[str] = []
    service, batch, trigger = (operator.get(name) for name in ("service", "micro_batch", "trigger"))
    if service is not None and batch is not None:
        faults.append("micro_batch: `service` is given too; keep the one that says how it takes its records")
    if operator.get("demand") == DECLARED and service is None and batch is None:
        faults.append("demand: nothing is declared; add `service` or `micro_batch`, or leave it out")
    if batch is not None and is_realtime(trigger):
        faults.append("micro_batch: with `trigger: realtime` there are no batches; declare `service` instead")
    if service is not None and trigger is not None and not is_realtime(trigger):
        faults.append(
            "service: is the work of records taken one by one, and a trigger interval takes them in batches; declare "
            "`micro_batch` instead, or leave `trigger` out"
        )
    options = operator.get("input_options")
    most = options.get("maxOffsetsPerTrigger") if isinstance(options, Mapping) else None
    cap = batch.get("cap") if isinstance(batch, Mapping) else None
    if most is not None and cap is not None and str(most) != str(cap):
        faults.append(f"micro_batch.cap: is {cap}, and input_options.maxOffsetsPerTrigger {most}; leave `cap` out")
    return faults
