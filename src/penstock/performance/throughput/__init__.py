# SPDX-License-Identifier: Apache-2.0
"""The maximum sustainable throughput (MST) of an operator for any allocation, learnt from measurements.

`MODELS` has every model by name, `select` chooses among models. docs/background/throughput.md explains them.
"""

from penstock.performance.throughput.batch_time import BatchTimeModel
from penstock.performance.throughput.ensemble import EnsembleModel
from penstock.performance.throughput.fetch_time import FetchTimeModel
from penstock.performance.throughput.inverse_time import InverseTimeModel
from penstock.performance.throughput.learnt_model import LearntModel, ProgressiveError
from penstock.performance.throughput.leave_out import held_out_predictions
from penstock.performance.throughput.monotone import MonotoneModel
from penstock.performance.throughput.node_delay import NodeDelay
from penstock.performance.throughput.polynomial import PolynomialModel
from penstock.performance.throughput.power_law import PowerLawModel, ProportionalModel
from penstock.performance.throughput.registry import MODELS, model_named
from penstock.performance.throughput.scalability_law import ScalabilityLawModel
from penstock.performance.throughput.selection import ModelScore, Selection, discrepancy, select, validation_sizes

__all__ = [
    "MODELS",
    "BatchTimeModel",
    "EnsembleModel",
    "FetchTimeModel",
    "InverseTimeModel",
    "LearntModel",
    "ModelScore",
    "MonotoneModel",
    "NodeDelay",
    "PolynomialModel",
    "PowerLawModel",
    "ProgressiveError",
    "ProportionalModel",
    "ScalabilityLawModel",
    "Selection",
    "discrepancy",
    "held_out_predictions",
    "model_named",
    "select",
    "validation_sizes",
]
