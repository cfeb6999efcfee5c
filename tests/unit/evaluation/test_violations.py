# SPDX-License-Identifier: Apache-2.0
"""Time in which an objective was broken counts stalls, in which nothing is done that could have been late."""

from __future__ import annotations

import pytest

from penstock.evaluation.violations import are_broken, broken_time_share
from penstock.records import LatencySummary, Objective, Observation
from penstock.testing import an_observation

P95 = Objective("p95", 6.0)
RATE = 100


def _look(at: float, done: int, latency: float | None = 1.0, *, rate: int = RATE, records: int = 1000) -> Observation:
    """A look at a stream of so many records a second since instant 0, of which so many are done."""
    summary = None if latency is None else LatencySummary(records, latency, latency, latency, latency, latency)
    arrived = int(rate * at)
    return an_observation(at=at, latency=summary, records_arrived=arrived, backlog_records=arrived - done)


def _judged(looks: list[Observation], objective: Objective = P95) -> list[bool | None]:
    return [is_so for _, is_so in are_broken(looks, objective)]


def test_a_stall_breaks_the_bound_while_it_lasts() -> None:
    """One batch of 30 s: nothing is done for longer than the window, and the oldest record waits for 6 s and more."""
    calm = [_look(float(at), RATE * at) for at in range(21)]
    stalled = [_look(float(at), RATE * 20, 1.0 if at < 30 else None) for at in range(21, 51)]
    ended = [_look(51.0, RATE * 50, 20.0), _look(52.0, RATE * 51, 20.0)]
    looks = calm + stalled + ended
    answers = _judged(looks)
    assert answers[:27] == [False] * 27
    # From a twentieth of the thousand records that were done in the window: less is no 95th percentile yet.
    assert answers[27:] == [True] * (len(looks) - 27)
    assert broken_time_share(looks, P95, since=21.0) == pytest.approx(26 / 32)


def test_a_few_late_records_break_no_percentile() -> None:
    """Of a thousand done in time and 40 that wait for too long, 96 % are in time; where none was done, 40 are all."""
    before = _look(0.0, 0, rate=0)
    few, none_done = (
        an_observation(at=10.0, latency=latency, records_arrived=40, backlog_records=40)
        for latency in (LatencySummary(1000, 1.0, 1.0, 1.0, 1.0, 1.0), None)
    )
    came = an_observation(at=1.0, latency=None, records_arrived=40, backlog_records=40)
    assert _judged([before, came, few]) == [False, None, False]
    assert _judged([before, came, few], Objective("p99", 6.0)) == [False, None, True]
    assert _judged([before, came, few], Objective("mean", 6.0)) == [False, None, False]
    for objective in (P95, Objective("mean", 6.0)):
        assert _judged([before, came, none_done], objective) == [False, None, True]


def test_a_query_without_work_breaks_nothing() -> None:
    """No record came, none waits: nothing is known of latency, and the time counts for neither."""
    looks = [_look(float(at), 0, None, rate=0) for at in range(20)]
    assert _judged(looks) == [None] * 20
    assert broken_time_share(looks, P95) is None


def test_what_waits_shorter_than_the_bound_is_no_violation() -> None:
    """A batch longer than the window, with a bound that is longer still."""
    looks = [_look(float(at), 0, None) for at in range(20)]
    assert _judged(looks, Objective("p95", 60.0)) == [None] * 20


def test_counts_that_nobody_knows_are_no_violation() -> None:
    """Sources that do not say when records arrive give latency alone; so do queries in real-time mode."""
    stalled = [an_observation(at=float(at), latency=None, backlog_records=300) for at in range(20)]
    for unknown in ("records_arrived", "backlog_records"):
        looks = [an_observation(at=float(at), latency=None, **{unknown: None}) for at in range(20)]
        assert _judged(looks) == [None] * 20
    assert _judged(stalled)[-1] is True
    assert [is_so for _, is_so in are_broken(stalled, P95, counts_waiting=False)] == [None] * 20


def test_nothing_is_said_of_waiting_across_a_clock_that_was_set() -> None:
    """An instant before the clock was set back says nothing about an age; nor do counts that begin anew."""
    looks = [an_observation(at=at, latency=None, backlog_records=300) for at in (100.0, 50.0, 51.0)]
    assert _judged(looks) == [None] * 3
    anew = [an_observation(at=at, latency=None, records_arrived=n, backlog_records=n) for at, n in ((1, 900), (9, 5))]
    assert _judged(anew) == [None] * 2


def test_to_keep_up_is_not_judged() -> None:
    """It has no bound."""
    assert _judged([_look(float(at), 0) for at in range(20)], Objective()) == [None] * 20


def test_a_clock_that_is_set_back_and_forward_again_takes_no_time() -> None:
    """The hour is in neither part; what passed during the step back counts with the look after the step forward."""
    latencies = [(0.0, 1.0), (1.0, 1.0), (-3598.0, 9.0), (-3597.0, 1.0), (4.0, 1.0)]
    looks = [
        an_observation(at=5000.0 + at, latency=LatencySummary(10, took, took, took, took, took))
        for at, took in latencies
    ]
    assert broken_time_share(looks, P95) == 0.0
    assert broken_time_share([*looks, _late(5005.0)], P95) == pytest.approx(1 / 5)


def _late(at: float) -> Observation:
    return an_observation(at=at, latency=LatencySummary(10, 9.0, 9.0, 9.0, 9.0, 9.0))
