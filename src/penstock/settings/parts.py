# SPDX-License-Identifier: Apache-2.0
"""The parts of a settings file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, TypeGuard

from pydantic import (
    Field,
    FieldSerializationInfo,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)

from penstock.errors import ConfigurationError
from penstock.records import ExecutorSize, Limits
from penstock.settings.demand import LEARNT, MicroBatchSettings, ServiceSettings
from penstock.settings.fields import (
    AppPath,
    ColumnNames,
    CpuShares,
    ExchangeName,
    Executors,
    Name,
    Part,
    Seconds,
    Size,
    TextOptions,
    TopicName,
    Trigger,
)
from penstock.settings.geo import GeoSettings
from penstock.settings.inputs import READS_ARRIVALS, Inputs, InputSettings, written_inputs
from penstock.settings.reader_options import reader_option_faults
from penstock.settings.real_time import REALTIME
from penstock.settings.secret_values import written
from penstock.settings.sizes import SizeSettings, check_sizes, sizes_from
from penstock.topology import Stream

CHECKPOINT_SECONDS = 60.0
"""Between two checkpoints of a real-time query, where nothing is said."""

NAME_ITS_APP = 'to run it, name its PySpark function, such as app: "my_module:my_function"'
READ_ONE_INPUT = "a run reads one input for each operator; join the streams in one application, or only simulate it"
"""What to do about what can be simulated and not run."""

_PAGE = re.compile(r"http://[^/\s:]+:[0-9]{1,5}/?")


class ClusterSettings(Part):
    """Where Spark runs."""

    master: str = Field(
        default="embedded",
        description="`embedded` starts a standalone cluster for the run; else `spark://host:port`, `yarn`, `k8s://...`",
    )
    workers: int = Field(default=1, ge=1, le=64, description="workers of the embedded cluster")
    cores_per_worker: int | None = Field(
        default=None,
        ge=1,
        description="cores each embedded worker offers; default: what the operators may ask for at most",
    )
    memory_per_worker: Size | None = Field(
        default=None,
        description="memory each embedded worker offers; default: what the operators may ask for at most",
    )
    page: str | None = Field(
        default=None,
        description="web page of a standalone master of your own, such as `http://host:8080`: it is asked for the "
        "workers, whose hosts are the nodes that may be chosen",
    )
    geo: GeoSettings | None = Field(
        default=None,
        description="nodes with delays between them for the embedded cluster, in place of `workers` on the loopback",
    )

    @field_validator("page")
    @classmethod
    def _host_and_port(cls, page: str | None) -> str | None:
        if page is not None and _PAGE.fullmatch(page) is None:
            raise ValueError(f"{page!r} is no address of a web page; write it like http://host:8080")
        return page


class ArrivalsSettings(Part):
    """What arrives at the pipeline's source: a trace file or a shape, replayed open loop, or what others send.

    With a broker, a trace or shape is sent to it by a process of its own.
    """

    trace: Path | None = Field(
        default=None, description="file of arrival times (text, csv, npy, parquet, also .gz/.xz)"
    )
    shape: str | None = Field(
        default=None,
        description="generated arrivals, such as `periodic:base=500,peak=5000,period=60s,width=20s,duration=5m`",
    )
    topic: TopicName | None = Field(
        default=None, description="a topic of Kafka that others write to; the run goes on until it is stopped"
    )
    exchange: ExchangeName | None = Field(
        default=None,
        description="a fanout exchange of RabbitMQ that others publish to; the run goes on until it is stopped",
    )
    options: TextOptions = Field(
        default_factory=dict,
        description="further options of the `penstock_replay` source (speed, partitions, payload, seed, ...)",
    )

    @model_validator(mode="after")
    def _one_of(self) -> ArrivalsSettings:
        if [self.trace, self.shape, self.topic, self.exchange].count(None) != 3:
            raise ValueError(
                "give either `trace` or `shape`, or, with a broker, `topic` (Kafka) or `exchange` (RabbitMQ)"
            )
        if not self.is_replayed and self.options:
            raise ValueError("`options` are those of a replay; who reads from a broker has `input_options`")
        return self

    @property
    def is_replayed(self) -> bool:
        """Whether they are a trace or shape, not what others send."""
        return self.trace is not None or self.shape is not None

    def replay_options(self) -> dict[str, str]:
        """As options of the `penstock_replay` source; files by absolute path, for executors open them elsewhere."""
        main = {"trace": str(self.trace.absolute())} if self.trace is not None else {"shape": str(self.shape)}
        payload = self.options.get("payload", "")
        if payload.startswith("file:"):
            main["payload"] = f"file:{Path(payload.removeprefix('file:')).absolute()}"
        return {**self.options, **main}


class OperatorSettings(Part):
    """One operator: one Structured Streaming query, a Spark application of its own.

    To run it, it needs `app`; to simulate it, its demand: `service` or `micro_batch`, or what a run has learnt.
    """

    name: Name = Field(description="how it is called in decisions and folders")
    given_app: AppPath | None = Field(
        default=None,
        alias="app",
        description="to run it: the PySpark function, `module:function`, from a DataFrame to a DataFrame or "
        "DataStreamWriter",
    )
    inputs: Inputs = Field(
        default=READS_ARRIVALS,
        alias="input",
        description="`arrivals`, or the name of the operator whose output it reads; simulated, it may read several: a "
        "list of names, or of parts such as `{from: parser, selectivity: 0.3}`",
    )
    selectivity: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="records that go on for each that is done; default: learnt in a run, 1 in the simulator",
    )
    service: ServiceSettings | None = Field(
        default=None, description="declared demand of records that are taken one by one"
    )
    micro_batch: MicroBatchSettings | None = Field(
        default=None, description="declared demand of records that are taken in micro-batches"
    )
    demand: Literal["declared", "learnt"] | None = Field(
        default=None,
        description="`learnt`: policies learn the demand as it runs, even where it is declared for the simulator. "
        "Default: as declared, and learnt where nothing is",
    )
    start_up: Seconds = Field(default=0.0, ge=0, description="in the simulator: how long a new executor takes to come")
    standstill: Seconds = Field(
        default=0.0,
        ge=0,
        description="in the simulator: how long an operator in micro-batches does nothing after each change of "
        "executors or nodes, as an engine that is stopped and started again",
    )
    options: TextOptions = Field(default_factory=dict, description="options handed to the function")
    executors: Executors = Field(default=(1, 1), description="fewest and most executors")
    first_executors: int | None = Field(
        default=None, ge=1, description="executors that a run begins with in mode `act`; default: the most"
    )
    cpu_shares: CpuShares | None = Field(
        default=None,
        description="allowed CPU shares per executor, rising; only 1.0: CPU is left alone. Default: the policy's own "
        "levels (`penstock policies`), or 1.0 where it has none",
    )
    executor_cores: int = Field(default=1, ge=1, le=64, description="cores of an executor")
    executor_memory: Size = Field(default="1g", description="heap of an executor")
    driver_memory: Size = Field(default="1g", description="heap of the driver")
    trigger: Trigger | None = Field(
        default=None,
        description="trigger interval; default: next batch as soon as the last ended. `realtime`: records go through "
        "one by one, in Spark's real-time mode",
    )
    checkpoint_every: Seconds | None = Field(
        default=None,
        ge=5.0,
        description="with `trigger: realtime`: how often progress is kept, at least 5s, 60s if not said; what was "
        "written since is written again after a restart",
    )
    input_options: TextOptions = Field(
        default_factory=dict,
        description="of the reader of a topic, such as `maxOffsetsPerTrigger`, `startingOffsets`; of a queue of "
        "RabbitMQ, such as `maxRowsPerBatch`, `prefetch`",
    )
    unique: ColumnNames = Field(
        default=(),
        description="columns of its input that identify a record, a name or a list: copies, which an operator above "
        "writes when it is started again, are dropped",
    )
    unique_within: Seconds = Field(
        default=600.0,
        gt=0,
        description="how long records are remembered for `unique`; without an end where the function defines a "
        "watermark of its own",
    )
    spark: TextOptions = Field(default_factory=dict, description="further Spark configuration")
    sizes: tuple[SizeSettings, ...] = Field(
        default=(),
        description="larger executors that it may be restarted with at a batch border, rising, after `executor_cores` "
        "and `executor_memory`; empty: it is never restarted for its size",
    )

    @field_validator("first_executors")
    @classmethod
    def _within_the_limits(cls, first: int | None, info: ValidationInfo) -> int | None:
        limits = info.data.get("executors")
        if first is not None and limits is not None and not limits[0] <= first <= limits[1]:
            raise ValueError(f"{first} is outside `executors` ({limits[0]} to {limits[1]}); give a number within")
        return first

    @field_validator("sizes")
    @classmethod
    def _sizes_rise(cls, sizes: tuple[SizeSettings, ...], info: ValidationInfo) -> tuple[SizeSettings, ...]:
        cores, memory = info.data.get("executor_cores"), info.data.get("executor_memory")
        if cores is not None and memory is not None:  # what is wrong there is reported by itself
            check_sizes(sizes, cores, memory, info.data.get("spark") or {})
        if sizes and info.data.get("trigger") == REALTIME:
            raise ValueError("a real-time query has no batch border to be restarted at; leave them out")
        return sizes

    @property
    def app(self) -> str:
        """The PySpark function; ConfigurationError where none is given, which is well for a simulation."""
        if self.given_app is None:
            raise ConfigurationError(f"operator {self.name}: app: is missing; {NAME_ITS_APP}", field="app")
        return self.given_app

    @property
    def input(self) -> str:
        """The name of the one thing that it reads; ConfigurationError where there are several."""
        if len(self.inputs) != 1:
            raise ConfigurationError(f"operator {self.name}: input: {READ_ONE_INPUT}", field="input")
        return self.inputs[0].source

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams into it."""
        return tuple(Stream(entry.source, self.name, entry.selectivity) for entry in self.inputs)

    @property
    def is_demand_declared(self) -> bool:
        """Whether policies are given its demand."""
        return self.demand != LEARNT and (self.service is not None or self.micro_batch is not None)

    @field_serializer("inputs")
    def _inputs_as_written(self, inputs: tuple[InputSettings, ...]) -> Any:
        return written_inputs(inputs)

    @property
    def executor_sizes(self) -> tuple[ExecutorSize, ...]:
        """What its executors may be, rising; it is started with the first."""
        return sizes_from(self.executor_cores, self.executor_memory, self.sizes)

    @property
    def top_in_own_executors(self) -> tuple[float, float]:
        """The most it may have, in executors of its own size: executors, and executors times CPU share."""
        top, worth = self.limits().top, self.executor_sizes[-1].worth
        return top.executors * worth, top.capacity * worth

    @property
    def is_real_time(self) -> bool:
        """Whether its records go through one by one."""
        return self.trigger == REALTIME

    @property
    def trigger_seconds(self) -> float | None:
        """The trigger interval; None: there is none."""
        return None if self.trigger is None or self.trigger == REALTIME else float(self.trigger)

    @property
    def checkpoint_seconds(self) -> float | None:
        """How often a real-time query keeps its progress; None for any other."""
        if not self.is_real_time:
            return None
        return CHECKPOINT_SECONDS if self.checkpoint_every is None else self.checkpoint_every

    @field_validator("input_options")
    @classmethod
    def _read_by_penstock(cls, options: dict[str, str]) -> dict[str, str]:
        faults = reader_option_faults(options)
        if faults:
            raise ValueError("; ".join(faults))
        return options

    @field_serializer("options", "input_options", "spark")
    def _without_secrets(self, options: dict[str, str], info: FieldSerializationInfo) -> dict[str, str]:
        return written(options, info)

    @property
    def cap(self) -> int | None:
        """The most records a batch may have; None: there is no such bound."""
        text = self.input_options.get("maxOffsetsPerTrigger") or self.input_options.get("maxRowsPerBatch")
        if text is not None:
            return int(text)
        return None if self.micro_batch is None else self.micro_batch.cap

    def limits(self) -> Limits:
        """What it may have: live, and with a restart its further sizes."""
        return Limits(*self.executors, self.cpu_shares or (1.0,), sizes=self.executor_sizes[1:])


