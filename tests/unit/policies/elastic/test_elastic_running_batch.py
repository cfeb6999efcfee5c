# SPDX-License-Identifier: Apache-2.0
"""How far the running batch is."""

from __future__ import annotations

from typing import Any

from tests.unit.policies.elastic.elastic_worlds import a_look

from penstock.policies.elastic.running_batch import RunningBatch
from penstock.ports import OperatorSite
from penstock.records import Allocation, Limits

TWO, FOUR = Allocation(2), Allocation(4)


def rate_of(allocation: Allocation) -> float:
    """A hundred records a second on each executor."""
    return 100.0 * allocation.capacity


def running(**site: Any) -> RunningBatch:
    """The batch that runs since 100, when one of 10 s had ended and 3,000 records waited."""
    batch = RunningBatch(OperatorSite(Limits(1, 8), **site))
    batch.watch(a_look(100.0, TWO, (2000, 10.0), backlog_records=3000))
    return batch


def before(batch: RunningBatch, backlog: float, at: float) -> float:
    """What a record that arrives now has before it and in its batch."""
    return batch.before_the_last(backlog, at, rate_of)


def test_it_does_not_rise_and_fall_with_the_batches() -> None:
    """200 a second arrive and are done: 3,000 are before a record all the time, though the backlog doubles."""
    batch = running()
    assert [before(batch, 3000.0 + 200.0 * after, 100.0 + after) for after in (0.0, 5.0, 14.0)] == [6000.0] * 3


def test_its_own_batch_is_no_longer_than_the_cap() -> None:
    """Of 3,000 records 1,000 are done after 5 s; those behind the cap are done before, and 500 together with it."""
    assert before(running(cap=1500), 4000.0, 105.0) == 3000.0 + 1500.0
    assert before(running(cap=500), 4000.0, 104.0) == 3500.0 + 500.0


def test_executors_that_come_while_it_runs_do_not_make_it_faster() -> None:
    """Its tasks were given out to those that were there."""
    batch = running()
    batch.watch(a_look(102.0, FOUR, backlog_records=3400))
    assert before(batch, 4000.0, 105.0) == 2.0 * 3000.0


def test_of_a_batch_that_takes_far_too_long_nothing_is_done_for_certain() -> None:
    """It does not go on as known: after twice its time all of the backlog counts."""
    assert before(running(), 9000.0, 131.0) == 9000.0


def test_without_a_batch_or_a_backlog_all_of_it_counts() -> None:
    """Both are needed; the backlog may be known a look later."""
    batch = RunningBatch(OperatorSite(Limits(1, 8)))
    batch.watch(a_look(100.0, TWO, backlog_records=3000))
    assert before(batch, 4000.0, 105.0) == 4000.0
    batch.watch(a_look(110.0, TWO, (2000, 10.0), backlog_records=None))
    assert before(batch, 4000.0, 112.0) == 4000.0
    batch.watch(a_look(111.0, TWO, backlog_records=3000))
    assert before(batch, 4000.0, 112.0) == 2.0 * 3600.0


def test_the_next_batch_begins_with_its_trigger() -> None:
    """A batch of 10 s with a trigger of 15 s: the next one begins 5 s later."""
    assert before(running(trigger_seconds=15.0), 3600.0, 108.0) == 2.0 * 3000.0
