# SPDX-License-Identifier: Apache-2.0
"""Mixtures of exponential times with the window's distribution, for independent times more variable than exponential.

Three moments do not determine the shape, and the queue depends on it. Here non-negative least squares finds the weights
of many exponential distributions, whose means are spread evenly over the window's orders of magnitude. It fits the tail
at quantiles of the window, and the moments with far more weight (Feldmann and Whitt, "Fitting mixtures of exponentials
to long-tail distributions", Performance Evaluation 31, 1998, fit such mixtures tail first; least squares needs no
order). Few weights are above zero, as always in non-negative least squares.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from penstock.errors import InvalidProcessError
from penstock.markov import MAP, PH

FloatArray = npt.NDArray[np.float64]

_GRIDS = (40, 24, 14)
_POINTS = 48
_MOMENT_WEIGHT = 300.0


def mixture_renewal(iats: FloatArray, max_states: int) -> MAP | None:
    """Return the process of mean 1 with independent times distributed as the window's, or ``None``.

    A distribution whose tail is lighter than an exponential mixture's has no such process.

    Examples
    --------
    >>> window = np.random.default_rng(1).weibull(0.5, 20_000)
    >>> fitted = mixture_renewal(window, 16)
    >>> fitted.order <= 16, bool(abs(fitted.scv * window.mean() ** 2 / window.var() - 1.0) < 0.01)
    (True, True)
    """
    x = np.sort(iats / iats.mean())
    m2, m3 = float((x * x).mean()), float((x * x * x).mean())
    shares = 1.0 - np.geomspace(1.0, 2.0 / x.size, _POINTS)
    points = np.unique(np.quantile(x, np.clip(np.concatenate([np.linspace(0.02, 0.9, 16), shares]), 0.0, 1.0)))
    points = points[points > 0]
    if points.size < 4:
        return None
    tail = 1.0 - np.searchsorted(x, points, side="right") / x.size
    weight = 1.0 / np.sqrt(tail + 1.0 / x.size)
    right = np.concatenate([tail * weight, np.full(4, _MOMENT_WEIGHT)])
    for size in (*_GRIDS, max(max_states, 2)):
        means = np.geomspace(max(float(points[0]), 1e-6) / 3.0, m3 / m2, size)
        system = np.exp(-points[:, None] / means) * weight[:, None]
        moments = np.stack([np.ones(size), means, 2.0 * means**2 / m2, 6.0 * means**3 / m3]) * _MOMENT_WEIGHT
        found, _ = nnls(np.concatenate([system, moments]), right)
        chosen = np.flatnonzero(found > 1e-12)
        if 1 <= chosen.size <= max_states:
            break
    else:
        return None
    weights = found[chosen] / found[chosen].sum()
    try:
        process = MAP.renewal(PH.hyperexponential(weights, 1.0 / means[chosen]))
    except InvalidProcessError:
        return None
    return process.with_rate(1.0)
