# SPDX-License-Identifier: Apache-2.0
"""The maximum sustainable throughput (MST) of an operator for any allocation, learnt from measurements.

`MODELS` has every model by name. docs/background/throughput.md explains them.
"""

from penstock.performance.throughput.inverse_time import InverseTimeModel
from penstock.performance.throughput.polynomial import PolynomialModel
from penstock.performance.throughput.registry import MODELS, model_named

__all__ = [
    "MODELS",
    "InverseTimeModel",
    "PolynomialModel",
    "model_named",
]
