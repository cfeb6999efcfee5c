# SPDX-License-Identifier: Apache-2.0
"""Whether a metric was beyond a value for a time."""

from __future__ import annotations

import math

import pytest
from tests.unit.policies.rules.rule_cases import bad_look, queue_above, queue_below, queue_history

from penstock.policies.rules.readings import (
    Series,
    Window,
    expected_readings,
    reach,
    reading_of,
    statistic_of,
    window_held,
)
from penstock.records import Observation
from penstock.rules.nodes import Comparison, MetricTrigger
from penstock.testing import an_observation


def window(trigger: MetricTrigger, history: list[Observation], every: float = 1.0) -> Window | None:
    """The trigger over the history of its metric, at the newest look."""
    series = Series(reach(trigger.for_seconds, every))
    for seen in history:
        series.add(seen.at, reading_of(seen, trigger.metric))
    return window_held(trigger, series, history[-1].at, every)


def test_it_holds_after_its_whole_time_and_not_a_reading_before() -> None:
    """Above 300 for 30 s needs 31 readings, a second apart, that span 30 s."""
    assert window(queue_above(300, 30.0), queue_history([100] + [301] * 30)) is None
    found = window(queue_above(300, 30.0), queue_history([100] + [301] * 31))
    assert found is not None
    assert (found.readings, found.expected, found.seconds) == (31, 31, 30.0)


def test_it_holds_again_at_every_look_while_the_condition_stays() -> None:
    """A condition that stays true goes on holding: it is the level that counts, not the change."""
    history = queue_history([301] * 100)
    assert all(window(queue_above(300, 30.0), history[:end]) is not None for end in range(31, 101))


def test_one_reading_on_the_other_side_starts_the_time_anew() -> None:
    """A single reading below the value within the time keeps the trigger from holding."""
    values = [301] * 40
    values[-20] = 300  # at the value is not above it
    assert window(queue_above(300, 30.0), queue_history(values)) is None


def test_one_reading_does_not_fire_a_trigger_with_a_time() -> None:
    """A start with a single reading beyond the value is less than was asked for."""
    assert window(queue_above(300, 5.0), queue_history([10**6])) is None


def test_without_a_time_the_newest_reading_decides() -> None:
    """A trigger without a time looks at the newest reading alone."""
    assert window(queue_above(300), queue_history([0, 0, 301])) is not None
    assert window(queue_above(300), queue_history([301, 301, 300])) is None


@pytest.mark.parametrize(("missing", "holds"), [(0, True), (3, True), (4, False)])
def test_a_tenth_of_the_readings_may_be_missing(missing: int, holds: bool) -> None:
    """Of 31 expected readings 28 are enough and 27 are not."""
    values: list[int | None] = [301] * 40
    values[-25 : -25 + missing] = [None] * missing
    assert (window(queue_above(300, 30.0), queue_history(values)) is not None) is holds


def test_the_time_has_to_be_covered_from_its_start() -> None:
    """With 29 readings the count would do, but nothing is known of the first two seconds."""
    assert window(queue_above(300, 30.0), queue_history([301] * 29)) is None


def test_a_missing_reading_at_the_start_is_stood_for_by_the_one_before() -> None:
    """Where the reading at the start is missing, the one before it has to be beyond the value too."""
    beyond: list[int | None] = [301, None, *[301] * 30]
    assert window(queue_above(300, 30.0), queue_history(beyond)) is not None
    assert window(queue_above(300, 30.0), queue_history([299, *beyond[1:]])) is None


def test_a_look_without_good_data_is_no_reading() -> None:
    """What a look says whose data are not good counts as missing, however high it is."""
    history = queue_history([301] * 40)
    for place in range(-20, -16):
        history[place] = bad_look(history[place].at)
    assert window(queue_above(300, 30.0), history) is None


def test_nothing_holds_at_a_look_without_a_reading() -> None:
    """Where the newest look does not know the metric, nothing is decided upon, whatever was before."""
    assert window(queue_above(300, 30.0), queue_history([*[301] * 40, None])) is None


def test_a_reading_that_is_no_number_is_none() -> None:
    """NaN counts as missing."""
    history = [an_observation(at=1000.0, utilisation=math.nan)]
    assert window(MetricTrigger("cpu_utilisation", Comparison.BELOW, 2.0), history) is None


def test_a_clock_that_was_set_back_cuts_the_time() -> None:
    """Readings from before the clock was set back do not join those after it."""
    history = [*queue_history([301] * 40, until=5000.0), *queue_history([301] * 10, until=1000.0)]
    assert window(queue_above(300, 30.0), history) is None


def test_below_is_strict_too() -> None:
    """A queue of 1 is not below 1."""
    assert window(queue_below(1, 2.0), queue_history([0, 0, 0])) is not None
    assert window(queue_below(1, 2.0), queue_history([0, 1, 0])) is None


def test_the_interval_of_the_loop_says_how_many_readings_there_are() -> None:
    """With a look every 5 s, 30 s have 7 readings."""
    assert expected_readings(30.0, 5.0) == 7
    assert window(queue_above(300, 30.0), queue_history([301] * 7, every=5.0), every=5.0) is not None
    # The same seven readings are far too few where one was to come each second.
    assert window(queue_above(300, 30.0), queue_history([301] * 7, every=5.0), every=1.0) is None


@pytest.mark.parametrize(
    ("statistic", "value"), [("mean", 3.0), ("max", 9.0), ("min", 0.0), ("p50", 2.0), ("p90", 6.6), ("p99.9", 8.976)]
)
def test_statistics(statistic: str, value: float) -> None:
    """Mean, ends and percentiles of the readings."""
    assert statistic_of([0.0, 1.0, 2.0, 3.0, 9.0], statistic) == pytest.approx(value)


def test_a_statistic_forgives_an_outlier() -> None:
    """One reading below the value does not keep the mean from being above it."""
    values = [400] * 31
    values[15] = 0
    assert window(queue_above(300, 30.0), queue_history(values)) is None
    found = window(queue_above(300, 30.0, statistic="mean"), queue_history(values))
    assert found is not None
    assert found.value == pytest.approx(30 * 400 / 31)


def test_a_statistic_needs_its_whole_time_too() -> None:
    """The mean over 30 s is not taken of the first few readings."""
    assert window(queue_above(300, 30.0, statistic="mean"), queue_history([400] * 30)) is None
