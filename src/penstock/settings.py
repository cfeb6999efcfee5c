# SPDX-License-Identifier: Apache-2.0
"""What a user may set, declared once: types, defaults, descriptions; docs/reference/settings.md comes from here.

A settings file is YAML; a wrong one shows all its mistakes at once, each with its path, and nothing is started.
"""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from penstock.errors import ConfigurationError
from penstock.records import STATISTICS, Limits, Mode, Objective
from penstock.units import parse_bytes, parse_seconds

_NAME = re.compile(r"^[a-z][a-z0-9_-]{0,39}\Z")
_SMALLEST_HEAP_BYTES = 471_859_200  # what Spark refuses to start below
_APP = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")


def _name(value: str) -> str:
    if not _NAME.match(value):
        raise ValueError("use up to 40 small letters, digits, '-' and '_', beginning with a letter")
    return value


def _app(value: str) -> str:
    if not _APP.match(value):
        raise ValueError('write it as "module:function", such as "penstock.apps.log_analysis:log_analysis"')
    return value


def _size(value: Any) -> str:
    if parse_bytes(value) < _SMALLEST_HEAP_BYTES:
        raise ValueError('too small: Spark needs at least 471 MB; write it like "600m"')
    if not re.fullmatch(r"\d+[kmg]b?", str(value).lower()):
        raise ValueError('write a whole number and a unit, such as "1536m"')
    return str(value)


def _text_options(value: Any) -> dict[str, str]:
    if value is not None and not isinstance(value, Mapping):
        raise ValueError("write names and values, such as {payload: log}")
    return {str(k): str(v) for k, v in (value or {}).items()}


def _executors(value: tuple[int, int]) -> tuple[int, int]:
    Limits(*value)
    return value


def _cpu_shares(value: tuple[float, ...]) -> tuple[float, ...]:
    Limits(cpu_shares=value)
    return value


def _objective(value: dict[str, float]) -> dict[str, float]:
    make_objective(value)
    return value


Seconds = Annotated[float, BeforeValidator(parse_seconds)]
Name = Annotated[str, AfterValidator(_name)]
AppPath = Annotated[str, AfterValidator(_app)]
Size = Annotated[str, BeforeValidator(_size)]
TextOptions = Annotated[dict[str, str], BeforeValidator(_text_options)]


MEAD_SHARES = (0.40, 0.55, 0.70, 0.85, 1.0)
"""The CPU levels of the MEAD paper (Sec. VII)."""

_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict = 2, 3, 3  # a value may hold more than anyone wants to read


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ClusterSettings(_Part):
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


class ArrivalsSettings(_Part):
    """What arrives at the pipeline's source: a trace file or a shape, replayed open loop."""

    trace: Path | None = Field(
        default=None, description="file of arrival times (text, csv, npy, parquet, also .gz/.xz)"
    )
    shape: str | None = Field(
        default=None,
        description="generated arrivals, such as `periodic:base=500,peak=5000,period=60s,width=20s,duration=5m`",
    )
    options: TextOptions = Field(
        default_factory=dict,
        description="further options of the `penstock_replay` source (speed, partitions, payload, seed, ...)",
    )

    @model_validator(mode="after")
    def _one_of(self) -> ArrivalsSettings:
        if (self.trace is None) == (self.shape is None):
            raise ValueError("give either `trace` or `shape`")
        return self

    def replay_options(self) -> dict[str, str]:
        """As options of the `penstock_replay` source; files by absolute path, for executors open them elsewhere."""
        main = {"trace": str(self.trace.absolute())} if self.trace is not None else {"shape": str(self.shape)}
        payload = self.options.get("payload", "")
        if payload.startswith("file:"):
            main["payload"] = f"file:{Path(payload.removeprefix('file:')).absolute()}"
        return {**self.options, **main}


