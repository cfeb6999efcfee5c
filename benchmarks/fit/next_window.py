# SPDX-License-Identifier: Apache-2.0
"""Out of sample: what a window predicts for the queue of the next one, beside two naive predictors.

Service times are fixed by the old window: a load of 0.5 there may be 0.7 in the next one, which no predictor knows.
What `mead` and `penstock what-if` predict is the fit, held against the replay of the window.
Loads at which the next window comes above 0.95 are left out, as a replay there shows its length and little else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.markov import MAP
from penstock.performance.checked_latency import BELIEVED, believed_seconds
from penstock.workload import FitResult, predicted_curve, replay

FloatArray = npt.NDArray[np.float64]

LOADS = (0.1, 0.3, 0.5, 0.7, 0.85)
_HIGHEST = 0.95

NAIVE = ("replay of the old window", "Poisson")


@dataclass(frozen=True, eq=False)
class NextWindow:
    """Absolute log ratios of predicted to replayed mean and percentile, by predictor."""

    window: str
    errors: dict[str, FloatArray]


def judge_next(name: str, window: FloatArray, following: FloatArray, fit: FitResult) -> NextWindow:
    """Predict the next window's response times from this one's, and compare with its replay."""
    ratio = window.mean() / following.mean()
    loads = tuple(load for load in LOADS if load * ratio < _HIGHEST)
    rng = np.random.default_rng(20_262)
    seen = replay(following, rng, tuple(load * ratio for load in loads), times=3)
    actual = np.concatenate([seen.responses, seen.percentiles]) * following.mean()
    old = replay(window, rng, loads, times=3)
    fitted, met = (
        np.concatenate(predicted_curve(fit.maps[0].map, loads)),
        np.concatenate([old.responses, old.percentiles]),
    )
    predicted = {
        "penstock": np.array([believed_seconds(f, m, BELIEVED) for f, m in zip(fitted, met, strict=True)]),
        "the fit alone": fitted,
        "replay of the old window": met,
        "Poisson": np.concatenate(predicted_curve(MAP.poisson(1.0), loads)),
    }
    return NextWindow(name, {who: np.abs(np.log(times * window.mean() / actual)) for who, times in predicted.items()})


def median_errors(judged: list[NextWindow]) -> dict[str, float]:
    """Give each predictor's median over all windows, loads and statistics."""
    names = judged[0].errors if judged else {}
    return {name: float(np.median(np.concatenate([one.errors[name] for one in judged]))) for name in names}
