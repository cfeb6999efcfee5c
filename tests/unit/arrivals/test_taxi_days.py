# SPDX-License-Identifier: Apache-2.0
"""Two days of taxi rides."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.arrivals.shape_text import parse_shape
from penstock.arrivals.shapes import Shape
from penstock.arrivals.taxi_days import TaxiDays
from penstock.errors import ConfigurationError


def by_minute(variant: int = 0) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The rate in each minute of 288."""
    shape = TaxiDays(10.0, 288 * 60.0, variant)
    return np.diff([shape.cumulative(60.0 * minute) for minute in range(289)]) / 60.0


@pytest.mark.parametrize("variant", range(6))
def test_it_rises_and_falls_when_the_paper_says(variant: int) -> None:
    """Strong rises after 30 and 180 min, small falls at 100 and 220, strong ones after 120 and 270."""
    rate = by_minute(variant)
    assert rate.mean() == pytest.approx(10.0, rel=1e-6)
    for rise in (30, 180):
        assert rate[rise + 18] > 3.0 * rate[rise]
    for fall, minutes in ((120, 30), (270, 17)):
        assert rate[fall + minutes] < 0.7 * rate[fall - 2]
    if variant == 0:
        for dip in (100, 220):
            assert rate[dip + 5] < 0.9 * rate[dip - 2]


def test_variants_differ_and_come_again() -> None:
    """Seeds of a comparison are days like each other, and the same number is the same day."""
    assert not np.allclose(by_minute(1), by_minute(2))
    assert np.array_equal(by_minute(3), by_minute(3))


def test_it_is_written_as_text() -> None:
    """And can be sampled, as every shape."""
    shape = parse_shape("taxi-days:rate=170/s,duration=288m,variant=3")
    assert shape == TaxiDays(170.0, 17280.0, 3)
    assert isinstance(shape, Shape)
    assert parse_shape("sampled:taxi-days:rate=2,duration=1m,seed=1").total > 50


def test_a_variant_below_zero_is_refused() -> None:
    """The message names the field."""
    with pytest.raises(ConfigurationError, match="variant"):
        TaxiDays(1.0, 60.0, -1)
