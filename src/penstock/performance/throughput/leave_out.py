# SPDX-License-Identifier: Apache-2.0
"""How well a model predicts sizes it was not trained on: leave-one-size-out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.errors import NotReadyError
from penstock.performance.throughput.sample_table import SampleTable
from penstock.ports import FloatArray, ThroughputModel
from penstock.records import ThroughputSample

MAX_FOLDS = 10
"""With more sizes than this, neighbouring ones are left out together."""


def held_out_predictions(
    model: ThroughputModel, samples: Sequence[ThroughputSample], max_folds: int = MAX_FOLDS
) -> FloatArray | None:
    """For each sample what the model predicts when trained on all sizes but that sample's.

    None where there is one size only, or where the model needs more sizes than are left.
    """
    capacity = np.round(np.log(SampleTable.of(samples).capacity), 6)
    sizes, place = np.unique(capacity, return_inverse=True)
    if len(sizes) < 2:
        return None
    folds = place * min(max_folds, len(sizes)) // len(sizes)
    found = np.empty(len(samples))
    for fold in np.unique(folds):
        try:
            trained = model.fit([sample for sample, own in zip(samples, folds, strict=True) if own != fold])
        except NotReadyError:
            return None
        for index in map(int, np.flatnonzero(folds == fold)):
            found[index] = trained.predict(samples[index].allocation).records_per_second
    return found


def rmse(predicted: FloatArray, samples: Sequence[ThroughputSample]) -> float:
    """Root mean square error, in records a second."""
    return float(np.sqrt(np.mean((predicted - [sample.records_per_second for sample in samples]) ** 2)))


def relative_rmse(predicted: FloatArray, samples: Sequence[ThroughputSample]) -> float:
    """Root mean square of the relative errors, in logarithms; predictions of nothing count as a thousandth."""
    measured = np.array([sample.records_per_second for sample in samples])
    return float(np.sqrt(np.mean(np.log(np.maximum(predicted, 1e-3 * measured) / measured) ** 2)))
