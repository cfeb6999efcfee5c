# SPDX-License-Identifier: Apache-2.0
"""A forecaster on a recorded series: what it would have forecast for each reading, made one horizon before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from penstock.arrivals import CountSeries, Trace
from penstock.errors import ConfigurationError, NotReadyError
from penstock.ports import FloatArray
from penstock.workload.forecast import AS_NOW, METHODS, Forecast, Forecaster

Progress = Callable[[float], object]
MOST_READINGS = 10_000_000
"""More take hours, and most often come of a unit that was not meant."""
FEWEST_READINGS = 100
_SAME, _MOST = 0.05, 0.5
ANSWER = "answer"
"""What the forecaster answered: the method that was best just then, or "as now"."""


@dataclass(frozen=True, slots=True)
class GradedMethod:
    """What a method was worth over a whole series.

    Attributes
    ----------
    method
        One of `penstock.workload.forecast.METHODS`, or "answer".
    error, error_as_now
        Mean absolute error, and that of "as now" over the same readings. None: it never forecast anything.
    answered_share
        The share of the readings for which this method answered.
    """

    method: str
    error: float | None
    error_as_now: float | None
    answered_share: float


@dataclass(frozen=True, eq=False)
class Backtest:
    """Forecasts beside what came. Arrays have one entry per reading; NaN: nothing was known or forecast.

    Attributes
    ----------
    readings
        What came.
    each
        For each method, and for "answer", what it forecast for this reading one horizon before.
    low, high, padded
        The band and the padded value of the answer.
    answered_by
        The place in `METHODS` of the method that answered; -1: there was no answer.
    repeats_after_seconds
        The period that was recognised for most readings of the second half. None: none was.
    last
        The forecast after the last reading. None: there is none.
    """

    period_seconds: float
    horizon_seconds: float
    readings: FloatArray
    each: dict[str, FloatArray]
    low: FloatArray
    high: FloatArray
    padded: FloatArray
    answered_by: np.ndarray[tuple[int], np.dtype[np.int8]]
    repeats_after_seconds: float | None
    last: Forecast | None

    def graded(self, method: str) -> GradedMethod:
        """Return what a method was worth, over all readings for which it forecast something."""
        error = np.abs(self.each[method] - self.readings)
        as_now = np.abs(self.each[AS_NOW] - self.readings)
        both = np.isfinite(error) & np.isfinite(as_now)
        answered = self.answered_by >= 0
        share = 1.0 if method == ANSWER else float((self.answered_by[answered] == METHODS.index(method)).mean())
        if not both.any():
            return GradedMethod(method, None, None, share)
        return GradedMethod(method, float(error[both].mean()), float(as_now[both].mean()), share)

    @property
    def mean(self) -> float:
        """The mean reading, which makes errors relative."""
        return float(np.nanmean(self.readings))

    def too_low_share(self, forecasts: FloatArray) -> float | None:
        """Return for which share of the readings forecasts were too low, where a padding was known."""
        known = np.isfinite(self.padded) & np.isfinite(self.readings)
        return float((forecasts[known] < self.readings[known]).mean()) if known.any() else None

    @property
    def mean_padding(self) -> float | None:
        """The mean padding, where it was known."""
        padding = self.padded - self.each[ANSWER]
        return float(np.nanmean(padding)) if np.isfinite(padding).any() else None


def backtest(
    readings: Iterable[float | None],
    period_seconds: float,
    horizon_seconds: float,
    *,
    history: int = 8192,
    least: float | None = None,
    progress: Progress | None = None,
) -> Backtest:
    """Feed readings to a forecaster one by one, and ask it after each.

    Parameters
    ----------
    readings
        Equally spaced; None where one is missing.
    period_seconds, horizon_seconds, history, least
        As for :class:`penstock.workload.forecast.Forecaster`.
    progress
        Receives which part of the readings is done.
    """
    values = list(readings)
    forecaster = Forecaster(period_seconds, [horizon_seconds], history=history, least=least)
    (horizon,) = forecaster.horizons_seconds
    steps = round(horizon / period_seconds)
    total = len(values)
    each = {name: np.full(total, np.nan) for name in (*METHODS, ANSWER)}
    low, high, padded = (np.full(total, np.nan) for _ in range(3))
    answered_by = np.full(total, -1, dtype=np.int8)
    periods, last = np.full(total, np.nan), None
    for i, value in enumerate(values):
        forecaster.update(value)
        periods[i] = _or_nan(forecaster.repeats_after_seconds)
        try:
            last = forecaster.at(horizon)
        except NotReadyError:
            last = None
            continue
        at = i + steps
        if at < total:
            for name, forecast in forecaster.each(horizon).items():
                each[name][at] = np.nan if forecast is None else forecast
            each[ANSWER][at] = last.value
            low[at], high[at] = _or_nan(last.low), _or_nan(last.high)
            padded[at] = np.nan if last.padding is None else last.padded
            answered_by[at] = METHODS.index(last.method)
        if progress is not None and i % 256 == 0:
            progress(i / total)
    return Backtest(
        period_seconds=period_seconds,
        horizon_seconds=horizon,
        readings=np.array([_or_nan(value) for value in values]),
        each=each,
        low=low,
        high=high,
        padded=padded,
        answered_by=answered_by,
        repeats_after_seconds=_usual(periods[total // 2 :]),
        last=last,
    )


def rates_of(arrivals: Trace | CountSeries, every_seconds: float) -> FloatArray:
    """Return the arrivals per second in each whole period of so many seconds, from the trace's start.

    Raises
    ------
    ConfigurationError
        Counts are of periods that do not fit, or there are too few readings to grade anything, or too many to wait for.
    """
    if isinstance(arrivals, CountSeries):
        together = round(every_seconds / arrivals.period_seconds)
        if together < 1 or abs(together * arrivals.period_seconds - every_seconds) > 1e-6 * every_seconds:
            raise ConfigurationError(
                f"--every: {every_seconds:g} s is not a multiple of {arrivals.period_seconds:g} s, the period of the "
                "counts; give such a multiple",
                field="--every",
            )
        whole = len(arrivals.counts) // together
        counts = arrivals.counts[: whole * together].reshape(whole, together).sum(axis=1)
    else:
        readings = arrivals.duration_seconds / every_seconds
        if readings > MOST_READINGS:
            raise ConfigurationError(
                f"--every: {every_seconds:g} s makes {readings:.2g} readings of {arrivals.name}; give a longer --every "
                f"(at most {MOST_READINGS:,} readings)",
                field="--every",
            )
        whole = int(readings)
        counts = np.diff([arrivals.count_until(i * every_seconds) for i in range(whole + 1)])
    if len(counts) < FEWEST_READINGS:
        raise ConfigurationError(
            f"trace: {arrivals.name}: {len(counts)} readings of {every_seconds:g} s are too few; give a longer trace "
            f"or a shorter --every (at least {FEWEST_READINGS} readings)",
            field="trace",
        )
    rates: FloatArray = counts / every_seconds
    return rates


def _usual(periods: FloatArray) -> float | None:
    """Return the period that most readings agree on. A random load now and then seems to repeat itself."""
    known = periods[np.isfinite(periods)]
    if not known.size:
        return None
    median = float(np.median(known))
    agree = np.count_nonzero(np.abs(known - median) <= _SAME * median)
    return median if agree >= _MOST * periods.size else None


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
