# SPDX-License-Identifier: Apache-2.0
"""Back pressure at an operator's input."""

from __future__ import annotations

import pytest

from penstock.monitor.pressure import PressureGauge, busy_fraction
from penstock.records import BatchProgress


def gauge(*backlogs: int, window: float = 15.0) -> PressureGauge:
    """A gauge that saw these backlogs, five seconds apart."""
    found = PressureGauge(window)
    for number, backlog in enumerate(backlogs):
        found.add(5.0 * number, backlog)
    return found


def a_batch(started_at: float, ended_at: float) -> BatchProgress:
    """A batch of ten rows."""
    return BatchProgress("operator", "query", "run", 0, started_at, ended_at, 10, {}, ())


def test_an_operator_that_falls_behind_is_under_pressure() -> None:
    """100 records a second are done and 50 more wait each second: in a minute a record waits for 37.5 s, W is 15 s."""
    found = gauge(0, 250, 500, 750).pressure(1.0, 100.0, 2.0)
    assert found == pytest.approx(37.5 / (37.5 + 15.0))


def test_a_standing_backlog_that_shrinks_fast_is_none() -> None:
    """What will be gone within the horizon presses nobody: more executors would come too late to help."""
    assert gauge(3000, 2500, 2000, 1500).pressure(1.0, 200.0, 2.0) == 0.0


def test_a_standing_backlog_that_stays_presses() -> None:
    """Records wait for 30 s, twice what is harmless."""
    assert gauge(3000, 3000, 3000, 3000).pressure(1.0, 100.0, 2.0) == pytest.approx(2.0 / 3.0)


def test_a_calm_operator_is_under_little_pressure() -> None:
    """Two batches' worth of records are always under way."""
    found = gauge(200, 190, 210, 200).pressure(0.6, 100.0, 1.0)
    assert found is not None
    assert found < 0.1


def test_long_batches_are_harmless_by_themselves() -> None:
    """With batches of 30 s a record waits for up to a minute while the query keeps up."""
    found = gauge(3000, 3000, 3000, 3000).pressure(1.0, 100.0, 30.0)
    assert found is not None
    assert found <= 0.5


def test_an_operator_that_stands_still_is_under_no_pressure() -> None:
    """A restart lets records wait, and no executor would change that."""
    assert gauge(0, 500, 1000, 1500).pressure(0.0, None, None) == 0.0


@pytest.mark.parametrize(
    ("busy", "processed", "seen"), [(None, 100.0, (0, 1, 2, 3)), (1.0, None, (0, 1, 2, 3)), (1.0, 100.0, (5,))]
)
def test_what_is_not_known_is_no_pressure_of_zero(
    busy: float | None, processed: float | None, seen: tuple[int, ...]
) -> None:
    """Without busy time, throughput or growth the answer is None."""
    assert gauge(*seen).pressure(busy, processed, 1.0) is None


def test_a_set_clock_forgets_growth() -> None:
    """Differences across it would be nonsense."""
    found = gauge(0, 250, 500, 750)
    found.clear()
    assert found.growth() is None


def test_busy_is_the_part_of_the_time_in_which_batches_ran() -> None:
    """Up to the end of the last batch that is known; what began before the time counts from its start."""
    assert busy_fraction([a_batch(-5.0, 5.0), a_batch(10.0, 20.0)], 0.0, 30.0) == pytest.approx(0.75)
    assert busy_fraction([], 0.0, 30.0) == 0.0
