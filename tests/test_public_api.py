# SPDX-License-Identifier: Apache-2.0
"""The public names, pinned."""

import doctest
import subprocess
import sys

import pytest

import penstock

PUBLIC = [
    "Allocation", "ConfigurationError", "Decision", "LatencySummary", "Limits", "Look", "LookingBackPolicy",
    "MasterScaler", "Objective", "Observation", "OperatorSite", "PenstockError", "PlanRequest", "Policy",
    "PolicyContext", "PolicyEntry", "QueueArrivals", "QueueTap", "RabbitMQConnection", "RabbitMQSource", "Scaler",
    "WatchingPolicy", "attach", "keep_up", "latency", "metric", "run",
]  # fmt: skip


def test_the_public_names_are_these() -> None:
    """A name is added or removed on purpose only, and each can be had."""
    assert penstock.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(penstock, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name fails as Python users expect."""
    with pytest.raises(AttributeError, match="atach"):
        penstock.atach  # noqa: B018


def test_importing_penstock_loads_nothing_heavy() -> None:
    """`import penstock` brings no Spark, no web framework, no plotting, no command line."""
    heavy = [
        "pyspark",
        "py4j",
        "pandas",
        "pyarrow",
        "matplotlib",
        "click",
        "rich",
        "scipy",
        "psutil",
        "pydantic",
        "pika",
        "lark",
        "fastapi",
        "uvicorn",
        "prometheus_client",
    ]
    code = f"import sys, penstock; print([m for m in {heavy!r} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_an_objective_takes_one_statistic() -> None:
    """None or two statistics are refused, with the way to write it."""
    assert doctest.testmod(penstock).failed == 0
    for wrong in ({}, {"p95": "2s", "p99": "3s"}):
        with pytest.raises(penstock.ConfigurationError, match="exactly one"):
            penstock.latency(**wrong)
    assert penstock.keep_up().statistic is None
    assert penstock.keep_up("2m").catch_up_seconds == 120.0
