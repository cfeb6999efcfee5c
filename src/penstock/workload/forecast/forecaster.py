# SPDX-License-Identifier: Apache-2.0
"""One series: readings in, forecasts out."""

from __future__ import annotations

import math
from collections.abc import Iterable

from penstock.errors import ConfigurationError, NotReadyError
from penstock.units import positive_seconds, whole_number
from penstock.workload.forecast.autoregression import Autoregression
from penstock.workload.forecast.contract import AS_NOW, METHODS, Forecast, Method
from penstock.workload.forecast.grading import Grading, Made, MethodError
from penstock.workload.forecast.markov_chain import MarkovChain
from penstock.workload.forecast.padding import burst_padding
from penstock.workload.forecast.readings import Readings
from penstock.workload.forecast.signature import Signature

_FIRST_FIT = 32
_FITS_PER_HISTORY = 16
_MOST_SPREAD = 0.25
_GOLDEN = 0.6180339887498949
_PATIENCE = 10
"""Missing readings in a row after which the last known one says nothing any more."""


class Forecaster:
    """Forecasts one series of equally spaced readings, and knows how wrong it has been lately.

    A method other than "as now" answers only while its recent forecasts were clearly better than "as now". Methods
    are refitted every so often; memory and time per reading do not grow.

    Parameters
    ----------
    period_seconds
        From one reading to the next.
    horizons_seconds
        How far ahead `at` will be asked, each rounded up to whole readings. The error of a forecast is known only for
        horizons that were followed; `track` adds one.
    history
        How many readings to remember. A period is recognised if three of it fit.
    least
        The least value that a reading can have, such as 0 for a rate. None: any.
    turn
        A number from 0 that differs between the series of one process: it keeps them from refitting all at once.

    Examples
    --------
    >>> forecaster = Forecaster(10.0, [60.0], least=0.0)
    >>> for i in range(600):
    ...     forecaster.update(100.0 + 50.0 * math.sin(2 * math.pi * i / 48))
    >>> answer = forecaster.at(60.0)
    >>> answer.method, round(answer.value), round(100.0 + 50.0 * math.sin(2 * math.pi * 605 / 48))
    ('signature', 70, 70)
    """

    def __init__(
        self,
        period_seconds: float,
        horizons_seconds: Iterable[float],
        *,
        history: int = 8192,
        least: float | None = None,
        turn: int = 0,
    ) -> None:
        self.period_seconds = positive_seconds("period_seconds", period_seconds)
        self._least = least
        self._readings = Readings(whole_number("history", history, least=2 * _FIRST_FIT))
        turn = whole_number("turn", turn, least=0)
        self._spread = 1.0 + _MOST_SPREAD * (turn * _GOLDEN % 1.0)
        self._next_fit = round(_FIRST_FIT * (1.0 + turn * _GOLDEN % 1.0))
        self._signature = Signature(self.period_seconds)
        self._methods: tuple[Method, ...] = (self._signature, Autoregression(), MarkovChain())
        self._gradings: dict[int, Grading] = {}
        self._last: float | None = None
        self._missing = 0
        self._bursts: float | None = None
        for horizon in horizons_seconds:
            self.track(horizon)

    @property
    def repeats_after_seconds(self) -> float | None:
        """The period that was recognised. None: the series does not repeat itself, as far as is known."""
        period = self._signature.period
        return None if period is None else period * self.period_seconds

    @property
    def horizons_seconds(self) -> tuple[float, ...]:
        """The horizons that are followed, in whole readings."""
        return tuple(steps * self.period_seconds for steps in self._gradings)

    def track(self, horizon_seconds: float) -> None:
        """Follow one more horizon. Until enough of its forecasts are graded, the answer is "as now"."""
        steps = self._steps(horizon_seconds)
        if steps not in self._gradings:
            self._gradings[steps] = Grading(steps)

    def update(self, value: float | None) -> None:
        """Take the next reading. None: it is missing, which is not zero.

        Raises
        ------
        ConfigurationError
            The reading is not a finite number.
        """
        if value is not None and not math.isfinite(value):
            raise ConfigurationError(f"value: {value} is not a number; give None for a missing reading", field="value")
        for grading in self._gradings.values():
            grading.grade(value)
        if value is None:
            self._missing += 1
            self._readings.append(math.nan)
        else:
            self._last, self._missing = float(value), 0
            self._readings.append(value)
        for method in self._methods:
            method.take(value)
        if self._readings.taken >= self._next_fit:
            self._refit()
        for grading in self._gradings.values():
            if grading.is_turn():
                grading.make(self._made(grading))

    def at(self, horizon_seconds: float) -> Forecast:
        """Return the forecast for so many seconds after the last reading.

        Raises
        ------
        ConfigurationError
            This horizon is not followed.
        NotReadyError
            There was no reading yet, or the last ones are missing.
        """
        steps = self._steps(horizon_seconds)
        grading = self._gradings.get(steps)
        if grading is None:
            followed = ", ".join(f"{seconds:g}" for seconds in self.horizons_seconds) or "none"
            raise ConfigurationError(
                f"horizon_seconds: {horizon_seconds:g} is not followed (followed: {followed}); name it when the "
                "forecaster is made, or call track() first",
                field="horizon_seconds",
            )
        if self._last is None or self._missing > _PATIENCE:
            seen = (
                "there was no reading yet" if self._last is None else f"the last {self._missing} readings are missing"
            )
            raise NotReadyError(f"{seen}, so nothing can be forecast", needed=1, available=0)
        chosen, value = self._answer(grading)
        error = grading.error_of(chosen)
        band = grading.bands[chosen]
        return Forecast(
            value=value,
            low=None if band is None else self._bounded(value + band[0]),
            high=None if band is None else self._bounded(value + band[1]),
            padding=self._bursts if grading.shortfall is None else grading.shortfall,
            method=METHODS[chosen],
            error_now=error.error,
            error_as_now=error.error_as_now,
            horizon_seconds=steps * self.period_seconds,
        )

    def errors(self, horizon_seconds: float) -> tuple[MethodError, ...]:
        """Return what the recent forecasts of each method for a followed horizon were worth."""
        grading = self._gradings[self._steps(horizon_seconds)]
        return tuple(grading.error_of(method) for method in range(len(METHODS)))

    def each(self, horizon_seconds: float) -> dict[str, float | None]:
        """Return what each method forecasts now for a followed horizon. None: it cannot say."""
        steps = self._steps(horizon_seconds)
        return {AS_NOW: self._last} | {method.name: self._by(method, steps) for method in self._methods}

    def _answer(self, grading: Grading) -> tuple[int, float]:
        """Return the method that answers, by its place in `METHODS`, and its value."""
        if self._last is None:
            raise AssertionError("asked only after a reading")
        answering = grading.answering
        if answering:
            value = self._by(self._methods[answering - 1], grading.steps)
            if value is not None:
                return answering, value
        return 0, self._last

    def _made(self, grading: Grading) -> Made | None:
        if self._last is None or self._missing > _PATIENCE:
            return None
        forecasts = [self._by(method, grading.steps) for method in self._methods]
        answering = grading.answering
        answered = forecasts[answering - 1] if answering else self._last
        return (self._last, *forecasts, self._last if answered is None else answered)

    def _by(self, method: Method, steps: int) -> float | None:
        value = method.ahead(steps)
        return None if value is None else self._bounded(value)

    def _bounded(self, value: float) -> float:
        return value if self._least is None or value >= self._least else self._least

    def _refit(self) -> None:
        """Learn from the readings, and set when to do so next: in a long history one reading changes little."""
        readings = self._readings.oldest_first()
        for method in self._methods:
            method.refit(readings, tuple(self._gradings))
        self._bursts = burst_padding(readings)
        self._next_fit += round(max(_FIRST_FIT, len(self._readings) / _FITS_PER_HISTORY) * self._spread)

    def _steps(self, horizon_seconds: float) -> int:
        # A horizon of exactly n readings must not become n + 1 by the last digit of a division.
        return max(1, math.ceil(positive_seconds("horizon_seconds", horizon_seconds) / self.period_seconds - 1e-9))
