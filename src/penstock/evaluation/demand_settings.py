# SPDX-License-Identifier: Apache-2.0
"""Service demand as a pipeline file declares it: the work of a record, or of a micro-batch, at full CPU share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from penstock.errors import ConfigurationError, ModelError
from penstock.markov import PH
from penstock.ports import FloatArray
from penstock.settings import Seconds
from penstock.simulator import (
    Deterministic,
    Hyper2,
    LogNormal,
    MicroBatch,
    PhaseType,
    Samples,
    Service,
    erlang,
    exponential,
)

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


class StrictPart(BaseModel):
    """A part of a file: what it does not know is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServiceDemand(StrictPart):
    """The work of a record at full share: a distribution with what it needs, or measured samples."""

    distribution: Annotated[
        Literal["exponential", "erlang", "hyper2", "deterministic", "lognormal", "ph", "samples"],
        BeforeValidator(lambda value: "exponential" if value == "exp" else value),
    ] = Field(description="its family; samples: as measured")
    mean: Seconds | None = Field(
        default=None, description="mean work, such as `2ms`; of `ph` and `samples`: scales them to this mean"
    )
    phases: int | None = Field(default=None, description="of `erlang`")
    scv: float | None = Field(default=None, description="squared coefficient of variation, of `hyper2`, `lognormal`")
    alpha: list[float] | None = Field(default=None, description="of `ph`: probabilities of the first phase")
    T: list[list[float]] | None = Field(default=None, description="of `ph`: the subgenerator, per second")
    values: list[Seconds] | None = Field(default=None, description="of `samples`: measured times")
    file: Path | None = Field(default=None, description="of `samples`: a file of them, beside the pipeline file")
    unit: Literal["s", "ms", "us", "ns"] = Field(default="s", description="of the numbers in `file`")

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> ServiceDemand:
        needed = _NEEDED[self.distribution]
        allowed = {"distribution", *needed, *_TAKEN.get(self.distribution, ())}
        missing = [field for field in needed if getattr(self, field) is None]
        extra = sorted(self.model_fields_set - allowed)
        if missing:
            raise ValueError(f"{self.distribution} needs {' and '.join(missing)}")
        if extra:
            raise ValueError(f"{self.distribution} does not take {', '.join(extra)}")
        if self.distribution == "samples":
            if (self.values is None) == (self.file is None):
                raise ValueError("samples needs either values or file")
        else:
            self.service(Path())
        return self

    def service(self, folder: Path) -> Service:
        """The distribution; files are looked for in `folder`."""
        mean = self.mean
        if self.distribution == "samples":
            values = Samples(self.values if self.values is not None else self._read(folder))
            return values if mean is None else Samples(values.values * (_positive(mean) / values.mean))
        if self.distribution == "ph":
            assert self.alpha is not None
            assert self.T is not None
            try:
                ph = PH(self.alpha, self.T)
                return PhaseType(ph if mean is None else ph.with_mean(mean))
            except ModelError as fault:
                raise ConfigurationError(f"ph: {fault}", field="ph") from fault
        assert mean is not None
        if self.distribution == "erlang":
            assert self.phases is not None
            return erlang(self.phases, mean)
        if self.distribution == "exponential":
            return exponential(mean)
        if self.distribution == "deterministic":
            return Deterministic(mean)
        assert self.scv is not None
        return Hyper2(mean, self.scv) if self.distribution == "hyper2" else LogNormal(mean, self.scv)

    def _read(self, folder: Path) -> FloatArray:
        from penstock.arrivals import Reading, read_window

        assert self.file is not None
        return read_window(folder / self.file, Reading(kind="iats", unit=self.unit, format="plain"))


class BatchDemand(StrictPart):
    """The work of a micro-batch at full share: a fixed part, and one for each record."""

    fixed: Seconds = Field(description="mean fixed work of a batch")
    per_record: Seconds = Field(description="mean work of each record; executors divide it among them")
    cap: int | None = Field(default=None, description="most records of a batch; default: all that wait")
    trigger: Seconds | None = Field(default=None, description="default: the next batch as soon as the last ended")
    fixed_scv: float = Field(default=0.0, description="squared coefficient of variation of the fixed part")
    per_record_scv: float = Field(default=0.0, description="squared coefficient of variation of a record's")
    driver: Seconds = Field(default=0.0, description="time of a batch that no CPU share makes longer: the driver's")

    @model_validator(mode="after")
    def _can_be(self) -> BatchDemand:
        self.server()
        return self

    def server(self) -> MicroBatch:
        """The batches."""
        return MicroBatch(
            self.fixed, self.per_record, self.cap, self.trigger, self.fixed_scv, self.per_record_scv, self.driver
        )


def _positive(mean: float) -> float:
    if not mean > 0:
        raise ConfigurationError(f"mean: {mean!r} must be a positive time", field="mean")
    return mean
