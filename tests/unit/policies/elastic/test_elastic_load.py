# SPDX-License-Identifier: Apache-2.0
"""What an operator has to do, and how long a throughput is enough for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.errors import NotReadyError
from penstock.policies.elastic.load import LONGEST_SECONDS, Load, load_of
from penstock.records import PlanRequest
from penstock.testing import a_request, an_observation


def load(request: PlanRequest, **changes: Any) -> Load:
    """The load of a request, with a backlog that is known."""
    fields: dict[str, Any] = {"calm_batch_seconds": 0.0, "backlog": 0.0, "remembered_seconds": 60.0}
    return load_of(request, **{**fields, **changes})


def looks_at(rates: list[float]) -> PlanRequest:
    """A request whose looks, a second apart, had these rates."""
    seen = [
        an_observation(at=1000.0 + second, arrival_rate_rows_per_second=rate, records_arrived=None)
        for second, rate in enumerate(rates)
    ]
    return a_request(at=seen[-1].at, observation=seen[-1], history=tuple(seen[:-1]))


def test_a_throughput_above_the_arrivals_lasts() -> None:
    """Where more is done than arrives, what waits is gone in the end."""
    assert Load(90.0, 0.0, 0.0, 500.0, 500.0).lasts(100.0, 30.0) == (LONGEST_SECONDS, 0.0)


def test_a_throughput_below_the_arrivals_lasts_until_records_wait_too_long() -> None:
    """At 20 a second too little, 30 s of 100 a second are reached after 150 s."""
    assert Load(120.0, 0.0, 0.0, 0.0, 0.0).lasts(100.0, 30.0) == (150.0, 3000.0)


def test_what_waits_already_counts() -> None:
    """With more waiting than is allowed a throughput below the arrivals is enough for no time."""
    assert Load(120.0, 0.0, 0.0, 5000.0, 5000.0).lasts(100.0, 30.0)[0] == 0.0


def test_no_throughput_lasts_no_time() -> None:
    """Nothing is worked off with nothing."""
    assert Load(120.0, 0.0, 0.0, 0.0, 7.0).lasts(0.0, 30.0) == (0.0, 7.0)


def test_a_rise_is_followed_and_ends() -> None:
    """A rate that rises by 2 every second is taken to do so for a minute, from the middle of its window on."""
    rising = Load(100.0, 2.0, 5.0, 0.0, 0.0)
    assert rising.rate_in(10.0) == pytest.approx(130.0)
    assert rising.rate_in(500.0) == 200.0  # at most twice the rate


def test_a_steady_rise_is_seen() -> None:
    """The slope is that of the rates over the last looks."""
    assert load(looks_at([1000.0 + 10.0 * s for s in range(45)])).slope == pytest.approx(10.0)


def test_a_step_is_not_taken_for_a_rise() -> None:
    """A rate that went up and stays there does not go on rising."""
    rates = [1000.0] * 10 + [1000.0 + 100.0 * s for s in range(1, 13)] + [2200.0] * 23
    assert load(looks_at(rates)).slope == 0.0


def test_a_trend_can_be_left_out() -> None:
    """With the switch off the rate stays as it is."""
    assert load(looks_at([1000.0 + 10.0 * s for s in range(45)]), follow_trend=False).slope == 0.0


def test_a_jump_is_taken_at_once() -> None:
    """Twice the records within some seconds are the rate, though the window's mean is still behind."""
    seen = [
        an_observation(
            at=1000.0 + s, arrival_rate_rows_per_second=1000.0, records_arrived=1000 * s + max(0, s - 30) * 1000
        )
        for s in range(36)
    ]
    found = load(a_request(at=seen[-1].at, observation=seen[-1], history=tuple(seen[:-1])))
    assert found.rate == pytest.approx(2000.0)


def test_two_batches_of_records_do_not_wait() -> None:
    """What arrived during the running batch and the one before is what a calm query has."""
    found = load(a_request(arrival_rate_rows_per_second=100.0), calm_batch_seconds=2.0, backlog=1000.0)
    assert (found.backlog, found.waiting) == (1000.0, 600.0)


def test_an_unknown_rate_is_what_is_consumed_and_the_change_of_the_backlog() -> None:
    """800 a second are done and the backlog grows by 3,000 in 30 s: 900 arrive."""
    now = an_observation(arrival_rate_rows_per_second=None, processed_rows_per_second=800.0, backlog_records=5000)
    before = replace(now, at=now.at - 30.0, backlog_records=2000)
    assert load(a_request(observation=now, history=(before,)), backlog=5000.0).rate == pytest.approx(900.0)


@pytest.mark.parametrize(
    ("seen", "backlog", "words"),
    [
        (
            {"arrival_rate_rows_per_second": None, "backlog_records": None, "missing": ("x",)},
            0.0,
            "rate is not known .x",
        ),
        ({}, None, "backlog is not known"),
        ({"arrival_rate_rows_per_second": float("inf")}, 0.0, "cannot be true"),
    ],
)
def test_what_is_not_known_is_said(seen: dict[str, Any], backlog: float | None, words: str) -> None:
    """Without a rate or a backlog nothing can be said, and the error names what is missing."""
    with pytest.raises(NotReadyError, match=words):
        load(a_request(**seen), backlog=backlog)


def test_late_arrivals_are_played_against_a_throughput() -> None:
    """A burst of 6,000 records at 100 a second leaves a minute of work, less the ten seconds it took to come."""
    burst = Load(100.0, 0.0, 0.0, 0.0, 0.0, ((10.0, 6000.0), (50.0, 0.0)))
    assert burst.would_have_waited(100.0) == 50.0
    assert burst.would_have_waited(0.0) == float("inf")
