# SPDX-License-Identifier: Apache-2.0
"""Standard errors of averages over dependent observations, by batch means.

The observations are split into batches of equal length. The spread of the batches' means shows how far the overall
mean may be off. Under long memory, batches that are short against it differ too little. So several lengths are tried,
the largest answer counts, and the correlation left between neighbouring batches is added. An error too large makes a
fit modest; one too small makes it believe in noise.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

BATCHES = 32
"""Number of batches into which a series is split. Coarser splits merge 2 and 4 of them."""


def batch_means(series: FloatArray, batches: int = BATCHES) -> FloatArray:
    """Return the means of `batches` equal pieces along the last axis. The remainder is not used.

    Examples
    --------
    >>> batch_means(np.array([1.0, 3.0, 5.0, 7.0, 9.0]), 2).tolist()
    [2.0, 6.0]
    """
    length = series.shape[-1] // batches
    cut = series[..., : length * batches]
    means: FloatArray = cut.reshape(*series.shape[:-1], batches, length).mean(axis=-1)
    return means


def standard_error(means: FloatArray) -> FloatArray:
    """Return the standard error of the overall mean from batch means along the last axis.

    Examples
    --------
    >>> float(standard_error(np.array([1.0, -1.0] * 16)).round(4))
    0.1796
    """
    error = np.zeros(means.shape[:-1])
    count = means.shape[-1]
    while count >= 8:
        deviation = means - means.mean(axis=-1, keepdims=True)
        square = np.sum(deviation * deviation, axis=-1)
        neighbours = np.sum(deviation[..., 1:] * deviation[..., :-1], axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            link = np.where(square > 0, neighbours / square, 0.0)
        link = np.clip(link, 0.0, 0.8)
        error = np.maximum(error, np.sqrt(square / (count - 1) / count * (1.0 + link) / (1.0 - link)))
        count //= 2
        means = 0.5 * (means[..., 0 : 2 * count : 2] + means[..., 1 : 2 * count : 2])
    return error
