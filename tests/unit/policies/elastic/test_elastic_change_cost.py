# SPDX-License-Identifier: Apache-2.0
"""What a change costs, learnt from changes."""

from __future__ import annotations

import pytest
from tests.unit.policies.elastic.elastic_worlds import a_look

from penstock.policies.elastic.change_cost import ChangeCost, failed_rate, usual_dwell_seconds
from penstock.records import Allocation
from penstock.testing import a_decision

TWO, FOUR = Allocation(2), Allocation(4)


def watch(cost: ChangeCost, at: float, requested: Allocation, there: Allocation, *batches: tuple[int, float]) -> None:
    """One look; a batch of n records should take n milliseconds."""
    look = a_look(at, there, *batches, requested=requested)
    cost.watch(at, look.observation.cluster, look.telemetry.batches, lambda rows, _: 0.001 * rows)


def test_the_time_until_executors_come_is_learnt() -> None:
    """Executors that came after 30 s move what is expected halfway there."""
    cost = ChangeCost()
    watch(cost, 0.0, TWO, TWO)
    watch(cost, 10.0, FOUR, TWO)
    watch(cost, 40.0, FOUR, FOUR)
    assert cost.settle_out_seconds == pytest.approx((10.0 + 30.0) / 2.0)
    assert cost.settle_in_seconds == 10.0
    assert cost.measured == 1


def test_batches_across_a_change_and_the_first_on_new_executors_show_its_pause() -> None:
    """A batch of 7 s that should have taken 1 s, and one of 4 s after it: a pause of 9 s; later ones do not count."""
    cost = ChangeCost()
    watch(cost, 0.0, TWO, TWO)
    watch(cost, 10.0, FOUR, TWO)
    watch(cost, 15.0, FOUR, FOUR)
    watch(cost, 17.0, FOUR, FOUR, (1000, 7.0))
    watch(cost, 22.0, FOUR, FOUR, (1000, 4.0))
    assert cost.pause_out_seconds == pytest.approx((2.0 + 9.0) / 2.0)
    watch(cost, 40.0, FOUR, FOUR, (1000, 7.0))  # long after it
    assert cost.pause_out_seconds == pytest.approx(5.5)
    assert cost.pause_in_seconds == 2.0


def test_new_executors_that_do_nothing_until_the_next_batch_cost() -> None:
    """Two do a batch in 8 s, four in 4 s. Those that came after 4 s would have ended it after 6 s; it took 8."""
    cost = ChangeCost()
    watch(cost, 0.0, TWO, TWO)
    watch(cost, 10.0, FOUR, TWO)
    watch(cost, 14.0, FOUR, FOUR)
    for at, seconds in ((18.0, 8.0), (22.0, 4.0)):
        look = a_look(at, FOUR, (1000, seconds), requested=FOUR)
        cost.watch(at, look.observation.cluster, look.telemetry.batches, lambda _, size: 16.0 / size.executors)
    assert cost.pause_out_seconds == pytest.approx((2.0 + 2.0) / 2.0)
    assert cost.of(TWO, FOUR) == pytest.approx(8.0)


def test_those_that_stay_compile_nothing() -> None:
    """After a change to fewer executors only batches across it count."""
    cost = ChangeCost()
    watch(cost, 0.0, FOUR, FOUR)
    watch(cost, 10.0, TWO, FOUR)
    watch(cost, 15.0, TWO, TWO)
    watch(cost, 17.0, TWO, TWO, (1000, 7.0))
    watch(cost, 22.0, TWO, TWO, (1000, 4.0))
    assert cost.pause_in_seconds == pytest.approx((2.0 + 6.0) / 2.0)
    assert cost.pause_out_seconds == 2.0


def test_a_pause_counts_only_if_it_is_known_of_every_batch() -> None:
    """Half of it would be taken for the whole."""
    cost = ChangeCost()
    watch(cost, 0.0, TWO, TWO)
    watch(cost, 10.0, FOUR, TWO)
    watch(cost, 15.0, FOUR, FOUR)
    look = a_look(17.0, FOUR, (1000, 7.0), requested=FOUR)
    cost.watch(17.0, look.observation.cluster, look.telemetry.batches, lambda *_: None)
    watch(cost, 22.0, FOUR, FOUR, (1000, 4.0))
    assert cost.pause_out_seconds == 2.0


def test_a_change_of_the_share_alone_costs_nothing() -> None:
    """A CPU share is in force at once."""
    assert ChangeCost().of(Allocation(2, 0.5), Allocation(2, 1.0)) == 0.0
    assert ChangeCost().of(Allocation(2, 0.5), Allocation(3, 0.5)) > 0.0


def test_executors_that_go_are_paid_until_they_are_gone() -> None:
    """Two that take 10 s to go, and 2 s of pause for four; coming back costs the pause alone."""
    assert ChangeCost().of(FOUR, TWO) == pytest.approx(2.0 * 4.0 + 10.0 * 2.0)
    assert ChangeCost().of(TWO, FOUR) == pytest.approx(2.0 * 4.0)


def test_the_usual_dwell_is_the_median_of_the_last_three() -> None:
    """From each step down to the next step up; fewer than three are no custom, and neither are old ones."""
    times = (0.0, 20.0, 100.0, 130.0, 200.0, 300.0)
    changes = [a_decision(*((FOUR, TWO) if number % 2 == 0 else (TWO, FOUR)), at=at) for number, at in enumerate(times)]
    assert usual_dwell_seconds(changes, 310.0, TWO) == 30.0  # of 20, 30 and 100
    assert usual_dwell_seconds(changes[:4], 310.0, TWO) is None
    assert usual_dwell_seconds(changes, 5000.0, TWO) is None


def test_changes_among_small_sizes_say_nothing_of_large_ones() -> None:
    """An operator that went to and fro between two and four at night may still leave six for five in the evening."""
    times = (0.0, 20.0, 100.0, 130.0, 200.0, 300.0)
    changes = [a_decision(*((FOUR, TWO) if number % 2 == 0 else (TWO, FOUR)), at=at) for number, at in enumerate(times)]
    assert usual_dwell_seconds(changes, 400.0, Allocation(5)) is None
    changes.append(a_decision(FOUR, Allocation(6), at=350.0))
    assert usual_dwell_seconds(changes, 400.0, Allocation(5)) == 250.0  # of 350, 250 and 150
    assert usual_dwell_seconds(changes, 400.0, TWO) == 30.0


def test_a_size_that_was_soon_left_again_was_not_enough_for_what_arrived() -> None:
    """Two were left after 20 s at 900 a second, later after 500 s at 800: the first counts, and for one as well."""
    changes = [
        a_decision(at=at, current=before, target=after, evidence={"arrival_rate_rows_per_second": rate})
        for at, before, after, rate in (
            (0.0, FOUR, TWO, 850.0), (20.0, TWO, FOUR, 900.0), (100.0, FOUR, TWO, 700.0), (600.0, TWO, FOUR, 800.0),
        )
    ]  # fmt: skip
    assert failed_rate(changes, 700.0, TWO, 120.0) == 900.0
    assert failed_rate(changes, 700.0, Allocation(1), 120.0) == 900.0
    assert failed_rate(changes, 700.0, Allocation(3), 120.0) is None
    assert failed_rate(changes, 700.0, TWO, 600.0) == 800.0
    assert failed_rate(changes, 5000.0, TWO, 120.0) is None