def is_rules_file(value: object) -> TypeGuard[str]:
    """Whether rules are given by the name of a file, not as text or by a list in Python."""
    return isinstance(value, str) and "\n" not in value and value.endswith((".rules", ".yaml", ".yml"))


class PolicySettings(Part):
    """Which policy decides: its name, or its name with options."""

    name: str | None = Field(
        default=None, description="one that `penstock policies` lists; default: the one that plans for the objective"
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="options of the policy; `penstock policies` lists them with their defaults"
    )
    rules: str | None = Field(
        default=None,
        description="rules around the policy, which bound or overrule it: a file beside this one, or their text; "
        "of the policy `rules`, its rules",
    )

    @property
    def all_options(self) -> dict[str, Any]:
        """The options, with the rules among them."""
        return self.options if self.rules is None else {**self.options, "rules": self.rules}

    @model_validator(mode="after")
    def _rules_once(self) -> PolicySettings:
        if self.rules is not None and "rules" in self.options:
            raise ValueError("rules: stands in `options` too; leave one out")
        return self

    @model_validator(mode="before")
    @classmethod
    def _plain_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class GuardSettings(Part):
    """Damping, applied after the policy in this order; each guard says what it changed."""

    cooldown_up: Seconds = Field(default=0.0, description="no scale-up this long after any change")
    cooldown_down: Seconds = Field(default=10.0, description="no scale-down this long after any change")
    opposite: Seconds = Field(default=20.0, description="never two opposite changes within this time")
    drain: Seconds = Field(default=5.0, description="no scale-down while the backlog exceeds what arrives in this time")
    settle: Seconds = Field(
        default=60.0, description="wait at most this long for asked-for executors before deciding again"
    )


class RestartSettings(Part):
    """What happens when an operator's process or query dies: it goes on from its checkpoint, and loses nothing."""

    most: int = Field(default=5, ge=0, le=1000, description="restarts of one operator before the run ends; 0: none")
    within: Seconds = Field(default=600.0, gt=0, description="only deaths within this time count")
    first_wait: Seconds = Field(default=1.0, ge=0, description="wait before the first restart; doubled each time")
    longest_wait: Seconds = Field(default=60.0, ge=0, description="the longest wait")
    start_within: Seconds = Field(
        default=180.0, gt=0, description="until its query runs; one that takes longer counts as dead"
    )
