# SPDX-License-Identifier: Apache-2.0
"""A forecaster played a recorded series: forecasts lie at the readings they were made for, and pictures show them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from penstock.arrivals import CountSeries, Trace
from penstock.errors import ConfigurationError
from penstock.evaluation.forecast_backtest import ANSWER, backtest, rates_of
from penstock.evaluation.forecast_pictures import forecast_picture
from penstock.workload.forecast import AS_NOW, METHODS

T = np.arange(700)
SINE = 100 + 50 * np.sin(2 * np.pi * T / 60)


def test_a_forecast_lies_at_the_reading_it_was_made_for() -> None:
    """ "As now" five readings ahead is the series five readings later, and the answer of a sine is near the sine."""
    result = backtest(SINE.tolist(), 10.0, 50.0)
    assert np.isnan(result.each[AS_NOW][:5]).all()
    assert np.array_equal(result.each[AS_NOW][5:], SINE[:-5])
    assert np.abs(result.each[ANSWER][400:] - SINE[400:]).max() < 2.0
    assert result.repeats_after_seconds == pytest.approx(600.0, rel=1e-3)


def test_errors_are_over_the_same_readings_as_those_of_as_now() -> None:
    """A method that began late is compared with "as now" from then on; shares of the answers sum to 1."""
    result = backtest(SINE.tolist(), 10.0, 50.0)
    signature = result.graded("signature")
    begun = np.isfinite(result.each["signature"])
    assert 0 < begun.sum() < 650
    assert signature.error_as_now == pytest.approx(np.abs(result.each[AS_NOW] - SINE)[begun].mean())
    assert sum(result.graded(method).answered_share for method in METHODS) == pytest.approx(1.0)
    assert result.graded(AS_NOW).error == result.graded(AS_NOW).error_as_now


def test_a_load_that_stops_repeating_itself_does_not_repeat_itself() -> None:
    """The period must be known for most of the second half."""
    walk = SINE[:350].tolist() + (100 + np.cumsum(np.random.default_rng(2).normal(0.0, 9.0, 900))).tolist()
    assert backtest(walk, 10.0, 50.0).repeats_after_seconds is None


def test_missing_readings_stay_missing() -> None:
    """They are NaN beside the forecasts, and count in no error."""
    readings: list[float | None] = [float(value) for value in SINE]
    readings[300:330] = [None] * 30
    result = backtest(readings, 10.0, 50.0)
    assert np.isnan(result.readings[300:330]).all()
    assert np.isnan(result.each[ANSWER][316:335]).all()  # nothing is forecast after ten missing ones in a row
    graded = result.graded(ANSWER)
    assert graded.error is not None
    assert math.isfinite(graded.error)


def test_arrivals_become_rates() -> None:
    """Arrivals are counted by period; counts are summed over whole multiples of theirs, and the rest is left out."""
    times = np.repeat(np.arange(100), 2) * 5.0 + 1.0
    assert rates_of(Trace(times), 4.9).shape == (101,)
    assert rates_of(Trace(np.arange(1, 1001) * 0.5), 5.0).tolist() == [2.0] * 100
    counts = CountSeries([60, 180] * 150 + [1], 60.0)
    assert rates_of(counts, 120.0).tolist() == [2.0] * 150
    with pytest.raises(ConfigurationError, match="--every: 90 s is not a multiple of 60 s"):
        rates_of(counts, 90.0)
    with pytest.raises(ConfigurationError, match=r"20 readings of 5 s are too few; .* shorter --every"):
        rates_of(Trace(np.arange(1, 101)), 5.0)
    with pytest.raises(ConfigurationError, match=r"--every: 1e-300 s makes 1e\+302 readings .* longer --every"):
        rates_of(Trace(np.arange(1, 101)), 1e-300)


@pytest.mark.parametrize(
    "readings",
    [SINE, np.zeros(200), 5.0 + np.random.default_rng(1).random(150), np.tile(SINE, 5), np.where(T % 50 < 5, 9.0, 0.0)],
    ids=["sine", "nothing", "noise", "long", "bursts"],
)
def test_every_kind_of_series_can_be_drawn(readings: np.ndarray) -> None:
    """Also one that is always 0, for which no error is relative to anything."""
    assert forecast_picture(backtest(readings.tolist(), 10.0, 60.0), "title").startswith(b"\x89PNG")


def test_the_picture_names_every_method_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The legend of the errors has "as now", each method that forecast something, and what was answered."""
    drawn: list[Figure] = []
    save = Figure.savefig

    def kept(self: Figure, *args: object, **how: object) -> None:
        drawn.append(self)
        save(self, *args, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Figure, "savefig", kept)
    forecast_picture(backtest(SINE.tolist(), 10.0, 50.0))
    legend = drawn[0].axes[2].get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert [label.rsplit(" ", 2)[0] for label in labels] == [
        '"as now"', "signature", "autoregression", "markov chain", "the forecast",
    ]  # fmt: skip