class OperatorSettings(_Part):
    """One operator: one Structured Streaming query, a Spark application of its own."""

    name: Name = Field(description="how it is called in decisions and folders")
    app: AppPath = Field(
        description="the PySpark function, `module:function`, from a DataFrame to a DataFrame or DataStreamWriter"
    )
    input: str = Field(default="arrivals", description="`arrivals`, or the name of the operator whose output it reads")
    options: TextOptions = Field(default_factory=dict, description="options handed to the function")
    executors: Annotated[tuple[int, int], AfterValidator(_executors)] = Field(
        default=(1, 1), description="fewest and most executors"
    )
    cpu_shares: Annotated[tuple[float, ...], AfterValidator(_cpu_shares)] = Field(
        default=(1.0,),
        description="allowed CPU shares per executor, rising; only 1.0: CPU is left alone. With `mead` the default is "
        "0.4, 0.55, 0.7, 0.85, 1.0",
    )
    executor_cores: int = Field(default=1, ge=1, le=64, description="cores of an executor")
    executor_memory: Size = Field(default="1g", description="heap of an executor")
    driver_memory: Size = Field(default="1g", description="heap of the driver")
    trigger: Seconds | None = Field(
        default=None, description="trigger interval; default: next batch as soon as the last ended"
    )
    spark: TextOptions = Field(default_factory=dict, description="further Spark configuration")

    def limits(self) -> Limits:
        """What it may have."""
        return Limits(self.executors[0], self.executors[1], self.cpu_shares)


class PolicySettings(_Part):
    """Which policy decides."""

    name: str = Field(default="threshold", description="`mead`, `threshold` or `fixed`")
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="options of the policy, such as `upper: 0.7`, `lower: 0.5`, `every_seconds: 10s`",
    )


class GuardSettings(_Part):
    """Damping, applied after the policy in this order; each guard says what it changed."""

    cooldown_up: Seconds = Field(default=0.0, description="no scale-up this long after any change")
    cooldown_down: Seconds = Field(default=10.0, description="no scale-down this long after any change")
    opposite: Seconds = Field(default=20.0, description="never two opposite changes within this time")
    drain: Seconds = Field(default=5.0, description="no scale-down while the backlog exceeds what arrives in this time")
    settle: Seconds = Field(
        default=60.0, description="wait at most this long for asked-for executors before deciding again"
    )


class RunSettings(_Part):
    """A pipeline to run and scale."""

    name: Name = Field(description="name of the pipeline")
    arrivals: ArrivalsSettings = Field(description="what arrives")
    operators: tuple[OperatorSettings, ...] = Field(min_length=1, description="the pipeline's operators")
    objective: Annotated[dict[str, Seconds], AfterValidator(_objective)] = Field(
        default_factory=dict, description="latency bound, such as `p95: 2s` (mean, p50, p95, p99); empty: keep up"
    )
    policy: PolicySettings = Field(default_factory=PolicySettings, description="which policy decides")
    guards: GuardSettings = Field(default_factory=GuardSettings, description="damping after the policy")
    mode: Literal["act", "recommend"] = Field(default="act", description="`recommend` does all but act")
    cluster: ClusterSettings = Field(default_factory=ClusterSettings, description="where Spark runs")
    interval: Seconds = Field(default=1.0, ge=0.1, le=3600.0, description="how often the loop looks")
    window: Seconds = Field(default=15.0, gt=0, description="what rates, utilisation and latency are taken over")
    warm_up: Seconds = Field(default=15.0, description="after the first batch: watch, do not decide")
    drain: Seconds = Field(
        default=60.0, description="after the last arrival: how long to wait for records still under way"
    )

    @model_validator(mode="after")
    def _levels_to_choose_from(self) -> RunSettings:
        """Under a policy that chooses among levels, an operator without any has the five of the MEAD paper."""
        if self.policy.name == "mead":
            for operator in self.operators:
                if "cpu_shares" not in operator.model_fields_set:
                    object.__setattr__(operator, "cpu_shares", MEAD_SHARES)
        return self

    def objective_record(self) -> Objective:
        """The objective as a record."""
        return make_objective(self.objective)


def make_objective(bounds: Mapping[str, str | float]) -> Objective:
    """An objective from ``{"p95": "2s"}``; an empty mapping means to keep up."""
    if not bounds:
        return Objective()
    if len(bounds) > 1:
        raise ConfigurationError(f"objective: give one statistic, not {', '.join(bounds)}", field="objective")
    ((statistic, bound),) = bounds.items()
    if statistic not in STATISTICS:
        raise ConfigurationError(
            f"objective: unknown statistic {statistic!r}; known: {', '.join(STATISTICS)}", field="objective"
        )
    return Objective(statistic, parse_seconds(bound, f"objective.{statistic}"))


