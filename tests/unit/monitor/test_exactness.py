# SPDX-License-Identifier: Apache-2.0
"""Where latency stops being exact, and where it is exact again."""

from __future__ import annotations

from penstock.monitor.exactness import ExactnessWatch
from penstock.records import LatencySummary, Observation
from penstock.testing import an_observation


def seen(at: float, why: str | None) -> Observation:
    """An observation whose latency is exact (an empty reason), is not, or (None) is not known."""
    latency = None if why is None else LatencySummary(9, 1.0, 1.0, 1.0, 1.0, 1.0, not why, why)
    return an_observation(operator="op", at=at, latency=latency)


def test_each_change_is_given_once_with_its_moment_and_reason() -> None:
    """What goes on as it was, and what is not known, is no change."""
    watch = ExactnessWatch()
    found = [watch.take(seen(*look)) for look in ((1.0, ""), (2.0, "away"), (3.0, "away"), (4.0, None), (5.0, ""))]
    changes = [change for change in found if change is not None]
    assert [(c.at, c.is_exact, c.why) for c in changes] == [(2.0, False, "away"), (5.0, True, "")]
    assert changes[0].was_known
    assert str(changes[0]) == "op: latency is not exact from here on: away"
    assert str(changes[1]) == "op: latency is exact again"


def test_a_run_that_is_never_exact_says_so_at_its_first_latency() -> None:
    """A source without arrival times is named once."""
    watch = ExactnessWatch()
    first = watch.take(seen(1.0, "the source does not say"))
    assert first is not None
    assert (first.why, first.was_known) == ("the source does not say", False)
    assert watch.take(seen(2.0, "the source does not say")) is None
