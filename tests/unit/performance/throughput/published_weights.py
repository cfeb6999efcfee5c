# SPDX-License-Identifier: Apache-2.0
"""Table 2 of Imai, Patterson and Varela: weights of Models 1 and 2 for six applications, in Mbytes/s."""

from __future__ import annotations

import numpy as np

from penstock.performance.throughput import InverseTimeModel, PolynomialModel
from penstock.ports import FloatArray
from penstock.records import Allocation, ThroughputSample

TRAINED_ON = (3, 4, 6, 8, 24)
MODEL_1 = {
    "Grep": (0.01617, 1.04913, 0.0, 0.0),
    "Rolling Count": (0.11748, 2.75500, 0.0, 0.0),
    "Unique Visitor": (0.02050, 1.67805, 0.0, 0.0),
    "Page View": (0.03512, 1.61983, 0.0, 0.0),
    "Data Clean": (0.11039, 1.62948, 0.0, 0.00004),
    "VHT": (0.01958, 0.0, 0.00005, 0.0),
}
MODEL_2 = {
    "Grep": (0.63117, 0.74233, 0.00063),
    "Rolling Count": (0.16593, 0.27683, 0.00322),
    "Unique Visitor": (0.01615, 0.56212, 0.00160),
    "Page View": (0.27180, 0.49439, 0.00089),
    "Data Clean": (0.12286, 0.49693, 0.01233),
    "VHT": (50.69306, 0.0, 0.00394),
}


def samples_of(rates: FloatArray) -> list[ThroughputSample]:
    """One sample for each trained size."""
    return [ThroughputSample(Allocation(size), float(rate)) for size, rate in zip(TRAINED_ON, rates, strict=True)]


def rates_1(application: str) -> FloatArray:
    """Model 1 (Eq. 4) at the trained sizes."""
    w, m = MODEL_1[application], np.array(TRAINED_ON, dtype=float)
    return np.asarray(1.0 / (w[0] + w[1] / m + w[2] * m + w[3] * m**2))


def rates_2(application: str) -> FloatArray:
    """Model 2 (Eq. 5) at the trained sizes."""
    w, m = MODEL_2[application], np.array(TRAINED_ON, dtype=float)
    return np.asarray(w[0] + w[1] * m - w[2] * m**2)


def published(application: str) -> tuple[InverseTimeModel, PolynomialModel]:
    """Both models, as they are after a fit on their own published curves."""
    return (
        InverseTimeModel().fit(samples_of(rates_1(application))),
        PolynomialModel().fit(samples_of(rates_2(application))),
    )
