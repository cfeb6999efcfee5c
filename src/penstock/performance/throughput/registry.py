# SPDX-License-Identifier: Apache-2.0
"""Models of throughput by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from penstock.errors import ConfigurationError
from penstock.performance.throughput.batch_time import BatchTimeModel
from penstock.performance.throughput.ensemble import EnsembleModel
from penstock.performance.throughput.inverse_time import InverseTimeModel
from penstock.performance.throughput.monotone import MonotoneModel
from penstock.performance.throughput.polynomial import PolynomialModel
from penstock.performance.throughput.power_law import PowerLawModel
from penstock.performance.throughput.scalability_law import ScalabilityLawModel
from penstock.ports import ThroughputModel

_ALL: tuple[ThroughputModel, ...] = (
    InverseTimeModel(),
    PolynomialModel(),
    PowerLawModel(),
    BatchTimeModel(),
    ScalabilityLawModel(),
    MonotoneModel(),
    EnsembleModel(),
)
MODELS: Mapping[str, ThroughputModel] = MappingProxyType({model.name: model for model in _ALL})
"""Every model with its defaults, not fitted, by name."""


def model_named(name: str) -> ThroughputModel:
    """The model of this name, with its defaults and not fitted.

    Raises
    ------
    ConfigurationError
        There is none; the message lists those there are.

    Examples
    --------
    >>> model_named("polynomial").name
    'polynomial'
    """
    if name not in MODELS:
        raise ConfigurationError(
            f"throughput model: unknown name {name!r}; known: {', '.join(MODELS)}", field="throughput model"
        )
    return MODELS[name]
