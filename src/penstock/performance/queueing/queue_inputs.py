# SPDX-License-Identifier: Apache-2.0
"""Checks of what a queue is given: arrivals, a service time, and whether they saturate it."""

from __future__ import annotations

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH

SATURATION = 1.0 - 1e-12
"""Utilisation from which on a queue counts as saturated: nearer to one the difference is rounding."""


def check_processes(arrivals: object, service: object, kind: type[MAP] | type[PH]) -> None:
    """Refuse anything but a MAP of arrivals and a service time of the given kind."""
    if not isinstance(arrivals, MAP):
        raise ConfigurationError(
            f"arrivals: {type(arrivals).__name__} is not a MAP; give MAP(D0, D1)", field="arrivals"
        )
    if not isinstance(service, kind):
        how = "PH(alpha, T)" if kind is PH else "MAP(D0, D1)"
        raise ConfigurationError(
            f"service: {type(service).__name__} is not a {kind.__name__}; give {how}", field="service"
        )


def entered(service: PH) -> PH:
    """Give the service time without the phases that are never entered."""
    kept = service.alpha @ service.M > 0.0
    if kept.all():
        return service
    phases = np.ix_(kept, kept)
    return PH.of_exits(service.alpha[kept], service.T[phases], service.exits[kept], service.M[phases])
