# SPDX-License-Identifier: Apache-2.0
"""A settings file as a whole: one description of a pipeline, to run on Spark, to simulate and to plan for.

A wrong one shows all its mistakes at once, each with its path.
"""

from __future__ import annotations

import difflib
import reprlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from penstock.errors import ConfigurationError
from penstock.money import CostBasis
from penstock.records import Mode, Objective
from penstock.secrets import shown
from penstock.settings.broker import BrokerSettings, broker_fault
from penstock.settings.demand import MicroBatchSettings, ServiceSettings, demand_faults
from penstock.settings.fields import Name, Part, Seconds
from penstock.settings.files import read_settings
from penstock.settings.geo import GeoSettings
from penstock.settings.inputs import InputSettings
from penstock.settings.nodes import NodesSettings
from penstock.settings.objectives import Bound, PathBound, objectives_of, plain_path_faults, tightest
from penstock.settings.parts import (
    NAME_ITS_APP,
    READ_ONE_INPUT,
    ArrivalsSettings,
    ClusterSettings,
    GuardSettings,
    OperatorSettings,
    PolicySettings,
    RestartSettings,
    is_rules_file,
)
from penstock.settings.plain import plain_inputs, plain_operators
from penstock.settings.prices import PriceSettings
from penstock.settings.real_time import real_time_faults
from penstock.settings.secret_values import WITH_SECRETS
from penstock.settings.sizes import ResizeSettings, SizeSettings
from penstock.settings.wrong_values import what_to_write
from penstock.topology import ARRIVALS, Topology, input_faults
from penstock.topology import Path as OperatorPath

_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict = 2, 3, 3  # a value may hold more than anyone wants to read

_REPLACED = {
    "streams": "is said by the operators now: give each the `input` it reads from, such as `input: parser`, or "
    "`input: [{from: parser, selectivity: 0.3}]`",
    "levels": "is said by the operators now: give each its `cpu_shares`",
    "operators.levels": "is called `cpu_shares` now",
    "policy.policy": "is called `name` here: write `policy: mead`, or `policy: {name: mead}` with its `options`",
    "operators.micro_batch.trigger": "stands beside `micro_batch` now: it is the operator's `trigger`",
}
"""Settings of the past, or that are easily mistaken, and what says the same."""

_GIVE_ARRIVALS = 'to run it, say what arrives, such as {shape: "constant:rate=500,duration=5m"}'


def _none_as_written(value: Any) -> Any:
    return None if value == "none" else value