def parse_settings(data: object, where: str = "settings") -> RunSettings:
    """Settings out of plain data; a wrong one raises ConfigurationError with every mistake."""
    faults = _faults_between_operators(data)
    try:
        settings = RunSettings.model_validate(data)
    except ValidationError as fault:
        # A list whose items are wrong is reported by its items, not once more as too short.
        errors = [e for e in fault.errors() if not (e["type"] == "too_short" and e["input"])]
        raise ConfigurationError.of_all(where, [_in_words(dict(e)) for e in errors] + faults) from fault
    if faults:
        raise ConfigurationError.of_all(where, faults)
    return settings


def load_settings(path: Path) -> RunSettings:
    """Read a settings file (YAML)."""
    return parse_settings(read_settings(path), str(path))


class _OnceOnlyLoader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping: YAML would drop the first without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    None, None, f"`{key.value}` stands twice in one mapping; keep one", key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def read_settings(path: Path) -> dict[str, Any]:
    """The plain data of a settings file; ConfigurationError where it is no YAML mapping."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as fault:
        raise ConfigurationError(f"{path}: cannot be read: {fault.strerror}", field="settings file") from fault
    except UnicodeDecodeError as fault:
        raise ConfigurationError(
            f"{path}: is not a text file; write it as YAML in UTF-8", field="settings file"
        ) from fault
    try:
        data = yaml.load(text, _OnceOnlyLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as fault:
        raise ConfigurationError(f"{path}: is not YAML: {fault}", field="settings file") from fault
    if not isinstance(data, dict):
        raise ConfigurationError(f"{path}: needs `name:`, `arrivals:` and `operators:`", field="settings file")
    return data


def mode_of(text: str) -> Mode:
    """The mode called `text`."""
    try:
        return Mode(text)
    except ValueError:
        raise ConfigurationError(f'mode: {text!r} is unknown; use "act" or "recommend"', field="mode") from None


def _faults_between_operators(data: object) -> list[str]:
    # On the plain data, so that these faults show beside those of single fields.
    operators = data.get("operators") if isinstance(data, dict) else None
    if not isinstance(operators, (list, tuple)):
        return []
    faults: list[str] = []
    known = ["arrivals"]
    for i, operator in enumerate(o for o in operators if isinstance(o, dict)):
        name, source = operator.get("name"), operator.get("input", "arrivals")
        if source not in known:
            faults.append(
                f"operators.{i}.input: {source!r} is none of {', '.join(known)}; an operator reads what stands above it"
            )
        if name in known:
            faults.append(f"operators.{i}.name: {name!r} is taken; give every operator a name of its own")
        known.append(str(name))
    return faults


def _in_words(error: dict[str, Any]) -> str:
    path = ".".join(str(part) for part in error["loc"])
    message = str(error["msg"]).removeprefix("Value error, ")
    for said in (f"{error['loc'][-1]}: " if error["loc"] else "", "duration: "):
        message = message.removeprefix(said)  # the path says it already
    if error["type"] == "missing":
        message = "is missing"
    elif error["type"] == "extra_forbidden":
        known = _fields_at(error["loc"][:-1])
        near = difflib.get_close_matches(str(error["loc"][-1]), known, n=1)
        message = "is not a setting" + (f"; did you mean `{near[0]}`?" if near else f"; known here: {', '.join(known)}")
        if not near and "options" in known:
            message += "; what the source or the application takes stands under `options`"
    elif error["type"] == "tuple_type":
        message = f"write a list such as [1, 2] (got {_SHORT.repr(error['input'])})"
    elif not path:
        return message
    else:
        message = f"{message} (got {_SHORT.repr(error['input'])})" if not isinstance(error["input"], dict) else message
    return f"{path}: {message}" if not message.startswith(f"{path}:") else message


def _fields_at(loc: tuple[Any, ...]) -> list[str]:
    parts: dict[str, type[_Part]] = {
        "cluster": ClusterSettings, "arrivals": ArrivalsSettings, "operators": OperatorSettings,
        "policy": PolicySettings, "guards": GuardSettings,
    }  # fmt: skip
    part = parts.get(str(loc[0]), RunSettings) if loc else RunSettings
    return list(part.model_fields)
