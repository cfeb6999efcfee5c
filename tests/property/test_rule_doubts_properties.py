# SPDX-License-Identifier: Apache-2.0
"""What the checker claims is so: examples satisfy their triggers, contradictions have none, what is implied holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.property.rule_strategies import time_triggers

from penstock.rules.examples import History, Stretch, example
from penstock.rules.intervals import contradict, implies
from penstock.rules.nodes import Comparison, MetricTrigger, TimeTrigger
from penstock.rules.periods import common_moment, holds, imply, never_hold

_VALUES = st.sampled_from([0.0, 1.0, 2.0, 5.0, 10.0])
_TRIGGERS = st.builds(
    MetricTrigger,
    st.sampled_from(["queue_length"]),
    st.sampled_from(Comparison),
    _VALUES,
    st.sampled_from([10.0, 30.0, 60.0]),
    st.sampled_from([None, "mean", "max", "min", "p10", "p90"]),
)


def _holds(trigger: MetricTrigger, newest_first: Sequence[float]) -> bool:
    """By the definition, for a reading each second."""
    readings = newest_first[: int(trigger.for_seconds)]
    if trigger.statistic is None:
        compared = list(readings)
    elif trigger.statistic in ("mean", "max", "min"):
        compared = [float(getattr(np, trigger.statistic)(readings))]
    else:
        compared = [float(np.percentile(readings, float(trigger.statistic[1:]), method="inverted_cdf"))]
    return all(v > trigger.value if trigger.comparison is Comparison.ABOVE else v < trigger.value for v in compared)


def _sampled(history: History) -> list[float]:
    """A reading for each second, the newest first."""
    found: list[float] = []
    for stretch in history.stretches:
        length = math.ceil(stretch.starts_ago - stretch.ends_ago)
        found += [stretch.value] * (length - 1) + [stretch.peak]
    return found


@given(st.lists(_TRIGGERS, min_size=1, max_size=4))
def test_an_example_satisfies_its_triggers(triggers: list[MetricTrigger]) -> None:
    """An example without peaks is one by the definition of every statistic, reading by reading."""
    history = example(triggers)
    assume(history is not None)
    assert history is not None
    if all(stretch.peak == stretch.value for stretch in history.stretches):
        assert all(_holds(trigger, _sampled(history)) for trigger in triggers)
    assert not contradict(triggers)


_HISTORIES = st.lists(_VALUES.map(lambda value: value + 0.5), min_size=6, max_size=6).map(
    lambda values: [value for value in values for _ in range(10)]
)


@given(st.lists(_TRIGGERS, min_size=1, max_size=4), _HISTORIES)
def test_no_readings_satisfy_a_contradiction(triggers: list[MetricTrigger], newest_first: list[float]) -> None:
    """Triggers that are said to contradict each other do not hold together on any readings."""
    if all(_holds(trigger, newest_first) for trigger in triggers):
        assert not contradict(triggers)
        assert example(triggers) is not None


@given(_TRIGGERS, _TRIGGERS, _HISTORIES)
def test_what_is_implied_holds(given_: MetricTrigger, wanted: MetricTrigger, newest_first: list[float]) -> None:
    """Where one trigger is said to follow from another, no readings satisfy the other alone."""
    if implies(given_, wanted) and _holds(given_, newest_first):
        assert _holds(wanted, newest_first)


@given(st.lists(time_triggers(), min_size=1, max_size=3), st.integers(0, 7 * 24 * 60 - 1))
def test_times_that_never_meet_do_not_meet(triggers: list[TimeTrigger], minute: int) -> None:
    """A common moment is one, and where there is said to be none, no minute of a week is one."""
    triggers = [replace(trigger, zone=triggers[0].zone) for trigger in triggers]
    moment = common_moment(triggers)
    if moment is not None:
        assert all(holds(trigger, moment) for trigger in triggers)
    at = datetime(2026, 3, 2, tzinfo=UTC) + timedelta(minutes=minute)
    if all(holds(trigger, at) for trigger in triggers):
        assert not never_hold(triggers)
        if imply(triggers[:-1] or triggers, triggers[-1]):
            assert holds(triggers[-1], at)


def test_a_peak_alone_satisfies_a_maximum() -> None:
    """Where one reading beyond a value is enough and most may not be, the example has a short peak."""
    highest = MetricTrigger("queue_length", Comparison.ABOVE, 100.0, 60.0, "max")
    mostly = MetricTrigger("queue_length", Comparison.BELOW, 10.0, 60.0, "p90")
    history = example([highest, mostly])
    assert history is not None
    (stretch,) = history.stretches
    assert stretch == Stretch(60.0, 0.0, 0.0, 101.0) or (stretch.value < 10.0 and stretch.peak > 100.0)
