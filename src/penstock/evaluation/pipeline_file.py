# SPDX-License-Identifier: Apache-2.0
"""The pipeline file: what `penstock simulate` simulates, declared as YAML; a wrong one shows all its mistakes at once.

::

    name: log-analysis
    levels: [0.4, 0.55, 0.7, 0.85, 1.0]
    objective: {p95: 500ms}
    operators:
      - {name: parser, service: {distribution: erlang, phases: 2, mean: 2ms}, selectivity: 0.98}
      - {name: counter, service: {distribution: exponential, mean: 1ms}}
      - {name: matcher, micro_batch: {fixed: 200ms, per_record: 1ms, trigger: 1s}}
    streams: [arrivals -> parser, parser -> counter, parser -> matcher]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from penstock.errors import ConfigurationError
from penstock.evaluation.demand_settings import BatchDemand, ServiceDemand, StrictPart
from penstock.plan.guards import guards_as_set
from penstock.ports import Guard
from penstock.records import Limits, Objective
from penstock.settings import (
    Bound,
    CpuShares,
    Executors,
    GuardSettings,
    Name,
    PathBound,
    Seconds,
    objectives_of,
    read_settings,
)
from penstock.simulator import MicroBatch, Operator, Pipeline, Service, Stream
from penstock.topology import Path as PipelinePath
from penstock.topology import topology_faults

DEFAULT_LEVELS = (0.4, 0.55, 0.7, 0.85, 1.0)
_ARROW = "->"


class PipelineOperator(StrictPart):
    """One operator."""

    name: Name = Field(description="how it is called")
    service: ServiceDemand | None = Field(default=None, description="records one by one: the work of each")
    micro_batch: BatchDemand | None = Field(default=None, description="records in micro-batches: their work")
    selectivity: float = Field(default=1.0, gt=0, description="records that go on for each that is done")
    levels: CpuShares | None = Field(default=None, description="CPU shares, rising; default: the pipeline's")
    executors: Executors = Field(default=(1, 1), description="fewest and most executors")
    start_up: Seconds = Field(default=0.0, description="how long a new executor takes to come")

    @model_validator(mode="after")
    def _one_server(self) -> PipelineOperator:
        if (self.service is None) == (self.micro_batch is None):
            raise ValueError("give either `service` or `micro_batch`")
        return self


def _stream(value: Any) -> Any:
    if isinstance(value, str):
        ends = [end.strip() for end in value.split(_ARROW)]
        if len(ends) != 2 or not all(ends):
            raise ValueError('write a stream as "from -> to", such as "arrivals -> parser"')
        return {"from": ends[0], "to": ends[1]}
    return value


class PipelineStream(StrictPart):
    """From the arrivals or an operator to an operator."""

    source: str = Field(alias="from", description="`arrivals`, or an operator")
    target: str = Field(alias="to", description="an operator")
    selectivity: float = Field(default=1.0, gt=0, description="the part of the records that this stream carries")


def _some_streams(value: tuple[PipelineStream, ...]) -> tuple[PipelineStream, ...]:
    if not value:
        raise ValueError('there are none, so nothing would arrive; give at least one, such as "arrivals -> parser"')
    return value


Streams = Annotated[tuple[Annotated[PipelineStream, BeforeValidator(_stream)], ...], AfterValidator(_some_streams)]


class PipelineSettings(StrictPart):
    """A pipeline to simulate."""

    name: Name = Field(default="pipeline", description="name of the pipeline")
    operators: tuple[PipelineOperator, ...] = Field(min_length=1, description="the pipeline's operators")
    streams: Streams = Field(description="what joins them: `a -> b`, or `{from: a, to: b, selectivity: 0.5}`")
    levels: CpuShares = Field(default=DEFAULT_LEVELS, description="CPU shares of every operator, rising")
    objective: Bound = Field(default_factory=dict, description="latency bound of every path: mean, p50, p95 or p99")
    objectives: tuple[PathBound, ...] = Field(default=(), description="bounds of single paths, before `objective`")
    guards: GuardSettings | None = Field(
        default=None, description="damping after the policy, as in a settings file; default: none"
    )


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """A pipeline as its file declares it.

    Attributes
    ----------
    pipeline
        Operators and streams.
    objectives
        Of the paths that have one.
    guards
        Damping after the policy; none where the file names none.
    """

    pipeline: Pipeline
    objectives: Mapping[PipelinePath, Objective]
    guards: tuple[Guard, ...]


def load_pipeline(path: Path) -> PipelineSpec:
    """Read a pipeline file; a wrong one raises ConfigurationError with every mistake."""
    return parse_pipeline(read_settings(path), str(path), folder=path.parent)


def parse_pipeline(data: object, where: str = "pipeline", *, folder: Path | None = None) -> PipelineSpec:
    """A pipeline out of plain data; files of samples are looked for in `folder`."""
    faults = _graph_faults(data)
    try:
        settings = PipelineSettings.model_validate(data)
    except ValidationError as fault:
        errors = [e for e in fault.errors() if not (e["type"] == "too_short" and e["input"])]
        raise ConfigurationError.of_all(where, [_in_words(dict(e)) for e in errors] + faults) from fault
    operators: list[Operator] = []
    for i, operator in enumerate(settings.operators):
        try:
            operators.append(_operator(operator, settings.levels, folder or Path()))
        except ConfigurationError as fault:
            faults.append(f"operators.{i}.service: {fault}")
    if faults:
        raise ConfigurationError.of_all(where, faults)
    streams = tuple(Stream(s.source, s.target, s.selectivity) for s in settings.streams)
    pipeline = Pipeline(tuple(operators), streams, settings.name)
    return PipelineSpec(
        pipeline,
        objectives_of(pipeline.paths, settings.objective, settings.objectives, where),
        () if settings.guards is None else guards_as_set(settings.guards),
    )


def _operator(operator: PipelineOperator, levels: tuple[float, ...], folder: Path) -> Operator:
    server: Service | MicroBatch
    if operator.micro_batch is not None:
        server = operator.micro_batch.server()
    else:
        assert operator.service is not None  # one of the two is given
        server = operator.service.service(folder)
    limits = Limits(operator.executors[0], operator.executors[1], operator.levels or levels)
    return Operator(operator.name, server, operator.selectivity, limits, operator.start_up)


def _graph_faults(data: object) -> list[str]:
    """What is wrong with the graph, as far as the plain data can be read, beside the faults of single fields."""
    if not isinstance(data, dict) or not all(isinstance(data.get(key), list) for key in ("operators", "streams")):
        return []
    names = [o["name"] for o in data["operators"] if isinstance(o, dict) and isinstance(o.get("name"), str)]
    streams: list[tuple[str, str]] = []
    for value in data["streams"]:
        try:
            stream = PipelineStream.model_validate(_stream(value))
        except (ValidationError, ValueError):
            return []  # told of already: the stream itself cannot be read
        streams.append((stream.source, stream.target))
    return topology_faults(names, streams) if len(names) == len(data["operators"]) else []


def _in_words(error: dict[str, Any]) -> str:
    path = ".".join(str(part) for part in error["loc"])
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "missing":
        message = "is missing"
    elif error["type"] == "extra_forbidden":
        message = "is not a setting of a pipeline file"
    elif error["type"] != "value_error" and not isinstance(error["input"], (dict, list)):
        message = f"{message} (got {error['input']!r})"
    return f"{path}: {message}" if path else message
