# SPDX-License-Identifier: Apache-2.0
"""Out of sample: what a window predicts for the queue of the next one, beside two naive predictors.

Service times are fixed by the old window: a load of 0.5 there may be 0.7 in the next one, which no predictor knows.
`mead` replays the window and its newer half, and goes by the worse. *both* is the fit, held against the replay.
Loads at which the next window comes above 0.95 are left out, as a replay there shows its length and little else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.markov import MAP
from penstock.workload import FitResult, predicted_curve, replay

FloatArray = npt.NDArray[np.float64]

LOADS = (0.1, 0.3, 0.5, 0.7, 0.85)
_HIGHEST = 0.95
_BELIEVED = 2.0
"""How many times the replay a fit counts for at most, where it is held against it."""
_WEIGHT = 0.7
"""Of the newest window, where those before count too."""
_PAIRS = 3

SHIPPED = "mead"
NAIVE = ("replay of the old window", "Poisson")


@dataclass(frozen=True, eq=False)
class NextWindow:
    """Log ratios of predicted to replayed mean and percentile, by predictor; below 0 is too low."""

    window: str
    ratios: dict[str, FloatArray]

    @property
    def errors(self) -> dict[str, FloatArray]:
        """Their sizes."""
        return {who: np.abs(ratios) for who, ratios in self.ratios.items()}


def judge_next(
    name: str,
    window: FloatArray,
    following: FloatArray,
    fit: FitResult | None = None,
    before: Sequence[FloatArray] | None = None,
) -> NextWindow:
    """Predict the next window's response times from this one's, and compare with its replay.

    With a `fit`, it predicts too; with the windows `before`, these count beside the newest.
    """
    mean, rng = window.mean(), np.random.default_rng(20_262)
    loads = tuple(load for load in LOADS if load * mean / following.mean() < _HIGHEST)

    def met(iats: FloatArray) -> FloatArray:
        """What a window meets with these service times: means, then percentiles, in units of the old window's mean."""
        queue = replay(iats, rng, tuple(load * mean / iats.mean() for load in loads), times=_PAIRS)
        return np.asarray(np.concatenate([queue.responses, queue.percentiles]) * (iats.mean() / mean))

    actual, old, newer = met(following), met(window), met(window[window.size // 2 :])
    predicted = {
        SHIPPED: np.maximum(old, newer),
        "replay of the old window": old,
        "Poisson": np.concatenate(predicted_curve(MAP.poisson(1.0), loads)),
    }
    if fit is not None:
        fitted = np.concatenate(predicted_curve(fit.maps[0].map, loads))
        predicted |= {"both": np.clip(fitted, old, _BELIEVED * old), "the fit alone": fitted}
    if before is not None:
        predicted["window and newer half, geometric"] = np.sqrt(old * newer)
        past = np.mean([np.log(met(one)) for one in before], axis=0) if before else np.log(old)
        predicted["with the windows before"] = np.exp(_WEIGHT * np.log(old) + (1.0 - _WEIGHT) * past)
    return NextWindow(name, {who: np.log(times / actual) for who, times in predicted.items()})


def median_errors(judged: Sequence[NextWindow]) -> dict[str, float]:
    """Give each predictor's median over all windows, loads and statistics."""
    names = judged[0].errors if judged else {}
    return {name: float(np.median(np.concatenate([one.errors[name] for one in judged]))) for name in names}
