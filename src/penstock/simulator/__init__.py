# SPDX-License-Identifier: Apache-2.0
"""Pipelines under a virtual clock, with the same ports as Spark: exact recursions over arrays, no queueing model."""

from penstock.simulator.engine import PathRecords, Simulation
from penstock.simulator.micro_batch import MicroBatch
from penstock.simulator.pipeline import Operator, Pipeline
from penstock.simulator.ports import OperatorPorts
from penstock.simulator.service import (
    Deterministic,
    Gamma,
    Hyper2,
    LogNormal,
    PhaseType,
    Samples,
    Service,
    erlang,
    exponential,
)
from penstock.topology import ARRIVALS, Stream

__all__ = [
    "ARRIVALS",
    "Deterministic",
    "Gamma",
    "Hyper2",
    "LogNormal",
    "MicroBatch",
    "Operator",
    "OperatorPorts",
    "PathRecords",
    "PhaseType",
    "Pipeline",
    "Samples",
    "Service",
    "Simulation",
    "Stream",
    "erlang",
    "exponential",
]
