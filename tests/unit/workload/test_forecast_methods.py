# SPDX-License-Identifier: Apache-2.0
"""The methods of a forecast, each alone, on series of which the answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.workload.forecast.autoregression import Autoregression
from penstock.workload.forecast.contract import Method
from penstock.workload.forecast.markov_chain import MarkovChain
from penstock.workload.forecast.padding import burst_padding, shortfall_padding
from penstock.workload.forecast.period import find_period
from penstock.workload.forecast.readings import EvenReadings, Readings, carried_forward, interpolated
from penstock.workload.forecast.signature import Signature

RNG = np.random.default_rng(7)
T = np.arange(2000)


def fed(method: Method, readings: np.ndarray, steps: int) -> float | None:
    """What a method forecasts after it took and learnt from all readings; NaN: missing."""
    for value in readings.tolist():
        method.take(None if math.isnan(value) else value)
    method.refit(readings, (steps,))
    return method.ahead(steps)


@pytest.mark.parametrize("period", [6.0, 25.0, 40.5, 97.0, 333.25])
def test_the_period_of_a_sine_is_found(period: float) -> None:
    """Within half a percent, also where it is not a whole number of readings."""
    assert find_period(5 + np.sin(2 * np.pi * T / period)) == pytest.approx(period, rel=5e-3)


@pytest.mark.parametrize("period", [20, 97])
def test_the_period_of_narrow_bursts_is_found(period: int) -> None:
    """Though their spectrum is as strong in the harmonics."""
    bursts = np.where(T % period < period // 10, 100.0, 1.0) + RNG.normal(size=T.size)
    assert find_period(bursts) == pytest.approx(period, rel=2e-3)


def test_a_period_is_found_in_noise_as_large_as_the_load() -> None:
    """The autocorrelation sees through noise."""
    noisy = 10 + np.sin(2 * np.pi * T / 80) + RNG.normal(0.0, 0.7, T.size)
    assert find_period(noisy) == pytest.approx(80, rel=0.02)


def test_a_period_on_a_steep_trend_is_found() -> None:
    """A trend is no low frequency."""
    assert find_period(0.5 * T + 20 * np.sin(2 * np.pi * T / 60)) == pytest.approx(60, rel=0.01)


@pytest.mark.parametrize(
    "readings",
    [np.full(500, 3.0), np.linspace(0.0, 9.0, 500), RNG.normal(size=2000), np.zeros(4), np.empty(0)],
    ids=["constant", "line", "noise", "short", "nothing"],
)
def test_nothing_repeats_itself_where_nothing_does(readings: np.ndarray) -> None:
    """Constants, lines, noise and too few readings have no period."""
    assert find_period(readings) is None


def test_a_likely_period_is_preferred_only_where_it_explains_as_much() -> None:
    """A day is taken for about a day; another period is left as it is."""
    about = 10 + 3 * np.sin(2 * np.pi * T / 201.0) + RNG.normal(size=T.size)
    assert find_period(about, likely=(200.0,)) == 200.0
    sharp = np.where(T % 95 < 10, 100.0, 1.0)
    assert find_period(sharp, likely=(96.0,)) == pytest.approx(95.0)


def test_a_signature_says_what_was_at_the_same_phase() -> None:
    """Seven readings ahead of the 100th of a cycle of 40: the 107th, which is the 27th of a cycle."""
    cycle = RNG.uniform(50.0, 150.0, 40)
    assert fed(Signature(1.0), np.tile(cycle, 6)[:220], 7) == pytest.approx(cycle[(219 + 7) % 40], rel=1e-9)


def test_a_signature_goes_on_with_a_deviation_that_lasts() -> None:
    """A load that lies 30 above its cycle for long is expected to lie above it still."""
    cycle = 100 + 40 * np.sin(2 * np.pi * np.arange(40) / 40)
    readings = np.tile(cycle, 12)
    readings[200:300] += 30.0
    readings[440:] += 30.0
    forecast = fed(Signature(1.0), readings, 4)
    assert forecast is not None
    assert forecast > cycle[(479 + 4) % 40] + 10.0


def test_a_signature_says_nothing_without_a_period() -> None:
    """No period, no forecast."""
    assert fed(Signature(1.0), RNG.normal(size=500), 5) is None


def test_a_signature_bears_missing_readings_but_not_too_many() -> None:
    """With a tenth missing the cycle is known; with two fifths missing nothing is said."""
    readings = 100 + 50 * np.sin(2 * np.pi * T / 50)
    truth = 100 + 50 * math.sin(2 * math.pi * (T[-1] + 5) / 50)
    holes = readings.copy()
    holes[RNG.random(T.size) < 0.1] = np.nan
    assert fed(Signature(1.0), holes, 5) == pytest.approx(truth, abs=2.0)
    holes[RNG.random(T.size) < 0.4] = np.nan
    assert fed(Signature(1.0), holes, 5) is None


def test_autoregression_goes_on_along_a_line() -> None:
    """A line with slope 2 is 2 x 15 higher 15 readings later."""
    assert fed(Autoregression(), 7.0 + 2.0 * np.arange(600), 15) == pytest.approx(7.0 + 2.0 * (599 + 15), rel=1e-3)


def test_autoregression_forecasts_a_sine() -> None:
    """Within 5 % of the amplitude, a sixth of a cycle ahead."""
    forecast = fed(Autoregression(), 100 + 50 * np.sin(2 * np.pi * T / 60), 10)
    assert forecast == pytest.approx(100 + 50 * math.sin(2 * math.pi * (T[-1] + 10) / 60), abs=2.5)


def test_autoregression_forecasts_the_level_of_noise() -> None:
    """One high reading in noise around 100 says nothing of the next."""
    readings = RNG.normal(100.0, 10.0, 2000)
    readings[-1] = 140.0
    assert fed(Autoregression(), readings, 1) == pytest.approx(100.0, abs=6.0)


def test_autoregression_stays_near_what_was_seen() -> None:
    """However odd the readings, a forecast lies at most their range beyond them."""
    readings = np.concatenate([np.full(200, 1.0), 1.0 + np.exp(np.arange(40) / 3.0)])
    forecast = fed(Autoregression(), readings, 30)
    assert forecast is not None
    assert forecast <= 2 * readings.max()


def test_a_markov_chain_knows_whether_a_level_rises_or_falls() -> None:
    """0, 1, 2, 1, 0, 1, 2, 1: what follows 1 depends on what came before it."""
    series = np.tile([0.0, 1.0, 2.0, 1.0], 100)
    assert fed(MarkovChain(), series[:398], 1) == pytest.approx(2.0, abs=0.1)  # ... 2, 1, 0, 1 -> 2
    assert fed(MarkovChain(), series[:400], 1) == pytest.approx(0.0, abs=0.1)  # ... 0, 1, 2, 1 -> 0


def test_a_markov_chain_tends_to_the_mean() -> None:
    """On and off with 1/20 a change: after 200 readings both are as likely, whatever is now."""
    is_on = np.logical_xor.accumulate(RNG.random(2000) < 0.05)
    forecast = fed(MarkovChain(), np.where(is_on, 10.0, 0.0), 200)
    assert forecast == pytest.approx(10.0 * is_on.mean(), abs=0.5)


def test_a_missing_reading_is_no_level_of_the_chain() -> None:
    """After a missing reading the pair is broken; one further reading is enough to go on."""
    chain = MarkovChain()
    series = np.tile([0.0, 5.0], 200)
    assert fed(chain, series, 1) == pytest.approx(0.0, abs=0.1)
    chain.take(None)
    assert chain.ahead(1) is None
    chain.take(0.0)
    assert chain.ahead(1) == pytest.approx(5.0, abs=0.2)


@pytest.mark.parametrize("method", [Signature(1.0), Autoregression(), MarkovChain()], ids=lambda m: str(m.name))
def test_no_method_learns_from_nothing(method: Method) -> None:
    """Where all readings are missing there is no forecast."""
    assert fed(method, np.full(300, np.nan), 3) is None


def test_padding_covers_nine_of_ten() -> None:
    """Of the errors 1 to 100 one of ten lies above 91; where all forecasts were too high there is no padding."""
    assert shortfall_padding([float(i) for i in range(1, 101)]) == 91.0
    assert shortfall_padding([-1.0, -2.0, -3.0]) == 0.0


def test_bursts_are_padded_and_slow_changes_are_not() -> None:
    """The fast part of the readings counts: noise of size 10 gives 1.28 times as much, a slow sine almost nothing."""
    noise = np.mean([burst_padding(RNG.normal(0.0, 10.0, 128)) for _ in range(50)])
    assert noise == pytest.approx(12.8 * math.sqrt(0.8), rel=0.1)  # four fifths of the frequencies are left
    assert burst_padding(100 + 50 * np.sin(2 * np.pi * np.arange(128) / 64)) < 1.0


def test_readings_keep_the_newest_in_order() -> None:
    """A ring of 4 that took 6 has the last 4, oldest first."""
    readings = Readings(4)
    for value in range(6):
        readings.append(float(value))
    assert readings.oldest_first().tolist() == [2.0, 3.0, 4.0, 5.0]
    assert len(readings) == 4


def test_missing_readings_are_filled_from_known_ones() -> None:
    """Carried forward, or along a line between neighbours; never with zero."""
    nan = math.nan
    holes = np.array([nan, 4.0, nan, nan, 10.0, nan])
    assert carried_forward(holes).tolist() == [4.0, 4.0, 4.0, 4.0, 10.0, 10.0]
    assert interpolated(holes).tolist() == [4.0, 4.0, 6.0, 8.0, 10.0, 10.0]


def test_values_at_any_times_become_equally_spaced_readings() -> None:
    """The mean of each period that has ended; a silent period is None, and a long silence is cut short."""
    even = EvenReadings(10.0, most=5)
    assert even.feed(100.0, 1.0) == []
    assert even.feed(109.0, 3.0) == []
    assert even.feed(135.0, None) == [2.0, None, None]
    assert even.feed(1e9, 4.0) == [None] * 5
    with pytest.raises(ConfigurationError, match="in the order of their times"):
        even.feed(5.0, 1.0)
