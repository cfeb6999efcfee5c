# SPDX-License-Identifier: Apache-2.0
"""The K out of N method."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigurationError
from penstock.measuring.convergence import Convergence


def test_rates_that_grow_have_not_converged() -> None:
    """A throughput that rises by more than delta from batch to batch is not steady, however long it is watched."""
    rising = [100.0 * 1.06**i for i in range(20)]
    assert not Convergence().is_reached(rising)
    assert Convergence(within=0.07).is_reached(rising)


def test_one_of_the_latest_may_be_far_off() -> None:
    """With K = 4 of N = 5, one of the five comparisons may fail, and two may not."""
    assert Convergence().is_reached([100.0, 101.0, 100.0, 99.0, 100.0, 150.0])
    # An outlier in the middle is far from the one before it, and the next is far from the outlier.
    assert not Convergence().is_reached([100.0, 101.0, 150.0, 100.0, 101.0, 100.0])


def test_what_lies_further_back_does_not_count() -> None:
    """Only the latest N rates are looked at: a slow start is forgotten."""
    slow_start = [10.0, 40.0, 90.0]
    assert Convergence().is_reached([*slow_start, 100.0, 101.0, 100.0, 99.0, 100.0])
    assert not Convergence().is_reached([*slow_start, 100.0, 101.0])


def test_fewer_rates_than_the_window_are_too_few() -> None:
    """Four equal rates are not five, and of five the first has none before it to agree with."""
    assert not Convergence().is_reached([100.0] * 4)
    assert Convergence().is_reached([100.0] * 5)
    assert not Convergence(agreeing=5).is_reached([100.0] * 5)
    assert Convergence(agreeing=5).is_reached([100.0] * 6)


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"agreeing": 6}, "agreeing"), ({"window": 1}, "window"), ({"within": 0.0}, "within"),
     ({"at_most_seconds": 0.0}, "at_most_seconds")],
)  # fmt: skip
def test_impossible_settings_are_refused(changed: dict[str, float], field: str) -> None:
    """What could never converge, or always would, is an error that names its field."""
    with pytest.raises(ConfigurationError, match=field):
        Convergence(**changed)  # type: ignore[arg-type]