class RunSettings(Part):
    """A pipeline: to run on Spark, to simulate and to plan for."""

    name: Name = Field(default="pipeline", description="name of the pipeline; needed to run it")
    given_arrivals: ArrivalsSettings | None = Field(
        default=None, alias="arrivals", description="what arrives; needed to run it, else `penstock simulate --trace`"
    )
    broker: BrokerSettings | None = Field(
        default=None, description="Kafka, for streams that are topics, or RabbitMQ, for what arrives"
    )
    operators: tuple[OperatorSettings, ...] = Field(min_length=1, description="the pipeline's operators")
    objective: Bound = Field(
        default_factory=dict,
        description="latency bound of every path, such as `p95: 2s` (mean, p50, p95, p99); `catch_up: 60s` or empty: "
        "keep up, so that no record is older than that",
    )
    objectives: tuple[PathBound, ...] = Field(default=(), description="bounds of single paths, before `objective`")
    policy: PolicySettings = Field(default_factory=PolicySettings, description="which policy decides")
    guards: Annotated[GuardSettings | None, BeforeValidator(_none_as_written)] = Field(
        default_factory=GuardSettings,
        description="damping after the policy; `none`: the policy's decisions are carried out as they are",
    )
    restarts: RestartSettings = Field(default_factory=RestartSettings, description="when an operator dies")
    resize: ResizeSettings = Field(default_factory=ResizeSettings, description="when an operator gets another size")
    mode: Literal["act", "recommend"] = Field(default="act", description="`recommend` does all but act")
    cluster: ClusterSettings = Field(default_factory=ClusterSettings, description="where Spark runs")
    nodes: NodesSettings | None = Field(
        default=None,
        description="nodes that policies may place executors on, and how far they are apart; default: those of "
        "`cluster.geo` where the policy chooses nodes, else the cluster places them",
    )
    prices: PriceSettings | None = Field(
        default=None, description="what executors cost; default: no cost is shown, only capacity"
    )
    interval: Seconds = Field(default=1.0, ge=0.1, le=3600.0, description="how often the loop looks")
    window: Seconds = Field(default=15.0, gt=0, description="what rates, utilisation and latency are taken over")
    warm_up: Seconds = Field(default=15.0, description="after the first batch: watch, do not decide")
    drain: Seconds = Field(
        default=60.0, description="after the last arrival: how long to wait for records still under way"
    )

    retention: Seconds = Field(
        default=7 * 86_400.0,
        gt=0,
        description="without a broker: how long records stay on disk between operators after they were read there",
    )

    @model_serializer(mode="wrap")
    def _without_secrets(self, written: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        """Settings are kept with a run and shown in its report: no secret is in them, wherever it stood."""
        plain: dict[str, Any] = written(self)
        return plain if info.context == WITH_SECRETS else {name: shown(name, value) for name, value in plain.items()}

    @model_validator(mode="after")
    def _broker_fits(self) -> RunSettings:
        fault = broker_fault(self.name, self.broker, self.given_arrivals, self.operators)
        if fault is not None:
            raise ValueError(fault)
        return self

    @property
    def has_topics(self) -> bool:
        """Whether operators are joined by topics of Kafka; else by folders."""
        return self.broker is not None and self.broker.rabbitmq is None

    @property
    def arrivals(self) -> ArrivalsSettings:
        """What arrives; ConfigurationError where nothing is given, which is well for a simulation of a trace."""
        if self.given_arrivals is None:
            raise ConfigurationError(f"arrivals: is missing; {_GIVE_ARRIVALS}", field="arrivals")
        return self.given_arrivals

    @property
    def topology(self) -> Topology:
        """Who reads from whom."""
        streams = tuple(stream for operator in self.operators for stream in operator.streams)
        return Topology(tuple(operator.name for operator in self.operators), streams, self.name)

    @property
    def paths(self) -> tuple[OperatorPath, ...]:
        """Every way from the arrivals to an operator that nobody reads from."""
        return self.topology.paths

    def path_objectives(self) -> dict[OperatorPath, Objective]:
        """The objective of every path; to keep up where there is no bound."""
        known = objectives_of(self.paths, self.objective, self.objectives)
        return {path: known.get(path, Objective()) for path in self.paths}

    def cost_bases(self) -> dict[str, CostBasis]:
        """What each operator's time is priced by; empty where there are no prices."""
        if self.prices is None:
            return {}
        prices = self.prices.prices()
        return {o.name: CostBasis(prices, o.executor_cores, *o.top_in_own_executors) for o in self.operators}

    def objective_of(self, operator: str) -> Objective:
        """What an operator alone is held against: the tightest bound of the paths through it."""
        return tightest(self.path_objectives(), operator)


def parse_settings(data: object, where: str = "settings", folder: Path | None = None) -> RunSettings:
    """Settings out of plain data.

    Parameters
    ----------
    data
        As a YAML file gives it.
    where
        How errors call it.
    folder
        Where files of measured service times are, unless they are named by a whole path.

    Raises
    ------
    ConfigurationError
        With every mistake. What only a run needs is looked for by `run_faults`.
    """
    faults = [*_faults_between_operators(data), *demand_faults(data), *real_time_faults(data)]
    try:
        settings = RunSettings.model_validate(data)
    except ValidationError as fault:
        # A list whose items are wrong is reported by its items, not once more as too short.
        errors = [e for e in fault.errors() if not (e["type"] == "too_short" and e["input"])]
        faults = [_in_words(dict(e)) for e in errors] + faults + _path_faults(data)
        raise ConfigurationError.of_all(where, faults) from fault
    # Paths are known only where operators fit together.
    faults += _path_faults(data) if faults else _objective_faults(settings)
    if faults:
        raise ConfigurationError.of_all(where, faults)
    return settings if folder is None else _beside(settings, folder)


def _beside(settings: RunSettings, folder: Path) -> RunSettings:
    def placed(operator: OperatorSettings) -> OperatorSettings:
        service = operator.service
        if service is None or service.file is None:
            return operator
        return operator.model_copy(update={"service": service.model_copy(update={"file": folder / service.file})})

    policy, options = settings.policy, settings.policy.options
    if is_rules_file(policy.rules):
        policy = policy.model_copy(update={"rules": str(folder / policy.rules)})
    if is_rules_file(options.get("rules")):
        policy = policy.model_copy(update={"options": {**options, "rules": str(folder / options["rules"])}})
    nodes = settings.nodes
    if nodes is not None and nodes.table is not None:
        nodes = nodes.model_copy(update={"round_trips": folder / nodes.table})
    return settings.model_copy(
        update={
            "operators": tuple(placed(operator) for operator in settings.operators),
            "policy": policy,
            "nodes": nodes,
        }
    )


def run_faults(data: object) -> list[str]:
    """What a run needs and a simulation does not, looked for in the plain data: each with what to add."""
    faults: list[str] = []
    if isinstance(data, dict):
        if data.get("name") is None:
            faults.append("name: is missing; to run it, give the pipeline a name")
        if data.get("arrivals") is None:
            faults.append(f"arrivals: is missing; {_GIVE_ARRIVALS}")
    for i, operator in plain_operators(data):
        if operator.get("app") is None:
            faults.append(f"operators.{i}.app: is missing; {NAME_ITS_APP}")
        inputs = plain_inputs(operator) or []
        if len(inputs) > 1:
            faults.append(f"operators.{i}.input: {READ_ONE_INPUT}")
        if any(part != 1.0 for _, part in inputs):
            faults.append(
                f"operators.{i}.input: a run hands on every record; leave the stream's `selectivity` out and let an "
                "application drop what is not wanted, or only simulate it"
            )
    return faults


def load_settings(path: Path) -> RunSettings:
    """Read a settings file (YAML)."""
    return parse_settings(read_settings(path), str(path), path.absolute().parent)


def mode_of(text: str) -> Mode:
    """The mode called `text`."""
    try:
        return Mode(text)
    except ValueError:
        raise ConfigurationError(f'mode: {text!r} is unknown; use "act" or "recommend"', field="mode") from None


class _OnlyGuards(Part):
    guards: Annotated[GuardSettings | None, BeforeValidator(_none_as_written)]


def read_guards(value: Any) -> GuardSettings | None:
    """The guards as a settings file writes them: names and values, or ``"none"``, which is None.

    Raises
    ------
    ConfigurationError
        With every mistake.
    """
    try:
        return _OnlyGuards.model_validate({"guards": value}).guards
    except ValidationError as fault:
        faults = [_in_words(dict(error)) for error in fault.errors()]
        raise ConfigurationError("; ".join(faults), field="guards", faults=faults) from fault


def _faults_between_operators(data: object) -> list[str]:
    operators = data.get("operators") if isinstance(data, dict) else None
    readable = dict(plain_operators(data))
    known: list[tuple[str, list[str]]] = []
    for i in range(len(operators) if isinstance(operators, (list, tuple)) else 0):
        # What is not a name is reported as a wrong value; the others keep their numbers.
        name, inputs = readable.get(i, {}).get("name"), plain_inputs(readable.get(i, {}))
        sources = [ARRIVALS] if inputs is None else [source for source, _ in inputs]
        known.append((name if isinstance(name, str) else f"number {i}", sources))
    return input_faults(known)


def _path_faults(data: object) -> list[str]:
    """The bounds of paths that there are not, as far as that can be seen in a file with other mistakes."""
    read = {
        str(operator["name"]): plain_inputs(operator)
        for _, operator in plain_operators(data)
        if isinstance(operator.get("name"), str)
    }
    inputs = {name: [source for source, _ in streams] for name, streams in read.items() if streams}
    is_whole = len(inputs) == len(plain_operators(data)) and not _faults_between_operators(data)
    paths = Topology.from_inputs(inputs).paths if inputs and is_whole else None
    return plain_path_faults(data, paths, read)


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
        replaced = _REPLACED.get(_place(error["loc"]))
        if replaced is not None:
            return f"{path}: {replaced}"
        known = _fields_at(error["loc"][:-1])
        near = " or ".join(f"`{name}`" for name in difflib.get_close_matches(str(error["loc"][-1]), known, n=3))
        message = "is not a setting" + (f"; did you mean {near}?" if near else f"; known here: {', '.join(known)}")
        if not near and "options" in known:
            takes = "policy" if error["loc"][0] == "policy" else "source or the application"
            message += f"; what the {takes} takes stands under `options`"
    elif error["type"] == "model_type":
        message = f"write names and values, with some of: {', '.join(_fields_at(error['loc']))}"
        if not path:
            return message
    elif error["type"] == "too_short":
        message = "give at least one"
    elif path.startswith(("broker.options", "broker.rabbitmq", "broker.servers")):
        return f"{path}: {message}"  # what was given may be a password
    elif (ours := what_to_write(error, _place(error["loc"]))) is not None:
        message = f"{ours} (got {_SHORT.repr(error['input'])})"
    elif not path:
        return message
    else:
        message = f"{message} (got {_SHORT.repr(error['input'])})" if not isinstance(error["input"], dict) else message
    return f"{path}: {message}" if not message.startswith(f"{path}:") else message


def _place(loc: tuple[Any, ...]) -> str:
    """A path without the numbers of list entries."""
    return ".".join(str(part) for part in loc if not isinstance(part, int))


def _fields_at(loc: tuple[Any, ...]) -> list[str]:
    parts: dict[str, type[Part]] = {
        "cluster": ClusterSettings, "cluster.geo": GeoSettings, "broker": BrokerSettings,
        "arrivals": ArrivalsSettings,
        "operators": OperatorSettings, "operators.sizes": SizeSettings, "operators.input": InputSettings,
        "operators.service": ServiceSettings, "operators.micro_batch": MicroBatchSettings,
        "policy": PolicySettings, "guards": GuardSettings, "nodes": NodesSettings,
        "restarts": RestartSettings, "objectives": PathBound, "resize": ResizeSettings,
        "prices": PriceSettings,
    }  # fmt: skip
    return parts.get(_place(loc), RunSettings).setting_names()
