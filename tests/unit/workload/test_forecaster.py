# SPDX-License-Identifier: Apache-2.0
"""The forecaster: which method answers, what its error is, and what it does with missing readings."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable

import numpy as np
import pytest

from penstock.errors import ConfigurationError, NotReadyError
from penstock.workload.forecast import AS_NOW, METHODS, Forecast, Forecaster
from penstock.workload.forecast import forecaster as forecaster_module
from penstock.workload.forecast.autoregression import Autoregression
from penstock.workload.forecast.grading import RECENT, Grading
from penstock.workload.forecast.markov_chain import MarkovChain
from penstock.workload.forecast.signature import Signature

T = np.arange(1500)
SINE = 100 + 50 * np.sin(2 * np.pi * T / 72)


def fed(readings: Iterable[float | None], steps: int = 6, **options: float) -> Forecaster:
    """A forecaster with readings every 10 s and one horizon."""
    forecaster = Forecaster(10.0, [10.0 * steps], **options)  # type: ignore[arg-type]
    for value in readings:
        forecaster.update(value)
    return forecaster


def answers(readings: np.ndarray, steps: int) -> tuple[list[Forecast], np.ndarray]:
    """The answer after each reading, and how far off each was; from the 300th on."""
    forecaster = Forecaster(10.0, [10.0 * steps])
    given = []
    for value in readings.tolist():
        forecaster.update(value)
        given.append(forecaster.at(10.0 * steps))
    given = given[300:-steps]
    return given, np.array([abs(f.value - x) for f, x in zip(given, readings[300 + steps :].tolist(), strict=True)])


def test_a_pure_sine_is_forecast_within_one_percent() -> None:
    """A twelfth of a cycle ahead, of every phase, after eight cycles; and from the fifth on no answer is "as now"."""
    given, errors = answers(SINE, 6)
    assert errors[300:].max() < 1.0
    assert AS_NOW not in {forecast.method for forecast in given}
    assert fed(SINE.tolist()).repeats_after_seconds == pytest.approx(720.0, rel=1e-3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("steps", [1, 12])
def test_a_random_walk_answers_as_now(seed: int, steps: int) -> None:
    """Nothing beats "as now" there, so that is the answer in at least 95 of 100 cases, and it costs less than 2 %."""
    walk = 500 + np.cumsum(np.random.default_rng(seed).normal(size=1500))
    given, errors = answers(walk, steps)
    as_now = np.abs(walk[300 + steps :] - walk[300:-steps])
    assert np.mean([forecast.is_as_now for forecast in given]) >= 0.95
    assert errors.mean() <= 1.02 * as_now.mean()


@pytest.mark.parametrize("seed", range(3))
def test_the_answer_is_never_much_worse_than_as_now(seed: int) -> None:
    """Whatever the series does: walk, noise, bursts, a sine that ends, a load that changes its level."""
    rng = np.random.default_rng(seed)
    is_on = np.logical_xor.accumulate(rng.random(1500) < 0.02)
    ends = np.where(T < 900, SINE, 100 + np.cumsum(rng.normal(size=1500)))
    kinds = [
        rng.poisson(np.where(is_on, 200, 20)).astype(float),
        ends,
        np.where(T < 800, 10.0, 500.0) + rng.random(1500),
    ]
    for series in kinds:
        _, errors = answers(series, 6)
        assert errors.mean() <= 1.1 * np.abs(series[306:] - series[300:-6]).mean()


def test_a_method_stops_when_it_no_longer_beats_as_now() -> None:
    """A sine that turns into a random walk: the signature answers, then "as now" does."""
    walk = SINE[-1] + np.cumsum(np.random.default_rng(5).normal(0.0, 8.0, 400))
    forecaster = fed(SINE.tolist())
    assert not forecaster.at(60.0).is_as_now
    for value in walk.tolist():
        forecaster.update(value)
    assert forecaster.at(60.0).is_as_now


def test_after_a_surprise_the_answer_is_as_now() -> None:
    """A jump to a level that was never seen is answered with that level, though methods would go back."""
    noise = np.random.default_rng(4).random(700)
    forecaster = fed((10.0 + noise).tolist())
    assert not forecaster.at(60.0).is_as_now
    forecaster.update(500.0)
    assert forecaster.at(60.0).value == 500.0
    assert min(value for value in forecaster.each(60.0).values() if value is not None) < 250.0


def test_errors_are_those_of_the_forecasts_that_were_made() -> None:
    """On a staircase of 3 up per reading, "as now" is off by 3 x 5, five readings ahead; the trend is forecast."""
    forecaster = fed((3.0 * T[:600]).tolist(), steps=5)
    answer = forecaster.at(50.0)
    assert answer.error_as_now == pytest.approx(15.0)
    assert answer.method == "autoregression"
    assert answer.value == pytest.approx(3.0 * (599 + 5), rel=1e-3)
    assert answer.error_now is not None
    assert answer.error_now < 1.0
    by_name = {error.method: error for error in forecaster.errors(50.0)}
    assert set(by_name) == set(METHODS)
    assert by_name[AS_NOW].error == by_name[AS_NOW].error_as_now == pytest.approx(15.0)


def test_the_band_and_the_padding_hold_what_they_say() -> None:
    """On noise around 100 about eight of ten readings lie in the band, and about nine of ten below the padded value."""
    noise = np.random.default_rng(3).normal(100.0, 10.0, 1500)
    given, _ = answers(noise, 3)
    later = noise[303:]
    inside = [
        f.low <= x <= f.high for f, x in zip(given, later, strict=True) if f.low is not None and f.high is not None
    ]
    covered = [x <= f.padded for f, x in zip(given, later, strict=True)]
    assert len(inside) == len(given)
    assert 0.72 <= np.mean(inside) <= 0.88
    assert 0.84 <= np.mean(covered) <= 0.96
    assert all(f.padding is not None and f.padded == f.value + f.padding for f in given)


def test_missing_readings_are_not_zero() -> None:
    """With a tenth missing the forecast of a sine stays close; as zeros the same readings would put it far off."""
    is_missing = np.random.default_rng(2).random(T.size) < 0.1
    with_holes = fed([None if hole else value for hole, value in zip(is_missing, SINE.tolist(), strict=True)])
    with_zeros = fed([0.0 if hole else value for hole, value in zip(is_missing, SINE.tolist(), strict=True)])
    truth = 100 + 50 * math.sin(2 * math.pi * (T[-1] + 6) / 72)
    answer, zeros = with_holes.at(60.0), with_zeros.at(60.0)
    assert answer.value == pytest.approx(truth, abs=2.0)
    assert answer.error_now is not None
    assert zeros.error_now is not None
    assert answer.error_now < 2.0 < zeros.error_now


def test_without_readings_there_is_no_forecast() -> None:
    """Before the first reading, and after many missing ones, the forecaster says so; one reading is enough to go on."""
    forecaster = Forecaster(10.0, [60.0])
    with pytest.raises(NotReadyError, match="no reading yet"):
        forecaster.at(60.0)
    forecaster.update(5.0)
    first = forecaster.at(60.0)
    assert (first.value, first.method, first.error_now, first.low) == (5.0, AS_NOW, None, None)
    for _ in range(10):
        forecaster.update(None)
    assert forecaster.at(60.0).value == 5.0
    forecaster.update(None)
    with pytest.raises(NotReadyError, match="last 11 readings are missing"):
        forecaster.at(60.0)
    forecaster.update(7.0)
    assert forecaster.at(60.0).value == 7.0


def test_a_horizon_must_be_followed() -> None:
    """An error is known only of forecasts that were made: another horizon is refused, with the fix, until followed."""
    forecaster = fed(SINE[:200].tolist())
    with pytest.raises(ConfigurationError, match=r"120 is not followed \(followed: 60\).*track") as caught:
        forecaster.at(120.0)
    assert caught.value.field == "horizon_seconds"
    forecaster.track(120.0)
    assert forecaster.at(120.0).is_as_now
    for value in SINE[200:900].tolist():
        forecaster.update(value)
    assert forecaster.at(120.0).method != AS_NOW
    assert forecaster.horizons_seconds == (60.0, 120.0)


def test_horizons_are_whole_readings() -> None:
    """65 s are seven readings of 10 s; 0.3 s are three of 0.1 s, whatever the last digit of a division says."""
    assert fed([1.0], steps=6).at(55.1).horizon_seconds == 60.0
    assert Forecaster(10.0, [65.0]).horizons_seconds == (70.0,)
    assert Forecaster(0.1, [0.3]).horizons_seconds == pytest.approx((0.3,))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_reading_that_is_no_number_is_refused(value: float) -> None:
    """A missing reading is None; NaN is a mistake, and leaves everything as it was."""
    forecaster = fed([1.0, 2.0])
    with pytest.raises(ConfigurationError, match="give None for a missing reading"):
        forecaster.update(value)
    assert forecaster.at(60.0).value == 2.0


def test_no_forecast_is_below_the_least() -> None:
    """A falling line is forecast at 0 and not below, if readings cannot be negative."""
    falling = (600.0 - np.arange(600)).tolist()
    assert fed(falling, steps=30, least=0.0).at(300.0).value == 0.0
    assert fed(falling, steps=30).at(300.0).value < -10.0


def test_the_same_readings_give_the_same_forecasts() -> None:
    """No chance is involved: two forecasters agree in every digit, also one that was pickled on the way."""
    noisy = (SINE + np.random.default_rng(1).normal(0.0, 10.0, T.size)).tolist()
    one, other = fed(noisy), fed(noisy[:700])
    other = pickle.loads(pickle.dumps(other))
    for value in noisy[700:]:
        other.update(value)
    assert one.at(60.0) == other.at(60.0)
    assert one.errors(60.0) == other.errors(60.0)


def test_asking_changes_nothing() -> None:
    """A forecaster that was asked after each reading is as one that was never asked."""
    asked = Forecaster(10.0, [60.0])
    for value in SINE.tolist():
        asked.update(value)
        asked.at(60.0)
    assert pickle.dumps(asked) == pickle.dumps(fed(SINE.tolist()))


def test_memory_is_bounded() -> None:
    """After the history is full, thousands of further readings add less than a tenth to a forecaster's size."""
    forecaster = fed(SINE.tolist(), steps=40, history=512)
    before = len(pickle.dumps(forecaster))
    for value in np.tile(SINE, 3).tolist():
        forecaster.update(value)
    assert len(pickle.dumps(forecaster)) < 1.1 * before


