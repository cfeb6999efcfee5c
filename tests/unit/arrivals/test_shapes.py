# SPDX-License-Identifier: Apache-2.0
"""Shapes: counts against hand-computed areas, times against counts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from penstock.arrivals import Arrivals, Constant, Periodic, Sampled, Shape, Steps
from penstock.errors import ConfigurationError

SHAPES: list[Shape] = [
    Constant(7.0, 13.0),
    Constant(0.1, 30.0),
    Periodic(base=5.0, peak=50.0, period_seconds=6.0, width_seconds=2.0, duration_seconds=20.0),
    Periodic(base=0.0, peak=50.0, period_seconds=6.0, width_seconds=2.0, duration_seconds=20.0),
    Periodic(base=50.0, peak=0.0, period_seconds=6.0, width_seconds=6.0, duration_seconds=20.0),
    Periodic(base=5.0, peak=50.0, period_seconds=6.0, width_seconds=2.0, duration_seconds=20.0, smooth=False),
    Steps(((1.0, 10.0), (2.0, 0.0), (0.5, 200.0)), 11.0),
    Steps.once([(3.0, 0.0), (1.0, 10.0), (5.0, 0.0)]),
]


@pytest.mark.parametrize("shape", [*SHAPES, *(Sampled(shape, seed=4) for shape in SHAPES)], ids=repr)
def test_counts_are_the_number_of_times(shape: Arrivals) -> None:
    """At any moment the count is exactly the number of times at or before it, and times never fall."""
    times = shape.times(0, shape.total)
    assert np.all(np.diff(times) >= 0)
    assert times[0] >= 0
    assert times[-1] <= shape.duration_seconds
    for t in [*times[:: max(1, len(times) // 200)], *np.linspace(-1, shape.duration_seconds + 1, 100)]:
        assert shape.count_until(float(t)) == np.searchsorted(times, t, side="right")


def test_a_constant_rate_is_evenly_spaced() -> None:
    """At 4 records per second a record arrives every quarter of a second."""
    shape = Constant(4.0, 2.5)
    assert shape.total == 10
    assert shape.times(2, 5).tolist() == [0.75, 1.0, 1.25]


def test_totals_are_the_areas_under_the_rates() -> None:
    """Totals agree with areas worked out by hand."""
    # 0.1/s for 30 s, although 0.1 is not a double.
    assert SHAPES[1].total == 3
    # A raised cosine covers half its box: 6 s x 5/s + 2 s x 45/s / 2 = 75 per period; 3 periods and 2 s of base.
    assert SHAPES[2].total == 3 * 75 + 10
    # An edge covers the whole box: 30 + 90 per period; 3 periods and 2 s of base.
    assert SHAPES[5].total == 3 * 120 + 10
    # 10 + 0 + 100 in 3.5 s; three rounds are 10.5 s, and half a second at 10/s is left.
    assert SHAPES[6].total == 3 * 110 + 5


def test_the_peak_is_in_the_middle_of_the_period() -> None:
    """Within one period the smooth rate is symmetric and highest in the middle."""
    shape = Periodic(base=0.0, peak=1000.0, period_seconds=10.0, width_seconds=4.0, duration_seconds=10.0)
    assert shape.total == 2000
    assert shape.count_until(3.0) == 0
    assert shape.count_until(5.0) == 1000
    assert shape.times(1999, 2000)[0] == pytest.approx(7.0)
    gaps = np.diff(shape.times(0, shape.total))
    assert gaps.min() == pytest.approx(1 / 1000, rel=1e-3)


def test_records_do_not_wait_through_silence() -> None:
    """A record that completes the count before a silent piece arrives at the silence's start, not its end."""
    shape = Steps(((1.0, 10.0), (5.0, 0.0)), 12.0)
    assert shape.times(9, 11).tolist() == [1.0, 6.1]
    # 0.1 s at 30/s are 3.0000000000000004 records of area or a little less, depending on the sums before.
    shape = Steps(((0.3, 10.0), (0.1, 30.0), (5.0, 0.0)), 60.0)
    assert shape.times(5, 6)[0] == pytest.approx(0.4)
    assert shape.times(59, 60)[0] == pytest.approx(9 * 5.4 + 0.4)


@pytest.mark.parametrize("start", [-1, 85, 92])
def test_ranges_outside_are_refused(start: int) -> None:
    """A range that leaves the shape's records raises IndexError."""
    with pytest.raises(IndexError):
        SHAPES[0].times(start, start + 10)


@pytest.mark.parametrize(
    ("build", "field"),
    [
        (lambda: Constant(math.nan, 1.0), "rate"),
        (lambda: Constant(-1.0, 1.0), "rate"),
        (lambda: Constant(0.0, 1.0), "duration"),
        (lambda: Constant(1.0, math.inf), "duration"),
        (lambda: Constant(1.0, 0.5), "duration"),
        (lambda: Periodic(1.0, 2.0, 0.0, 1.0, 9.0), "period"),
        (lambda: Periodic(1.0, 2.0, 5.0, 6.0, 9.0), "width"),
        (lambda: Periodic(1.0, math.inf, 5.0, 2.0, 9.0), "peak"),
        (lambda: Steps((), 1.0), "steps"),
        (lambda: Steps(((0.0, 1.0),), 1.0), "steps"),
        (lambda: Steps.once([(1.0, -1.0)]), "steps"),
        (lambda: Sampled(Constant(1.0, 9.0), seed=-1), "seed"),
    ],
)
def test_bad_parameters_name_their_field(build: type[Shape], field: str) -> None:
    """A rate, duration, width or seed that cannot be is refused by name."""
    with pytest.raises(ConfigurationError) as caught:
        build()
    assert caught.value.field == field
