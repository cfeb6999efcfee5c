# SPDX-License-Identifier: Apache-2.0
"""Between plans: operators whose backlog comes near a bound get their highest level, as few as will do."""

import math

import pytest

from penstock.errors import ConfigurationError
from penstock.policies.mead.rescue import Rescue

PATHS: dict[tuple[str, ...], float] = {("parser", "counter"): 0.4, ("parser", "matcher"): 0.4}


def test_no_backlog_calls_for_nothing() -> None:
    """Waits of half the bound and less leave the plan alone."""
    assert Rescue().operators(PATHS, {"parser": 0.1, "counter": 0.0, "matcher": 0.1}) == {}


def test_the_longest_queues_are_raised_and_no_more() -> None:
    """Of a path that is late the operator with the longest queue is raised; the rest only if that does not suffice."""
    one = Rescue().operators(PATHS, {"parser": 0.05, "counter": 0.0, "matcher": 0.3})
    assert list(one) == ["matcher"]
    assert "0.35 s on parser > matcher" in one["matcher"]
    both = Rescue().operators(PATHS, {"parser": 0.25, "counter": 0.0, "matcher": 0.3})
    assert set(both) == {"matcher", "parser"}


def test_the_part_of_the_bound_decides() -> None:
    """A wait of 0.3 s of a bound of 0.4 s is late at a half, and not at the whole."""
    waiting = {"parser": 0.0, "counter": 0.0, "matcher": 0.3}
    assert Rescue(0.5).operators(PATHS, waiting)
    assert not Rescue(1.0).operators(PATHS, waiting)


def test_scaled_times_give_the_same_answer() -> None:
    """In another unit of time the same operators are raised."""
    waiting = {"parser": 0.25, "counter": 0.0, "matcher": 0.3}
    scaled = Rescue().operators({p: 1e6 * b for p, b in PATHS.items()}, {n: 1e6 * w for n, w in waiting.items()})
    assert list(scaled) == list(Rescue().operators(PATHS, waiting))


@pytest.mark.parametrize(
    ("field", "arguments"),
    [("bound_part", (0.0, 10.0)), ("bound_part", (1.5, 10.0)), ("every_seconds", (0.5, 0.0)),
     ("every_seconds", (0.5, math.inf)), ("bound_part", (math.nan, 1.0))],
)  # fmt: skip
def test_wrong_settings_are_refused(field: str, arguments: tuple[float, float]) -> None:
    """A part of the bound outside (0, 1] or a period that is no time names the field."""
    with pytest.raises(ConfigurationError, match=field):
        Rescue(*arguments)