def test_few_forecasts_are_under_way_whatever_the_horizon() -> None:
    """Of forecasts 1,000 readings ahead, eight or nine wait for their reading at a time, and 128 errors are kept."""
    grading = Grading(1000)
    waiting = []
    for _ in range(200_000):
        grading.grade(1.0)
        if grading.is_turn():
            grading.make((1.0, None, None, None, 1.0))
        waiting.append(len(grading._under_way))
    assert max(waiting) <= 10
    assert len(grading._errors) == RECENT


def test_graded_forecasts_do_not_fall_in_step_with_the_load() -> None:
    """A period of 8 readings, and one in 8 forecasts graded: every phase is graded all the same."""
    grading = Grading(64)
    phases = set()
    for i in range(4000):
        grading.grade(1.0)
        if grading.is_turn():
            phases.add(i % 8)
            grading.make((1.0, None, None, None, 1.0))
    assert phases == set(range(8))


def test_series_of_different_turns_refit_at_different_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 32 series that began together, at most 8 refit after the same reading once their histories are long."""
    when: list[int] = []
    now = 0
    for method in (Signature, Autoregression, MarkovChain):
        monkeypatch.setattr(method, "refit", lambda *_: None)
    monkeypatch.setattr(forecaster_module, "burst_padding", lambda _: when.append(now))
    many = [Forecaster(1.0, [5.0], history=512, turn=turn) for turn in range(32)]
    for now in range(1500):
        for forecaster in many:
            forecaster.update(float(now % 7))
    late = [at for at in when if at > 1000]
    assert late
    assert max(late.count(at) for at in set(late)) <= 8


def test_an_answer_explains_itself() -> None:
    """Method, both errors and padding are named; an answer "as now" says that no method beats it."""
    walk = 500 + np.cumsum(np.random.default_rng(1).normal(size=600))
    assert "as now, which is off by" in fed(walk.tolist()).at(60.0).explain()
    assert "no method beats it" in fed(walk.tolist()).at(60.0).explain()
    text = fed(SINE.tolist()).at(60.0).explain()
    assert "by signature, which is off by" in text or "by autoregression, which is off by" in text
    assert 'where "as now" is off by' in text
    assert "padding" in text
