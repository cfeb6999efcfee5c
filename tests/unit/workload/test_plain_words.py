# SPDX-License-Identifier: Apache-2.0
"""A trace in one sentence: usual rate, bursts and burstiness, from traces whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.ports import FloatArray
from penstock.workload.plain_words import LEGEND, words_of_counts, words_of_iats


def poisson(rates: list[float], seed: int = 1) -> FloatArray:
    """Gaps of arrivals whose rate is another one each second."""
    rng = np.random.default_rng(seed)
    times = [i + np.sort(rng.random(rng.poisson(rate))) for i, rate in enumerate(rates)]
    return np.diff(np.concatenate([[0.0], *times]))


def test_bursts_are_found_with_their_rate_length_and_spacing() -> None:
    """Eight seconds of 400 in every forty of 20."""
    counts = ([20] * 32 + [400] * 8) * 25
    rng = np.random.default_rng(1)
    times = np.concatenate([i + np.sort(rng.random(count)) for i, count in enumerate(counts)])
    words = words_of_iats(np.diff(times, prepend=0.0), burstiness=12.3)
    assert words.usual_rate == pytest.approx(20.0, rel=0.1)
    assert words.bursts == 25
    assert words.burst_rate == pytest.approx(400.0, rel=0.02)
    assert words.burst_seconds == pytest.approx(8.0, abs=0.1)
    assert words.burst_every_seconds == pytest.approx(40.0)
    assert str(words).startswith("mostly 20 a second; bursts of 400 a second for about 8 s, every 40 s; a queue sees")
    assert str(words).endswith("12 times as bursty as Poisson")


@pytest.mark.parametrize("rate", [0.002, 0.2, 3.0, 20.0, 3000.0])
def test_poisson_arrivals_are_steady_at_any_rate(rate: float) -> None:
    """Chance is no burst; slow traces are counted over longer intervals."""
    gaps = np.random.default_rng(3).exponential(1 / rate, 20_000)
    words = words_of_iats(gaps, burstiness=1.02)
    assert words.bursts == 0
    assert words.usual_rate == pytest.approx(rate, rel=0.25)
    assert "steady, without bursts" in str(words)
    assert "about as bursty as Poisson" in str(words)


def test_rates_below_one_a_second_are_said_by_the_minute_or_longer() -> None:
    """Nobody thinks in thousandths of a second."""
    assert str(words_of_iats(np.full(5000, 5.0))) == "about 12 a minute, steady, without bursts"


def test_bursts_out_of_silence_are_above_the_mean() -> None:
    """With a median of nothing the mean is what bursts are held against."""
    words = words_of_iats(poisson(([0.0] * 55 + [100.0] * 5) * 20))
    assert words.usual_rate == 0.0
    assert words.bursts == 20
    assert str(words).startswith("mostly nothing; bursts of ")


def test_a_single_burst_has_no_spacing() -> None:
    """Every how long is not known."""
    words = words_of_iats(poisson([10.0] * 60 + [200.0] * 5 + [10.0] * 60))
    assert words.burst_every_seconds is None
    assert "one burst of" in str(words)
    assert "every" not in str(words)


def test_counts_give_what_their_arrivals_give() -> None:
    """Minutes with counts: periods are the intervals."""
    counts = np.array(([600] * 50 + [6000] * 10) * 6)
    words = words_of_counts(counts, 60.0)
    assert (words.bursts, words.usual_rate, words.burst_rate, words.burst_seconds) == (6, 10.0, 100.0, 600.0)
    assert words.burst_every_seconds == 3600.0
    assert str(words) == "mostly 10 a second; bursts of 100 a second for about 10 min, every 60 min"


def test_short_traces_claim_nothing() -> None:
    """Ten arrivals show no bursts; nor do arrivals that are all at one instant."""
    assert "too short to see bursts" in str(words_of_iats(np.full(10, 0.1)))
    assert "too short to see bursts" in str(words_of_iats(np.zeros(10)))
    assert "too short" in str(words_of_counts(np.zeros(3, dtype=int), 1.0))


def test_every_statistic_has_one_line() -> None:
    """The legend names what the outputs show."""
    assert set(LEGEND) == {"SCV", "IDC", "rho"}
    assert not any("\n" in text for text in LEGEND.values())
