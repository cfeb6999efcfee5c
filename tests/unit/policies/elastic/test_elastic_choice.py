# SPDX-License-Identifier: Apache-2.0
"""The cheapest allocation that keeps up, and why no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.policies.elastic.capacity import Sustained
from penstock.policies.elastic.choice import Aim, Choice, Chooser
from penstock.policies.elastic.load import Load
from penstock.records import Allocation, Limits, ThroughputPrediction

LIMITS = Limits(1, 8)
AIM = Aim(catch_up_seconds=60.0, patience=0.5, ahead_seconds=15.0)
CALM = Load(rate=450.0, slope=0.0, lag_seconds=0.0, backlog=0.0, waiting=0.0)


def hundred_each(margin: float = 0.1, *, proven_from: int = 1) -> Callable[[Allocation], Sustained]:
    """A hundred records a second for each executor, known to within a part; sizes from some on were measured."""

    def sustained(allocation: Allocation) -> Sustained:
        rate = 100.0 * allocation.capacity
        prediction = ThroughputPrediction(rate, rate * (1.0 - margin), rate * (1.0 + margin), 0.9)
        return Sustained(prediction, "a test", is_proven=allocation.executors >= proven_from)

    return sustained


def choose(
    executors: int,
    load: Load = CALM,
    aim: Aim = AIM,
    *,
    sustained: Callable[[Allocation], Sustained] | None = None,
    cost: float = 0.0,
    dwell: float | None = None,
    failed: float | None = None,
    limits: Limits = LIMITS,
) -> Choice:
    """What is chosen for an operator that has so many executors."""
    return Chooser(
        limits, Allocation(executors), load, aim,
        sustained=sustained or hundred_each(), change_cost=lambda *_: cost, usual_dwell=lambda _: dwell,
        failed_rate=lambda _: failed,
    ).choose()  # fmt: skip


def test_more_is_sized_in_one_step() -> None:
    """The cheapest size whose lower end covers arrivals and backlog: 450 + 6,000 / 60 at 90 each takes seven."""
    choice = choose(1, replace(CALM, waiting=6000.0), replace(AIM, patience=0.0))
    assert choice.target == Allocation(7)
    assert "7 executors x 100% CPU sustain 700 records/s (630 to 770)" in choice.reason
    assert "arrivals of 450/s and 6000 waiting to be gone in 60 s" in choice.reason
    assert "550/s are needed" in choice.rejected[0].reason


def test_what_may_wait_is_not_worked_off_at_once() -> None:
    """6,000 waiting, and 5,400 more until there are more executors, are 25 s of work for five, which cover arrivals."""
    assert choose(1, replace(CALM, waiting=6000.0)).target == Allocation(5)
    # 9,000 make it 32 s, for six 27 s; and with arrivals that rise five are too little.
    assert choose(1, replace(CALM, waiting=9000.0)).target == Allocation(6)
    assert choose(1, replace(CALM, waiting=6000.0, slope=2.0)).target.executors > 5


def test_less_than_the_arrivals_is_not_taken_though_records_might_wait() -> None:
    """Four do 400 of 450 a second, which records would bear for four minutes; where it is five or more, they do."""
    exact = hundred_each(0.0)
    choice = choose(5, replace(CALM, rate=450.0), sustained=exact)
    assert choice.target == Allocation(5)
    assert "do not cover arrivals of 450/s" in choice.rejected[-1].reason
    assert choose(5, replace(CALM, rate=430.0), sustained=exact).target == Allocation(4)
    assert choose(5, replace(CALM, rate=415.0, slope=-0.2), sustained=exact).target == Allocation(5)
    assert choose(5, replace(CALM, rate=402.0, slope=-0.2), sustained=exact).target == Allocation(4)


def test_what_was_not_enough_is_not_taken_again_before_less_arrives() -> None:
    """Five ought to do 450 a second, and did not lately; they are tried again when 15 % less arrive."""
    assert choose(7, sustained=hundred_each(0.0)).target == Allocation(5)
    choice = choose(7, sustained=hundred_each(0.0), failed=460.0)
    assert choice.target == Allocation(7)
    assert "it was not enough for arrivals of 460/s" in choice.rejected[-1].reason
    assert choose(7, sustained=hundred_each(0.0), failed=540.0).target == Allocation(5)


def test_a_change_that_keeps_records_waiting_is_counted() -> None:
    """11,000 that wait are 28 s of work for four; if the change takes 5 s, it is more than the 30 that are allowed."""
    load = replace(CALM, rate=390.0, waiting=11_000.0)
    assert choose(5, load, sustained=hundred_each(0.0)).target == Allocation(4)
    assert choose(5, load, replace(AIM, pause_seconds=5.0), sustained=hundred_each(0.0)).target == Allocation(5)


def test_a_shorter_catch_up_time_takes_more() -> None:
    """The same backlog within half a minute needs a hundred a second more."""
    assert choose(1, replace(CALM, waiting=6000.0), replace(AIM, catch_up_seconds=30.0)).target == Allocation(8)


def test_a_wider_interval_takes_more() -> None:
    """What is counted on is the lower end."""
    assert choose(1, sustained=hundred_each(0.0)).target == Allocation(5)
    assert choose(1, sustained=hundred_each(0.3)).target == Allocation(7)


def test_where_none_is_sure_the_expected_one_is_taken() -> None:
    """Beyond what was measured lower ends say little: six are expected to do 600."""
    assert choose(2, replace(CALM, rate=600.0), sustained=hundred_each(0.6)).target == Allocation(6)


def test_what_is_on_its_way_is_waited_for() -> None:
    """While more cannot have helped yet, a backlog that grows a little asks for nothing; one that grows much does."""
    load = replace(CALM, waiting=12_000.0)  # 650 a second are needed
    assert choose(4, load, replace(AIM, coming_for=600.0)).target == Allocation(4)
    assert choose(4, load, replace(AIM, coming_for=400.0)).target == Allocation(5)


def test_the_top_is_taken_where_nothing_is_enough_and_said_where_it_is_there() -> None:
    """More work than the largest size does gets the largest size."""
    much = replace(CALM, rate=5000.0)
    assert choose(2, much).target == Allocation(8)
    held = choose(8, much)
    assert held.target == Allocation(8)
    assert "it is all there is" in held.reason


def test_a_flat_curve_is_not_climbed() -> None:
    """Where larger sizes do no more, nothing is asked for."""

    def flat(allocation: Allocation) -> Sustained:
        return replace(hundred_each()(Allocation(min(allocation.executors, 3))), is_proven=True)

    assert choose(3, replace(CALM, rate=900.0), sustained=flat).target == Allocation(3)


def test_a_little_too_little_is_enough_for_a_while() -> None:
    """Four do 360 of 450: records wait for half a minute only after two minutes, and four are kept until then."""
    assert choose(4).target == Allocation(4)
    assert choose(4, replace(CALM, waiting=12_000.0)).target.executors > 4


def test_without_patience_capacity_covers_the_arrivals() -> None:
    """With no patience four are too little for 450 at once."""
    assert choose(4, aim=replace(AIM, patience=0.0)).target == Allocation(5)


def test_less_is_taken_where_that_saves() -> None:
    """Eight are far too many for 200 a second; two would be too little soon, three are enough."""
    choice = choose(8, replace(CALM, rate=200.0))
    assert choice.target.executors in (2, 3)
    assert "saves" in choice.reason


def test_less_is_not_taken_before_the_last_change_has_shown_what_it_does() -> None:
    """While no batch has run with it from start to end what there is stays; the reason says so, and more is taken."""
    unseen = replace(AIM, is_unseen=True)
    held = choose(8, replace(CALM, rate=200.0), unseen)
    assert held.target == Allocation(8)
    assert "no batch has run with it from start to end yet, so nothing less is taken" in held.reason
    assert choose(4, replace(CALM, waiting=12_000.0), unseen).target.executors > 4
    # At the bottom there is nothing less, so nothing is waited for.
    assert "no batch" not in choose(1, replace(CALM, rate=50.0), unseen).reason


def test_less_is_not_taken_where_changes_cost_more() -> None:
    """A change that costs more than it saves in ten minutes is not made; one without a price is."""
    load, exact = replace(CALM, rate=400.0), hundred_each(0.0)
    assert choose(6, load, sustained=exact, cost=0.0).target == Allocation(4)
    assert choose(6, load, sustained=exact, cost=1000.0).target == Allocation(6)


def test_less_is_not_taken_where_it_never_lasted() -> None:
    """If more was needed again after 20 s the last times, 20 executor seconds for each change are too much."""
    load, exact = replace(CALM, rate=400.0), hundred_each(0.0)
    assert choose(6, load, sustained=exact, cost=20.0).target == Allocation(4)
    assert choose(6, load, sustained=exact, cost=20.0, dwell=20.0).target == Allocation(6)


def test_less_is_not_taken_that_would_not_have_done_of_late() -> None:
    """A burst in the last minute is remembered: three would have let its records wait for a minute."""
    load = replace(CALM, rate=200.0)
    burst = replace(load, arrivals=((10.0, 20_000.0), (50.0, 10_000.0)))
    assert choose(8, load).target.executors < choose(8, burst).target.executors
    assert any("would have waited" in rejected.reason for rejected in choose(8, burst).rejected)


def test_what_was_not_measured_is_gone_to_in_steps() -> None:
    """With nothing measured below eight at most half is given up at once, and only what is sure to be enough."""
    choice = choose(8, replace(CALM, rate=100.0), sustained=hundred_each(0.2, proven_from=8))
    assert choice.target == Allocation(4)
    assert choose(8, replace(CALM, rate=100.0), sustained=hundred_each(0.2)).target.executors < 4


@pytest.mark.parametrize("executors", [1, 9, 40])
def test_limits_hold_whatever_there_is(executors: int) -> None:
    """An operator outside its limits is judged by what is nearest to it inside."""
    limits = Limits(2, 4, (0.5, 1.0))
    for rate in (0.0, 100.0, 1e6):
        assert limits.allows(choose(executors, replace(CALM, rate=rate), limits=limits).target)
