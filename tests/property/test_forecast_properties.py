# SPDX-License-Identifier: Apache-2.0
"""What holds for every series of readings, whatever they are."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.workload.forecast import METHODS, Forecaster

_READING = st.none() | st.floats(-1e9, 1e9) | st.sampled_from([0.0, 1.0, 1e-300, 5.0])
_PIECE = st.tuples(st.lists(_READING, min_size=1, max_size=40), st.integers(1, 12))


@settings(max_examples=60)
@given(pieces=st.lists(_PIECE, min_size=1, max_size=6), steps=st.integers(1, 40), history=st.integers(64, 300))
def test_every_forecast_is_a_number_with_its_method(
    pieces: list[tuple[list[float | None], int]], steps: int, history: int
) -> None:
    """Finite, inside its own band's order, with a padding of at least 0; "as now" is the last known reading."""
    forecaster = Forecaster(1.0, [steps], history=history)
    last: float | None = None
    missing = 0
    for piece, times in pieces:
        for value in piece * times:
            forecaster.update(value)
            last, missing = (last, missing + 1) if value is None else (value, 0)
    if last is None or missing > 10:
        return
    answer = forecaster.at(steps)
    assert math.isfinite(answer.value)
    assert answer.method in METHODS
    assert answer.padding is None or answer.padding >= 0.0
    if answer.low is not None and answer.high is not None:
        assert answer.low <= answer.high
    if answer.is_as_now:
        assert answer.value == last
    else:
        assert answer.error_now is not None
        assert answer.error_as_now is not None
        assert answer.error_now < answer.error_as_now


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    smooth=st.integers(1, 20),
    scale=st.sampled_from([0.5, 2.0, 1024.0]),
    steps=st.integers(1, 10),
)
def test_forecasts_do_not_depend_on_the_unit(seed: int, smooth: int, scale: float, steps: int) -> None:
    """Readings in another unit give the same method, and the same forecast in that unit."""
    noise = np.random.default_rng(seed).gamma(2.0, 50.0, 400)
    one, other = Forecaster(1.0, [steps]), Forecaster(1.0, [steps])
    for value in np.convolve(noise, np.ones(smooth) / smooth, "valid").tolist():
        one.update(value)
        other.update(scale * value)
    first, second = one.at(steps), other.at(steps)
    assert first.method == second.method
    assert math.isclose(scale * first.value, second.value, rel_tol=1e-6)
