# SPDX-License-Identifier: Apache-2.0
"""A settings file as a whole: a wrong one shows all its mistakes at once, each with its path."""

from __future__ import annotations

import difflib
import reprlib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from penstock.errors import ConfigurationError
from penstock.records import Mode, Objective
from penstock.settings.fields import Name, Part, Seconds
from penstock.settings.files import read_settings
from penstock.settings.objectives import Bound, PathBound, objectives_of, tightest
from penstock.settings.parts import (
    ArrivalsSettings,
    BrokerSettings,
    ClusterSettings,
    GuardSettings,
    OperatorSettings,
    PolicySettings,
    RestartSettings,
)
from penstock.settings.real_time import real_time_faults
from penstock.settings.sizes import ResizeSettings, SizeSettings
from penstock.topology import ARRIVALS, Topology
from penstock.topology import Path as OperatorPath

MEAD_SHARES = (0.40, 0.55, 0.70, 0.85, 1.0)
"""The CPU levels of the MEAD paper (Sec. VII)."""

_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict = 2, 3, 3  # a value may hold more than anyone wants to read


class RunSettings(Part):
    """A pipeline to run and scale."""

    name: Name = Field(description="name of the pipeline")
    arrivals: ArrivalsSettings = Field(description="what arrives")
    broker: BrokerSettings | None = Field(default=None, description="Kafka, for streams that are topics")
    operators: tuple[OperatorSettings, ...] = Field(min_length=1, description="the pipeline's operators")
    objective: Bound = Field(
        default_factory=dict,
        description="latency bound of every path, such as `p95: 2s` (mean, p50, p95, p99); empty: keep up",
    )
    objectives: tuple[PathBound, ...] = Field(default=(), description="bounds of single paths, before `objective`")
    policy: PolicySettings = Field(default_factory=PolicySettings, description="which policy decides")
    guards: GuardSettings = Field(default_factory=GuardSettings, description="damping after the policy")
    restarts: RestartSettings = Field(default_factory=RestartSettings, description="when an operator dies")
    resize: ResizeSettings = Field(default_factory=ResizeSettings, description="when an operator gets another size")
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

    @model_validator(mode="after")
    def _topics_need_a_broker(self) -> RunSettings:
        topic = self.arrivals.topic
        if self.broker is not None and topic is not None:
            if self.broker.servers == "embedded":
                raise ValueError(
                    "arrivals.topic: nobody else writes to an embedded broker; give the `servers` of yours, or `shape`"
                )
            if topic in [f"{self.name}.{operator.name}" for operator in self.operators]:
                raise ValueError(f"arrivals.topic: {topic!r} is what an operator writes to; its records would go round")
        if self.broker is None:
            if self.arrivals.topic is not None:
                raise ValueError("arrivals.topic: needs `broker`; say where the topic is, such as {servers: host:9092}")
            for i, operator in enumerate(self.operators):
                if operator.unique or operator.input_options:
                    raise ValueError(
                        f"operators.{i}: `unique` and `input_options` are for topics; give `broker`, or leave them out"
                    )
        return self

    @property
    def topology(self) -> Topology:
        """Who reads from whom."""
        return Topology.from_inputs({o.name: (o.input,) for o in self.operators}, self.name)

    @property
    def paths(self) -> tuple[OperatorPath, ...]:
        """Every way from the arrivals to an operator that nobody reads from."""
        return self.topology.paths

    def path_objectives(self) -> dict[OperatorPath, Objective]:
        """The objective of every path; to keep up where there is no bound."""
        known = objectives_of(self.paths, self.objective, self.objectives)
        return {path: known.get(path, Objective()) for path in self.paths}

    def objective_of(self, operator: str) -> Objective:
        """What an operator alone is held against: the tightest bound of the paths through it."""
        return tightest(self.path_objectives(), operator)


def parse_settings(data: object, where: str = "settings") -> RunSettings:
    """Settings out of plain data; a wrong one raises ConfigurationError with every mistake."""
    faults = [*_faults_between_operators(data), *real_time_faults(data)]
    try:
        settings = RunSettings.model_validate(data)
    except ValidationError as fault:
        # A list whose items are wrong is reported by its items, not once more as too short.
        errors = [e for e in fault.errors() if not (e["type"] == "too_short" and e["input"])]
        raise ConfigurationError.of_all(where, [_in_words(dict(e)) for e in errors] + faults) from fault
    if not faults:  # paths are known only where operators fit together
        faults = _objective_faults(settings)
    if faults:
        raise ConfigurationError.of_all(where, faults)
    return settings


def load_settings(path: Path) -> RunSettings:
    """Read a settings file (YAML)."""
    return parse_settings(read_settings(path), str(path))


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
    known, every = [ARRIVALS], [o.get("name") for o in operators if isinstance(o, dict)]
    for i, operator in enumerate(o for o in operators if isinstance(o, dict)):
        name, source = operator.get("name"), operator.get("input", ARRIVALS)
        if not isinstance(source, str) or not isinstance(name, str):
            continue  # told of as a wrong value
        if source in every and source not in known:
            faults.append(
                f"operators.{i}.input: {source!r} does not stand above it; move it up, or, where the two read from "
                "each other, cut the circle: records would go round for ever"
            )
        elif source not in known:
            faults.append(
                f"operators.{i}.input: {source!r} is none of {', '.join(known)}; an operator reads what stands above it"
            )
        if name in known:
            faults.append(f"operators.{i}.name: {name!r} is taken; give every operator a name of its own")
        known.append(str(name))
    return faults


def _objective_faults(settings: RunSettings) -> list[str]:
    try:
        settings.path_objectives()
    except ConfigurationError as fault:
        return list(fault.faults)
    return []


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
    elif error["type"] == "model_type":
        message = f"write names and values, with some of: {', '.join(_fields_at(error['loc']))}"
    elif error["type"] == "too_short":
        message = "give at least one"
    elif path.startswith("broker.options"):
        return f"{path}: {message}"  # what was given may be a password
    elif error["type"] == "tuple_type":
        message = f"write a list such as [1, 2] (got {_SHORT.repr(error['input'])})"
    elif not path:
        return message
    else:
        message = f"{message} (got {_SHORT.repr(error['input'])})" if not isinstance(error["input"], dict) else message
    return f"{path}: {message}" if not message.startswith(f"{path}:") else message


def _fields_at(loc: tuple[Any, ...]) -> list[str]:
    parts: dict[str, type[Part]] = {
        "cluster": ClusterSettings, "broker": BrokerSettings, "arrivals": ArrivalsSettings,
        "operators": OperatorSettings, "policy": PolicySettings, "guards": GuardSettings,
        "restarts": RestartSettings, "objectives": PathBound, "resize": ResizeSettings,
    }  # fmt: skip
    if len(loc) > 2 and loc[2] == "sizes":
        return list(SizeSettings.model_fields)
    part = parts.get(str(loc[0]), RunSettings) if loc else RunSettings
    return list(part.model_fields)
