# SPDX-License-Identifier: Apache-2.0
"""Finds what is wrong with a run before anything is started, and reports it all at once."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from penstock._demand import policy_demand
from penstock._wiring import objectives_out_of_reach
from penstock.adaptors.spark.master_address import YARN
from penstock.errors import ConfigurationError
from penstock.policies import policy_entry
from penstock.running.operator_process import SessionMissingError, load_app
from penstock.running.policy_choice import policy_context, policy_of, with_policy
from penstock.running.real_time_floor import check_floor, known_partitions
from penstock.running.run_nodes import check_nodes
from penstock.secrets import without_secrets
from penstock.settings import (
    WITH_SECRETS,
    ArrivalsSettings,
    BrokerSettings,
    OperatorSettings,
    PolicySettings,
    RunSettings,
    parse_settings,
    read_settings,
    run_faults,
)
from penstock.settings.geo import HOME
from penstock.units import parse_bytes

_LOG = logging.getLogger(__name__)
_Part = TypeVar("_Part", bound=BaseModel)


def load_checked(path: Path) -> RunSettings:
    """Read a settings file and look it through; every mistake is reported at once, whichever layer finds it."""
    data = read_settings(path)
    faults: list[str] = []
    try:
        settings = with_policy(parse_settings(data, str(path), path.absolute().parent))
    except ConfigurationError as fault:
        faults += fault.faults
    faults += run_faults(data)
    if faults:
        faults += _faults_in_parts(data)
        # The same may be found in two ways.
        raise ConfigurationError.of_all(str(path), list(dict.fromkeys(faults)))
    return settings


def _faults_in_parts(data: Mapping[str, Any]) -> list[str]:
    """What a deeper look at the parts that can be read by themselves shows, in a file that is wrong elsewhere."""
    from pydantic import ValidationError

    from penstock.adaptors.replay.options import replay_arrivals

    faults: list[str] = []

    def attempt(where: str, check: Callable[[], object]) -> None:
        try:
            check()
        except ConfigurationError as fault:
            faults.extend(f"{where}{text}" for text in fault.faults)
        except ValidationError:
            pass  # reported already: the part itself cannot be read

    arrivals, policy, operators = (data.get(name) for name in ("arrivals", "policy", "operators"))
    if not (isinstance(arrivals, dict) and arrivals.keys() & {"topic", "exchange"}):
        attempt("arrivals.", lambda: replay_arrivals(_readable(ArrivalsSettings, arrivals).replay_options()))
    if (broker := data.get("broker")) is not None:
        attempt("broker.", lambda: _check_broker(BrokerSettings.model_validate(broker)))
    if policy is not None:
        attempt("", lambda: _check_policy(_readable(PolicySettings, policy)))
    for i, operator in enumerate(operators if isinstance(operators, list) else []):
        app = operator.get("app") if isinstance(operator, dict) else None
        if isinstance(app, str) and ":" in app:
            attempt(f"operators.{i}.", lambda a=app: _check_app(a))  # type: ignore[misc]
    return faults


def _readable(part: type[_Part], data: object) -> _Part:
    """A part of the settings without those of its fields that are wrong, which are reported already."""
    from pydantic import ValidationError

    try:
        return part.model_validate(data)
    except ValidationError as fault:
        wrong = {error["loc"][0] for error in fault.errors() if error["loc"]}
        if not isinstance(data, dict) or not wrong:
            raise
        return part.model_validate({name: value for name, value in data.items() if name not in wrong})


def _check_policy(settings: PolicySettings) -> None:
    if settings.name is not None:
        entry = policy_entry(settings.name)
        faults = entry.option_faults(settings.options)
        if faults:
            raise ConfigurationError.of_all("policy", [f"policy.options.{fault}" for fault in faults])


def check_run(settings: RunSettings, *, has_own_policy: bool = False) -> None:
    """Raise ConfigurationError with every fault that can be known without starting anything.

    `has_own_policy`: an object decides in place of the policy that the settings name.
    """
    from penstock.adaptors.replay.options import replay_arrivals
    from penstock.adaptors.spark.installation import SparkInstallation
    from penstock.adaptors.spark.master_address import MasterAddress

    faults = run_faults(settings.model_dump(mode="json", context=WITH_SECRETS))
    if faults:
        raise ConfigurationError.of_all(settings.name, faults)
    settings = with_policy(settings)

    def attempt(where: str, check: Any) -> None:
        try:
            check()
        except ConfigurationError as fault:
            faults.extend(f"{where}{text}" for text in fault.faults)

    attempt("", lambda: MasterAddress.parse(settings.cluster.master))
    if settings.arrivals.is_replayed:
        attempt("arrivals.", lambda: replay_arrivals(settings.arrivals.replay_options()))
        attempt("", lambda: _check_payload(settings))
    if settings.broker is not None:
        attempt("broker.", lambda: _check_broker(settings.broker))
    known = len(faults)
    for i, operator in enumerate(settings.operators):
        attempt(f"operators.{i}.service.", lambda o=operator: policy_demand(o))
    if len(faults) == known:  # it starts nothing before it is asked
        attempt("policy: ", lambda: policy_of(settings, policy_context(settings)))
    for i, operator in enumerate(settings.operators):
        known = len(faults)
        attempt(f"operators.{i}.", lambda o=operator: _check_app(o.app))
        if len(faults) == known:
            attempt(f"operators.{i}.options.", lambda o=operator: _check_options(o))
    attempt("", lambda: check_floor(settings, known_partitions(settings)))
    attempt("", SparkInstallation.find)
    attempt("", lambda: _check_yarn(settings.cluster.master))
    attempt("", lambda: _check_memory(settings))
    attempt("", lambda: _check_geo(settings))
    attempt("", lambda: check_nodes(settings, has_own_policy=has_own_policy))
    attempt("", lambda: _check_sizes(settings))
    if faults:
        raise ConfigurationError.of_all(settings.name, faults)


def unreachable_objectives(settings: RunSettings) -> dict[str, str]:
    """A line for each operator whose trigger keeps an objective from being met: a run may begin all the same."""
    triggers = {operator.name: operator.trigger_seconds for operator in settings.operators}
    return objectives_out_of_reach(settings.path_objectives(), triggers)


def not_contacted(settings: RunSettings) -> list[str]:
    """What a run will need that answers from outside, and that no check has asked."""
    found = []
    if settings.broker is not None and not settings.broker.is_embedded:
        found.append(f"the broker {settings.broker.servers or without_secrets(str(settings.broker.rabbitmq))}")
    if settings.cluster.master != "embedded":
        found.append(f"the master {settings.cluster.master}")
    if settings.cluster.page is not None:
        found.append(f"the master's page {settings.cluster.page}")
    return found


def _check_broker(broker: BrokerSettings | None) -> None:
    from penstock.running.topic_streams import connection_of

    if broker is None:
        return
    if broker.rabbitmq is not None:
        from penstock.running.queue_streams import check_rabbitmq

        check_rabbitmq(broker)
    elif not broker.is_embedded:
        try:
            connection_of(broker)
        except ConfigurationError as fault:
            faults = [text.replace("bootstrap_servers", "servers") for text in fault.faults]
            raise ConfigurationError.of_all("broker", faults) from None
    elif broker.options:
        raise ConfigurationError("options: the embedded broker needs none; leave them out", field="broker.options")
    if broker.rabbitmq is None:
        from penstock.adaptors.kafka.connection import check_installed

        try:
            check_installed()
        except ConfigurationError as fault:
            raise ConfigurationError.of_all(
                "broker", [text.replace("kafka:", "servers:", 1) for text in fault.faults]
            ) from None


def _check_payload(settings: RunSettings) -> None:
    payload = settings.arrivals.replay_options().get("payload", "")
    path = Path(payload.removeprefix("file:"))
    if payload.startswith("file:") and (not path.is_file() or path.stat().st_size == 0):
        raise ConfigurationError(
            f"arrivals.options.payload: {path} is not a file with lines in it; name one", field="payload"
        )


def executor_bytes(operator: OperatorSettings) -> float:
    """What the executors of an operator take at most; Spark adds max(384 MiB, 10 %) to every heap."""
    return operator.executors[1] * (parse_bytes(operator.executor_sizes[-1].memory) * 1.1 + (400 << 20))


def executor_cores(operator: OperatorSettings) -> int:
    """The cores that the executors of an operator have at most."""
    return operator.executors[1] * operator.executor_sizes[-1].cores


def _check_sizes(settings: RunSettings) -> None:
    """Whether each worker of the embedded cluster can hold an executor of the largest size."""
    cluster = settings.cluster
    if cluster.master != "embedded":
        return
    faults = []
    for i, operator in enumerate(settings.operators):
        largest = operator.executor_sizes[-1]
        if not operator.sizes:
            continue
        where = f"operators.{i}.sizes"
        if cluster.cores_per_worker is not None and cluster.cores_per_worker < largest.cores:
            faults.append(
                f"{where}: {largest.cores} cores do not fit on a worker; raise cluster.cores_per_worker "
                f"({cluster.cores_per_worker}), or leave it out"
            )
        memory = cluster.memory_per_worker
        if memory is not None and parse_bytes(memory) < parse_bytes(largest.memory):
            faults.append(
                f"{where}: {largest.memory} do not fit on a worker; raise cluster.memory_per_worker ({memory}), or "
                "leave it out"
            )
    if faults:
        raise ConfigurationError.of_all("sizes", faults)


def _check_geo(settings: RunSettings) -> None:
    """Whether the nodes of the embedded cluster can be made, and hold what runs on them."""
    geo = settings.cluster.geo
    if geo is None:
        return
    from penstock.adaptors.geo.delays import OneWayDelays
    from penstock.adaptors.geo.namespaces import check_can_be_made
    from penstock.adaptors.geo.network import check_names

    faults = []
    if settings.cluster.master != "embedded":
        faults.append("cluster.geo: makes nodes for the embedded cluster; leave `master` or `geo` out")
    if settings.broker is not None:
        faults.append("cluster.geo: its nodes reach no broker; leave `broker` out, records are replayed")
    if any(operator.limits().cpu_shares != (1.0,) for operator in settings.operators):
        faults.append("cluster.geo: a node has a CPU cap of its own; set `cpu_shares: [1.0]` of the operators")
    room = len(geo.nodes) * geo.slots
    faults += [
        f"operators.{i}.executors: {operator.executors[1]} do not fit on {len(geo.nodes)} nodes with room for {room} "
        "cores; give a smaller maximum, or more `slots`"
        for i, operator in enumerate(settings.operators)
        if executor_cores(operator) > room
    ]
    checks: tuple[Callable[[], None], ...] = (
        lambda: check_names((HOME, *geo.nodes)),
        lambda: OneWayDelays.of_round_trips(geo.pairs).check_nodes((HOME, *geo.nodes)),
        check_can_be_made,
    )
    for check in checks:
        try:
            check()
        except ConfigurationError as fault:
            faults.extend(fault.faults)
    if faults:
        raise ConfigurationError.of_all("cluster.geo", faults)


def _check_yarn(master: str, environment: Mapping[str, str] = os.environ) -> None:
    """Whether Spark will find the cluster: it takes a folder without YARN's files for a cluster on this machine."""
    from penstock.adaptors.spark.installation import SparkInstallation

    if master.strip() != YARN:
        return
    own = Path(environment.get("SPARK_CONF_DIR") or SparkInstallation.find(environment).home / "conf")
    if (own / "spark-env.sh").exists():
        return  # it may set them
    folders = {environment[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if environment.get(name)}
    if not any((Path(folder) / "yarn-site.xml").is_file() for folder in folders):
        where = f"{' or '.join(sorted(folders))} has none" if folders else "it is not set"
        raise ConfigurationError(
            f"cluster.master: `yarn` needs HADOOP_CONF_DIR, the folder of your cluster's yarn-site.xml; {where}",
            field="cluster.master",
        )


def _check_memory(settings: RunSettings) -> None:
    import psutil

    wanted, there = sum(map(executor_bytes, settings.operators)), psutil.virtual_memory().total
    if settings.cluster.master == "embedded" and wanted > there:
        raise ConfigurationError(
            f"operators: their limits allow executors of {wanted / 2**30:.1f} GiB on the embedded cluster, and this "
            f"machine has {there / 2**30:.1f} GiB; lower executors, executor_memory or sizes",
            field="operators",
        )


def _check_app(path: str) -> None:
    try:
        load_app(path)
    except SessionMissingError as fault:
        # The operator's process imports it when its session is there. Whether the function exists shows then.
        _LOG.info("%s is not checked before Spark is started: %s", path, fault)


def _check_options(operator: OperatorSettings) -> None:
    module_name, _, function_name = operator.app.partition(":")
    # A module may check its options before anything starts, if it can be imported then.
    check = getattr(sys.modules.get(module_name), "check_options", None)
    if check is None:
        return
    try:
        check(function_name, {**operator.options, "output": "output"})
    except ConfigurationError:
        raise
    except Exception as fault:  # the user's code
        raise ConfigurationError(f"check_options of {module_name} failed: {type(fault).__name__}: {fault}") from fault
