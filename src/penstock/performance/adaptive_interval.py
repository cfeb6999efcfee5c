# SPDX-License-Identifier: Apache-2.0
"""An interval around predictions of latency that learns its width from how far earlier ones were off.

Errors of latency are relative, so a score is the logarithm of measured over predicted,

    s = log((measured + e) / (predicted + e)),

with e a small part of the bound: where nothing queues, what is off by a millisecond must not widen an interval that is
needed where seconds are at stake. The upper end is (predicted + e) exp(q) - e with q a quantile of recent scores; the
lower end likewise.

Which quantile follows from what happened (adaptive conformal inference). With confidence 1 - a, and miss_t = 1 where
the t-th measurement lay above the upper end that was given for it,

    a_(t+1) = a_t + gamma (a - miss_t),

and q is the quantile of 1 - a_t. After T measurements the part of misses is a up to (1 + gamma) / (gamma T), whatever
the errors are like and however they change. Here a_t stays between -gamma and 2 a, so this holds as far as one of the
recent scores is large enough to be q.

References
----------
Gibbs and Candes, "Adaptive Conformal Inference Under Distribution Shift", 2021 (the update, and Proposition 4.1).
Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005 (a new score counts as one of n + 1).
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from penstock.errors import ConfigurationError

STEP = 0.05
"""gamma: a few misses in a row, five at most, lead to the largest score that is remembered."""
KEPT = 100
"""Scores that are remembered; the oldest are forgotten first."""
PRIOR_SPREAD = 0.15
"""Standard deviation of scores that is assumed at the start. At a confidence of 90 % the upper end is then a fifth
above the prediction: about what plans are held to in tests, a quarter at worst."""
PRIOR_SCORES = 19
"""How many assumed scores there are at the start; each measured one takes as much weight from all of them."""
BOUND_PART = 0.05
"""e, as a part of the bound."""
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Margin:
    """By what a prediction may be off: an interval of scores, and e, in seconds."""

    low: float
    high: float
    floor_seconds: float

    def around(self, seconds: float) -> tuple[float, float]:
        """The interval of a prediction.

        Examples
        --------
        >>> low, high = Margin(-0.1, 0.2, floor_seconds=0.05).around(1.0)
        >>> round(low, 2), round(high, 2)
        (0.9, 1.23)
        """
        if math.isinf(seconds):
            return seconds, seconds
        shifted = seconds + self.floor_seconds
        return tuple(max(0.0, shifted * math.exp(end) - self.floor_seconds) for end in (self.low, self.high))  # type: ignore[return-value]

    def score(self, predicted: float, measured: float) -> float:
        """How far a measurement is from its prediction."""
        return math.log((measured + self.floor_seconds) / (predicted + self.floor_seconds))


class AdaptiveInterval:
    """Learns by what the predictions for one path are off.

    Parameters
    ----------
    confidence
        Part of the measurements that is to lie at or below the upper end; and as many at or above the lower.
    bound_seconds
        The bound of the path.

    Examples
    --------
    >>> interval = AdaptiveInterval(0.9, bound_seconds=1.0)
    >>> round(interval.margin.around(0.5)[1], 2)  # nothing was measured yet
    0.62
    >>> for _ in range(30):
    ...     interval.update(0.5, 0.6, interval.margin)
    >>> round(interval.margin.around(0.5)[1], 2), interval.coverage
    (0.6, 1.0)
    """

    def __init__(self, confidence: float, bound_seconds: float) -> None:
        if not 0.5 <= confidence < 1.0:
            raise ConfigurationError(
                f"confidence: {confidence!r} is outside [0.5, 1); write it like 0.9", field="confidence"
            )
        self.confidence = confidence
        self._floor_seconds = BOUND_PART * bound_seconds
        self._scores: deque[float] = deque(maxlen=KEPT)
        self._misses_allowed = {"low": 1.0 - confidence, "high": 1.0 - confidence}
        """a_t of both ends."""
        self.judged = 0
        """Predictions that were measured so far."""
        self._covered = 0
        self._absolute = 0.0

    @property
    def coverage(self) -> float | None:
        """The part of measurements at or below the upper end that was given for them; None: there were none."""
        return self._covered / self.judged if self.judged else None

    @property
    def error(self) -> float | None:
        """Mean size of the scores: about the mean relative error; None: there were none."""
        return self._absolute / self.judged if self.judged else None

    @property
    def margin(self) -> Margin:
        """By what the next prediction may be off."""
        high = self._quantile(1.0 - self._misses_allowed["high"])
        low = -self._quantile(1.0 - self._misses_allowed["low"], sign=-1.0)
        return Margin(min(low, high), high, self._floor_seconds)

    def update(self, predicted: float, measured: float, given: Margin) -> None:
        """Judge a prediction by the interval that was given for it, then learn from it."""
        score = given.score(predicted, measured)
        self.judged += 1
        self._absolute += abs(score)
        self._covered += score <= given.high
        allowed = 1.0 - self.confidence
        for end, is_missed in (("high", score > given.high), ("low", score < given.low)):
            now = self._misses_allowed[end] + STEP * (allowed - is_missed)
            # Below 0 the largest score is taken in any case, and above 2 a errors that grow would be followed too late:
            # from there it would take as long again to come back.
            self._misses_allowed[end] = min(max(now, -STEP), 2.0 * allowed)
        self._scores.append(score)

    def _quantile(self, level: float, sign: float = 1.0) -> float:
        """The least score such that it and those below weigh `level` of all, the one to come counted among them."""
        assumed = max(0.0, 1.0 - len(self._scores) / PRIOR_SCORES)
        scores = sign * np.array([*self._scores, *_PRIOR])
        weights = np.array([1.0] * len(self._scores) + [assumed] * PRIOR_SCORES)
        scores, weights = scores[weights > 0.0], weights[weights > 0.0]
        order = np.argsort(scores, kind="stable")
        below = np.cumsum(weights[order])
        place = int(np.searchsorted(below, level * (below[-1] + 1.0) * (1.0 - 1e-12)))
        return float(scores[order[min(place, scores.size - 1)]])

    def as_text(self, about: str) -> str:
        """What was learnt, as a text that a later run can begin with; `about` says of what."""
        return json.dumps(
            {
                "version": _VERSION, "about": about, "scores": [round(score, 6) for score in self._scores],
                "misses_allowed": self._misses_allowed, "judged": self.judged, "covered": self._covered,
                "absolute": self._absolute,
            }
        )  # fmt: skip

    def begin_with(self, about: str, text: str | None) -> bool:
        """Go on from such a text; where it is about something else or cannot be read, False, and nothing is changed."""
        try:
            kept: Mapping[str, Any] = json.loads(text or "{}")
            if kept.get("version") != _VERSION or kept.get("about") != about:
                return False
            scores = _finite(kept["scores"])
            allowed = dict(
                zip(("low", "high"), _finite(kept["misses_allowed"][end] for end in ("low", "high")), strict=True)
            )
            judged, covered, (absolute,) = int(kept["judged"]), int(kept["covered"]), _finite([kept["absolute"]])
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return False
        if not (0 <= covered <= judged and all(-STEP <= value <= 1.0 for value in allowed.values())):
            return False
        self._scores.extend(scores)
        self._misses_allowed, self.judged, self._covered, self._absolute = allowed, judged, covered, absolute
        return True


def _finite(values: Iterable[Any]) -> list[float]:
    found = [float(value) for value in values]
    if not all(math.isfinite(value) for value in found):
        raise ValueError("a number is not finite")
    return found


_PRIOR = tuple(
    NormalDist(0.0, PRIOR_SPREAD).inv_cdf((i + 1) / (PRIOR_SCORES + 1)) for i in range(PRIOR_SCORES)
)  # their 90 % quantile is that of the distribution
