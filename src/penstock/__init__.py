# SPDX-License-Identifier: Apache-2.0
"""Penstock keeps streaming pipelines on Apache Spark inside their objective with the least resources.

The data's way, one folder each::

    arrivals     what the world sends: traces and shapes of load
    monitor      telemetry becomes observations: rates, backlog, latency, utilisation
    workload     arrivals become processes that describe them
    performance  processes and demands become predictions: the latency of an allocation
    plan         predictions become allocations: levels and costs, the search over them, guards
    policies     whole policies, each composed of these stages; each gives decisions with reasons
    execute      decisions become actions; planned, requested and observed are reconciled
    knowledge    everything is remembered: in memory, or in SQLite
    loop         one pass of all that, repeated on time; only adaptors/ touch Spark, sockets and the kernel

A pipeline from a file or a mapping: ``penstock.run("pipeline.yaml", folder="runs/first")``.
In a PySpark job: ``with penstock.attach(query, objective=penstock.latency(p95="2s"), executors=(1, 8)): ...``
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigurationError, PenstockError, known_arguments
from penstock.records import Allocation, Decision, LatencySummary, Limits, Objective, Observation, PlanRequest
from penstock.units import parse_seconds

if TYPE_CHECKING:
    from penstock._attach import attach
    from penstock._master_scaler import MasterScaler
    from penstock._scaler import Scaler
    from penstock.adaptors.agent.meters import metric
    from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
    from penstock.adaptors.rabbitmq.queue_arrivals import QueueArrivals
    from penstock.adaptors.rabbitmq.queue_tap import QueueTap
    from penstock.adaptors.rabbitmq.source import RabbitMQSource
    from penstock.policies.entry import PolicyEntry
    from penstock.ports import Look, LookingBackPolicy, OperatorSite, Policy, PolicyContext, WatchingPolicy
    from penstock.running.library import run

__version__ = "0.1.0"

_LATE = {
    "attach": "penstock._attach",
    "metric": "penstock.adaptors.agent.meters",
    "MasterScaler": "penstock._master_scaler",
    "Scaler": "penstock._scaler",
    "run": "penstock.running.library",
    "PolicyEntry": "penstock.policies.entry",
    "RabbitMQConnection": "penstock.adaptors.rabbitmq.connection",
    "RabbitMQSource": "penstock.adaptors.rabbitmq.source",
    "QueueTap": "penstock.adaptors.rabbitmq.queue_tap",
    "QueueArrivals": "penstock.adaptors.rabbitmq.queue_arrivals",
    **dict.fromkeys(
        ("Look", "LookingBackPolicy", "OperatorSite", "Policy", "PolicyContext", "WatchingPolicy"), "penstock.ports"
    ),
}
"""Public names that are imported when they are first used."""

__all__ = [
    "Allocation",
    "ConfigurationError",
    "Decision",
    "LatencySummary",
    "Limits",
    "Look",
    "LookingBackPolicy",
    "MasterScaler",
    "Objective",
    "Observation",
    "OperatorSite",
    "PenstockError",
    "PlanRequest",
    "Policy",
    "PolicyContext",
    "PolicyEntry",
    "QueueArrivals",
    "QueueTap",
    "RabbitMQConnection",
    "RabbitMQSource",
    "Scaler",
    "WatchingPolicy",
    "attach",
    "keep_up",
    "latency",
    "metric",
    "run",
]


@known_arguments
def latency(
    *,
    mean: str | float | None = None,
    p50: str | float | None = None,
    p95: str | float | None = None,
    p99: str | float | None = None,
) -> Objective:
    """An objective on record latency: one statistic with its bound.

    Examples
    --------
    >>> latency(p95="2s")
    Objective(statistic='p95', seconds=2.0)
    """
    given = {k: v for k, v in {"mean": mean, "p50": p50, "p95": p95, "p99": p99}.items() if v is not None}
    if len(given) != 1:
        raise ConfigurationError(
            'objective: give exactly one of mean, p50, p95, p99, such as latency(p95="2s")', field="objective"
        )
    ((statistic, bound),) = given.items()
    return Objective(statistic, parse_seconds(bound, f"objective.{statistic}"))


def keep_up(catch_up: str | float = 60.0) -> Objective:
    """The objective to process records as fast as they arrive; what waits is caught up with within `catch_up`."""
    return Objective(catch_up_seconds=parse_seconds(catch_up, "objective.catch_up"))


def __getattr__(name: str) -> Any:
    # `import penstock` stays free of everything that the loop and the adaptors need.
    if name not in _LATE:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)
