# SPDX-License-Identifier: Apache-2.0
"""Penstock keeps streaming pipelines on Apache Spark inside their objective with the least resources.

The data's way, one folder each::

    arrivals  what the world sends: traces and shapes of load
    monitor   telemetry becomes observations: rates, backlog, latency, utilisation
    plan      policies and guards turn an observation into a decision with its reason
    execute   decisions become actions; planned, requested and observed are reconciled
    knowledge everything is remembered: in memory, or in SQLite
    loop      one pass of all that, repeated on time; adaptors/ alone touch Spark, sockets and the kernel

A pipeline from a file or a mapping: ``penstock.run("pipeline.yaml", folder="runs/first")``.
In a PySpark job: ``with penstock.attach(query, objective=penstock.latency(p95="2s"), executors=(1, 8)): ...``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigurationError, PenstockError
from penstock.records import Allocation, Decision, LatencySummary, Limits, Objective, Observation
from penstock.units import parse_seconds

if TYPE_CHECKING:
    from penstock._attach import Scaler, attach
    from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
    from penstock.adaptors.rabbitmq.queue_arrivals import QueueArrivals
    from penstock.adaptors.rabbitmq.queue_tap import QueueTap
    from penstock.adaptors.rabbitmq.source import RabbitMQSource
    from penstock.running.library import run

__version__ = "0.1.0"

__all__ = [
    "Allocation",
    "ConfigurationError",
    "Decision",
    "LatencySummary",
    "Limits",
    "Objective",
    "Observation",
    "PenstockError",
    "QueueArrivals",
    "QueueTap",
    "RabbitMQConnection",
    "RabbitMQSource",
    "Scaler",
    "attach",
    "keep_up",
    "latency",
    "run",
]


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


def keep_up() -> Objective:
    """The objective to process records as fast as they arrive, whatever their latency."""
    return Objective()


def __getattr__(name: str) -> Any:
    # Late: `import penstock` stays free of everything the loop and the adaptors need.
    if name in ("attach", "Scaler"):
        from penstock import _attach

        return getattr(_attach, name)
    if name == "run":
        from penstock.running.library import run

        return run
    if name == "RabbitMQConnection":
        from penstock.adaptors.rabbitmq.connection import RabbitMQConnection

        return RabbitMQConnection
    if name == "RabbitMQSource":
        from penstock.adaptors.rabbitmq.source import RabbitMQSource

        return RabbitMQSource
    if name == "QueueTap":
        from penstock.adaptors.rabbitmq.queue_tap import QueueTap

        return QueueTap
    if name == "QueueArrivals":
        from penstock.adaptors.rabbitmq.queue_arrivals import QueueArrivals

        return QueueArrivals
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
