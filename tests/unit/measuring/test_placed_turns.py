# SPDX-License-Identifier: Apache-2.0
"""Turns of a running application: what is counted, from when on, and what is none of it."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ClusterError
from penstock.measuring.placed_turns import CountRules, PlacedTurn, TurnTaking, as_ordered
from penstock.records import BatchProgress

TURN = PlacedTurn(2, 0.1, 100)


def batch(number: int, start: float, end: float, rows: int = 100) -> BatchProgress:
    """One that ended."""
    return BatchProgress("measured", "q", "r", number, start, end, rows, {}, ())


def test_only_batches_that_began_after_all_was_in_force_count() -> None:
    """Two pass uncounted, and then it is from the end of one to that of another: 400 records in 8 s."""
    taking = TurnTaking(TURN, CountRules(2, 3, 8.0, settle_seconds=0.0), 0.0)
    assert taking.see(1.0, [batch(0, 0.0, 0.9)], 3) is None  # an executor still drains
    assert taking.see(2.0, [batch(1, 0.9, 1.9)], 2) is None  # in force now, so this one was not
    rest = [batch(n, 2.0 * (n - 1), 2.0 * n) for n in range(2, 8)]
    found = taking.see(20.0, rest, 2)
    assert found is not None
    assert (found.records_per_second, found.batches) == (50.0, 4)


def test_an_executor_that_dies_lets_it_count_anew() -> None:
    """What was done with fewer is of another turn."""
    taking = TurnTaking(TURN, CountRules(1, 2, 1.0, settle_seconds=0.0), 0.0)
    taking.see(1.0, [], 2)
    assert taking.see(4.0, [batch(1, 1.0, 2.0), batch(2, 2.0, 3.0)], 2) is None
    assert taking.see(5.0, [], 1) is None
    assert taking.see(9.0, [batch(3, 3.0, 9.0)], 2) is None
    found = taking.see(14.0, [batch(4, 9.0, 10.0), batch(5, 10.0, 11.0), batch(6, 11.0, 12.0)], 2)
    assert found is not None
    assert found.records_per_second == 100.0


def test_executors_that_had_to_go_leave_time_to_settle() -> None:
    """Those that are left take over; a turn that changes the delay alone begins at once."""
    rules = CountRules(1, 1, 1.0, settle_seconds=10.0)
    changed, same = TurnTaking(TURN, rules, 0.0), TurnTaking(TURN, rules, 0.0)
    changed.see(1.0, [], 3)
    batches = [batch(1, 3.0, 4.0), batch(2, 4.0, 5.0), batch(3, 5.0, 6.0)]
    for taking in (changed, same):
        taking.see(2.0, [], 2)
    assert changed.see(7.0, batches, 2) is None
    assert same.see(7.0, batches, 2) is not None
    later = [batch(4, 12.0, 14.0), batch(5, 14.0, 16.0)]
    found = changed.see(17.0, later, 2)
    assert found is not None
    assert found.records_per_second == 50.0


def test_batches_that_are_not_full_are_no_measurement() -> None:
    """One that the cap of the turn before has cut passes; later ones say that the records have run out."""
    taking = TurnTaking(TURN, CountRules(1, 5, 1.0), 0.0)
    taking.see(1.0, [], 2)
    assert taking.see(2.0, [batch(1, 1.0, 2.0, rows=20), batch(2, 2.0, 3.0)], 2) is None
    with pytest.raises(ClusterError, match="let more arrive"):
        taking.see(4.0, [batch(3, 3.0, 4.0, rows=20)], 2)


def test_batches_that_are_to_take_a_time_get_as_many_records_as_do() -> None:
    """Of batches of 1 s and 10 ms a record, 100 records take 2 s: found from 800, and then counted."""
    taking = TurnTaking(PlacedTurn(2, 0.1, 50, batch_seconds=2.0), CountRules(1, 3, 1.0), 0.0, first_cap=800)
    taking.see(1.0, [], 2)
    assert taking.cap == 800
    at, found, sizes = 1.0, None, []
    while found is None:
        rows = taking.cap
        sizes.append(rows)
        end = at + 1.0 + 0.01 * rows
        found = taking.see(end, [batch(len(sizes), at, end, rows)], 2)
        at = end
    assert sizes[:2] == [800, 400]  # no larger step than to half
    assert found.records_per_second == pytest.approx(50.0, rel=0.02)
    with pytest.raises(ClusterError, match="no records"):
        taking.see(at + 1.0, [batch(99, at, at + 1.0, 0)], 2)


@pytest.mark.parametrize("fixed", [0.3, 1.5, 1.8])
@pytest.mark.parametrize("first", [20, 2000, 200_000])
def test_what_a_trigger_sustains_is_found_though_most_of_a_batch_is_fixed_time(fixed: float, first: int) -> None:
    """A batch that is a tenth shorter than it should be may have half of its records: from far below, and above."""
    at, found, caps = 1.0, None, [first, first]
    taking = TurnTaking(PlacedTurn(2, 0.1, 50, batch_seconds=2.0), CountRules(2, 8, 10.0), 0.0, first_cap=first)
    taking.see(1.0, [], 2)
    rng = np.random.default_rng(3)
    while found is None:
        rows = caps[-2]  # a new cap reaches the batch after the next
        end = at + (fixed + 0.001 * rows) * float(np.exp(rng.normal(0.0, 0.005)))
        found = taking.see(end, [batch(len(caps), at, end, rows)], 2)
        caps.append(taking.cap)
        at = end
    assert found.records_per_second == pytest.approx((2.0 - fixed) / 0.001 / 2.0, rel=0.06)


@pytest.mark.parametrize(("executors", "why"), [(2, "no batch ended"), (3, "did not come or go")])
def test_it_does_not_wait_for_ever(executors: int, why: str) -> None:
    """The message says for what it waited."""
    taking = TurnTaking(TURN, CountRules(), 0.0)
    taking.see(1.0, [], executors)
    with pytest.raises(ClusterError, match=why):
        taking.see(1000.0, [], executors)


def test_executors_only_go_and_delays_rise_and_fall() -> None:
    """A new executor would be cold; a drift of the machine falls on all delays alike."""
    turns = [PlacedTurn(n, d, 1) for n in (1, 2) for d in (0.0, 0.1)] * 3
    ordered = as_ordered(turns)
    assert [turn.executors for turn in ordered] == [2] * 6 + [1] * 6
    assert [turn.round_trip_seconds for turn in ordered[:6]] == [0.0, 0.1, 0.1, 0.0, 0.0, 0.1]
    assert sorted(map(str, ordered)) == sorted(map(str, turns))
