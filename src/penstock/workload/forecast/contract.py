# SPDX-License-Identifier: Apache-2.0
"""The answer of a forecaster, and what a method has to offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.ports import FloatArray
from penstock.units import format_seconds

AS_NOW = "as now"
SIGNATURE, AUTOREGRESSION, MARKOV_CHAIN = "signature", "autoregression", "markov chain"
METHODS = (AS_NOW, SIGNATURE, AUTOREGRESSION, MARKOV_CHAIN)
"""The names of all methods. The first is what every other has to beat."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a series is expected to be.

    Attributes
    ----------
    value
        The expected reading, in the unit of the readings.
    low, high
        The band into which eight of ten of this method's recent forecasts would have fallen. None: too few were graded.
    padding
        What to add so that the forecast is seldom too low, from how bursty the readings are and how far recent answers
        fell short. Never negative. None: not known yet.
    method
        Which method gave the value, one of `METHODS`.
    error_now
        Mean absolute error of this method's recent forecasts. None: too few were graded.
    error_as_now
        The same of "as now", over the same readings.
    horizon_seconds
        How far ahead, in whole readings.
    """

    value: float
    low: float | None
    high: float | None
    padding: float | None
    method: str
    error_now: float | None
    error_as_now: float | None
    horizon_seconds: float

    @property
    def is_as_now(self) -> bool:
        """Whether no method beats "as now", so that the value is the last reading."""
        return self.method == AS_NOW

    @property
    def padded(self) -> float:
        """The value plus the padding, as far as that is known."""
        return self.value + (self.padding or 0.0)

    def explain(self) -> str:
        """Say in a sentence what is expected and how far that can be trusted.

        Examples
        --------
        >>> Forecast(120.0, 110.0, 130.0, 12.0, "signature", 5.0, 20.0, 120.0).explain()
        '120 in 2 min 0 s (110 to 130) by signature, which is off by 5 where "as now" is off by 20; padding 12'
        >>> Forecast(80.0, None, None, None, "as now", None, None, 30.0).explain()
        '80 in 30 s, as now: no method was graded yet'
        """
        band = "" if self.low is None or self.high is None else f" ({self.low:.4g} to {self.high:.4g})"
        text = f"{self.value:.4g} in {format_seconds(self.horizon_seconds)}{band}"
        if not self.is_as_now:
            text += f" by {self.method}, which is off by {self.error_now:.4g}"
            text += f' where "as now" is off by {self.error_as_now:.4g}'
        elif self.error_now is None:
            text += ", as now: no method was graded yet"
        else:
            text += f", as now, which is off by {self.error_now:.4g}: no method beats it"
        return text if self.padding is None else f"{text}; padding {self.padding:.4g}"


class Method(Protocol):
    """One way to forecast a series, for a few horizons. What it learns, it learns in `refit`."""

    @property
    def name(self) -> str:
        """One of `METHODS`."""
        ...

    def take(self, value: float | None) -> None:
        """Go on by one reading. None: it is missing."""
        ...

    def refit(self, readings: FloatArray, horizons: Sequence[int]) -> None:
        """Learn from the newest readings, oldest first, NaN where missing. The last one was already taken."""
        ...

    def ahead(self, steps: int) -> float | None:
        """Forecast the reading so many steps after the last one taken. None: this method cannot say."""
        ...
